/*
 * What a response says: the body of a message, and the statistics of the answer (whether it is
 * complete and exact, its unit, what it was made from). Statistics are in headers of every
 * response, in the body of /api/ routes, and in the body of other routes if the client asks for
 * them (querier/API.md#statistics-of-an-answer).
 *
 * Thread: the query's, which is the worker for bodies and the loop for headers.
 */
#ifndef FG_QUERIER_REPLY_H
#define FG_QUERIER_REPLY_H

#include "common/base/json_writer.h"
#include "querier/query.h"

/* Writes a Connect response into query->body, with statistics if the client wants them. FG_E_LIMIT:
 * it exceeds querier.answer_max_bytes. */
enum fg_code qry_reply_message(struct qry_query *query, const ProtobufCMessage *message,
                               struct fg_err *err) fg_must_check;

/* Ends a Connect response that the caller has appended to query->body in the binary form since
 * fg_connect_begin(), which returned start. Adds statistics and fails as above. */
enum fg_code qry_reply_end_bytes(struct qry_query *query, size_t start,
                                 struct fg_err *err) fg_must_check;

/* Ends the response, a JSON object that is open. Writes the statistics as its last member:
 * always below /api/, elsewhere if the client wants them. Fails as above. */
enum fg_code qry_reply_end_json(struct qry_query *query, struct fg_json_writer *json,
                                struct fg_err *err) fg_must_check;

/* Adds the statistics to the headers of the response. took_ns: the duration of the query. */
void qry_reply_headers(struct qry_query *query, int64_t took_ns);

#endif
