/*
 * Reads the profiles of one group of the head from the store.
 *
 * Thread: any that may wait for the disk.
 */
#ifndef FG_INGESTER_REPAIR_GROUP_H
#define FG_INGESTER_REPAIR_GROUP_H

#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"
#include "ingester/head_chunks.h"

/* All borrowed. */
struct ing_group_head {
    struct fg_store *store;
    struct ing_head_chunks *chunks;
};

/* Count and sum of the ids of all profiles of the group in chunks that are not committed. */
struct ing_group_sum {
    uint64_t count;
    struct fg_id digest;
};

/* Returns the sum of a group, from memory. */
struct ing_group_sum ing_group_sum(const struct ing_group_head *head,
                                   const struct ing_head_group_key *key);

/* Calls each() for every profile at this key or behind it (NULL: for all), in the order of keys,
 * until it returns false. committed: also for profiles of committed chunks. The value is valid
 * during the call. FG_E_UNAVAILABLE, FG_E_CORRUPT. */
enum fg_code ing_group_each(const struct ing_group_head *head, const struct ing_head_group_key *key,
                            const struct ing_head_profile_key *place, bool committed,
                            bool (*each)(void *arg, const struct ing_head_profile_key *key,
                                         struct fg_slice value),
                            void *arg, struct fg_err *err) fg_must_check;

/* A list of ids. A zeroed one is empty. */
struct ing_group_ids {
    struct fg_id *ids;
    size_t n, cap;
};

/* Adds an id at the end. */
void ing_group_ids_add(struct ing_group_ids *ids, struct fg_id id);

/* Sorts the list. */
void ing_group_ids_sort(struct ing_group_ids *ids);

/* Returns true if the list, which is sorted, has the id. */
bool ing_group_ids_have(const struct ing_group_ids *ids, struct fg_id id);

/* Frees the list. */
void ing_group_ids_done(struct ing_group_ids *ids);

#endif
