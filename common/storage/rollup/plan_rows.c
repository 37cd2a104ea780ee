/* Finds what a source has for a query: spans of time, keys, and the rows that can be used. */
#include "common/base/search.h"
#include "common/storage/rollup/plan_impl.h"

enum { DEPTH_MAX = 16 }; /* of spans in each other; deeper ones are not used */

static void *array(struct fg_plan_work *work, size_t count, size_t size)
{
    void *items = fg_arena_calloc(work->arena, count, size);

    work->no_room = work->no_room || items == NULL;
    return items;
}

/* ---- spans ---- */

static int compare_spans(const void *left, const void *right)
{
    const struct fg_plan_span *a = left, *b = right;

    if (a->lo != b->lo)
        return a->lo < b->lo ? -1 : 1;
    return (a->hi < b->hi) - (a->hi > b->hi); /* longer ones first */
}

/* Clips the span to times at which the source has profiles. So a rollup of a whole day lies
 * within a query that begins shortly before its first profile. Returns false if nothing is left. */
static bool clip(const struct fg_plan_source *source, const struct fg_rollup_key *key,
                 struct fg_plan_span *ret_span)
{
    ret_span->lo = FG_MAX(key->start_ns, source->t_min_ns);
    ret_span->hi = FG_MIN(key->end_ns - 1, source->t_max_ns);
    return ret_span->lo <= ret_span->hi;
}

/* Nests the spans: keeps each once, and of two that cross only the first. */
static uint32_t nest_spans(struct fg_plan_span *spans, uint32_t count)
{
    uint32_t path[DEPTH_MAX], depth = 0, kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct fg_plan_span span = spans[i];

        if (kept > 0 && compare_spans(&spans[kept - 1], &span) == 0)
            continue;
        while (depth > 0 && spans[path[depth - 1]].hi < span.lo)
            spans[path[--depth]].end = kept;
        if (depth == DEPTH_MAX || (depth > 0 && spans[path[depth - 1]].hi < span.hi))
            continue;
        span.parent = depth == 0 ? FG_MAP_NONE : path[depth - 1];
        path[depth++] = kept;
        spans[kept++] = span;
    }
    while (depth > 0)
        spans[path[--depth]].end = kept;
    return kept;
}

/* Finds the rows of the query's type. Rows are sorted by type. */
static void type_rows(const struct fg_plan_work *work, uint32_t *ret_first, uint32_t *ret_end)
{
    const struct fg_rollups *rollups = work->source->rollups;
    uint32_t type = 0, first = 0, end;

    *ret_first = *ret_end = 0;
    if (rollups == NULL)
        return;
    while (type < rollups->n_types &&
           !fg_profile_type_eq(&rollups->types[type], &work->query->type))
        type++;
    while (first < rollups->n_rows && rollups->rows[first].type != type)
        first++;
    for (end = first; end < rollups->n_rows && rollups->rows[end].type == type;)
        end++;
    *ret_first = first;
    *ret_end = end;
}

static void make_spans(struct fg_plan_work *work, uint32_t first, uint32_t end)
{
    const struct fg_plan_source *source = work->source;

    work->spans = array(work, (size_t)(end - first) + 1, sizeof *work->spans);
    if (work->spans == NULL)
        return;
    work->spans[work->n_spans++] = (struct fg_plan_span){source->t_min_ns, source->t_max_ns, 0, 0};
    for (uint32_t i = first; i < end; i++)
        work->n_spans += clip(source, &source->rollups->rows[i].key, &work->spans[work->n_spans]);
    qsort(work->spans, work->n_spans, sizeof *work->spans, compare_spans);
    work->n_spans = nest_spans(work->spans, work->n_spans);
}

/* ---- keys ---- */

static uint32_t group_of(const struct fg_plan_work *work, uint32_t series)
{
    return work->source->rollups->groups.of_series[series];
}

/* Sorts the series by group, if it is known which series there are. */
static void order_series(struct fg_plan_work *work)
{
    const struct fg_plan_source *source = work->source;
    uint32_t *firsts = array(work, (size_t)work->n_groups + 2, sizeof *firsts);

    work->of_group = array(work, source->n_series, sizeof *work->of_group);
    if (work->no_room)
        return;
    /* One slot too far right: filling a slot moves its first to its end, the next one's first. */
    for (uint32_t i = 0; i < source->n_series; i++)
        firsts[group_of(work, source->series[i].number) + 2]++;
    for (uint32_t g = 2; g < work->n_groups + 2; g++)
        firsts[g] += firsts[g - 1];
    for (uint32_t i = 0; i < source->n_series; i++)
        work->of_group[firsts[group_of(work, source->series[i].number) + 1]++] = i;
    work->group_firsts = firsts;
}

static uint32_t count_matching(const struct fg_plan_work *work, uint32_t first, uint32_t end)
{
    uint32_t count = 0;

    for (uint32_t i = first; i < end; i++)
        count += work->source->series[work->of_group == NULL ? i : work->of_group[i]].matches;
    return count;
}

static void set_key(struct fg_plan_work *work, uint32_t key, uint32_t matching, uint32_t count)
{
    work->states[key] = matching == 0       ? FG_GROUPS_NONE
                        : matching == count ? FG_GROUPS_EVERY
                                            : FG_GROUPS_OPEN;
    work->shares[key] = count == 0 ? 0 : (float)matching / (float)count;
}

/* Sets states from the series that are known, which is more exact than from groups. */
static void states_by_series(struct fg_plan_work *work)
{
    const struct fg_plan_source *source = work->source;

    set_key(work, 0, count_matching(work, 0, source->n_series), source->n_series);
    for (uint32_t g = 0; g < work->n_groups; g++)
        set_key(work, 1 + g, count_matching(work, work->group_firsts[g], work->group_firsts[g + 1]),
                work->group_firsts[g + 1] - work->group_firsts[g]);
    if (work->n_keys > 1 + work->n_groups)
        for (uint32_t i = 0; i < source->n_series; i++)
            set_key(work, 1 + work->n_groups + i, source->series[work->of_group[i]].matches, 1);
}

static enum fg_code states_by_groups(struct fg_plan_work *work, struct fg_err *err)
{
    const struct fg_plan_query *query = work->query;
    uint32_t every = 0, none = 0;

    if (work->n_groups > 0 &&
        fg_groups_match(&work->source->rollups->groups, &query->type, query->selector, work->arena,
                        work->states + 1, err) != FG_OK)
        return err->code;
    for (uint32_t g = 0; g < work->n_groups; g++) {
        work->shares[1 + g] = work->states[1 + g] == FG_GROUPS_NONE ? 0 : 1;
        every += work->states[1 + g] == FG_GROUPS_EVERY;
        none += work->states[1 + g] == FG_GROUPS_NONE;
    }
    work->states[0] = FG_GROUPS_OPEN;
    work->shares[0] = 1;
    if (work->n_groups > 0)
        work->shares[0] = (float)(work->n_groups - none) / (float)work->n_groups;
    if (query->selector->n_matchers == 0 || (work->n_groups > 0 && every == work->n_groups))
        work->states[0] = FG_GROUPS_EVERY;
    else if (work->n_groups > 0 && none == work->n_groups)
        work->states[0] = FG_GROUPS_NONE;
    return FG_OK;
}

static bool has_series_rows(const struct fg_plan_work *work, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (work->source->rollups->rows[i].key.kind == FG_ROLLUP_SERIES)
            return true;
    return false;
}

/* If the list has series that the rollups do not have, it is ignored. */
static bool series_fit(const struct fg_plan_source *source)
{
    for (uint32_t i = 0; i < source->n_series; i++)
        if (source->series[i].number >= source->rollups->groups.n_series ||
            (i > 0 && source->series[i].number <= source->series[i - 1].number))
            return false;
    return true;
}

static enum fg_code make_keys(struct fg_plan_work *work, uint32_t first, uint32_t end,
                              struct fg_err *err)
{
    const struct fg_plan_source *source = work->source;
    bool known = source->series != NULL && (source->rollups == NULL || series_fit(source));

    work->n_groups = source->rollups == NULL ? 0 : source->rollups->groups.n_groups;
    work->n_keys = 1 + work->n_groups;
    work->by_series = known && has_series_rows(work, first, end);
    if (work->by_series)
        work->n_keys += source->n_series;
    work->states = array(work, work->n_keys, sizeof *work->states);
    work->shares = array(work, work->n_keys, sizeof *work->shares);
    if (known && work->n_groups > 0)
        order_series(work);
    if (work->no_room)
        return fg_fail(err, FG_E_LIMIT, "plan needs too much memory");
    if (!known)
        return states_by_groups(work, err);
    states_by_series(work);
    return FG_OK;
}

/* Returns the number of a key; FG_MAP_NONE: a key that this query does not use. */
static uint32_t key_number(const struct fg_plan_work *work, const struct fg_rollup_key *key,
                           const uint32_t *series_keys)
{
    if (key->kind == FG_ROLLUP_ALL)
        return 0;
    if (key->kind == FG_ROLLUP_GROUP)
        return 1 + key->number;
    return work->by_series ? series_keys[key->number] : FG_MAP_NONE;
}

static uint32_t *make_series_keys(struct fg_plan_work *work)
{
    const struct fg_plan_source *source = work->source;
    uint32_t *keys = array(work, source->rollups->groups.n_series, sizeof *keys);

    for (uint32_t i = 0; keys != NULL && i < source->rollups->groups.n_series; i++)
        keys[i] = FG_MAP_NONE;
    for (uint32_t i = 0; keys != NULL && i < source->n_series; i++)
        keys[source->series[work->of_group[i]].number] = 1 + work->n_groups + i;
    return keys;
}

/* ---- rows that serve ---- */

bool fg_plan_serves(const struct fg_plan_work *work, uint32_t row, bool linear,
                    enum fg_rollup_form *ret_form)
{
    const struct fg_rollup_place *places = work->source->rollups->rows[row].places;
    enum fg_rollup_form form = work->query->form;

    if (work->source->rollup_only && work->query->crowns_too && form == FG_ROLLUP_FULL)
        form = FG_ROLLUP_CROWN;
    if (places[form].bytes == 0 || (linear && form == FG_ROLLUP_CROWN))
        form = FG_ROLLUP_FULL;
    *ret_form = form;
    return places[form].bytes > 0;
}

static int compare_entries(const void *left, const void *right)
{
    const struct fg_plan_entry *a = left, *b = right;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->span != b->span)
        return a->span < b->span ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static void make_entries(struct fg_plan_work *work, uint32_t first, uint32_t end)
{
    const uint32_t *series_keys = work->by_series ? make_series_keys(work) : NULL;

    work->entries = array(work, end - first, sizeof *work->entries);
    for (uint32_t i = first; i < end && !work->no_room; i++) {
        const struct fg_rollup_row *row = &work->source->rollups->rows[i];
        struct fg_plan_entry entry = {.row = i};
        struct fg_plan_span span;
        enum fg_rollup_form form;

        if (!clip(work->source, &row->key, &span) ||
            (row->count > 0 && !fg_plan_serves(work, i, false, &form)))
            continue;
        entry.key = key_number(work, &row->key, series_keys);

        /* A span that crossed another one is not among them. */
        uint32_t at =
            fg_lower_bound(s, 0, work->n_spans, compare_spans(&work->spans[s], &span) < 0);

        entry.span =
            at < work->n_spans && compare_spans(&work->spans[at], &span) == 0 ? at : FG_MAP_NONE;
        if (entry.key != FG_MAP_NONE && entry.span != FG_MAP_NONE)
            work->entries[work->n_entries++] = entry;
    }
    if (work->no_room)
        return;
    qsort(work->entries, work->n_entries, sizeof *work->entries, compare_entries);
    /* Avoids a descent to single series, of which there may be many, if they have no rollups. */
    work->series_rows = array(work, (size_t)work->n_spans + 1, sizeof *work->series_rows);
    if (work->no_room)
        return;
    for (uint32_t i = 0; i < work->n_entries; i++)
        work->series_rows[work->entries[i].span + 1] += work->entries[i].key > work->n_groups;
    for (uint32_t i = 0; i < work->n_spans; i++)
        work->series_rows[i + 1] += work->series_rows[i];
}

/* Finds the first entry of a key over this span or one after it; n_entries: there is none. */
static uint32_t find_entry(const struct fg_plan_work *work, uint32_t span, uint32_t key)
{
    const struct fg_plan_entry *entries = work->entries;

    return fg_lower_bound(i, 0, work->n_entries,
                          entries[i].key < key ||
                              (entries[i].key == key && entries[i].span < span));
}

const struct fg_rollup_row *fg_plan_find_row(const struct fg_plan_work *work, uint32_t span,
                                             uint32_t key, uint32_t *ret_row)
{
    uint32_t at = find_entry(work, span, key);

    if (at == work->n_entries || work->entries[at].key != key || work->entries[at].span != span)
        return NULL;
    *ret_row = work->entries[at].row;
    return &work->source->rollups->rows[*ret_row];
}

bool fg_plan_has_series_rows_over(const struct fg_plan_work *work, uint32_t first, uint32_t end)
{
    return work->series_rows[end] > work->series_rows[first];
}

bool fg_plan_has_finer(const struct fg_plan_work *work, uint32_t span, uint32_t key)
{
    uint32_t end = work->spans[span].end, at;

    if (key == 0)
        return end > span + 1;
    if (key <= work->n_groups && fg_plan_has_series_rows_over(work, span + 1, end))
        return true;
    at = find_entry(work, span + 1, key);
    return at < work->n_entries && work->entries[at].key == key && work->entries[at].span < end;
}

enum fg_code fg_plan_rows(struct fg_plan_work *work, struct fg_err *err)
{
    uint32_t first, end;

    type_rows(work, &first, &end);
    make_spans(work, first, end);
    if (!work->no_room && make_keys(work, first, end, err) != FG_OK)
        return err->code;
    if (!work->no_room)
        make_entries(work, first, end);
    return work->no_room ? fg_fail(err, FG_E_LIMIT, "plan needs too much memory") : FG_OK;
}
