/* Profiles one by one, as they were sent, page by page. */
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/rows.h"

/* What IDX and PID say of a profile. */
struct profiles_row {
    int64_t time_ns, duration_ns, period;
    struct fg_id id;
};

struct each_profile {
    struct qry_reader reader;
    bool all_types;
    qry_profile_visit visit;
    void *arg;
    struct fg_block_samples *samples;
    struct profiles_row *
        *rows; /* of each part of the batch, [its n_profiles]; NULL: nothing is asked of it */

    /* Spans and traces: pages as they were stored, and the one of the samples at hand. */
    struct fg_cache_entry ***links; /* of each part of the batch, [its pages of EXM] */
    size_t links_bytes;             /* of these entries */
    struct fg_arena *links_arena;
    struct fg_block_exemplars linked;
    uint32_t next_linked;
};

/* One sample of the result: one with a span, or the rest of a stack without these. */
struct result_sample {
    uint32_t rank;
    const uint64_t *values; /* of all types */
    size_t stride;
    const struct fg_block_exemplar *link; /* NULL: none */
};

static struct profiles_row *rows_of(const struct each_profile *each, const struct qry_part *part)
{
    return each->rows[part - each->reader.batch];
}

/* ---- rows and ids ---- */

static enum fg_code take_rows(struct each_profile *each, struct qry_part *part, uint32_t number,
                              struct fg_slice bytes, struct fg_err *err)
{
    struct fg_arena *arena = each->reader.arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct profiles_row *into = rows_of(each, part);
    struct fg_block_rows rows;

    if (qry_rows_take(&each->reader, part, number, bytes, err) != FG_OK ||
        fg_block_rows_parse(part->index, number, bytes, arena, &rows, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < rows.count; i++) {
        into[rows.first + i].time_ns = rows.times_ns[i];
        into[rows.first + i].duration_ns = rows.durations_ns[i];
        into[rows.first + i].period = rows.periods[i];
    }
    fg_arena_release(arena, mark);
    return FG_OK;
}

static enum fg_code take_ids(struct each_profile *each, struct qry_part *part, uint32_t number,
                             struct fg_slice bytes, struct fg_err *err)
{
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_PID].pages[number];
    struct fg_arena *arena = each->reader.arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct profiles_row *into = rows_of(each, part);
    struct fg_id *ids;

    if (fg_block_ids_parse(part->index, number, bytes, arena, &ids, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < page->items; i++)
        into[page->first + i].id = ids[i];
    fg_arena_release(arena, mark);
    return FG_OK;
}

/* ---- spans and traces ---- */

/* A reference keeps the page in memory until the samples of its profiles come, in the next
 * phase. */
static enum fg_code keep_links(struct each_profile *each, const struct qry_part *part,
                               uint32_t number, struct fg_cache_entry *entry, struct fg_err *err)
{
    each->links_bytes += qry_page_of(entry).len;
    if (each->links_bytes > each->reader.query->querier->blocks->memory_max_bytes)
        return qry_query_too_large(err);
    each->links[part - each->reader.batch][number] = fg_cache_ref(entry);
    return FG_OK;
}

static void drop_links(struct each_profile *each)
{
    for (uint32_t i = 0; each->links != NULL && i < each->reader.n_batch; i++) {
        const struct qry_part *part = &each->reader.batch[i];

        for (uint32_t k = 0; each->links[i] != NULL && k < part->index->pages[FG_BLOCK_EXM].count;
             k++)
            fg_cache_unref(each->links[i][k]);
    }
    each->links = NULL;
    each->links_bytes = 0;
}

/* Opens the links of the samples page that begins with this profile. Pages of EXM and of SMP have
 * the same profiles; without a page of EXM there are no links. */
static enum fg_code open_links(struct each_profile *each, const struct qry_part *part,
                               uint32_t first, struct fg_err *err)
{
    const struct fg_block_pages *pages = &part->index->pages[FG_BLOCK_EXM];
    struct fg_cache_entry **entries = each->links[part - each->reader.batch];

    fg_arena_reset(each->links_arena);
    each->linked.count = each->next_linked = 0;
    for (uint32_t i = 0; i < pages->count; i++)
        if (pages->pages[i].first == first && entries[i] != NULL)
            return fg_block_exemplars_parse(part->index, i, qry_page_of(entries[i]),
                                            each->links_arena, &each->linked, err);
    return FG_OK;
}

/* Returns the links of a profile. Calls come in the order of profiles. */
static struct fg_block_exemplars links_of(struct each_profile *each, uint32_t profile)
{
    struct fg_block_exemplars links = {NULL, 0};

    while (each->next_linked < each->linked.count &&
           each->linked.items[each->next_linked].profile < profile)
        each->next_linked++;
    links.items = each->linked.items + each->next_linked;
    while (each->next_linked < each->linked.count &&
           each->linked.items[each->next_linked].profile == profile) {
        each->next_linked++;
        links.count++;
    }
    return links;
}

/* Subtracts the samples that have a span from the samples, which include them. */
static enum fg_code subtract_links(const struct each_profile *each,
                                   const struct fg_block_sample_set *set,
                                   const struct fg_block_exemplars *links, uint64_t **ret_rest,
                                   struct fg_err *err)
{
    size_t n = (size_t)set->n_types * set->count;
    uint64_t *rest = fg_arena_new(each->reader.arena, uint64_t, n);
    uint32_t at = 0;

    if (rest == NULL)
        return qry_query_too_large(err);
    if (n > 0)
        memcpy(rest, set->values, n * sizeof *rest);
    for (uint32_t i = 0; i < links->count; i++) {
        const struct fg_block_exemplar *link = &links->items[i];

        while (at < set->count && set->ranks[at] < link->rank)
            at++;
        /* Both are sorted by stack: one pass, and a link without its sample is damage. */
        if (at == set->count || set->ranks[at] != link->rank)
            return fg_fail(err, FG_E_CORRUPT, "EXM: profile %u has no stack %u", link->profile,
                           link->rank);
        for (uint32_t t = 0; t < set->n_types; t++)
            rest[(size_t)t * set->count + at] -= link->values[t];
    }
    *ret_rest = rest;
    return FG_OK;
}

/* ---- profiles ---- */

/* Returns true if it has a value of one of the types. */
static bool has_any(const struct result_sample *picked, const uint32_t *numbers, uint32_t n_types)
{
    uint64_t any = 0;

    for (uint32_t t = 0; t < n_types; t++)
        any |= picked->values[numbers[t] * picked->stride];
    return any != 0;
}

/* Lists the samples of the result, in the arena. */
static enum fg_code pick(const struct each_profile *each, const struct fg_block_sample_set *set,
                         const struct fg_block_exemplars *links, const uint32_t *numbers,
                         uint32_t n_types, struct result_sample **ret_samples, uint32_t *ret_n,
                         struct fg_err *err)
{
    struct result_sample *picked =
        fg_arena_new(each->reader.arena, struct result_sample, (size_t)set->count + links->count);
    uint64_t *rest = NULL;
    uint32_t n = 0;

    if (picked == NULL)
        return qry_query_too_large(err);
    if (subtract_links(each, set, links, &rest, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < set->count; i++) {
        picked[n] = (struct result_sample){set->ranks[i], rest + i, set->count, NULL};
        n += has_any(&picked[n], numbers, n_types);
    }
    for (uint32_t i = 0; i < links->count; i++) {
        const struct fg_block_exemplar *link = &links->items[i];

        picked[n] = (struct result_sample){link->rank, link->values, 1, link};
        n += has_any(&picked[n], numbers, n_types);
    }
    *ret_samples = picked;
    *ret_n = n;
    return FG_OK;
}

/* Makes columns as for pprof, with the links apart. */
static enum fg_code lay_out(const struct each_profile *each, const struct fg_block_tree *tree,
                            const struct result_sample *picked, uint32_t n, const uint32_t *numbers,
                            struct fg_pprof_samples *samples, struct fg_err *err)
{
    struct fg_arena *arena = each->reader.arena;
    uint32_t *nodes = fg_arena_new(arena, uint32_t, n);
    int64_t *values = fg_arena_new(arena, int64_t, (size_t)n * samples->n_types);
    struct fg_link *links = fg_arena_new(arena, struct fg_link, n);

    if (nodes == NULL || values == NULL || links == NULL)
        return qry_query_too_large(err);
    samples->nodes = nodes;
    samples->values = values;
    samples->links = links;
    samples->count = n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = tree->nodes[picked[i].rank];

        /* 0 is the empty stack, whose value is at the root. */
        nodes[i] = node == 0 ? FG_TREE_ROOT : node - 1;
        for (uint32_t t = 0; t < samples->n_types; t++)
            values[(size_t)t * n + i] = (int64_t)picked[i].values[numbers[t] * picked[i].stride];
        if (picked[i].link == NULL)
            continue;
        links[samples->n_links].sample = i;
        links[samples->n_links].span_id = picked[i].link->span_id;
        memcpy(links[samples->n_links++].trace_id, picked[i].link->trace_id, FG_ID_BYTES);
    }
    return FG_OK;
}

static enum fg_code make_types(const struct each_profile *each,
                               const struct fg_block_schema *schema, const uint32_t *numbers,
                               struct fg_pprof_samples *samples, struct fg_err *err)
{
    struct fg_value_type *types =
        fg_arena_new(each->reader.arena, struct fg_value_type, samples->n_types);

    if (types == NULL)
        return qry_query_too_large(err);
    for (uint32_t t = 0; t < samples->n_types; t++)
        types[t] = schema->types[numbers[t]];
    samples->types = types;
    return FG_OK;
}

static enum fg_code make_samples(struct each_profile *each, const struct qry_part *part,
                                 const struct qry_span *span, uint32_t number,
                                 struct fg_pprof_samples *samples, struct fg_err *err)
{
    const struct fg_block_schema *schema = part->index->series[span->series].schema;
    struct fg_block_exemplars links = links_of(each, number);
    uint32_t numbers[FG_BATCH_TYPES_MAX], n = 0;
    struct fg_block_sample_set set;
    struct result_sample *picked = NULL;

    if (fg_block_samples_read(each->samples, number, &set, err) != FG_OK)
        return err->code;

    /* The types to return, as numbers of the series' schema. */
    uint32_t chosen = 0;

    for (uint32_t t = 0; each->all_types && t < set.n_types; t++)
        numbers[chosen++] = t;
    for (uint32_t i = 0; !each->all_types && i < span->n_matches; i++)
        numbers[chosen++] = part->matches[span->first_match + i].type;
    samples->n_types = chosen;
    if (make_types(each, schema, numbers, samples, err) != FG_OK ||
        pick(each, &set, &links, numbers, samples->n_types, &picked, &n, err) != FG_OK)
        return err->code;
    return lay_out(each, qry_tree_of(part->tree_entry), picked, n, numbers, samples, err);
}

static enum fg_code visit_profile(struct each_profile *each, const struct qry_part *part,
                                  const struct qry_span *span, uint32_t number, struct fg_err *err)
{
    const struct fg_block_series_row *series = &part->index->series[span->series];
    const struct profiles_row *row = &rows_of(each, part)[number];
    struct fg_pprof_samples samples = {0};

    if (make_samples(each, part, span, number, &samples, err) != FG_OK)
        return err->code;
    /* All of its values are of types that were not asked for. */
    if (samples.count == 0)
        return FG_OK;
    each->reader.query->profiles++;
    return each->visit(each->arg,
                       &(struct qry_one_profile){
                           .labels = &series->labels,
                           .id = row->id,
                           .tree = &qry_tree_of(part->tree_entry)->tree,
                           .samples = samples,
                           .head = {.type = {.period_type = series->schema->period_type.type,
                                             .period_unit = series->schema->period_type.unit},
                                    .period = row->period,
                                    .time_ns = row->time_ns,
                                    .duration_ns = row->duration_ns},
                       },
                       err);
}

static enum fg_code visit_span(struct each_profile *each, const struct qry_part *part,
                               const struct qry_span *span, const struct fg_block_page *page,
                               struct fg_err *err)
{
    uint32_t from = FG_MAX(span->first, page->first);
    uint32_t to = FG_MIN(span->first + span->count, page->first + page->items);

    for (uint32_t number = from; number < to; number++) {
        /* One profile at a time in memory: a range may have millions. */
        struct fg_arena_mark mark = fg_arena_mark(each->reader.arena);
        enum fg_code code = visit_profile(each, part, span, number, err);

        fg_arena_release(each->reader.arena, mark);
        if (code != FG_OK)
            return code;
    }
    return qry_query_check(each->reader.query, err);
}

static enum fg_code take_samples(struct each_profile *each, struct qry_part *part, uint32_t number,
                                 struct fg_slice bytes, struct fg_err *err)
{
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_SMP].pages[number];
    uint32_t end, at;

    /* The first page does it: by now all rows have come, in the phase before. */
    if (qry_rows_settle(part, err) != FG_OK)
        return err->code;
    at = qry_rows_spans(part, page->first, page->items, &end);
    if (at == end)
        return FG_OK;
    if (fg_block_samples_open(each->samples, part->index, number, bytes, err) != FG_OK ||
        open_links(each, part, page->first, err) != FG_OK)
        return err->code;
    for (; at < end; at++)
        if (visit_span(each, part, &part->spans[at], page, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- what is fetched ---- */

static enum fg_code visit_item(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct each_profile *each = arg;

    if (item->type == &qry_cached_tree) {
        item->part->tree_entry = fg_cache_ref(item->entry);
        return FG_OK;
    }
    if (item->kind == FG_BLOCK_IDX)
        return take_rows(each, item->part, item->number, qry_page_of(item->entry), err);
    if (item->kind == FG_BLOCK_PID)
        return take_ids(each, item->part, item->number, qry_page_of(item->entry), err);
    if (item->kind == FG_BLOCK_EXM)
        return keep_links(each, item->part, item->number, item->entry, err);
    return take_samples(each, item->part, item->number, qry_page_of(item->entry), err);
}

static enum fg_code list_part(struct each_profile *each, struct qry_fetch_list *list,
                              struct qry_part *part, struct fg_err *err)
{
    static const struct {
        uint32_t kind;
        unsigned phase; /* samples come last: they need the rows, ids and links */
    } pages[] = {{FG_BLOCK_IDX, 0}, {FG_BLOCK_PID, 0}, {FG_BLOCK_EXM, 0}, {FG_BLOCK_SMP, 1}};
    struct qry_reader *reader = &each->reader;
    uint32_t n_links = part->index->pages[FG_BLOCK_EXM].count;
    struct fg_cache_entry **links = fg_arena_new(reader->arena, struct fg_cache_entry *, n_links);

    if (links == NULL)
        return qry_query_too_large(err);
    each->links[part - reader->batch] = links;
    for (size_t i = 0; i < FG_COUNT(pages); i++) {
        const bool *marks = qry_rows_marks(reader, part, pages[i].kind, false);

        if (marks == NULL)
            return qry_query_too_large(err);
        if (qry_fetch_add_pages(list, reader->arena, part, pages[i].kind, marks, pages[i].phase,
                                err) != FG_OK)
            return err->code;
    }
    return qry_fetch_add(
        list, reader->arena,
        &(struct qry_fetch_item){.type = &qry_cached_tree,
                                 .object = part->object,
                                 .range = fg_block_part_range(part->entry, FG_BLOCK_WANT_TREE),
                                 .part = part},
        err);
}

static enum fg_code fetch_batch(struct each_profile *each, struct fg_err *err)
{
    struct qry_reader *reader = &each->reader;
    struct qry_fetch_list list = {0};

    each->rows = fg_arena_new(reader->arena, struct profiles_row *, reader->n_batch);
    each->links = fg_arena_new(reader->arena, struct fg_cache_entry **, reader->n_batch);
    if (each->rows == NULL || each->links == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];

        if (part->n_spans == 0)
            continue;
        each->rows[i] = fg_arena_new(reader->arena, struct profiles_row, part->entry->n_profiles);
        if (each->rows[i] == NULL)
            return qry_query_too_large(err);
        if (list_part(each, &list, part, err) != FG_OK)
            return err->code;
    }
    return qry_fetch_all(reader->query, &list, visit_item, each, err);
}

static enum fg_code read_all(struct each_profile *each, struct fg_err *err)
{
    enum fg_code code;

    do {
        code = qry_reader_next(&each->reader, err);
        if (code == FG_OK)
            code = fetch_batch(each, err);
        drop_links(each);
    } while (code == FG_OK && each->reader.n_batch > 0);
    return code;
}

enum fg_code qry_blocks_profiles(struct qry_query *query, const struct qry_selection *selection,
                                 qry_profile_visit visit, void *arg, struct fg_err *err)
{
    struct each_profile each = {
        .all_types = selection->type_text == NULL, .visit = visit, .arg = arg};
    enum fg_code code;

    if (query->snapshot == NULL)
        return FG_OK;
    each.samples = fg_block_samples_create(query->querier->blocks->memory_max_bytes);
    each.links_arena = fg_arena_create(query->querier->blocks->memory_max_bytes);
    code = qry_reader_open(&each.reader, query, selection, selection->type_text,
                           selection->start_ns, selection->end_ns, OBJECTS_PROFILES, true, err);
    if (code == FG_OK)
        code = read_all(&each, err);
    qry_reader_close(&each.reader);
    fg_arena_destroy(each.links_arena);
    fg_block_samples_destroy(each.samples);
    return code;
}
