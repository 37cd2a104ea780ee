/*
 * Totals by the values of a label. The rows of IDX are summed by series into an array, and these
 * sums then by the postings of the label, which ascend as the values do. So nothing is looked up,
 * hashed or sorted for a series, and no span or match is made of it.
 */
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/rollup_only.h"
#include "querier/blocks/rows.h"

/* The sums of a part of the batch. */
struct part_totals {
    bool *wanted;    /* [n_series] */
    uint64_t *types; /* [class of the roster]: the types that match; of wanted series not 0 */
    const struct qry_roster *roster;
    bool whole;           /* all profiles are in the range and not deleted: times do not matter */
    struct fg_left *left; /* [n_series]: what deletions leave; NULL: none touches the part */
    uint64_t *sums;       /* [n_series] */
};

struct value_reading {
    struct qry_reader reader;
    const char *label;
    struct qry_value_totals *into;
    struct part_totals *parts; /* [n_batch] */
};

/* ---- which series ---- */

/* Finds the types of each class, and leaves out series that have none. */
static enum fg_code find_types(struct qry_reader *reader, const struct qry_part *part,
                               struct part_totals *totals, struct fg_err *err)
{
    const struct qry_roster *roster = totals->roster;

    totals->types = fg_arena_new(reader->arena, uint64_t, roster->n_classes);
    if (totals->types == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < roster->n_classes; i++) {
        /* Types that a schema has without a value in any profile of the class add nothing. */
        totals->types[i] = fg_block_select_types(roster->classes[i].row, &reader->selector) &
                           roster->classes[i].seen;
    }
    for (uint32_t i = 0; i < part->index->n_series; i++)
        totals->wanted[i] = totals->wanted[i] && totals->types[roster->class_of[i]] != 0;
    return FG_OK;
}

static enum fg_code find_left(struct qry_reader *reader, const struct qry_part *part,
                              struct part_totals *totals, struct fg_err *err)
{
    const struct fg_deletions *deletions = &reader->query->deletions[part->tenant];
    const struct fg_block_part *entry = part->entry;
    struct fg_leaving leaving;

    if (!fg_deletions_touch(deletions, entry->service, entry->t_min_ns, entry->t_max_ns)) {
        totals->whole = entry->t_min_ns >= reader->start_ns && entry->t_max_ns <= reader->end_ns;
        return FG_OK;
    }
    totals->left = fg_arena_new(reader->arena, struct fg_left, part->index->n_series);
    if (totals->left == NULL)
        return qry_query_too_large(err);
    fg_leaving_init(&leaving, deletions, (struct fg_time_span){reader->start_ns, reader->end_ns},
                    reader->arena);
    for (uint32_t i = 0; i < part->index->n_series; i++)
        if (totals->wanted[i] &&
            fg_leaving_of(&leaving, &part->index->series[i].labels, &totals->left[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code begin_part(struct qry_reader *reader, const struct qry_part *part,
                               struct part_totals *totals, struct fg_err *err)
{
    totals->roster = qry_roster_of(part->index_entry);
    if (fg_block_select_series(part->index, &reader->selector, reader->arena, &totals->wanted,
                               err) != FG_OK ||
        find_types(reader, part, totals, err) != FG_OK)
        return fg_wrap(err, "%s", part->object->name);
    totals->sums = fg_arena_new(reader->arena, uint64_t, part->index->n_series);
    if (totals->sums == NULL)
        return qry_query_too_large(err);
    return find_left(reader, part, totals, err);
}

/* Marks the pages that may have a profile of a wanted series in the range. */
static bool *mark_pages(const struct qry_reader *reader, const struct qry_part *part,
                        const struct part_totals *totals)
{
    const struct fg_block_pages *pages = &part->index->pages[FG_BLOCK_IDX];
    bool *marks = fg_arena_new(reader->arena, bool, pages->count);
    uint64_t marked_to = 0; /* profiles before it are in a marked page, from the last chunk on */

    for (uint32_t i = 0; marks != NULL && i < part->index->n_chunks; i++) {
        const struct fg_block_chunk *chunk = &part->index->chunks[i];
        uint64_t end = (uint64_t)chunk->first + chunk->count;
        uint32_t last;

        /* A page has thousands of chunks of one profile: it is looked for once. */
        if (end <= marked_to || !totals->wanted[chunk->series] ||
            chunk->t_min_ns > reader->end_ns || chunk->t_max_ns < reader->start_ns)
            continue;
        fg_block_pages_mark(pages, chunk->first, chunk->count, reader->start_ns, reader->end_ns,
                            marks);
        last = fg_block_page_of(pages, (uint32_t)(end - 1));
        if (last < pages->count && marks[last])
            marked_to = (uint64_t)pages->pages[last].first + pages->pages[last].items;
    }
    return marks;
}

/* ---- pages ---- */

struct series_sum {
    uint32_t series;
    uint64_t sum;
};

struct value_page_task {
    struct fg_task task;
    struct value_reading *reading;
    const struct part_totals *totals;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
    struct series_sum *found;
    uint32_t n_found, cap_found;
    uint64_t profiles;
};

static bool is_left(const struct value_page_task *page, uint32_t series, int64_t time_ns)
{
    const struct qry_reader *reader = &page->reading->reader;
    const struct fg_left *left;

    if (page->totals->left == NULL)
        return time_ns >= reader->start_ns && time_ns <= reader->end_ns;
    left = &page->totals->left[series];
    for (uint32_t i = 0; i < left->count; i++)
        if (time_ns >= left->spans[i].start_ns && time_ns <= left->spans[i].end_ns)
            return true;
    return false;
}

/* Sums rows [from, to) of the page, which are of one series. */
static uint64_t sum_rows(struct value_page_task *page, const struct fg_block_rows *rows,
                         uint32_t from, uint32_t to)
{
    uint32_t series = rows->series[from];
    uint64_t types = page->totals->types[page->totals->roster->class_of[series]], sum = 0;

    for (uint32_t i = from; i < to; i++) {
        if (!page->totals->whole && !is_left(page, series, rows->times_ns[i]))
            continue;
        page->profiles++;
        for (uint64_t bits = types; bits != 0; bits &= bits - 1)
            fg_value_sum(&sum, rows->totals[i][__builtin_ctzll(bits)]);
    }
    return sum;
}

static void take_rows(struct value_page_task *page, const struct fg_block_rows *rows)
{
    uint32_t to;

    for (uint32_t from = 0; from < rows->count; from = to) {
        uint32_t series = rows->series[from];
        uint64_t sum;

        for (to = from + 1; to < rows->count && rows->series[to] == series;)
            to++;
        sum = page->totals->wanted[series] ? sum_rows(page, rows, from, to) : 0;
        if (sum == 0)
            continue;
        if (page->n_found == page->cap_found) {
            page->cap_found = FG_MAX(64, page->cap_found * 2);
            page->found = fg_realloc(page->found, page->cap_found * sizeof *page->found);
        }
        page->found[page->n_found++] = (struct series_sum){series, sum};
    }
}

static enum fg_code run_page(struct fg_task *task, struct fg_err *err)
{
    struct value_page_task *page = fg_container(task, struct value_page_task, task);
    const struct qry_reader *reader = &page->reading->reader;
    fg_auto(fg_arena) *arena = fg_arena_create(reader->blocks->memory_max_bytes);
    struct fg_block_rows rows;

    if (qry_query_check(reader->query, err) != FG_OK)
        return err->code;
    if (fg_block_totals_parse(page->item->part->index, page->item->number, qry_page_of(page->entry),
                              arena, &rows, err) != FG_OK)
        return qry_fetch_fail(page->item, err);
    take_rows(page, &rows);
    return FG_OK;
}

/* Runs on the thread of the query: pages may have profiles of the same series. */
static enum fg_code end_page(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct value_page_task *page = fg_container(task, struct value_page_task, task);

    (void)err;
    if (ran) {
        page->reading->reader.query->profiles += page->profiles;
        for (uint32_t i = 0; i < page->n_found; i++)
            fg_value_sum(&page->totals->sums[page->found[i].series], page->found[i].sum);
    }
    fg_cache_unref(page->entry);
    free(page->found);
    free(page);
    return FG_OK;
}

static enum fg_code visit(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct value_reading *reading = arg;
    struct value_page_task *page = fg_new(struct value_page_task);

    (void)err;
    *page = (struct value_page_task){
        .task = {.run = run_page, .end = end_page, .is_small = qry_rows_are_few(item)},
        .reading = reading,
        .totals = &reading->parts[item->part - reading->reader.batch],
        .item = item,
        .entry = fg_cache_ref(item->entry),
    };
    fg_task_group_put(reading->reader.query->snapshot->task_group, &page->task);
    return FG_OK;
}

/* ---- values ---- */

/* Adds a part to the values of the label. */
static void add_values(const struct value_reading *reading, const struct fg_block_index *index,
                       const uint64_t *sums)
{
    struct fg_slice label = fg_cstr(reading->label);
    struct qry_value_totals *into = reading->into;
    uint32_t at;

    for (uint32_t i = 0; i < index->n_series; i++)
        into->total = fg_value_add(into->total, (int64_t)sums[i]);
    if (into->n == 0)
        return;
    at = fg_label_posting_find(index->postings, index->n_postings, label, into->values[0].text);
    for (; at < index->n_postings; at++) {
        const struct fg_label_posting *posting = &index->postings[at];
        uint64_t sum;

        if (!fg_slice_eq(posting->name, label) ||
            fg_slice_cmp(posting->value, into->values[into->n - 1].text) > 0)
            break;
        sum = 0;
        for (uint32_t k = 0; k < posting->n_series; k++)
            fg_value_sum(&sum, sums[posting->series[k]]);
        if (sum != 0)
            qry_value_totals_add(into, posting->value, (int64_t)sum);
    }
}

static enum fg_code read_batch(struct value_reading *reading, struct fg_err *err)
{
    struct qry_reader *reader = &reading->reader;
    struct qry_fetch_list list = {0};

    reading->parts = fg_arena_new(reader->arena, struct part_totals, reader->n_batch);
    if (reading->parts == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];
        const bool *marks;

        if (begin_part(reader, part, &reading->parts[i], err) != FG_OK)
            return err->code;
        marks = mark_pages(reader, part, &reading->parts[i]);
        if (marks == NULL)
            return qry_query_too_large(err);
        if (qry_fetch_add_pages(&list, reader->arena, part, FG_BLOCK_IDX, marks, 0, err) != FG_OK)
            return err->code;
    }
    if (qry_fetch_all(reader->query, &list, visit, reading, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < reader->n_batch; i++)
        add_values(reading, reader->batch[i].index, reading->parts[i].sums);
    return qry_query_check(reader->query, err);
}

/* ---- rollups whose profiles are gone ---- */

static enum fg_code take_rollup_only(void *arg, const struct fg_labels *labels, uint64_t step,
                                     uint64_t sum, uint64_t count, struct fg_err *err)
{
    struct value_reading *reading = arg;

    (void)step, (void)count, (void)err;
    reading->into->total = fg_value_add(reading->into->total, (int64_t)sum);
    qry_value_totals_add(reading->into, fg_labels_get(labels, reading->label), (int64_t)sum);
    return FG_OK;
}

enum fg_code qry_blocks_value_totals(struct qry_query *query, const struct qry_selection *selection,
                                     int64_t step_ns, const char *label,
                                     struct qry_value_totals *into, struct fg_err *err)
{
    struct value_reading reading = {.label = label, .into = into};
    const struct qry_rollup_only_grid grid = {.start_ns = selection->start_ns,
                                              .step_ns = step_ns,
                                              .group_by = &label,
                                              .n_group_by = 1,
                                              .each = take_rollup_only,
                                              .arg = &reading};
    enum fg_code code;

    /* Labels that are made from the type are in no posting. */
    fg_assert(!fg_label_is_of_type(fg_cstr(label)));
    if (query->snapshot == NULL)
        return FG_OK;
    code = qry_reader_open(&reading.reader, query, selection, selection->type_text,
                           qry_points_from_ns(selection, step_ns), selection->end_ns,
                           OBJECTS_PROFILES, false, err);
    reading.reader.of_labels = true;
    do {
        if (code == FG_OK)
            code = qry_reader_next(&reading.reader, err);
        if (code == FG_OK)
            code = read_batch(&reading, err);
    } while (code == FG_OK && reading.reader.n_batch > 0);
    if (code == FG_OK)
        code = qry_rollup_only_points(query, selection, &grid, err);
    qry_reader_close(&reading.reader);
    return code;
}
