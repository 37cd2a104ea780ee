/*
 * Keys of tenants in memory that is locked (locked.h).
 *
 * Thread: any.
 */
#ifndef FG_COMMON_STORAGE_SEAL_KEY_RING_H
#define FG_COMMON_STORAGE_SEAL_KEY_RING_H

#include "common/storage/seal/keys.h"

struct fg_key_ring;

/* Creates an empty ring. */
struct fg_key_ring *fg_key_ring_create(void);
/* Overwrites all keys and frees the ring. Accepts NULL. */
void fg_key_ring_destroy(struct fg_key_ring *ring);
FG_AUTO(fg_key_ring, fg_key_ring_destroy)

/* Adds a key. One that is there already stays. */
void fg_key_ring_add(struct fg_key_ring *ring, struct fg_slice tenant, uint32_t number,
                     const struct fg_seal_key *key);

/* Copies a key. Returns false if it is not there. */
bool fg_key_ring_find(struct fg_key_ring *ring, struct fg_slice tenant, uint32_t number,
                      struct fg_seal_key *ret_key) fg_must_check;

/* Overwrites and forgets a key, if it is there. */
void fg_key_ring_drop(struct fg_key_ring *ring, struct fg_slice tenant, uint32_t number);

/* Returns whether all of its memory is locked. */
bool fg_key_ring_is_locked(struct fg_key_ring *ring);

#endif
