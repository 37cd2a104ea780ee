/*
 * A batch in the form in which it is sent, shared by the sends to all owners of its shard.
 *
 * Thread: immutable; the reference count is atomic.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_ENCODED_BATCH_H
#define FG_DISTRIBUTOR_DELIVERY_ENCODED_BATCH_H

#include "common/model/batch.h"

#include <stdatomic.h>

struct dist_encoded_batch {
    _Atomic uint32_t refs;
    size_t bytes;          /* of memory, for stragglers_max_bytes */
    char *service;         /* stored behind the tenant's name */
    struct fg_slice via;   /* for PushItem.via; behind the batch */
    struct fg_slice batch; /* as fg_batch_encode() makes it */
    struct fg_id *defined; /* [n_defined]: stacks whose definitions it contains */
    uint32_t n_defined;
    uint64_t *sizes; /* [n_sizes], for PushItem.sizes */
    size_t n_sizes;
    char tenant[]; /* then the service's name, then the batch, then via */
};

/*
 * Creates it with one reference, which is the caller's; copies everything. batch: as it was encoded
 * into `bytes`. define: [batch->n_stacks], marks the stacks that `bytes` defines. Never fails.
 */
struct dist_encoded_batch *dist_encoded_batch_create(struct fg_slice tenant,
                                                     struct fg_slice service, struct fg_slice via,
                                                     const struct fg_batch *batch,
                                                     const bool *define, struct fg_slice bytes);

struct dist_encoded_batch *dist_encoded_batch_ref(struct dist_encoded_batch *encoded);
void dist_encoded_batch_unref(struct dist_encoded_batch *encoded); /* NULL is fine */

#endif
