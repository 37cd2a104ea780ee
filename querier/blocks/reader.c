#include "querier/blocks/reader.h"

#include "querier/blocks/cached_objects.h"
#include "querier/blocks/lost.h"

enum {
    SERIES_BYTES = 512,  /* of a series in an index, with what is made of it */
    CHUNK_BYTES = 200,   /* of a series chunk: mostly spans, in an array that doubles */
    NODE_BYTES = 16,     /* of a node of a parsed stack tree */
    FUNCTIONS_TIMES = 8, /* a parsed function tree is at most so many times its stored size */
    TAILS_MAX_BYTES = 32 * 1024 * 1024, /* of all objects of a query, which holds them */
};

/* ---- the selector ---- */

static enum fg_code is_wanted(void *query, struct fg_err *err)
{
    return qry_query_check(query, err);
}

static enum fg_code take_selector(struct qry_reader *reader, const struct qry_selection *selection,
                                  const char *profile_type, struct fg_err *err)
{
    size_t n = selection->selector.n_matchers;
    struct fg_matcher *matchers = fg_arena_new(reader->arena, struct fg_matcher, n + 1);

    if (matchers == NULL)
        return qry_query_too_large(err);
    if (n > 0)
        memcpy(matchers, selection->selector.matchers, n * sizeof *matchers);
    /* The type is one more matcher, on a label that fg_labels_with_type() makes. */
    if (profile_type != NULL)
        matchers[n++] = (struct fg_matcher){.op = FG_MATCH_EQ,
                                            .name = FG_LIT(FG_LABEL_PROFILE_TYPE),
                                            .value = fg_cstr(profile_type)};
    reader->selector = (struct fg_selector){matchers, n, is_wanted, reader->query};
    return FG_OK;
}

/* ---- parts ---- */

static enum fg_code add_part(struct qry_reader *reader, struct qry_object *object, uint32_t number,
                             uint32_t tenant, struct fg_err *err)
{
    const struct fg_block_part *entry = &qry_directory_of(object->entry)->parts[number];

    if (entry->t_min_ns > reader->end_ns || entry->t_max_ns < reader->start_ns ||
        qry_lost_lacks_part(reader->query, object, number))
        return FG_OK;
    if (!fg_arena_grow(reader->arena, &reader->parts, reader->n_parts, 1, &reader->cap_parts,
                       sizeof *reader->parts))
        return qry_query_too_large(err);
    reader->parts[reader->n_parts++] =
        (struct qry_part){.object = object, .number = number, .tenant = tenant, .entry = entry};
    return FG_OK;
}

static enum fg_code add_parts_of(struct qry_reader *reader, struct qry_object *object,
                                 uint32_t tenant, struct fg_err *err)
{
    const struct fg_block_directory *directory = qry_directory_of(object->entry);
    struct fg_slice name = reader->query->tenants.ids[tenant];
    struct fg_slice service = reader->service;
    uint32_t i = fg_block_part_find(directory, name, service);

    /* Parts are sorted by tenant and service, so the wanted ones are neighbours. */
    for (; i < directory->n_parts; i++) {
        const struct fg_block_part *entry = &directory->parts[i];

        if (!fg_slice_eq(entry->tenant, name) ||
            (service.len > 0 && !fg_slice_eq(entry->service, service)))
            break;
        if (add_part(reader, object, i, tenant, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code keep_directory(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct qry_reader *reader = arg;
    /* The item has a pointer to const; the object is an element of our own array. */
    struct qry_object *object = &reader->objects.items[item->object - reader->objects.items];

    (void)err;
    object->entry = fg_cache_ref(item->entry);
    return FG_OK;
}

/* Plans which bytes are fetched together with the head. Of a small object all, if samples are
 * wanted: a second request would take longer. Of a derived one as much: its crowns lie at the end,
 * except those of single series. Of others some bytes before the head: the index of an object's
 * last service lies right before its groups, which are before the head. In a segment of many
 * tenants the wanted part may be anywhere, so nothing. */
static enum fg_code plan_tail(struct qry_reader *reader, struct qry_object *object,
                              struct fg_err *err)
{
    const struct qry_blocks *blocks = reader->blocks;
    bool most =
        reader->of_samples && (object->derived != NULL || object->bytes <= blocks->whole_max_bytes);
    uint64_t head = object->head.offset;
    uint64_t from = most ? object->bytes - FG_MIN(object->bytes, blocks->whole_max_bytes)
                         : head - FG_MIN(head, blocks->before_max_bytes);

    /* The manifest's numbers may be wrong, so the subtraction is checked. */
    if (!object->mostly || from >= head ||
        object->bytes - FG_MIN(object->bytes, from) > TAILS_MAX_BYTES - reader->tail_bytes)
        return FG_OK;
    object->tail = fg_arena_new(reader->arena, struct qry_tail, 1);
    if (object->tail == NULL)
        return qry_query_too_large(err);
    object->tail->from = from;
    reader->tail_bytes += object->bytes - from;
    return FG_OK;
}

static enum fg_code fetch_directories(struct qry_reader *reader, struct fg_err *err)
{
    const struct fg_keys *keys = fg_bucket_base(reader->blocks->bucket)->keys;
    struct qry_fetch_list list = {0};

    for (uint32_t i = 0; i < reader->objects.n; i++) {
        struct qry_object *object = &reader->objects.items[i];

        if (object->known || object->closed)
            continue;
        object->known = qry_lost_lacks_object(reader->query, object);
        if (object->known)
            continue;
        if (plan_tail(reader, object, err) != FG_OK)
            return err->code;
        if (qry_fetch_add(&list, reader->arena,
                          &(struct qry_fetch_item){.type = &qry_cached_directory,
                                                   .object = object,
                                                   .range = object->head,
                                                   .keys = keys},
                          err) != FG_OK)
            return err->code;
    }
    reader->n_open += list.n;
    reader->query->objects += list.n;
    fg_metric_add(reader->blocks->metrics, BLOCKS_OBJECTS, list.n);
    return qry_fetch_all(reader->query, &list, keep_directory, reader, err);
}

enum fg_code qry_reader_extend(struct qry_reader *reader, struct fg_err *err)
{
    if (fetch_directories(reader, err) != FG_OK)
        return err->code;
    reader->n_parts = reader->n_found; /* with those that rollups.c has put aside */
    for (uint32_t i = 0; i < reader->objects.n; i++) {
        struct qry_object *object = &reader->objects.items[i];

        if (object->entry == NULL || object->known)
            continue;
        for (uint32_t t = 0; t < reader->query->tenants.n; t++)
            if ((object->tenants >> t & 1) != 0 && add_parts_of(reader, object, t, err) != FG_OK)
                return err->code;
        object->known = true;
    }
    reader->n_found = reader->n_parts;
    /* The array may have moved, and what is allocated from here on is of a batch. */
    reader->batch = reader->parts;
    reader->mark = fg_arena_mark(reader->arena);
    return FG_OK;
}

enum fg_code qry_reader_open(struct qry_reader *reader, struct qry_query *query,
                             const struct qry_selection *selection, const char *profile_type,
                             int64_t start_ns, int64_t end_ns, enum qry_objects_which which,
                             bool of_samples, struct fg_err *err)
{
    struct qry_blocks *blocks = query->querier->blocks;

    *reader = (struct qry_reader){
        .query = query,
        .blocks = blocks,
        .arena = fg_arena_create(blocks->memory_max_bytes),
        .selection = selection,
        .start_ns = start_ns,
        .end_ns = end_ns,
        .of_samples = of_samples,
    };
    if (take_selector(reader, selection, profile_type, err) != FG_OK)
        return err->code;
    reader->service = qry_selection_service(&reader->selector);
    if (qry_objects_find(query, start_ns, end_ns, which, reader->arena, &reader->objects, err) !=
        FG_OK)
        return err->code;
    return qry_reader_extend(reader, err);
}

static void release_part(struct qry_part *part)
{
    fg_cache_unref(part->tree_entry);
    fg_cache_unref(part->index_entry);
    fg_cache_unref(part->rollups_entry);
    fg_cache_unref(part->single_entry);
    /* NULL, since qry_reader_close() visits the parts of all batches again. */
    part->tree_entry = part->index_entry = part->rollups_entry = part->single_entry = NULL;
}

void qry_reader_close(struct qry_reader *reader)
{
    for (uint32_t i = 0; i < reader->n_found; i++)
        release_part(&reader->parts[i]);
    for (uint32_t i = 0; i < reader->objects.n; i++) {
        struct qry_object *object = &reader->objects.items[i];

        fg_cache_unref(object->entry);
        if (object->tail != NULL)
            fg_buf_done(&object->tail->bytes);
    }
    fg_arena_destroy(reader->arena);
}

/* ---- batches ---- */

/* Estimates the memory of a part from the directory, or from the index if it is known. */
static uint64_t part_bytes(const struct qry_reader *reader, const struct qry_part *part)
{
    uint64_t n_chunks =
        part->index == NULL ? fg_block_guess_chunks(part->entry) : part->index->n_chunks;

    return part->entry->n_series * (uint64_t)SERIES_BYTES + n_chunks * CHUNK_BYTES +
           (reader->stacks != NULL && qry_stacks_are_named(reader->stacks, part->entry)
                ? qry_stacks_range(reader->stacks, part->entry).len * FUNCTIONS_TIMES
                : (uint64_t)part->entry->n_nodes * NODE_BYTES) +
           part->entry->n_stacks * (uint64_t)(sizeof(uint64_t) + sizeof(uint32_t));
}

static uint32_t batch_size(const struct qry_reader *reader)
{
    uint32_t n_before = (uint32_t)(reader->batch - reader->parts), left, n = 0;
    uint64_t bytes = 0;

    fg_assert(n_before <= reader->n_parts);
    left = reader->n_parts - n_before;
    /* At least one part, however large it is: its own reads are bounded by the arena. */
    while (n < left &&
           (n == 0 || bytes + part_bytes(reader, &reader->batch[n]) <= reader->blocks->batch_bytes))
        bytes += part_bytes(reader, &reader->batch[n++]);
    return n;
}

static enum fg_code keep_index(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    (void)arg, (void)err;
    item->part->index_entry = fg_cache_ref(item->entry);
    item->part->index = qry_index_of(item->entry);
    return FG_OK;
}

static enum fg_code fetch_indexes(struct qry_reader *reader, struct fg_err *err)
{
    struct qry_fetch_list list = {0};

    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];

        if (part->index != NULL) /* fetched for the plan, or for a larger batch */
            continue;
        if (qry_fetch_add(&list, reader->arena,
                          &(struct qry_fetch_item){
                              .type = &qry_cached_index,
                              .object = part->object,
                              .range = fg_block_part_range(part->entry, FG_BLOCK_WANT_SERIES),
                              .part = part},
                          err) != FG_OK)
            return err->code;
    }
    return qry_fetch_all(reader->query, &list, keep_index, reader, err);
}

/* Adds a span for the part of a series chunk in a stretch of time, if there may be anything. */
static enum fg_code add_span(struct qry_reader *reader, struct qry_part *part,
                             const struct fg_block_chunk *chunk, uint32_t first_match,
                             uint32_t n_matches, struct fg_time_span times, struct fg_err *err)
{
    if (chunk->t_min_ns > times.end_ns || chunk->t_max_ns < times.start_ns)
        return FG_OK;
    if (!fg_arena_grow(reader->arena, &part->spans, part->n_spans, 1, &part->cap_spans,
                       sizeof *part->spans))
        return qry_query_too_large(err);
    part->spans[part->n_spans++] = (struct qry_span){
        .series = chunk->series,
        .first = chunk->first,
        .count = chunk->count,
        .first_match = first_match,
        .n_matches = n_matches,
        .times = times,
        .cut = chunk->t_min_ns < times.start_ns || chunk->t_max_ns > times.end_ns,
    };
    return FG_OK;
}

static enum fg_code add_series_spans(struct qry_reader *reader, struct qry_part *part,
                                     uint32_t first_match, uint32_t n_matches,
                                     struct fg_time_span times, struct fg_err *err)
{
    const struct fg_block_series_row *series =
        &part->index->series[part->matches[first_match].series];

    for (uint32_t i = 0; i < series->n_chunks; i++)
        if (add_span(reader, part, &part->index->chunks[series->chunks[i]], first_match, n_matches,
                     times, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static bool is_of(const struct qry_part *part, const struct fg_plan_raw *raw, uint32_t series)
{
    switch (raw->kind) {
    case FG_ROLLUP_GROUP:
        return part->rollups->groups.of_series[series] == raw->number;
    case FG_ROLLUP_SERIES:
        return series == raw->number;
    case FG_ROLLUP_ALL:
        break;
    }
    return true;
}

/* Adds spans for the profiles of these times that are to be read. Raws ascend by time, and those of
 * one series do not overlap, so its spans do not either. */
static enum fg_code add_raw_spans(struct qry_reader *reader, struct qry_part *part,
                                  uint32_t first_match, uint32_t n_matches,
                                  struct fg_time_span times, struct fg_err *err)
{
    if (!part->chosen)
        return add_series_spans(reader, part, first_match, n_matches, times, err);
    for (uint32_t i = 0; i < part->n_raws; i++) {
        const struct fg_plan_raw *raw = &part->raws[i];
        struct fg_time_span both = {FG_MAX(times.start_ns, raw->start_ns),
                                    FG_MIN(times.end_ns, raw->end_ns)};

        if (both.start_ns <= both.end_ns && is_of(part, raw, part->matches[first_match].series) &&
            add_series_spans(reader, part, first_match, n_matches, both, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static int span_order(const void *left, const void *right)
{
    const struct qry_span *a = left, *b = right;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return (a->times.start_ns > b->times.start_ns) - (a->times.start_ns < b->times.start_ns);
}

static enum fg_code make_spans(struct qry_reader *reader, struct qry_part *part,
                               struct fg_leaving *leaving, struct fg_err *err)
{
    for (uint32_t i = 0, next; i < part->n_matches; i = next) {
        uint32_t number = part->matches[i].series;
        struct fg_left left;

        for (next = i + 1; next < part->n_matches && part->matches[next].series == number;)
            next++;
        if (fg_leaving_of(leaving, &part->index->series[number].labels, &left, err) != FG_OK)
            return err->code;
        /* A series has spans for each stretch of time that deletions leave of it. */
        for (uint32_t s = 0; s < left.count; s++)
            if (add_raw_spans(reader, part, i, next - i, left.spans[s], err) != FG_OK)
                return err->code;
    }
    /* Matches come by series, profiles by time stripe: rows.h needs the order of profiles. */
    if (part->n_spans > 1)
        qsort(part->spans, part->n_spans, sizeof *part->spans, span_order);
    return FG_OK;
}

static enum fg_code select_series(struct qry_reader *reader, struct qry_part *part,
                                  struct fg_err *err)
{
    static const struct fg_deletions none;
    const struct fg_deletions *deletions = &reader->query->deletions[part->tenant];
    struct fg_leaving leaving;

    if (fg_block_select(part->index, &reader->selector, reader->arena, &part->matches,
                        &part->n_matches, err) != FG_OK)
        return fg_wrap(err, "%s", part->object->name);
    if (!fg_deletions_touch(deletions, part->entry->service, part->entry->t_min_ns,
                            part->entry->t_max_ns))
        deletions = &none; /* saves a look at the labels of each series */
    fg_leaving_init(&leaving, deletions, (struct fg_time_span){reader->start_ns, reader->end_ns},
                    reader->arena);
    reader->query->series += part->n_matches;
    return make_spans(reader, part, &leaving, err);
}

enum fg_code qry_reader_next(struct qry_reader *reader, struct fg_err *err)
{
    for (uint32_t i = 0; i < reader->n_batch; i++)
        release_part(&reader->batch[i]);
    reader->batch += reader->n_batch;
    reader->n_batch = 0;
    fg_arena_release(reader->arena, reader->mark);
    reader->n_batch = batch_size(reader);
    if (fetch_indexes(reader, err) != FG_OK)
        return err->code;
    /* If there are more series chunks than estimated, the other parts keep their indexes for later.
     */
    reader->n_batch = FG_MIN(reader->n_batch, batch_size(reader));
    for (uint32_t i = 0; i < reader->n_batch && !reader->of_labels; i++)
        if (select_series(reader, &reader->batch[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}
