/*
 * What the ingester is known to know: for every service the stacks that need no definition any
 * more, so that in the steady state only ids and counts travel. Being wrong costs a round trip and
 * no more: the ingester says which stacks it lacks (it may have begun a new dictionary), and has
 * stored nothing.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_DISTRIBUTOR_KNOWN_H
#define FG_DISTRIBUTOR_KNOWN_H

#include "common/profile/batch.h"

struct known;

/* stacks_max: in all; a service's share is forgotten when the whole grows beyond it. */
struct known *known_create(size_t stacks_max);
void known_destroy(struct known *known);
uint64_t known_bytes(struct known *known);

/* define[i] = stack i of the batch has to be defined. */
void known_look_up(struct known *known, uint64_t service_hash, const struct fg_batch *batch,
                   bool *define);

/* Remembers ids of stacks as known to the run `start_id` of the ingester; a new run forgets the
 * rest. */
void known_add(struct known *known, uint64_t service_hash, uint64_t start_id,
               const struct fg_id *ids, uint32_t count);

/* The key under which a service is kept. */
uint64_t known_service(struct fg_slice tenant, struct fg_slice service);

#endif
