/*
 * Large answers of a server that wait for their callers to ask for the rest of them.
 *
 * An answer is under a key, belongs to a connection, and leaves when its end was sent, when it is
 * not wanted, with its connection, or when its time is over. Whoever is reading from it meanwhile
 * holds a reference. Bounded in number and, all together, in bytes.
 *
 * Thread: any. Times are monotonic and given by the caller.
 */
#ifndef FG_COMMON_NET_RPC_CHUNKED_REPLIES_H
#define FG_COMMON_NET_RPC_CHUNKED_REPLIES_H

#include "common/base/buf.h"
#include "common/base/err.h"

struct fg_chunked_replies;

struct fg_chunked_reply {
    uint64_t key; /* random for those of another process or of an earlier life of this one */
    struct fg_slice payload;
};

struct fg_chunked_replies *fg_chunked_replies_create(uint64_t max_bytes);
void fg_chunked_replies_destroy(
    struct fg_chunked_replies *replies); /* no reference is left; NULL is fine */

/*
 * Takes the payload's memory; *payload is empty then. owner: the connection, 0 for none. It goes at
 * deadline_mono_ns, and earlier when nobody asks. FG_E_LIMIT: there is no room, *payload stays as
 * it is.
 */
enum fg_code fg_chunked_replies_add(struct fg_chunked_replies *replies, uint32_t owner,
                                    struct fg_buf *payload, int64_t now_mono_ns,
                                    int64_t deadline_mono_ns, struct fg_chunked_reply **ret_answer,
                                    struct fg_err *err) fg_must_check;

/* NULL: there is none of that key for this owner. */
struct fg_chunked_reply *fg_chunked_replies_find(struct fg_chunked_replies *replies, uint32_t owner,
                                                 uint64_t key, int64_t now_mono_ns);
void fg_chunked_replies_unref(struct fg_chunked_replies *replies, struct fg_chunked_reply *answer);

/* Leaves the table; memory is freed with the last reference. */
void fg_chunked_replies_drop(struct fg_chunked_replies *replies, struct fg_chunked_reply *answer);
void fg_chunked_replies_drop_owner(struct fg_chunked_replies *replies, uint32_t owner);
void fg_chunked_replies_sweep(struct fg_chunked_replies *replies, int64_t now_mono_ns);

/* Bytes of answers that wait. */
uint64_t fg_chunked_replies_bytes(struct fg_chunked_replies *replies);

#endif
