/*
 * Chunked replies: large replies of a server whose callers fetch the rest in parts.
 *
 * Each reply has a key and belongs to a connection. It leaves the table when its last part was
 * sent, when the caller drops it, with its connection, at its deadline, and when no part was
 * fetched for 30 s. A reader holds a reference meanwhile. The number of replies and their bytes are
 * bounded.
 *
 * Thread: any. Times are monotonic and given by the caller.
 */
#ifndef FG_COMMON_NET_RPC_CHUNKED_REPLIES_H
#define FG_COMMON_NET_RPC_CHUNKED_REPLIES_H

#include "common/base/buf.h"
#include "common/base/err.h"

struct fg_chunked_replies;

struct fg_chunked_reply {
    uint64_t key; /* starts at a random number, so that keys of an earlier process are unknown */
    struct fg_slice payload;
};

/* Creates an empty table. max_bytes: of all replies. Never fails. */
struct fg_chunked_replies *fg_chunked_replies_create(uint64_t max_bytes);
/* Frees it. No reference is left. NULL is fine. */
void fg_chunked_replies_destroy(struct fg_chunked_replies *replies);

/*
 * Adds a reply and returns a reference to it. Takes over the payload's memory; *payload is empty
 * afterwards. owner: id of the connection, 0 for none. FG_E_LIMIT: the table is full; *payload is
 * unchanged.
 */
enum fg_code fg_chunked_replies_add(struct fg_chunked_replies *replies, uint32_t owner,
                                    struct fg_buf *payload, int64_t now_mono_ns,
                                    int64_t deadline_mono_ns, struct fg_chunked_reply **ret_answer,
                                    struct fg_err *err) fg_must_check;

/* Returns a reference to the reply with this key and owner, or NULL. */
struct fg_chunked_reply *fg_chunked_replies_find(struct fg_chunked_replies *replies, uint32_t owner,
                                                 uint64_t key, int64_t now_mono_ns);
/* Releases a reference. */
void fg_chunked_replies_unref(struct fg_chunked_replies *replies, struct fg_chunked_reply *answer);

/* Remove a reply, or all of a connection. Their memory is freed with the last reference. */
void fg_chunked_replies_drop(struct fg_chunked_replies *replies, struct fg_chunked_reply *answer);
void fg_chunked_replies_drop_owner(struct fg_chunked_replies *replies, uint32_t owner);
/* Removes replies that are past their deadline or idle for 30 s. */
void fg_chunked_replies_sweep(struct fg_chunked_replies *replies, int64_t now_mono_ns);

/* Returns the bytes of all replies in the table. */
uint64_t fg_chunked_replies_bytes(struct fg_chunked_replies *replies);

#endif
