/*
 * A batch on its way to the ingesters that own its shard: round after round it is sent to the
 * owners that do not have it, until a quorum has stored it under one revision of the ring, or
 * cannot.
 *
 *     begin --> define, encode --> send ===> end of the round --> result
 *       ^                           | |                          |
 *       |                           | '--> ...                   |  STORED, REFUSED: leave
 *       '---------------------------+-- another round -----------'
 *                                   '----> stragglers
 *
 * delivery_core.h decides. A send that is in flight when its round ends goes on until its deadline,
 * also after the upload was answered (a straggler): its answer still counts while the revision is
 * the same, and it still updates the definition cache. The memory of stragglers is counted; above
 * stragglers_max_bytes those that still wait to be sent are dropped. An ingester fetches what it
 * missed from the other owners.
 *
 * Thread: one worker at a time calls begin, define and send; answers arrive on any thread.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_DELIVERY_H
#define FG_DISTRIBUTOR_DELIVERY_DELIVERY_H

#include "common/model/definition_cache.h"
#include "distributor/delivery/delivery_core.h"
#include "distributor/delivery/encoded_batch.h"
#include "distributor/delivery/owners.h"
#include "distributor/metrics.h"

/* What all deliveries of a distributor share. */
struct dist_deliveries {
    struct dist_owners *owners; /* borrowed, as the next two */
    struct fg_definition_cache *definition_cache;
    struct fg_metrics *metrics;
    uint64_t stragglers_max_bytes;
    _Atomic uint64_t straggler_bytes; /* starts at 0 */
};

struct dist_delivery;

/*
 * Creates a delivery for one batch. service_key: fg_definition_cache_service_key() of its tenant
 * and service. awaits_all: a refusal waits for all owners (struct dist_delivery_owners). on_round
 * is called once at the end of each round, on any thread; it must not block. Never fails.
 */
struct dist_delivery *dist_delivery_create(struct dist_deliveries *deliveries, uint16_t shard,
                                           uint64_t service_key, bool awaits_all,
                                           void (*on_round)(void *arg), void *arg);

/* Prepares a round with the current owners. May create a peer: call it on a worker. Fails with the
 * errors of dist_owners_of(). */
enum fg_code dist_delivery_begin(struct dist_delivery *delivery, struct fg_err *err) fg_must_check;

/*
 * Marks in define[batch->n_stacks] the stacks that one of the owners does not know. Skips owners
 * that do not respond, which would make the others receive all definitions for as long; when such
 * an owner is back it says that it lacks them.
 */
void dist_delivery_define(struct dist_delivery *delivery, const struct fg_batch *batch,
                          bool *define);

/* Sends the batch to the owners that do not have it, which starts the round. on_round() is called
 * in any case, perhaps before this returns. Takes its own references to `encoded`. */
void dist_delivery_send(struct dist_delivery *delivery, struct dist_encoded_batch *encoded,
                        int64_t deadline_mono_ns);

/* Returns the result of the last round. Between rounds only. */
void dist_delivery_result(struct dist_delivery *delivery, struct dist_delivery_result *ret_result);

/* Gives up the caller's reference, between rounds: sends in flight go on by themselves. NULL is
 * fine. */
void dist_delivery_leave(struct dist_delivery *delivery);

#endif
