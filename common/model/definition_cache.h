/*
 * The definition cache: for each service and each receiver of its batches (an ingester, or another
 * server), the stacks that the receiver already has, so that in the steady state only ids and
 * counts travel. A wrong entry costs one round trip: a receiver that lacks a definition (it may
 * have started a new dictionary) says so and stores nothing.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_COMMON_MODEL_DEFINITION_CACHE_H
#define FG_COMMON_MODEL_DEFINITION_CACHE_H

#include "common/model/batch.h"

struct fg_definition_cache;

/*
 * Creates an empty cache of at most stacks_max ids, 16 bytes each. When it is full, it evicts whole
 * sets, of one service at one receiver, that were not looked up for the longest time; so the
 * entries of a receiver that is gone disappear. Never fails.
 */
struct fg_definition_cache *fg_definition_cache_create(size_t stacks_max);
void fg_definition_cache_destroy(struct fg_definition_cache *cache); /* NULL is fine */

/* Returns the memory in use. */
uint64_t fg_definition_cache_bytes(const struct fg_definition_cache *cache);

/* Returns the service's part of a key. The receiver's part is a well-distributed number; the key is
 * the exclusive or of both. */
uint64_t fg_definition_cache_service_key(struct fg_slice tenant, struct fg_slice service);

/* Sets define[i] for each stack of the batch that the receiver does not have. Leaves the others
 * unchanged, so that several receivers can be looked up one after the other. */
void fg_definition_cache_look_up(struct fg_definition_cache *cache, uint64_t key,
                                 const struct fg_batch *batch, bool *define);

/* Remembers that the receiver has these stacks. start_id: of the receiver's process; another one
 * drops what was remembered of the process before it. */
void fg_definition_cache_add(struct fg_definition_cache *cache, uint64_t key, uint64_t start_id,
                             const struct fg_id *ids, uint32_t count);

/* Drops all entries of the key: the receiver lacked a stack that the cache said it has. */
void fg_definition_cache_forget(struct fg_definition_cache *cache, uint64_t key);

#endif
