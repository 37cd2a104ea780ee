/* Profiles of one group of the head, read from the store. */
#ifndef FG_INGESTER_REPAIR_GROUP_H
#define FG_INGESTER_REPAIR_GROUP_H

#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"
#include "ingester/head_chunks.h"

/* Borrowed. */
struct ing_group_head {
    struct fg_store *store;
    struct ing_head_chunks *chunks;
};

/* What all chunks of the group hold that are not committed. */
struct ing_group_sum {
    uint64_t count;
    struct fg_id digest;
};
struct ing_group_sum ing_group_sum(const struct ing_group_head *head,
                                   const struct ing_head_group_key *key);

/* Calls each() for every profile at this place or behind it (NULL: every one), in the order of
 * keys, until it says false. committed: of chunks that are committed, too. The value is valid
 * within the call. FG_E_UNAVAILABLE, FG_E_CORRUPT. */
enum fg_code ing_group_each(const struct ing_group_head *head, const struct ing_head_group_key *key,
                            const struct ing_head_profile_key *place, bool committed,
                            bool (*each)(void *arg, const struct ing_head_profile_key *key,
                                         struct fg_slice value),
                            void *arg, struct fg_err *err) fg_must_check;

/* Ids, ascending. */
struct ing_group_ids {
    struct fg_id *ids;
    size_t n, cap;
};
void ing_group_ids_add(struct ing_group_ids *ids, struct fg_id id);
void ing_group_ids_sort(struct ing_group_ids *ids);
bool ing_group_ids_have(const struct ing_group_ids *ids, struct fg_id id); /* sorted */
void ing_group_ids_done(struct ing_group_ids *ids);

#endif
