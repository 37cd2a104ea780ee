#include "common/cluster/manifest/late_filter.h"

#include "common/base/search.h"

#include <stdlib.h>

bool fg_late_filter_has(const struct fg_late_filter *filter, uint16_t shard, uint32_t window)
{
    const struct fg_late_filter_run *runs = filter->runs;
    uint32_t at;

    /* Outside of the exact windows the answer is "yes", which costs a look and no more. A wrong
     * "no" would store a profile twice. */
    if (window < filter->below || window >= filter->above)
        return true;
    /* The first run that does not end before it. */
    at = fg_lower_bound(i, 0, filter->n_runs,
                        runs[i].window < window ||
                            (runs[i].window == window && runs[i].last < shard));
    return at < filter->n_runs && runs[at].window == window && runs[at].first <= shard;
}

static int compare(const void *left, const void *right)
{
    const struct fg_late_filter_run *a = left, *b = right;

    if (a->window != b->window)
        return a->window < b->window ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

/* Appends a run behind the last one. Runs come in order; those that touch are joined. */
static void append_run(struct fg_late_filter *set, struct fg_late_filter_run run)
{
    struct fg_late_filter_run *last = set->n_runs == 0 ? NULL : &set->runs[set->n_runs - 1];

    if (run.window < set->below || run.window >= set->above)
        return;
    if (last == NULL || last->window != run.window || run.first > (uint32_t)last->last + 1)
        set->runs[set->n_runs++] = run;
    else
        last->last = FG_MAX(last->last, run.last);
}

bool fg_late_filter_make(struct fg_late_filter_run *runs, uint32_t count, struct fg_arena *arena,
                         struct fg_late_filter *ret_filter)
{
    struct fg_late_filter set = fg_late_filter_none();

    set.runs = fg_arena_new(arena, struct fg_late_filter_run, count);
    if (set.runs == NULL)
        return false;
    if (count > 0)
        qsort(runs, count, sizeof *runs, compare);
    for (uint32_t i = 0; i < count; i++)
        append_run(&set, runs[i]);
    *ret_filter = set;
    return true;
}

/* Folds windows into `below`, and then into `above`, until there are few enough runs. The past
 * goes first: late profiles are rare, while `above` concerns profiles of now from the moment on
 * at which time reaches it. */
static void fold(struct fg_late_filter *set, uint32_t now)
{
    uint32_t drop = 0, keep;

    if (set->n_runs <= FG_LATE_FILTER_RUNS_MAX)
        return;
    while (drop < set->n_runs - FG_LATE_FILTER_RUNS_MAX && set->runs[drop].window < now)
        drop++;
    if (drop > 0) {
        set->below = set->runs[drop - 1].window + 1;
        while (drop < set->n_runs && set->runs[drop].window < set->below)
            drop++;
        set->runs += drop;
        set->n_runs -= drop;
    }
    if (set->n_runs <= FG_LATE_FILTER_RUNS_MAX)
        return;
    keep = FG_LATE_FILTER_RUNS_MAX;
    set->above = set->runs[keep].window;
    while (keep > 0 && set->runs[keep - 1].window >= set->above)
        keep--;
    set->n_runs = keep;
}

bool fg_late_filter_join(const struct fg_late_filter *a, const struct fg_late_filter *b,
                         uint32_t below, uint32_t now, struct fg_arena *arena,
                         struct fg_late_filter *ret_filter)
{
    struct fg_late_filter set = {
        .below = FG_MAX(below, FG_MAX(a->below, b->below)),
        .above = FG_MIN(a->above, b->above),
        .runs = fg_arena_new(arena, struct fg_late_filter_run, (size_t)a->n_runs + b->n_runs),
    };
    uint32_t i = 0, k = 0;

    if (set.runs == NULL)
        return false;
    while (i < a->n_runs || k < b->n_runs) {
        bool from_a = k == b->n_runs || (i < a->n_runs && compare(&a->runs[i], &b->runs[k]) <= 0);

        append_run(&set, from_a ? a->runs[i++] : b->runs[k++]);
    }
    fold(&set, now);
    *ret_filter = set;
    return true;
}
