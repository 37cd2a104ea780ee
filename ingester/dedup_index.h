/*
 * Which profiles are in live segments and blocks already: for late and repeated ones
 * (check-late-ids), and for a head that compares itself with what was committed while it was away
 * (settle-on-rejoin). common/cluster/README.md#rules.
 *
 * Ordinary data never gets here. A group that is asked about costs its objects' directories and
 * group lists, and where a group is in an object, the ids of it; all of that is kept in a cache.
 *
 * Thread: any that may wait.
 */
#ifndef FG_INGESTER_DEDUP_INDEX_H
#define FG_INGESTER_DEDUP_INDEX_H

#include "common/base/arena.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/cache.h"
#include "ingester/keys.h"

struct ing_dedup;

/* All borrowed. */
struct ing_dedup_config {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    struct fg_registry *registry;
    uint64_t cache_max_bytes;
};

struct ing_dedup *ing_dedup_create(const struct ing_dedup_config *config);
void ing_dedup_destroy(struct ing_dedup *dedup); /* nobody asks any more; NULL is fine */

/* Ids of a group that are held. */
struct ing_dedup_ids {
    struct fg_arena *arena; /* where they are put */
    struct fg_id *ids;      /* in no order */
    size_t n;
};

/* Ids of one group. */
struct ing_dedup_query {
    struct fg_slice tenant; /* a checked name */
    uint16_t shard;
    uint32_t window;
    const struct fg_id *ids;
    size_t n_ids;
    bool *found;               /* [n_ids]: set where the id is in some object, else left alone */
    struct ing_dedup_ids *all; /* NULL, or where all ids of the group are added that are held */
    bool *unsure; /* set where an object that may hold more of the group is damaged or lost */
};

/* How long a search may take. */
struct ing_dedup_until {
    int64_t deadline_mono_ns;
    struct fg_bucket_stop *stop; /* ends it before; NULL: nobody does */
};

/*
 * Looks in what is live at a generation of `least` or newer, which one is said; or, with only not
 * 0, in the segment of that generation alone (FG_E_NOT_FOUND: it is not live any more), which is
 * read whole, in one request, unless it is very large. Questions of one tenant stand together; of
 * several tenants the least generation is said. An object that is damaged or lost, a tenant's
 * manifest too, costs what it may hold: the queries about that are unsure. FG_E_UNAVAILABLE,
 * FG_E_DEADLINE: the bucket; FG_E_CANCELED: it was stopped; FG_E_CORRUPT: the L0 manifest;
 * FG_E_LIMIT: an arena is full.
 */
enum fg_code ing_dedup_find(struct ing_dedup *dedup, const struct ing_dedup_query *queries,
                            size_t n, uint64_t only, uint64_t least, struct ing_dedup_until until,
                            uint64_t *ret_generation, struct fg_err *err) fg_must_check;

/* Returns how many calls of ing_dedup_find() have succeeded. Any thread. */
uint64_t ing_dedup_count_found(const struct ing_dedup *dedup);

#endif
