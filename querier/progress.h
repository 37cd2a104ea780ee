/*
 * Progress of a query, and answers as server-sent events (WHATWG HTML, 9.2.6; the events:
 * querier/API.md#progress):
 *
 *     worker: qry_progress_stage(), _plan(), _step() --> numbers
 *     loop:   a timer reads them every 200 ms --> events "progress"; at the end "result" or "error"
 *
 * A client that does not read loses events "progress" and holds nothing.
 *
 * Thread: as each function says. The numbers are atomic: the worker writes them, the loop reads. A
 * lock is over the stream, which the loop holds while it sends an event.
 * Memory: a kilobyte for each query; the result is framed in the query's body, bounded as that is.
 */
#ifndef FG_QUERIER_PROGRESS_H
#define FG_QUERIER_PROGRESS_H

#include "querier/query.h"

enum qry_stage {
    QRY_STAGE_QUEUED,    /* waits for a worker */
    QRY_STAGE_BLOCKS,    /* reads segments and blocks, while ingesters answer */
    QRY_STAGE_INGESTERS, /* waits for ingesters */
    QRY_STAGE_ANSWER,    /* makes the answer of what it has */
};

/* ---- on the query's thread; all do nothing if nobody wants to know ---- */

/* Says what the query does from now on. */
void qry_progress_stage(const struct qry_query *query, enum qry_stage stage);

/* Says that `pieces` more will be read, and that one of them was. */
void qry_progress_plan(const struct qry_query *query, uint64_t pieces);
void qry_progress_step(const struct qry_query *query);

/* Frames the body of a complete answer as the event "result". FG_E_LIMIT: it is too large then. */
enum fg_code qry_progress_frame(struct qry_query *query, struct fg_err *err) fg_must_check;

/* Compresses the framed body, as the whole answer or as the rest of the one that has begun; no
 * event of progress is sent any more. Returns whether it was tried. */
bool qry_progress_encode(struct qry_query *query);

/* ---- on the request's loop ---- */

/* Returns whether the request asks for events. */
bool qry_progress_wanted(struct fg_http_request *req);

/* Begins to note progress, before the query is queued. */
void qry_progress_create(struct qry_query *query);

/* Begins to look at the numbers, once the query is queued. The answer begins with the first event:
 * what fails before gets its own status. */
void qry_progress_start(struct qry_query *query);

/* Ends the answer with the framed body, or with the event "error". Frees the request. */
void qry_progress_finish(struct qry_query *query);

/* Frees what qry_progress_create() made; accepts a query without it. */
void qry_progress_destroy(struct qry_query *query);

#endif
