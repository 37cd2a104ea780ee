/*
 * The definition cache: for each service and each of its ingesters, the stacks that the ingester
 * already has, so that in the steady state only ids and counts travel. A wrong entry costs one
 * round trip: an ingester that lacks a definition (it may have started a new dictionary) says so
 * and stores nothing.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_DEFINITION_CACHE_H
#define FG_DISTRIBUTOR_DELIVERY_DEFINITION_CACHE_H

#include "common/model/batch.h"

struct dist_definition_cache;

/*
 * Creates an empty cache of at most stacks_max ids, 16 bytes each. When it is full, it evicts whole
 * sets, of one service at one ingester, that were not looked up for the longest time; so the
 * entries of an ingester that is gone disappear. Never fails.
 */
struct dist_definition_cache *dist_definition_cache_create(size_t stacks_max);
void dist_definition_cache_destroy(struct dist_definition_cache *cache); /* NULL is fine */

/* Returns the memory in use. */
uint64_t dist_definition_cache_bytes(const struct dist_definition_cache *cache);

/* Returns the service's part of a key. The ingester's part is a well-distributed number; the key is
 * the exclusive or of both. */
uint64_t dist_definition_cache_service_key(struct fg_slice tenant, struct fg_slice service);

/* Sets define[i] for each stack of the batch that the ingester does not have. Leaves the others
 * unchanged, so that several ingesters can be looked up one after the other. */
void dist_definition_cache_look_up(struct dist_definition_cache *cache, uint64_t key,
                                   const struct fg_batch *batch, bool *define);

/* Remembers that the ingester has these stacks. start_id: of the ingester's process; another one
 * drops what was remembered of the process before it. */
void dist_definition_cache_add(struct dist_definition_cache *cache, uint64_t key, uint64_t start_id,
                               const struct fg_id *ids, uint32_t count);

/* Drops all entries of the key: the ingester lacked a stack that the cache said it has. */
void dist_definition_cache_forget(struct dist_definition_cache *cache, uint64_t key);

#endif
