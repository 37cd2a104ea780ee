/*
 * SELECT as numbers of profiles: in how many profiles each function appears. Profiles are read one
 * by one, since sums do not tell how many have a part in them. Each page is a task with counts of
 * its own, by functions of the part; they are added up as pages end.
 */
#include "common/model/function_counts.h"

#include "querier/blocks/accumulators.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/rows.h"

/* What a part has. */
struct part_counts {
    uint32_t *functions; /* [n_names of its function tree] */
    uint64_t profiles;
};

struct counting {
    struct qry_reader reader;
    struct qry_accumulators accumulators; /* only their readers of samples are used */
    struct part_counts *parts;            /* of the batch */
    struct fg_tree *into;
};

struct counted_page {
    struct fg_task task;
    struct counting *counting;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
    struct fg_arena *arena;
    struct fg_function_counts counts;
};

/* ---- a page ---- */

static enum fg_code count_profile(struct counted_page *page, struct fg_block_samples *samples,
                                  const struct qry_span *span, uint32_t profile, struct fg_err *err)
{
    const struct qry_part *part = page->item->part;
    const struct fg_function_tree *functions = qry_function_tree_of(part->tree_entry);
    struct fg_block_sample_set set;

    if (fg_block_samples_read(samples, profile, &set, err) != FG_OK)
        return err->code;
    fg_function_counts_profile(&page->counts);
    for (uint32_t m = span->first_match; m < span->first_match + span->n_matches; m++) {
        uint32_t type = part->matches[m].type;

        for (uint32_t i = 0; i < set.count && type < set.n_types; i++)
            if (set.values[(size_t)type * set.count + i] != 0 &&
                !fg_function_counts_stack(&page->counts, functions->nodes[set.ranks[i]]))
                return qry_query_too_large(err);
    }
    return FG_OK;
}

static enum fg_code count_page(struct counted_page *page, struct fg_block_samples *samples,
                               struct fg_err *err)
{
    const struct qry_part *part = page->item->part;
    const struct fg_block_page *stored =
        &part->index->pages[FG_BLOCK_SMP].pages[page->item->number];
    uint32_t end, at = qry_rows_spans(part, stored->first, stored->items, &end);

    if (at == end)
        return FG_OK;
    if (fg_block_samples_open(samples, part->index, page->item->number, qry_page_of(page->entry),
                              err) != FG_OK)
        return err->code;
    for (; at < end; at++) {
        const struct qry_span *span = &part->spans[at];
        uint32_t to = FG_MIN(span->first + span->count, stored->first + stored->items);

        for (uint32_t i = FG_MAX(span->first, stored->first); i < to; i++)
            if (count_profile(page, samples, span, i, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static enum fg_code run_page(struct fg_task *task, struct fg_err *err)
{
    struct counted_page *page = fg_container(task, struct counted_page, task);
    struct counting *counting = page->counting;
    struct qry_accumulator *accumulator;
    enum fg_code code;

    if (qry_query_check(counting->reader.query, err) != FG_OK)
        return err->code;
    page->arena = fg_arena_create(counting->reader.blocks->memory_max_bytes);
    if (!fg_function_counts_init_functions(
            &page->counts, qry_function_tree_of(page->item->part->tree_entry), page->arena))
        return qry_query_too_large(err);
    accumulator = qry_accumulators_take(&counting->accumulators);
    code = count_page(page, accumulator->samples, err);
    qry_accumulators_give(&counting->accumulators, accumulator);
    return code == FG_OK ? FG_OK : qry_fetch_fail(page->item, err);
}

/* Runs on the query's thread only, so parts need no lock. */
static enum fg_code end_page(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct counted_page *page = fg_container(task, struct counted_page, task);
    struct counting *counting = page->counting;
    struct part_counts *part = &counting->parts[page->item->part - counting->reader.batch];

    (void)err;
    for (uint32_t i = 0; ran && i < page->counts.n_functions; i++)
        part->functions[i] += page->counts.counts[i];
    part->profiles += ran ? page->counts.n_profiles : 0;
    fg_function_counts_done(&page->counts);
    fg_arena_destroy(page->arena);
    fg_cache_unref(page->entry);
    free(page);
    return FG_OK;
}

/* ---- what is fetched ---- */

static enum fg_code begin_part(struct counting *counting, struct qry_part *part, struct fg_err *err)
{
    struct qry_reader *reader = &counting->reader;
    struct part_counts *counts = &counting->parts[part - reader->batch];

    if (part->begun)
        return FG_OK;
    /* From here on threads read the spans. */
    if (qry_rows_settle(part, err) != FG_OK)
        return err->code;
    counts->functions =
        fg_arena_new(reader->arena, uint32_t, qry_function_tree_of(part->tree_entry)->n_names);
    if (counts->functions == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < part->n_spans; i++)
        reader->query->profiles += part->spans[i].count;
    part->begun = true;
    return FG_OK;
}

static enum fg_code visit(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct counting *counting = arg;
    struct qry_part *part = item->part;

    if (item->type == counting->reader.stacks) {
        part->tree_entry = fg_cache_ref(item->entry);
        return FG_OK;
    }
    if (item->kind == FG_BLOCK_IDX)
        return qry_rows_take(&counting->reader, part, item->number, qry_page_of(item->entry), err);
    if (begin_part(counting, part, err) != FG_OK)
        return err->code;

    struct counted_page *page = fg_new(struct counted_page);

    page->task = (struct fg_task){.run = run_page, .end = end_page};
    page->counting = counting;
    page->item = item;
    /* A reference of its own: the fetch drops its entry before the task has run. */
    page->entry = fg_cache_ref(item->entry);
    fg_task_group_put(counting->reader.query->snapshot->task_group, &page->task);
    return FG_OK;
}

static enum fg_code count_batch(struct counting *counting, struct fg_err *err)
{
    struct qry_reader *reader = &counting->reader;
    struct qry_fetch_list list = {0};
    enum fg_code code = FG_OK;

    counting->parts = fg_arena_new(reader->arena, struct part_counts, reader->n_batch);
    if (counting->parts == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; code == FG_OK && i < reader->n_batch; i++)
        /* Stacks before the samples: each page is counted as it comes. */
        code = qry_rows_list_samples(reader, &reader->batch[i], QRY_ROWS_PHASE, &list, err);
    if (code != FG_OK)
        return code;
    qry_accumulators_begin(&counting->accumulators);
    code = qry_fetch_all(reader->query, &list, visit, counting, err);
    qry_accumulators_end(&counting->accumulators);
    return code;
}

static enum fg_code take_batch(const struct counting *counting, struct fg_err *err)
{
    for (uint32_t i = 0; i < counting->reader.n_batch; i++) {
        const struct part_counts *part = &counting->parts[i];
        const struct fg_function_tree *functions;

        if (part->functions == NULL)
            continue;
        functions = qry_function_tree_of(counting->reader.batch[i].tree_entry);
        for (uint32_t k = 0; k < functions->n_names; k++)
            if (part->functions[k] > 0)
                fg_function_counts_put(counting->into, functions->names[k], part->functions[k]);
        fg_tree_add(counting->into, FG_TREE_ROOT, (int64_t)part->profiles);
        if (fg_tree_bytes(counting->into) > counting->reader.blocks->memory_max_bytes)
            return qry_query_too_large(err);
    }
    return FG_OK;
}

enum fg_code qry_blocks_function_counts(struct qry_query *query,
                                        const struct qry_selection *selection, struct fg_tree *into,
                                        struct fg_err *err)
{
    struct counting counting = {.into = into};
    enum fg_code code;

    if (query->snapshot == NULL)
        return FG_OK;
    qry_accumulators_init(&counting.accumulators, &counting.reader);
    code = qry_reader_open(&counting.reader, query, selection, selection->type_text,
                           selection->start_ns, selection->end_ns, OBJECTS_PROFILES, true, err);
    counting.reader.stacks = &qry_cached_function_tree;
    do {
        if (code == FG_OK)
            code = qry_reader_next(&counting.reader, err);
        if (code == FG_OK && counting.reader.n_batch > 0)
            code = count_batch(&counting, err);
        if (code == FG_OK)
            code = take_batch(&counting, err);
    } while (code == FG_OK && counting.reader.n_batch > 0);
    qry_accumulators_done(&counting.accumulators);
    qry_reader_close(&counting.reader);
    return code;
}
