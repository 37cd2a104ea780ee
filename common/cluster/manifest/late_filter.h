/*
 * The late-data filter: which groups (shard, window) some segment has ever held. A new id of such a
 * group is looked for in the live objects before it is taken in (check-late-ids). Current data is
 * of groups that no segment has held yet, and costs nothing.
 *
 * The filter may say yes too often, which costs a look, but never no wrongly. So it needs no memory
 * of years: it says yes to every window before `below`, for all shards, and to every window from
 * `above` on. In between, for some hours around now and for what wrong clocks put into the
 * future, it is exact: it has runs of shards, since the shards of a service are next to each other.
 * `below` stays FG_LATE_FILTER_EXACT_WINDOWS behind the committed segments; older data is late, and
 * rare.
 *
 * Two simpler filters were rejected. One watermark per shard: a cluster has up to 65,536 shards,
 * and the manifest is written with every segment. One watermark for all shards at the newest
 * window: segments are cut in the middle of windows, too, so all current data would cost looks.
 *
 * Thread: any; pure values.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_LATE_FILTER_H
#define FG_COMMON_CLUSTER_MANIFEST_LATE_FILTER_H

#include "common/base/arena.h"

enum {
    FG_LATE_FILTER_EXACT_WINDOWS =
        12, /* two hours: longer than agents keep what they could not send */
    FG_LATE_FILTER_RUNS_MAX = 1 << 18,      /* 2 MiB; beyond that the farthest windows are folded */
    FG_LATE_FILTER_ABOVE_NONE = UINT32_MAX, /* the last window is never exact */
};

struct fg_late_filter_run {
    uint32_t window;
    uint16_t first, last; /* shards, inclusive */
};

struct fg_late_filter {
    uint32_t below, above;
    struct fg_late_filter_run *runs; /* below <= window < above; in order, no two touch */
    uint32_t n_runs;
};

/* Returns the filter without any group. */
static inline struct fg_late_filter fg_late_filter_none(void)
{
    return (struct fg_late_filter){.above = FG_LATE_FILTER_ABOVE_NONE};
}

/* Returns true if some segment has held the group, or may have. */
bool fg_late_filter_has(const struct fg_late_filter *filter, uint16_t shard, uint32_t window);

/* Makes a filter of runs in any order; sorts them in place. Returns false if the arena is full. */
bool fg_late_filter_make(struct fg_late_filter_run *runs, uint32_t count, struct fg_arena *arena,
                         struct fg_late_filter *ret_filter) fg_must_check;

/*
 * Joins two filters and folds every window before `below`. If there are more than
 * FG_LATE_FILTER_RUNS_MAX runs, folds windows before `now` first, then the farthest ahead. Returns
 * false if the arena is full.
 */
bool fg_late_filter_join(const struct fg_late_filter *a, const struct fg_late_filter *b,
                         uint32_t below, uint32_t now, struct fg_arena *arena,
                         struct fg_late_filter *ret_filter) fg_must_check;

#endif
