/*
 * "Ever": which groups (shard, window) some segment ever held. A new id for one of them is looked
 * for in the live blocks before it is taken in (check-late-ids); ordinary data is of groups that no
 * segment held yet, and costs nothing.
 *
 * It may say yes too often, which costs a look, and never no too often. So it needs no memory of
 * years: every window before `below` counts, for all shards alike, and so does every window from
 * `above` on. In between, a few hours around now and what a wrong clock puts into the future, it is
 * exact: runs of shards, since a service's shards lie side by side. `below` follows the segments
 * that are committed, FG_LATE_FILTER_EXACT_WINDOWS behind; data older than that is late, and rare.
 * Not one watermark for each shard, because a cluster has up to 65,536 of them, and the manifest is
 * written with every segment; and not one for all up to the newest window, because segments are cut
 * in the middle of windows too, and then all ordinary data of all ingesters would cost looks.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_LATE_FILTER_H
#define FG_COMMON_CLUSTER_MANIFEST_LATE_FILTER_H

#include "common/base/arena.h"

enum {
    FG_LATE_FILTER_EXACT_WINDOWS =
        12, /* two hours: longer than agents keep what they could not send */
    FG_LATE_FILTER_RUNS_MAX = 1 << 18,      /* 2 MiB; the farthest windows give way */
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

/* No group. */
static inline struct fg_late_filter fg_late_filter_none(void)
{
    return (struct fg_late_filter){.above = FG_LATE_FILTER_ABOVE_NONE};
}

bool fg_late_filter_has(const struct fg_late_filter *filter, uint16_t shard, uint32_t window);

/* Makes of runs in any order a set. false: the arena is at its limit. runs is sorted in place. */
bool fg_late_filter_make(struct fg_late_filter_run *runs, uint32_t count, struct fg_arena *arena,
                         struct fg_late_filter *ret_filter) fg_must_check;

/*
 * Both, with everything before `below` folded. More than FG_LATE_FILTER_RUNS_MAX runs: windows
 * before `now` are folded first, then the farthest ahead. false: the arena is at its limit.
 */
bool fg_late_filter_join(const struct fg_late_filter *a, const struct fg_late_filter *b,
                         uint32_t below, uint32_t now, struct fg_arena *arena,
                         struct fg_late_filter *ret_filter) fg_must_check;

#endif
