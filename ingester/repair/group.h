/* Profiles of one group of the head, read from the store. */
#ifndef FG_INGESTER_REPAIR_GROUP_H
#define FG_INGESTER_REPAIR_GROUP_H

#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"
#include "ingester/rounds.h"

/* Borrowed. */
struct group_head {
    struct fg_store *store;
    struct rounds *rounds;
};

/* What all rounds of the group hold that are not committed. */
struct group_sum {
    uint64_t count;
    struct fg_id digest;
};
struct group_sum group_sum(const struct group_head *head, const struct head_group_key *key);

/* Calls each() for every profile at this place or behind it (NULL: every one), in the order of
 * keys, until it says false. committed: of rounds that are committed, too. The value is valid
 * within the call. FG_E_UNAVAILABLE, FG_E_CORRUPT. */
enum fg_code group_each(const struct group_head *head, const struct head_group_key *key,
                        const struct head_profile_key *place, bool committed,
                        bool (*each)(void *arg, const struct head_profile_key *key,
                                     struct fg_slice value),
                        void *arg, struct fg_err *err) fg_must_check;

/* Ids, ascending. */
struct group_ids {
    struct fg_id *ids;
    size_t n, cap;
};
void group_ids_add(struct group_ids *ids, struct fg_id id);
void group_ids_sort(struct group_ids *ids);
bool group_ids_have(const struct group_ids *ids, struct fg_id id); /* sorted */
void group_ids_done(struct group_ids *ids);

#endif
