/*
 * The cheapest way to read one source. Rollups are rectangles: a span of time by a set of series.
 * Spans contain each other or are apart, and so are all series, groups and single series. Any set
 * of such rectangles that makes up a larger one can be cut by time or by key, so at every step it
 * is enough to try both, the rollup itself, and raw data. Each (span, key) is computed once.
 */
#include "common/storage/rollup/plan_impl.h"

/* ---- what raw data costs ---- */

static double length(int64_t lo, int64_t hi)
{
    return (double)hi - (double)lo + 1;
}

/* Estimates the number of profiles: from the row of the smallest span around that has one, or
 * else by time and the number of groups or series. */
static double profiles_of(const struct fg_plan_work *work, uint32_t span, uint32_t key)
{
    double scale = 1;
    uint32_t row;

    for (; span != FG_MAP_NONE; span = work->spans[span].parent) {
        const struct fg_rollup_row *found = fg_plan_find_row(work, span, key, &row);
        uint32_t parent = work->spans[span].parent;

        if (found != NULL)
            return scale * (double)found->count;
        if (parent != FG_MAP_NONE)
            scale *= length(work->spans[span].lo, work->spans[span].hi) /
                     length(work->spans[parent].lo, work->spans[parent].hi);
    }
    scale *= (double)work->source->n_profiles;
    if (key > 0)
        scale /= key <= work->n_groups ? work->n_groups : work->n_keys - 1 - work->n_groups;
    return scale;
}

/* Estimates the raw bytes of [lo, hi] in a span. Rows may say anything: a number that no uint64_t
 * holds must not be converted to one. */
static uint64_t raw_bytes(const struct fg_plan_work *work, uint32_t span, uint32_t key, int64_t lo,
                          int64_t hi)
{
    static const double most = 0x1p62;
    const struct fg_plan_source *source = work->source;
    double part = length(lo, hi) / length(work->spans[span].lo, work->spans[span].hi);
    double bytes = part * profiles_of(work, span, key) * (double)work->shares[key] *
                   (double)source->raw_bytes / (double)FG_MAX(source->n_profiles, 1);

    if (!work->raw || work->no_tree)
        return FG_PLAN_NEVER;
    return bytes < most ? (uint64_t)bytes : (uint64_t)most;
}

/* ---- the best way ---- */

/* Cuts [*lo, *hi] to what the query asks for. Returns false if nothing is left. */
static bool within(const struct fg_plan_query *query, int64_t *lo, int64_t *hi)
{
    *lo = FG_MAX(*lo, query->start_ns);
    *hi = FG_MIN(*hi, query->end_ns);
    return *lo <= *hi;
}

static bool is_inside(const struct fg_plan_work *work, uint32_t span)
{
    return work->spans[span].lo >= work->query->start_ns &&
           work->spans[span].hi <= work->query->end_ns;
}

static void take_better(struct fg_plan_best *best, const struct fg_plan_best *other)
{
    if (other->bytes < best->bytes)
        *best = *other;
}

static void add_best(struct fg_plan_best *sum, const struct fg_plan_best *part)
{
    sum->bytes = fg_plan_add(sum->bytes, part->bytes);
    sum->tree = sum->tree || part->tree;
    sum->names = sum->names || part->names;
}

static void add_form(struct fg_plan_best *sum, const struct fg_rollup_row *row,
                     enum fg_rollup_form form)
{
    sum->bytes = fg_plan_add(sum->bytes, row->places[form].bytes);
    sum->tree = sum->tree || form == FG_ROLLUP_FULL;
    sum->names = sum->names || form != FG_ROLLUP_FULL;
}

static struct fg_plan_best solve(struct fg_plan_work *work, uint32_t span, uint32_t key);

static void try_row(struct fg_plan_work *work, struct fg_plan_best *best)
{
    struct fg_plan_best own = {best->span, best->key, FG_PLAN_ROW, 0, false, false};
    enum fg_rollup_form form;
    const struct fg_rollup_row *found;
    uint32_t row;

    if (work->states[best->key] != FG_GROUPS_EVERY || !is_inside(work, best->span))
        return;
    found = fg_plan_find_row(work, best->span, best->key, &row);
    if (found == NULL || !fg_plan_serves(work, row, false, &form) ||
        (form == FG_ROLLUP_FULL && work->no_tree))
        return;
    add_form(&own, found, form);
    take_better(best, &own);
}

/* The next stretch of a span, from *at on: a span below it, or what lies between two of them, which
 * is child FG_MAP_NONE. false: there are no more. */
struct stretch {
    uint32_t child;
    int64_t lo, hi;
};

static bool next_stretch(const struct fg_plan_work *work, uint32_t span, uint32_t *child,
                         int64_t *at, bool *over, struct stretch *ret_stretch)
{
    const struct fg_plan_span *whole = &work->spans[span];
    int64_t next = *child < whole->end ? work->spans[*child].lo : whole->hi;

    if (*over)
        return false;
    if (*child < whole->end && next == *at) {
        const struct fg_plan_span *below = &work->spans[*child];

        *ret_stretch = (struct stretch){*child, below->lo, below->hi};
        *child = below->end;
    } else {
        /* Up to the next child's first moment, or to the end. */
        *ret_stretch =
            (struct stretch){FG_MAP_NONE, *at, *child < whole->end ? next - 1 : whole->hi};
    }
    *over = ret_stretch->hi == whole->hi;
    if (!*over)
        *at = ret_stretch->hi + 1;
    return true;
}

static void try_time(struct fg_plan_work *work, struct fg_plan_best *best)
{
    struct fg_plan_best sum = {best->span, best->key, FG_PLAN_BY_TIME, 0, false, false};
    uint32_t child = best->span + 1;
    int64_t at = work->spans[best->span].lo;
    struct stretch stretch;
    bool over = false;

    if (!fg_plan_has_finer(work, best->span, best->key))
        return;
    while (next_stretch(work, best->span, &child, &at, &over, &stretch)) {
        struct fg_plan_best part = {.tree = true};

        if (stretch.child != FG_MAP_NONE)
            part = solve(work, stretch.child, best->key);
        else if (within(work->query, &stretch.lo, &stretch.hi))
            part.bytes = raw_bytes(work, best->span, best->key, stretch.lo, stretch.hi);
        else
            continue;
        add_best(&sum, &part);
    }
    take_better(best, &sum);
}

/* Returns the keys that make up another one: [*ret_first, *ret_end). */
static void keys_below(const struct fg_plan_work *work, uint32_t key, uint32_t *ret_first,
                       uint32_t *ret_end)
{
    *ret_first = *ret_end = 0;
    if (key == 0) {
        *ret_first = 1;
        *ret_end = 1 + work->n_groups;
    } else if (key <= work->n_groups && work->by_series) {
        *ret_first = 1 + work->n_groups + work->group_firsts[key - 1];
        *ret_end = 1 + work->n_groups + work->group_firsts[key];
    }
}

static void try_keys(struct fg_plan_work *work, struct fg_plan_best *best)
{
    struct fg_plan_best sum = {best->span, best->key, FG_PLAN_BY_KEY, 0, false, false};
    uint32_t first, end;

    keys_below(work, best->key, &first, &end);
    if (first == end || (best->key > 0 && !fg_plan_has_series_rows_over(
                                              work, best->span, work->spans[best->span].end)))
        return;
    for (uint32_t key = first; key < end && sum.bytes < best->bytes; key++) {
        struct fg_plan_best part = solve(work, best->span, key);

        add_best(&sum, &part);
    }
    take_better(best, &sum);
}

/* Tries all series less the groups that do not match. Only for forms that are linear: a crown
 * has cut nodes, and cannot be subtracted. */
static void try_minus(struct fg_plan_work *work, struct fg_plan_best *best)
{
    struct fg_plan_best sum = {best->span, best->key, FG_PLAN_MINUS, 0, false, false};

    if (best->key != 0 || work->states[0] != FG_GROUPS_OPEN || !is_inside(work, best->span))
        return;
    for (uint32_t key = 0; key <= work->n_groups; key++) {
        const struct fg_rollup_row *found;
        enum fg_rollup_form form;
        uint32_t row;

        if (key > 0 && work->states[key] == FG_GROUPS_EVERY)
            continue;
        if (key > 0 && work->states[key] == FG_GROUPS_OPEN)
            return;
        found = fg_plan_find_row(work, best->span, key, &row);
        if (found == NULL || (found->count > 0 && !fg_plan_serves(work, row, true, &form)))
            return;
        if (found->count > 0 && form == FG_ROLLUP_FULL && work->no_tree)
            return;
        if (found->count > 0)
            add_form(&sum, found, form);
    }
    take_better(best, &sum);
}

static struct fg_plan_best work_out(struct fg_plan_work *work, uint32_t span, uint32_t key)
{
    struct fg_plan_best best = {span, key, FG_PLAN_RAW, 0, true, false};
    int64_t lo = work->spans[span].lo, hi = work->spans[span].hi;
    const struct fg_rollup_row *found;
    uint32_t row;

    found = fg_plan_find_row(work, span, key, &row);
    if (work->states[key] == FG_GROUPS_NONE || !within(work->query, &lo, &hi) ||
        (found != NULL && found->count == 0))
        return (struct fg_plan_best){span, key, FG_PLAN_NOTHING, 0, false, false};
    best.bytes = raw_bytes(work, span, key, lo, hi);
    try_row(work, &best);
    try_minus(work, &best);
    try_time(work, &best);
    try_keys(work, &best);
    return best;
}

static uint64_t best_hash(uint32_t span, uint32_t key)
{
    return fg_mix64((uint64_t)span << 32 | key); /* a bijection: nothing to compare */
}

static const struct fg_plan_best *recall(const struct fg_plan_work *work, uint32_t span,
                                         uint32_t key)
{
    struct fg_map_walk walk;
    uint32_t at = fg_map_first(&work->map, best_hash(span, key), &walk);

    return at == FG_MAP_NONE ? NULL : &work->bests[at];
}

static struct fg_plan_best solve(struct fg_plan_work *work, uint32_t span, uint32_t key)
{
    const struct fg_plan_best *known = recall(work, span, key);
    struct fg_plan_best best = {span, key, FG_PLAN_NOTHING, FG_PLAN_NEVER, false, false};

    if (known != NULL)
        return *known;
    if (work->no_room)
        return best;
    best = work_out(work, span, key);
    if (!fg_arena_grow(work->arena, &work->bests, work->n_bests, 1, &work->cap_bests,
                       sizeof *work->bests) ||
        !fg_map_add_in(&work->map, work->arena, best_hash(span, key), work->n_bests)) {
        work->no_room = true;
        return best;
    }
    work->bests[work->n_bests++] = best;
    return best;
}

/* Computes the best plan of the source again, including the trees and names that it needs. */
static uint64_t solve_all(struct fg_plan_work *work, bool no_tree)
{
    const struct fg_rollups *rollups = work->source->rollups;
    struct fg_plan_best best;

    work->no_tree = no_tree;
    work->bests = NULL;
    work->n_bests = work->cap_bests = 0;
    work->map = (struct fg_map){0};
    best = solve(work, 0, 0);
    if (best.tree)
        best.bytes = fg_plan_add(best.bytes, work->source->tree_bytes);
    if (best.names && rollups != NULL)
        best.bytes = fg_plan_add(best.bytes, rollups->names.bytes + (uint64_t)rollups->dict.bytes);
    work->tree = best.tree;
    return best.bytes;
}

/* A few profiles may be smaller than their rollup, but reading them takes the stacks of the
 * source, which nothing else may need. So the best plan is computed once more without stacks. */
enum fg_code fg_plan_source_make(struct fg_plan_work *work, struct fg_err *err)
{
    if (work->source->n_profiles == 0)
        return FG_OK;
    if (fg_plan_rows(work, err) != FG_OK)
        return err->code;
    work->bytes = solve_all(work, false);
    if (work->tree && work->query->form != FG_ROLLUP_FULL) {
        struct fg_plan_work without = *work;

        without.bytes = solve_all(&without, true);
        work->no_room = without.no_room;
        if (without.bytes < work->bytes)
            *work = without;
    }
    return work->no_room ? fg_fail(err, FG_E_LIMIT, "plan needs too much memory") : FG_OK;
}

/* ---- the plan ---- */

static void put_pick(const struct fg_plan_work *work, struct fg_plan_out *out, uint32_t span,
                     uint32_t key, int sign, bool linear)
{
    struct fg_plan *plan = &out->plan;
    enum fg_rollup_form form;
    uint32_t row;

    if (fg_plan_find_row(work, span, key, &row)->count == 0 ||
        !fg_plan_serves(work, row, linear, &form))
        return;
    if (!fg_arena_grow(out->arena, &plan->picks, plan->n_picks, 1, &out->cap_picks,
                       sizeof *plan->picks)) {
        out->no_room = true;
        return;
    }
    plan->picks[plan->n_picks++] = (struct fg_plan_pick){work->number, row, form, sign};
}

static struct fg_plan_raw raw_of(const struct fg_plan_work *work, uint32_t key)
{
    struct fg_plan_raw raw = {.source = work->number, .kind = FG_ROLLUP_ALL};

    if (key > work->n_groups) {
        raw.kind = FG_ROLLUP_SERIES;
        raw.number = work->source->series[work->of_group[key - 1 - work->n_groups]].number;
    } else if (key > 0) {
        raw.kind = FG_ROLLUP_GROUP;
        raw.number = key - 1;
    }
    return raw;
}

/* Appends raw data. A stretch that continues the one before is joined with it. */
static void put_raw(const struct fg_plan_work *work, struct fg_plan_out *out, uint32_t key,
                    int64_t lo, int64_t hi)
{
    struct fg_plan *plan = &out->plan;
    struct fg_plan_raw raw = raw_of(work, key);
    struct fg_plan_raw *last = plan->n_raws == 0 ? NULL : &plan->raws[plan->n_raws - 1];

    raw.start_ns = lo;
    raw.end_ns = hi;
    if (last != NULL && last->source == raw.source && last->kind == raw.kind &&
        last->number == raw.number && last->end_ns < lo && last->end_ns + 1 == lo) {
        last->end_ns = hi;
        return;
    }
    if (!fg_arena_grow(out->arena, &plan->raws, plan->n_raws, 1, &out->cap_raws,
                       sizeof *plan->raws)) {
        out->no_room = true;
        return;
    }
    fg_assert(plan->raws != NULL);
    plan->raws[plan->n_raws++] = raw;
}

static void emit(const struct fg_plan_work *work, struct fg_plan_out *out, uint32_t span,
                 uint32_t key);

static void emit_time(const struct fg_plan_work *work, struct fg_plan_out *out, uint32_t span,
                      uint32_t key)
{
    uint32_t child = span + 1;
    int64_t at = work->spans[span].lo;
    struct stretch stretch;
    bool over = false;

    while (next_stretch(work, span, &child, &at, &over, &stretch)) {
        if (stretch.child != FG_MAP_NONE)
            emit(work, out, stretch.child, key);
        else if (within(work->query, &stretch.lo, &stretch.hi))
            put_raw(work, out, key, stretch.lo, stretch.hi);
    }
}

static void emit_minus(const struct fg_plan_work *work, struct fg_plan_out *out, uint32_t span)
{
    put_pick(work, out, span, 0, 1, true);
    for (uint32_t key = 1; key <= work->n_groups; key++)
        if (work->states[key] == FG_GROUPS_NONE)
            put_pick(work, out, span, key, -1, true);
}

static void emit_keys(const struct fg_plan_work *work, struct fg_plan_out *out, uint32_t span,
                      uint32_t key)
{
    uint32_t first, end;

    keys_below(work, key, &first, &end);
    for (; first < end; first++)
        emit(work, out, span, first);
}

static void emit(const struct fg_plan_work *work, struct fg_plan_out *out, uint32_t span,
                 uint32_t key)
{
    const struct fg_plan_best *best = recall(work, span, key);
    int64_t lo = work->spans[span].lo, hi = work->spans[span].hi;

    fg_assert(best != NULL);
    switch (best->choice) {
    case FG_PLAN_NOTHING:
        break;
    case FG_PLAN_ROW:
        put_pick(work, out, span, key, 1, false);
        break;
    case FG_PLAN_RAW:
        if (within(work->query, &lo, &hi))
            put_raw(work, out, key, lo, hi);
        break;
    case FG_PLAN_BY_TIME:
        emit_time(work, out, span, key);
        break;
    case FG_PLAN_BY_KEY:
        emit_keys(work, out, span, key);
        break;
    case FG_PLAN_MINUS:
        emit_minus(work, out, span);
        break;
    }
}

void fg_plan_source_emit(const struct fg_plan_work *work, struct fg_plan_out *out)
{
    if (work->n_bests > 0)
        emit(work, out, 0, 0);
}
