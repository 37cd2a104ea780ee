/*
 * SELECT divided by a label: stacks of each group (querier/groups.h). A page has samples of few
 * series, so each page becomes lists of (rank, value), one for each span of profiles, summed up in
 * a dense array by rank. Names are looked up once for each part, and only those of stacks that have
 * a value.
 */
#include "querier/blocks/accumulators.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/rows.h"

/* Values of a match in a page. */
struct grouped_list {
    uint32_t match, n;
};

struct grouped_value {
    uint32_t rank;
    uint64_t value;
};

/* What was found in a page. */
struct grouped_page {
    struct fg_task task;
    struct grouping *grouping;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
    struct grouped_list *lists;
    struct grouped_value *values; /* of all lists, one after another */
    uint32_t n_lists, cap_lists, n_values, cap_values;
    struct grouped_page *next; /* of its part */
};

struct grouping {
    struct qry_reader reader;
    const char *label;
    struct qry_groups *into;
    struct qry_accumulators accumulators;
    struct grouped_page **pages; /* by part of the batch: read, not taken yet */
    uint64_t pages_bytes;
};

/* ---- a page ---- */

/* Room for one more element, of an array of a page, which is malloced: pages end on the query's
 * thread. */
#define GROW(array, n, cap)                                                                        \
    do {                                                                                           \
        if ((n) == (cap)) {                                                                        \
            (cap) = FG_MAX(256, (cap)*2);                                                          \
            (array) = fg_realloc((array), (cap) * sizeof *(array));                                \
        }                                                                                          \
    } while (0)

static void put_value(struct grouped_page *page, uint32_t rank)
{
    GROW(page->values, page->n_values, page->cap_values);
    page->values[page->n_values++].rank = rank;
}

/* Adds a profile to the sums, and lists ranks that had none. */
static enum fg_code add_profile(struct grouped_page *page, struct fg_block_samples *samples,
                                uint32_t profile, uint32_t type, uint64_t *sums, struct fg_err *err)
{
    struct fg_block_sample_set set;

    if (fg_block_samples_read(samples, profile, &set, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < set.count && type < set.n_types; i++) {
        uint64_t value = set.values[(size_t)type * set.count + i];

        if (value == 0)
            continue;
        /* A rank whose values cancel may be listed twice, the second time with 0. */
        if (sums[set.ranks[i]] == 0)
            put_value(page, set.ranks[i]);
        fg_value_sum(&sums[set.ranks[i]], value);
    }
    return FG_OK;
}

/* Adds all profiles at once, which reads one type only, and then lists all ranks that have a value.
 */
static enum fg_code add_profiles(struct grouped_page *page, struct fg_block_samples *samples,
                                 uint32_t from, uint32_t to, uint32_t type, uint64_t *sums,
                                 struct fg_err *err)
{
    uint32_t n_stacks = page->item->part->entry->n_stacks;

    if (fg_block_samples_sum(samples, from, to - from, type, sums, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n_stacks; i++)
        if (sums[i] != 0)
            put_value(page, i);
    return FG_OK;
}

/* Adds [from, to) of a span's profiles. Leaves the sums all zeros. */
static enum fg_code add_span(struct grouped_page *page, struct fg_block_samples *samples,
                             uint32_t match, uint32_t from, uint32_t to, uint64_t *sums,
                             struct fg_err *err)
{
    enum {
        SAMPLES_USUAL = 256
    }; /* of a profile: with fewer than there are ranks, ranks cost more */
    uint32_t type = page->item->part->matches[match].type, first = page->n_values;
    enum fg_code code = FG_OK;

    if ((uint64_t)(to - from) * SAMPLES_USUAL >= page->item->part->entry->n_stacks)
        code = add_profiles(page, samples, from, to, type, sums, err);
    else
        for (uint32_t i = from; code == FG_OK && i < to; i++)
            code = add_profile(page, samples, i, type, sums, err);
    for (uint32_t i = first; i < page->n_values; i++) {
        page->values[i].value = sums[page->values[i].rank];
        sums[page->values[i].rank] = 0;
    }
    GROW(page->lists, page->n_lists, page->cap_lists);
    page->lists[page->n_lists++] = (struct grouped_list){match, page->n_values - first};
    return code;
}

static enum fg_code read_page(struct grouped_page *page, struct fg_block_samples *samples,
                              uint64_t *sums, struct fg_err *err)
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
        uint32_t from = FG_MAX(span->first, stored->first);
        uint32_t to = FG_MIN(span->first + span->count, stored->first + stored->items);

        for (uint32_t i = span->first_match; i < span->first_match + span->n_matches; i++)
            if (add_span(page, samples, i, from, to, sums, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static enum fg_code run_page(struct fg_task *task, struct fg_err *err)
{
    struct grouped_page *page = fg_container(task, struct grouped_page, task);
    struct grouping *grouping = page->grouping;
    struct qry_accumulator *accumulator;
    uint64_t *sums;
    enum fg_code code;

    if (qry_query_check(grouping->reader.query, err) != FG_OK)
        return err->code;
    accumulator = qry_accumulators_take(&grouping->accumulators);
    sums = qry_accumulator_sums(accumulator, &grouping->reader, page->item->part);
    code =
        sums == NULL ? qry_query_too_large(err) : read_page(page, accumulator->samples, sums, err);
    qry_accumulators_give(&grouping->accumulators, accumulator);
    return code == FG_OK ? FG_OK : qry_fetch_fail(page->item, err);
}

static void page_destroy(struct grouped_page *page)
{
    free(page->lists);
    free(page->values);
    free(page);
}

static enum fg_code end_page(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct grouped_page *page = fg_container(task, struct grouped_page, task);
    struct grouping *grouping = page->grouping;
    struct grouped_page **pages = &grouping->pages[page->item->part - grouping->reader.batch];

    fg_cache_unref(page->entry);
    if (!ran) {
        page_destroy(page);
        return FG_OK;
    }
    /* Without a lock: end_page() runs on the query's thread only. */
    page->next = *pages;
    *pages = page;
    grouping->pages_bytes += page->cap_values * sizeof *page->values +
                             page->cap_lists * sizeof *page->lists + sizeof *page;
    return grouping->pages_bytes > grouping->reader.blocks->memory_max_bytes
               ? qry_query_too_large(err)
               : FG_OK;
}

/* ---- what is fetched ---- */

static enum fg_code visit(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct grouping *grouping = arg;
    struct qry_part *part = item->part;

    if (item->type == grouping->reader.stacks) {
        part->tree_entry = fg_cache_ref(item->entry);
        return FG_OK;
    }
    if (item->kind == FG_BLOCK_IDX)
        return qry_rows_take(&grouping->reader, part, item->number, qry_page_of(item->entry), err);
    if (!part->begun) {
        /* From here on threads read the spans. */
        if (qry_rows_settle(part, err) != FG_OK)
            return err->code;
        for (uint32_t i = 0; i < part->n_spans; i++)
            grouping->reader.query->profiles += part->spans[i].count;
        part->begun = true;
    }

    struct grouped_page *page = fg_new(struct grouped_page);

    page->task = (struct fg_task){.run = run_page, .end = end_page};
    page->grouping = grouping;
    page->item = item;
    /* A reference of its own: the fetch drops its entry before the task has run. */
    page->entry = fg_cache_ref(item->entry);
    fg_task_group_put(grouping->reader.query->snapshot->task_group, &page->task);
    return FG_OK;
}

static enum fg_code fetch_batch(struct grouping *grouping, struct fg_err *err)
{
    struct qry_reader *reader = &grouping->reader;
    struct qry_fetch_list list = {0};

    for (uint32_t i = 0; i < reader->n_batch; i++)
        if (qry_rows_list_samples(reader, &reader->batch[i], QRY_SAMPLES_PHASE, &list, err) !=
            FG_OK)
            return err->code;
    return qry_fetch_all(reader->query, &list, visit, grouping, err);
}

/* ---- from ranks to nodes ---- */

/* A part whose lists are being taken. */
struct grouped_part {
    const struct fg_function_tree *functions;
    uint32_t *placed; /* of a node of the functions: that of the result; FG_MAP_NONE: not wanted */
    size_t *groups;   /* of a match; SIZE_MAX: not known yet */
};

static void want_nodes(const struct grouped_page *page, struct grouped_part *part)
{
    enum { WANTED = 0 };

    for (uint32_t i = 0; i < page->n_values; i++)
        /* Ends at a node that is wanted already, as are all above it: each is visited once. */
        for (uint32_t node = part->functions->nodes[page->values[i].rank];
             node != FG_TREE_ROOT && part->placed[node] != WANTED;
             node = part->functions->parents[node])
            part->placed[node] = WANTED;
}

static void place_nodes(const struct grouping *grouping, struct grouped_part *part)
{
    const struct fg_function_tree *functions = part->functions;
    struct fg_tree *tree = grouping->into->tree;

    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        /* Parents have lower numbers, so a parent is placed before its children. */
        uint32_t parent = functions->parents[i];

        if (part->placed[i] != FG_MAP_NONE)
            part->placed[i] =
                fg_tree_child(tree, parent == FG_TREE_ROOT ? FG_TREE_ROOT : part->placed[parent],
                              fg_symbols_name_location(&tree->symbols,
                                                       functions->names[functions->functions[i]]));
    }
}

static enum fg_code take_page(struct grouping *grouping, const struct qry_part *part,
                              struct grouped_part *taking, const struct grouped_page *page,
                              struct fg_err *err)
{
    const struct grouped_value *value = page->values;
    size_t group = 0;

    for (uint32_t i = 0; i < page->n_lists; i++) {
        if (page->lists[i].n > 0) {
            uint32_t match = page->lists[i].match;
            const struct fg_labels *labels =
                &part->index->series[part->matches[match].series].labels;

            if (taking->groups[match] == SIZE_MAX &&
                qry_groups_find(grouping->into, fg_labels_get(labels, grouping->label),
                                &taking->groups[match], err) != FG_OK)
                return err->code;
            group = taking->groups[match];
        }
        for (uint32_t k = 0; k < page->lists[i].n; k++, value++)
            if (value->value != 0 &&
                qry_groups_add(grouping->into, group,
                               taking->placed[taking->functions->nodes[value->rank]],
                               (int64_t)value->value, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static enum fg_code take_part(struct grouping *grouping, uint32_t number, struct fg_err *err)
{
    const struct qry_part *part = &grouping->reader.batch[number];
    struct grouped_part taking;
    enum fg_code code = FG_OK;

    if (grouping->pages[number] == NULL)
        return FG_OK;
    taking.functions = qry_function_tree_of(part->tree_entry);
    taking.placed = fg_malloc(((size_t)taking.functions->n_nodes + 1) * sizeof *taking.placed);
    taking.groups = fg_malloc(((size_t)part->n_matches + 1) * sizeof *taking.groups);
    /* All bits set are FG_MAP_NONE here and SIZE_MAX below. */
    memset(taking.placed, 0xff, taking.functions->n_nodes * sizeof *taking.placed);
    memset(taking.groups, 0xff, part->n_matches * sizeof *taking.groups);
    for (const struct grouped_page *page = grouping->pages[number]; page != NULL; page = page->next)
        want_nodes(page, &taking);
    place_nodes(grouping, &taking);
    for (const struct grouped_page *page = grouping->pages[number]; page != NULL && code == FG_OK;
         page = page->next)
        code = take_page(grouping, part, &taking, page, err);
    free(taking.groups);
    free(taking.placed);
    return code;
}

static enum fg_code read_batch(struct grouping *grouping, struct fg_err *err)
{
    struct qry_reader *reader = &grouping->reader;
    enum fg_code code;

    grouping->pages = fg_arena_new(reader->arena, struct grouped_page *, reader->n_batch);
    if (grouping->pages == NULL)
        return qry_query_too_large(err);
    grouping->pages_bytes = 0;
    qry_accumulators_begin(&grouping->accumulators);
    code = fetch_batch(grouping, err);
    qry_accumulators_end(&grouping->accumulators);
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        if (code == FG_OK && qry_query_check(reader->query, err) != FG_OK)
            code = err->code;
        if (code == FG_OK)
            code = take_part(grouping, i, err);
        /* After a failure, too: pages are on the heap, which no arena frees. */
        while (grouping->pages[i] != NULL) {
            struct grouped_page *page = grouping->pages[i];

            grouping->pages[i] = page->next;
            page_destroy(page);
        }
    }
    return code;
}

enum fg_code qry_blocks_groups(struct qry_query *query, const struct qry_selection *selection,
                               const char *label, struct qry_groups *into, struct fg_err *err)
{
    struct grouping grouping = {.label = label, .into = into};
    enum fg_code code;

    if (query->snapshot == NULL)
        return FG_OK;
    qry_accumulators_init(&grouping.accumulators, &grouping.reader);
    code = qry_reader_open(&grouping.reader, query, selection, selection->type_text,
                           selection->start_ns, selection->end_ns, OBJECTS_PROFILES, true, err);
    grouping.reader.stacks = &qry_cached_function_tree;
    do {
        if (code == FG_OK)
            code = qry_reader_next(&grouping.reader, err);
        if (code == FG_OK && grouping.reader.n_batch > 0)
            code = read_batch(&grouping, err);
    } while (code == FG_OK && grouping.reader.n_batch > 0);
    qry_accumulators_done(&grouping.accumulators);
    qry_reader_close(&grouping.reader);
    return code;
}
