/*
 * POINTS: totals over time, from the rows of IDX; samples are not touched. Each page is a task of
 * the query's task group: it gives totals by match. Which label set a match is in is found
 * afterwards, on the query's thread, and only of those that have a total.
 */
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/rollup_only.h"
#include "querier/blocks/rows.h"

/* What one label set got in one step. */
struct total {
    uint32_t set; /* of the totals of a page: the match */
    uint64_t step, sum, count;
};

/* Unsorted; sorted and summed when there is no more room, and at the end. */
struct totals_list {
    struct total *items;
    size_t count, cap, max;
};

struct totals {
    struct qry_reader reader;
    const char *const *group_by;
    size_t n_group_by;
    int64_t start_ns, step_ns; /* of the grid */
    uint64_t last_step;
    struct qry_label_sets sets; /* distinct values of group_by */
    uint32_t **match_sets;      /* [part of the batch][match]: 1 + its set; 0: not known yet */
    struct totals_list all;
};

/* ---- sets ---- */

/* Finds the set of a match that has a total. */
static enum fg_code find_set(struct totals *totals, const struct qry_part *part,
                             const struct fg_block_match *match, uint32_t *ret_set,
                             struct fg_err *err)
{
    const struct fg_block_series_row *series = &part->index->series[match->series];
    struct fg_profile_type type = fg_block_profile_type(series, match->type);
    /* An arena of its own: the labels are needed for this lookup only. */
    struct fg_arena *arena = fg_arena_create(totals->reader.blocks->memory_max_bytes);
    struct fg_labels labels = fg_labels_with_type(&series->labels, &type, arena);
    struct fg_labels group = fg_labels_group(&labels, totals->group_by, totals->n_group_by, arena);
    enum fg_code code = FG_OK;
    size_t at = 0;

    if (labels.items == NULL || group.items == NULL)
        code = qry_query_too_large(err);
    else
        code = qry_label_sets_take(&totals->sets, &group, totals->reader.query->arena, &at, err);
    fg_arena_destroy(arena);
    if (code == FG_OK)
        *ret_set = (uint32_t)at;
    return code;
}

static enum fg_code set_of(struct totals *totals, const struct qry_part *part, uint32_t match,
                           uint32_t *ret_set, struct fg_err *err)
{
    uint32_t *known = &totals->match_sets[part - totals->reader.batch][match];
    uint32_t set;

    if (*known == 0) {
        if (find_set(totals, part, &part->matches[match], &set, err) != FG_OK)
            return err->code;
        *known = 1 + set;
    }
    *ret_set = *known - 1;
    return FG_OK;
}

/* ---- totals ---- */

static int total_order(const void *left, const void *right)
{
    const struct total *a = left, *b = right;

    if (a->set != b->set)
        return a->set < b->set ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* Sorts, and sums totals of the same set and step. */
static void settle(struct totals_list *list)
{
    size_t kept = 0;

    if (list->count == 0)
        return;
    qsort(list->items, list->count, sizeof *list->items, total_order);
    for (size_t i = 1; i < list->count; i++) {
        struct total *last = &list->items[kept];

        if (total_order(last, &list->items[i]) == 0) {
            fg_value_sum(&last->sum, list->items[i].sum);
            last->count += list->items[i].count;
        } else {
            list->items[++kept] = list->items[i];
        }
    }
    fg_assert(kept < list->count);
    list->count = kept + 1;
}

static enum fg_code make_room(struct totals_list *list, struct fg_err *err)
{
    if (list->count < list->cap)
        return FG_OK;
    settle(list); /* often enough: many series fall on few points */
    /* Half must be free, or the list would be sorted for every few totals. */
    if (list->count <= list->cap / 2 && list->cap > 0)
        return FG_OK;
    if (list->cap * 2 > list->max)
        return fg_fail(err, FG_E_LIMIT, "query gives more than %zu points", list->max / 2);
    list->cap = FG_MAX(1024, list->cap * 2);
    list->items = fg_realloc(list->items, list->cap * sizeof *list->items);
    return FG_OK;
}

static enum fg_code add_total(struct totals_list *list, struct total total, struct fg_err *err)
{
    struct total *last = list->count == 0 ? NULL : &list->items[list->count - 1];

    /* Profiles of a series come in the order of time, so most totals belong to the last point. */
    if (last != NULL && total_order(last, &total) == 0) {
        fg_value_sum(&last->sum, total.sum);
        last->count += total.count;
        return FG_OK;
    }
    if (make_room(list, err) != FG_OK)
        return err->code;
    fg_assert(list->items != NULL);
    list->items[list->count++] = total;
    return FG_OK;
}

/* ---- pages ---- */

struct points_page_task {
    struct fg_task task;
    struct totals *totals;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
    struct totals_list found;
    uint64_t profiles;
};

static enum fg_code take_row(struct points_page_task *page, const struct qry_span *span,
                             const struct fg_block_rows *rows, uint32_t row, struct fg_err *err)
{
    const struct totals *totals = page->totals;
    struct total total = {.step = fg_time_grid(fg_time_ms_end(totals->start_ns), totals->step_ns,
                                               rows->times_ns[row]),
                          .count = 1};

    /* The index says which profiles belong to a series; a row of another series is damage. */
    if (rows->series[row] != span->series)
        return fg_fail(err, FG_E_CORRUPT, "profile %u: of series %u, not %u", rows->first + row,
                       rows->series[row], span->series);
    if (rows->times_ns[row] < span->times.start_ns || rows->times_ns[row] > span->times.end_ns)
        return FG_OK;
    /* Counted even if it is after the last point: the query has read it. */
    page->profiles++;
    if (total.step > totals->last_step)
        return FG_OK;
    for (uint32_t i = span->first_match; i < span->first_match + span->n_matches; i++) {
        total.sum = rows->totals[row][page->item->part->matches[i].type];
        total.set = i;
        /* A total of 0 means that the profile has no samples of this type. */
        if (total.sum != 0 && add_total(&page->found, total, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code take_rows(struct points_page_task *page, const struct fg_block_rows *rows,
                              struct fg_err *err)
{
    const struct qry_part *part = page->item->part;
    uint32_t end;

    for (uint32_t i = qry_rows_spans(part, rows->first, rows->count, &end); i < end; i++) {
        const struct qry_span *span = &part->spans[i];
        uint32_t from = FG_MAX(span->first, rows->first);
        uint32_t to = FG_MIN(span->first + span->count, rows->first + rows->count);

        for (uint32_t row = from; row < to; row++)
            if (take_row(page, span, rows, row - rows->first, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static enum fg_code run_page(struct fg_task *task, struct fg_err *err)
{
    struct points_page_task *page = fg_container(task, struct points_page_task, task);
    const struct qry_reader *reader = &page->totals->reader;
    fg_auto(fg_arena) *arena = fg_arena_create(reader->blocks->memory_max_bytes);
    struct fg_block_rows rows;

    if (qry_query_check(reader->query, err) != FG_OK)
        return err->code;
    if (fg_block_totals_parse(page->item->part->index, page->item->number, qry_page_of(page->entry),
                              arena, &rows, err) != FG_OK ||
        take_rows(page, &rows, err) != FG_OK)
        return qry_fetch_fail(page->item, err);
    return FG_OK;
}

/* Runs on the thread of the query: sets and totals have no lock. */
static enum fg_code take_found(const struct points_page_task *page, struct fg_err *err)
{
    struct totals *totals = page->totals;

    totals->reader.query->profiles += page->profiles;
    for (size_t i = 0; i < page->found.count; i++) {
        struct total total = page->found.items[i];

        if (set_of(totals, page->item->part, total.set, &total.set, err) != FG_OK ||
            add_total(&totals->all, total, err) != FG_OK)
            return qry_fetch_fail(page->item, err);
    }
    return FG_OK;
}

static enum fg_code end_page(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct points_page_task *page = fg_container(task, struct points_page_task, task);
    enum fg_code code = ran ? take_found(page, err) : FG_OK;

    fg_cache_unref(page->entry);
    free(page->found.items);
    free(page);
    return code;
}

static enum fg_code visit(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct totals *totals = arg;
    struct points_page_task *page = fg_new(struct points_page_task);

    (void)err;
    *page = (struct points_page_task){
        .task = {.run = run_page, .end = end_page, .is_small = qry_rows_are_few(item)},
        .totals = totals,
        .item = item,
        .entry = fg_cache_ref(item->entry),
        .found = {.max = totals->all.max}};
    fg_task_group_put(totals->reader.query->snapshot->task_group, &page->task);
    return FG_OK;
}

static enum fg_code read_batch(struct totals *totals, struct fg_err *err)
{
    struct qry_reader *reader = &totals->reader;
    struct qry_fetch_list list = {0};

    totals->match_sets = fg_arena_new(reader->arena, uint32_t *, reader->n_batch);
    if (totals->match_sets == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];
        const bool *marks = qry_rows_marks(reader, part, FG_BLOCK_IDX, false);

        totals->match_sets[i] = fg_arena_new(reader->arena, uint32_t, part->n_matches);
        if (marks == NULL || totals->match_sets[i] == NULL)
            return qry_query_too_large(err);
        if (qry_fetch_add_pages(&list, reader->arena, part, FG_BLOCK_IDX, marks, 0, err) != FG_OK)
            return err->code;
    }
    return qry_fetch_all(reader->query, &list, visit, totals, err);
}

/* ---- the answer ---- */

static enum fg_code give(struct totals *totals, struct qry_points_list *into, struct fg_err *err)
{
    struct fg_arena *arena = totals->reader.query->arena;
    size_t end;

    settle(&totals->all);
    for (size_t at = 0; at < totals->all.count; at = end) {
        const struct total *items = totals->all.items;
        struct qry_points points = {.labels = totals->sets.items[items[at].set]};

        for (end = at; end < totals->all.count && items[end].set == items[at].set;)
            end++;
        points.items = fg_arena_new(arena, struct qry_point, end - at);
        if (points.items == NULL)
            return qry_query_too_large(err);
        for (size_t i = at; i < end; i++)
            points.items[points.n++] = (struct qry_point){
                .k = (int64_t)items[i].step, .sum = (int64_t)items[i].sum, .count = items[i].count};
        if (qry_points_list_add(into, &points, arena, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- rollups whose profiles are gone ---- */

static enum fg_code take_rollup_only(void *arg, const struct fg_labels *labels, uint64_t step,
                                     uint64_t sum, uint64_t count, struct fg_err *err)
{
    struct totals *totals = arg;
    fg_auto(fg_arena) *arena = fg_arena_create(totals->reader.blocks->memory_max_bytes);
    struct fg_labels group = fg_labels_group(labels, totals->group_by, totals->n_group_by, arena);
    struct total total = {.step = step, .sum = sum, .count = count};
    size_t at;

    if (group.items == NULL)
        return qry_query_too_large(err);
    if (qry_label_sets_take(&totals->sets, &group, totals->reader.query->arena, &at, err) != FG_OK)
        return err->code;
    total.set = (uint32_t)at;
    return add_total(&totals->all, total, err);
}

static enum fg_code read_rollup_only(struct totals *totals, struct fg_err *err)
{
    const struct qry_rollup_only_grid grid = {.start_ns = totals->start_ns,
                                              .step_ns = totals->step_ns,
                                              .last_step = totals->last_step,
                                              .group_by = totals->group_by,
                                              .n_group_by = totals->n_group_by,
                                              .each = take_rollup_only,
                                              .arg = totals};

    return qry_rollup_only_points(totals->reader.query, totals->reader.selection, &grid, err);
}

enum fg_code qry_blocks_points(struct qry_query *query, const struct qry_selection *selection,
                               int64_t step_ns, const char *const *group_by, size_t n_group_by,
                               struct qry_points_list *into, struct fg_err *err)
{
    struct totals totals = {.group_by = group_by, .n_group_by = n_group_by};
    enum fg_code code;

    if (query->snapshot == NULL)
        return FG_OK;
    if (step_ns <= 0 || selection->end_ns < selection->start_ns)
        return fg_fail(err, FG_E_INVALID, "points without a step or range");
    totals.start_ns = selection->start_ns;
    totals.step_ns = step_ns;
    /* Unsigned: the difference of two times may need 64 bits. */
    totals.last_step =
        ((uint64_t)selection->end_ns - (uint64_t)selection->start_ns) / (uint64_t)step_ns;
    /* The step is the client's: a year in milliseconds gives more points than memory. */
    totals.all.max = query->querier->blocks->memory_max_bytes / sizeof *totals.all.items;
    qry_label_sets_init(&totals.sets);
    code = qry_reader_open(&totals.reader, query, selection, selection->type_text,
                           qry_points_from_ns(selection, step_ns), selection->end_ns,
                           OBJECTS_PROFILES, false, err);
    do {
        if (code == FG_OK)
            code = qry_reader_next(&totals.reader, err);
        if (code == FG_OK)
            code = read_batch(&totals, err);
    } while (code == FG_OK && totals.reader.n_batch > 0);
    if (code == FG_OK)
        code = read_rollup_only(&totals, err);
    if (code == FG_OK)
        code = give(&totals, into, err);
    qry_reader_close(&totals.reader);
    qry_label_sets_done(&totals.sets);
    free(totals.all.items);
    return code;
}
