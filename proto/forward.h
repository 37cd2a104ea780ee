/*
 * Messages of forward.v1 (proto/forward_v1.proto), as the forwarding server makes them and reads
 * the answers. The receiver reads them with protobuf-c.
 *
 * Thread: one at a time.
 */
#ifndef FG_PROTO_FORWARD_H
#define FG_PROTO_FORWARD_H

#include "common/model/batch.h"

enum {
    /* Versions of messages: in 2 the batches are short (fg_batch_encode_short()). */
    FG_FORWARD_VERSION = 2,
    FG_FORWARD_VERSION_MIN = 1,
    /* Stores that profiles may have passed: more is a circle, or a chain that nobody wants. */
    FG_FORWARD_VIA_MAX = 4,
};

/* A message that is being made. Starts zeroed, except for the version. */
struct fg_forward_message {
    uint32_t version;
    struct fg_buf payload; /* of the batches so far */
    struct fg_forward_batch *batches;
    size_t n_batches, cap_batches;
};

/* One batch of a message. */
struct fg_forward_batch {
    uint32_t bytes;
    uint64_t *sizes; /* [2 * n_profiles], as fg_batch_put_sizes() writes them */
    uint32_t n_profiles;
};

/* Adds a batch with the definitions of these stacks. whole_ids: in version 2, too, the ids of all
 * stacks are whole. Copies everything. */
void fg_forward_add(struct fg_forward_message *message, const struct fg_batch *batch,
                    const bool *define, bool whole_ids);

/*
 * Appends the message to `out`, in the binary form. via: ids of stores, FG_ID_BYTES each, at most
 * FG_FORWARD_VIA_MAX. FG_E_LIMIT: a batch or the payload exceeds 4 GiB, or does not fit `out`.
 */
enum fg_code fg_forward_write(const struct fg_forward_message *message, struct fg_slice via,
                              struct fg_buf *out, struct fg_err *err) fg_must_check;

/* Removes the batches and keeps the memory of the payload. */
void fg_forward_clear(struct fg_forward_message *message);

/* Frees the message. */
void fg_forward_done(struct fg_forward_message *message);

#endif
