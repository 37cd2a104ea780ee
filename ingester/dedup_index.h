/*
 * The dedup index finds profiles that live segments and blocks have already: for late and repeated
 * profiles (check-late-ids), and for a head that compares itself with what was committed while it
 * was away (settle-on-rejoin). common/cluster/README.md#rules. dedup_head.h finds those
 * in the head.
 *
 * Ordinary data needs no lookup. A lookup of a group reads the directories and group lists of the
 * live objects and, if the group is in an object, its ids; all of that is cached.
 *
 * Thread: any that may wait for the bucket.
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

/* Creates an index with an empty cache. */
struct ing_dedup *ing_dedup_create(const struct ing_dedup_config *config);

/* Destroys the index; no lookup is under way. Accepts NULL. */
void ing_dedup_destroy(struct ing_dedup *dedup);

/* Ids of a group that the bucket has. */
struct ing_dedup_ids {
    struct fg_arena *arena; /* of the ids; the caller sets it */
    struct fg_id *ids;      /* in no order */
    size_t n;
};

/* A lookup of ids of one group. */
struct ing_dedup_query {
    struct fg_slice tenant; /* a checked name */
    uint16_t shard;
    uint32_t window;
    const struct fg_id *ids;
    size_t n_ids;
    bool *found;               /* [n_ids]: set if an object has the id, else unchanged */
    struct ing_dedup_ids *all; /* NULL, or receives all ids of the group */
    bool *unsure;              /* set if a damaged or lost object may have more of the group */
};

/* When a lookup ends at the latest. */
struct ing_dedup_until {
    int64_t deadline_mono_ns;
    struct fg_bucket_stop *stop; /* ends it early; NULL: nobody does */
};

/*
 * Looks ids up in everything that is live at generation `least` or later; *ret_generation tells at
 * which (for queries of several tenants, the least of theirs). Or, if `only` is not 0, in the
 * segment of that generation alone, which is read whole in one request unless it is very large.
 * Queries of one tenant stand together. If an object or the manifest of a tenant is damaged or
 * lost, the queries that it may contain are unsure. FG_E_NOT_FOUND: the segment `only` is not live
 * any more. FG_E_UNAVAILABLE, FG_E_DEADLINE: the bucket; FG_E_CANCELED: it was stopped;
 * FG_E_CORRUPT: the L0 manifest; FG_E_LIMIT: an arena is full.
 */
enum fg_code ing_dedup_find(struct ing_dedup *dedup, const struct ing_dedup_query *queries,
                            size_t n, uint64_t only, uint64_t least, struct ing_dedup_until until,
                            uint64_t *ret_generation, struct fg_err *err) fg_must_check;

/* Returns how many calls of ing_dedup_find() have succeeded. Any thread. */
uint64_t ing_dedup_count_found(const struct ing_dedup *dedup);

#endif
