/*
 * Queries that ask the same are answered together. One that arrives while another one with the same
 * key still waits for a worker joins it, its leader, and gets a copy of its answer:
 *
 *     submit() --> leads: the lane --> begin() --> reads, answers --> end() --> done() of each
 * query
 *         `------> joins a leader that has not begun -------------------'
 *
 * A leader that has begun is joined by nobody: it may have read what ingesters held a moment ago.
 * So a query finds all that was acknowledged before it was asked, whoever computes its answer, and
 * no ages have to be compared. What arrives meanwhile has a leader of its own, which waits: however
 * many ask the same, one of them runs at a time for each worker that was idle, and one waits.
 *
 * The leader works on for those that joined it if its own client has gone. An error is given to
 * all, except one of the leader's own, that its time is over: then the others get a leader among
 * themselves, and the question is asked again. To join, a query must have at least as much time
 * left as its leader, and at most twice as much, since an answer depends on the time there is.
 *
 * Thread: submit() on the loop of the query's connection; begin() and end() on the worker of the
 * leader; in between only the worker touches queries that have joined. Lists are under one lock,
 * held for a look-up. Memory: no more queries than QRY_TOGETHER_MAX join one; their answer is there
 * once until each sends it.
 */
#ifndef FG_QUERIER_TOGETHER_H
#define FG_QUERIER_TOGETHER_H

#include "querier/query.h"

enum {
    QRY_TOGETHER_MAX = 1023, /* join one query; whoever comes then waits in the lane, which has a
                                limit that clients are told of */
};

/* Puts a query into its lane, or refuses it. Any thread. */
typedef enum fg_code (*qry_submit)(struct qry_query *query, struct fg_err *err);

/* Never fails. Destroy accepts NULL; no query is left. */
struct qry_together *qry_together_create(qry_submit submit);
void qry_together_destroy(struct qry_together *together);

/*
 * Joins the query to one that waits, or submits it; *ret_joined says which. FG_OK: job.done() will
 * be called at job.home, which must not be NULL. The key is set, in memory that lives as long as
 * the query. Errors: those of submit(), after which the query is as it was.
 */
enum fg_code qry_together_submit(struct qry_query *query, bool *ret_joined,
                                 struct fg_err *err) fg_must_check;

/* Lets nobody join any more. At the start of the job, before anything is read. */
void qry_together_begin(struct qry_query *query);

/* Gives what the query has, the result of its job and its body as it will be sent, to those that
 * have joined it. At the end of the job. */
void qry_together_end(struct qry_query *query, enum fg_code code, const struct fg_err *err);

/* Puts the answer into query->body. In job.done(), before the query responds. */
void qry_together_take(struct qry_query *query);

#endif
