/*
 * Finds duplicates of profiles in the head. A profile is stored at most once: its key follows from
 * its content except for the number of the head chunk, so looking the key up in all chunks of its
 * group tells whether the head has it. dedup_index.h finds profiles that have left the head.
 *
 * Thread: the committer's, which alone adds profiles.
 */
#ifndef FG_INGESTER_DEDUP_HEAD_H
#define FG_INGESTER_DEDUP_HEAD_H

#include "common/base/map.h"
#include "common/storage/store/store.h"
#include "ingester/keys.h"

/* Sets *ret_found if one of these chunks of the profile's group has the profile in the store.
 * numbers: of the chunks; key->chunk.number is ignored. FG_E_UNAVAILABLE, FG_E_CORRUPT: the store
 * cannot be read. */
enum fg_code ing_dedup_head_find(struct fg_store *store, const struct ing_head_profile_key *key,
                                 const uint32_t *numbers, uint32_t n_numbers, bool *ret_found,
                                 struct fg_err *err) fg_must_check;

/* The ids of the profiles in a batch that is not written yet. A zeroed one is empty. */
struct ing_dedup_batch {
    struct fg_id *ids;
    uint32_t n, cap;
    struct fg_map map; /* to places in ids */
};

/* Adds an id. Returns false if the batch has it already. */
bool ing_dedup_batch_add(struct ing_dedup_batch *batch, struct fg_id id) fg_must_check;

/* Removes all ids and keeps the memory. */
void ing_dedup_batch_clear(struct ing_dedup_batch *batch);

/* Frees the memory. */
void ing_dedup_batch_done(struct ing_dedup_batch *batch);

#endif
