/*
 * What ingesters are cache to know: for every service and each of its ingesters the stacks that
 * need no definition any more, so that in the steady state only ids and counts travel. Being wrong
 * costs a round trip and no more: the ingester says which stacks it lacks (it may have begun a new
 * dictionary), and has stored nothing.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_DEFINITION_CACHE_H
#define FG_DISTRIBUTOR_DELIVERY_DEFINITION_CACHE_H

#include "common/model/batch.h"

struct dist_definition_cache;

/* stacks_max: in all, at 16 bytes each. What grows beyond it makes those be forgotten that were not
 * asked about for the longest time, a service's of one ingester at a time. So what is cache of an
 * ingester that is gone goes in time. */
struct dist_definition_cache *dist_definition_cache_create(size_t stacks_max);
void dist_definition_cache_destroy(struct dist_definition_cache *cache);
uint64_t dist_definition_cache_bytes(const struct dist_definition_cache *cache);

/* The service's part of a key; the ingester's part is a well spread number, and both together are
 * their exclusive or. */
uint64_t dist_definition_cache_service_key(struct fg_slice tenant, struct fg_slice service);

/* Marks the stacks of the batch that have to be defined; the others are left as they are, so that
 * several ingesters may be asked about. */
void dist_definition_cache_look_up(struct dist_definition_cache *cache, uint64_t key,
                                   const struct fg_batch *batch, bool *define);

/* Remembers ids of stacks as cache to the run `start_id` of the ingester; a new run forgets the
 * rest. */
void dist_definition_cache_add(struct dist_definition_cache *cache, uint64_t key, uint64_t start_id,
                               const struct fg_id *ids, uint32_t count);

/* The ingester lacked what it was believed to know: it has begun anew. */
void dist_definition_cache_forget(struct dist_definition_cache *cache, uint64_t key);

#endif
