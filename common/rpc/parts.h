/*
 * Requests that come in parts, on the server's side, until they are whole.
 *
 * Memory for the whole is taken from a budget when the first part comes, and given back when the
 * request was answered, or is dropped: with its connection, at its deadline, or when no part came
 * for half a minute. The number of requests is bounded, too.
 *
 * Thread: any. Times are monotonic and given by the caller.
 */
#ifndef FG_COMMON_RPC_PARTS_H
#define FG_COMMON_RPC_PARTS_H

#include "common/base/budget.h"
#include "common/base/err.h"
#include "common/base/slice.h"

struct fg_parts;

struct fg_part {
    uint32_t owner; /* the connection; 0: none */
    uint64_t key;   /* chosen by the caller, another one for each request of a connection */
    uint64_t offset, total;
    struct fg_slice bytes;
    int64_t deadline_mono_ns;
};

/* A request of which all parts are there. */
struct fg_parts_whole;

/* Creates an empty table. The budget is borrowed. Never fails. */
struct fg_parts *fg_parts_create(struct fg_budget *budget);
void fg_parts_destroy(struct fg_parts *parts); /* NULL is fine */

/*
 * Adds a part, copied. *ret_whole is NULL while more parts are to come, else the request, which
 * belongs to the caller. A part that is repeated changes nothing. FG_E_UNAVAILABLE: the budget or
 * the table is full, or the request's first parts are not here any more; FG_E_TOO_LARGE: the budget
 * could never hold it; FG_E_INVALID: offset, total and length do not fit together.
 */
enum fg_code fg_parts_add(struct fg_parts *parts, const struct fg_part *part, int64_t now_mono_ns,
                          struct fg_parts_whole **ret_whole, struct fg_err *err) fg_must_check;

struct fg_slice fg_parts_bytes(const struct fg_parts_whole *whole);
void fg_parts_whole_free(struct fg_parts_whole *whole); /* NULL is fine */

void fg_parts_drop_owner(struct fg_parts *parts, uint32_t owner);
void fg_parts_sweep(struct fg_parts *parts, int64_t now_mono_ns);

#endif
