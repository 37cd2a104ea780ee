/*
 * Assembles requests that arrive in parts, on the server's side.
 *
 * The first part takes the memory for the whole request from a budget. It is given back when the
 * request was answered or dropped; a request is dropped when its connection ends, at its deadline,
 * and when no part has arrived for 30 s. The number of requests is bounded, too.
 *
 * Thread: any. Times are monotonic and given by the caller.
 */
#ifndef FG_COMMON_NET_RPC_CHUNKED_REQUESTS_H
#define FG_COMMON_NET_RPC_CHUNKED_REQUESTS_H

#include "common/base/budget.h"
#include "common/base/err.h"
#include "common/base/slice.h"

struct fg_chunked_requests;

struct fg_request_part {
    uint32_t owner; /* the connection; 0: none */
    uint64_t key;   /* chosen by the caller, another one for each request of a connection */
    uint64_t offset, total;
    struct fg_slice bytes;
    int64_t deadline_mono_ns;
};

/* A complete request. */
struct fg_whole_request;

/* Creates an empty table. The budget is borrowed. Never fails. */
struct fg_chunked_requests *fg_chunked_requests_create(struct fg_budget *budget);
void fg_chunked_requests_destroy(struct fg_chunked_requests *parts); /* NULL is fine */

/*
 * Adds a copy of a part. Sets *ret_whole to NULL while parts are missing, else to the request,
 * which the caller frees. A repeated part changes nothing. FG_E_UNAVAILABLE: the budget or the
 * table is full, or the earlier parts were dropped; FG_E_TOO_LARGE: the request exceeds the whole
 * budget; FG_E_INVALID: offset, total and length contradict each other.
 */
enum fg_code fg_chunked_requests_add(struct fg_chunked_requests *parts,
                                     const struct fg_request_part *part, int64_t now_mono_ns,
                                     struct fg_whole_request **ret_whole,
                                     struct fg_err *err) fg_must_check;

/* Returns the bytes of the request, valid until it is freed. */
struct fg_slice fg_whole_request_bytes(const struct fg_whole_request *whole);
void fg_whole_request_free(struct fg_whole_request *whole); /* NULL is fine */

/* Drops the incomplete requests of a connection. */
void fg_chunked_requests_drop_owner(struct fg_chunked_requests *parts, uint32_t owner);

/* Drops incomplete requests that are past their deadline, or idle for 30 s. */
void fg_chunked_requests_sweep(struct fg_chunked_requests *parts, int64_t now_mono_ns);

#endif
