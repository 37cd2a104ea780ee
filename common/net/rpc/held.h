/*
 * Large answers of a server that wait for their callers to ask for the rest of them.
 *
 * An answer is under a key, belongs to a connection, and leaves when its end was sent, when it is
 * not wanted, with its connection, or when its time is over. Whoever is reading from it meanwhile
 * holds a reference. Bounded in number and, all together, in bytes.
 *
 * Thread: any. Times are monotonic and given by the caller.
 */
#ifndef FG_COMMON_NET_RPC_HELD_H
#define FG_COMMON_NET_RPC_HELD_H

#include "common/base/buf.h"
#include "common/base/err.h"

struct fg_held;

struct fg_held_answer {
    uint64_t key; /* random for those of another process or of an earlier life of this one */
    struct fg_slice payload;
};

struct fg_held *fg_held_create(uint64_t max_bytes);
void fg_held_destroy(struct fg_held *held); /* no reference is left; NULL is fine */

/*
 * Takes the payload's memory; *payload is empty then. owner: the connection, 0 for none. It goes at
 * deadline_mono_ns, and earlier when nobody asks. FG_E_LIMIT: there is no room, *payload stays as
 * it is.
 */
enum fg_code fg_held_add(struct fg_held *held, uint32_t owner, struct fg_buf *payload,
                         int64_t now_mono_ns, int64_t deadline_mono_ns,
                         struct fg_held_answer **ret_answer, struct fg_err *err) fg_must_check;

/* NULL: there is none of that key for this owner. */
struct fg_held_answer *fg_held_find(struct fg_held *held, uint32_t owner, uint64_t key,
                                    int64_t now_mono_ns);
void fg_held_put(struct fg_held *held, struct fg_held_answer *answer);

/* Leaves the table; memory is freed with the last reference. */
void fg_held_drop(struct fg_held *held, struct fg_held_answer *answer);
void fg_held_drop_owner(struct fg_held *held, uint32_t owner);
void fg_held_sweep(struct fg_held *held, int64_t now_mono_ns);

/* Bytes of answers that wait. */
uint64_t fg_held_bytes(struct fg_held *held);

#endif
