/*
 * A batch on its way to the ingesters that own its shard: in round after round it is sent to those
 * that do not have it, until a quorum has it under one revision of the ring, or it is plain that it
 * will not.
 *
 *     begin --> define, encode --> send ===> round is over --> state
 *       ^                           | |                          |
 *       |                           | '--> ...                   |  STORED, REFUSED: leave
 *       '---------------------------+-- another round -----------'
 *                                   '----> stragglers
 *
 * A round is over as soon as it makes a difference: nobody waits for an ingester that is not
 * needed. Who was sent to and has not answered goes on, into the next round and after the upload
 * was answered (a straggler), until the call's deadline: its answer still counts, while the
 * revision is the same, and it still teaches what that ingester knows. The memory of stragglers is
 * counted; when there is too much of it, those that still wait to be sent are dropped. What an
 * ingester has missed it gets from the other owners.
 *
 * The quorum is of one revision (common/cluster/README.md#write): a newer one starts the delivery
 * over.
 *
 * Thread: begin to send is one at a time, on a worker; answers come on any.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_DELIVERY_H
#define FG_DISTRIBUTOR_DELIVERY_DELIVERY_H

#include "distributor/delivery/definition_cache.h"
#include "distributor/delivery/owners.h"
#include "distributor/metrics.h"

/* What deliveries have in common. */
struct dist_deliveries {
    /* Borrowed. */
    struct dist_owners *owners;
    struct dist_definition_cache *definition_cache;
    struct fg_metrics *metrics;
    uint64_t stragglers_max_bytes;
    _Atomic uint64_t straggler_bytes; /* 0 */
};

/* A batch as it travels: shared by all it is sent to, counted. */
struct dist_encoded_batch;

/*
 * Copies of all of it. batch: as fg_batch_encode() makes it with `define`, whose marks say which of
 * the stacks' ids (of the batch) it defines. The caller's reference.
 */
struct dist_encoded_batch *dist_encoded_batch_create(struct fg_slice tenant,
                                                     struct fg_slice service,
                                                     const struct fg_batch *batch,
                                                     const bool *define, struct fg_slice bytes);
void dist_encoded_batch_unref(struct dist_encoded_batch *encoded); /* NULL is fine */

enum dist_delivery_state {
    DELIVERY_STORED,       /* by a quorum: acknowledged */
    DELIVERY_LACKS,        /* of definitions; a quorum is to be had with them */
    DELIVERY_STALE,        /* under an older revision than an ingester knows */
    DELIVERY_EARLY,        /* under a newer one than an ingester knows, which it reads now */
    DELIVERY_UNRESPONSIVE, /* too many cannot be reached, or do not answer */
    DELIVERY_REFUSED,      /* by so many that the others are not a quorum */
};

/* How it stands, for who decides what comes next. */
struct dist_delivery_result {
    enum dist_delivery_state state;
    struct fg_err err;           /* but STORED: the answer if there is no other round */
    uint64_t revision;           /* STALE: that an ingester knows */
    uint32_t stored, duplicates; /* STORED: profiles */
};

struct dist_delivery;

/* on_round: a round is over; on whatever thread, must not block. */
struct dist_delivery *dist_delivery_create(struct dist_deliveries *deliveries, uint16_t shard,
                                           uint64_t service_key, void (*on_round)(void *arg),
                                           void *arg);

/* Another round, to the owners as they are now. May take a peer's making. Errors of
 * dist_owners_of(). */
enum fg_code dist_delivery_begin(struct dist_delivery *delivery, struct fg_err *err) fg_must_check;

/* Marks the stacks that are not cache to all it will be sent to, but for those that are silent: one
 * that is back lacks them, and says so. */
void dist_delivery_define(struct dist_delivery *delivery, const struct fg_batch *batch,
                          bool *define);

/* on_round() comes in any case, perhaps before this returns. */
void dist_delivery_send(struct dist_delivery *delivery, struct dist_encoded_batch *encoded,
                        int64_t deadline_mono_ns);

/* Between rounds. */
void dist_delivery_result(struct dist_delivery *delivery, struct dist_delivery_result *ret_result);

/* Between rounds, the last call: what is under way goes on by itself. NULL is fine. */
void dist_delivery_leave(struct dist_delivery *delivery);

#endif
