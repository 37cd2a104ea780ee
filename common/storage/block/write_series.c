/*
 * Series and their labels:
 *
 *   LBL   varint names; each: name, varint values; each: value       (texts: varint length, bytes)
 *   SER   varint schemas; each: period type, its unit, varint types; each: type, unit
 *         varint series; each: varint schema, varint labels; each: varint label (number among all
 *         pairs of LBL) - that before, the first + 0; varint seen,
 *         zigzag least time - that of the series before, varint greatest - least
 *         varint stripes, varint chunks of all; each stripe: varint chunks;
 *         each: varint series - that before - 1, the first + 0; varint profiles
 */
#include "common/storage/block/writer_impl.h"

/* ---- comparing ---- */

static struct fg_block_schema schema_of(const struct fg_block_series *series)
{
    return (struct fg_block_schema){series->types, series->n_types, series->period_type};
}

struct fg_profile_type fg_block_series_type(const struct fg_block_series *series, uint32_t type)
{
    fg_assert(type < series->n_types);
    return (struct fg_profile_type){
        .name = fg_labels_get(&series->labels, FG_LABEL_NAME),
        .type = series->types[type].type,
        .unit = series->types[type].unit,
        .period_type = series->period_type.type,
        .period_unit = series->period_type.unit,
    };
}

int fg_block_series_cmp(const struct fg_block_series *a, const struct fg_block_series *b)
{
    struct fg_block_schema left = schema_of(a), right = schema_of(b);
    int order = fg_labels_cmp(&a->labels, &b->labels);

    return order != 0 ? order : fg_block_schema_cmp(&left, &right);
}

/* ---- taking a series ---- */

/* The part's arena has no limit of its own: what is copied here the caller holds already. */
static void *keep(struct fg_block_writer *writer, size_t count, size_t size)
{
    void *ptr = fg_arena_calloc(writer->arena, count, size);

    fg_assert(ptr != NULL);
    return ptr;
}

static struct fg_slice keep_text(struct fg_block_writer *writer, struct fg_slice text)
{
    struct fg_slice copy = fg_arena_copy(writer->arena, text);

    fg_assert(copy.ptr != NULL);
    return copy;
}

static struct fg_value_type keep_type(struct fg_block_writer *writer,
                                      const struct fg_value_type *type)
{
    return (struct fg_value_type){keep_text(writer, type->type), keep_text(writer, type->unit)};
}

static uint32_t find_pair(struct fg_block_writer *writer, const struct fg_label *label)
{
    struct fg_block_part_out *part = &writer->part;
    uint64_t hash = fg_mix64(fg_hash64_table(label->name)) ^ fg_hash64_table(label->value);
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&part->pair_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&part->pair_map, &walk))
        if (fg_slice_eq(part->pairs[i].name, label->name) &&
            fg_slice_eq(part->pairs[i].value, label->value))
            return i;
    fg_assert(fg_arena_grow(writer->arena, &part->pairs, part->n_pairs, 1, &part->cap_pairs,
                            sizeof *part->pairs));
    part->pairs[part->n_pairs] =
        (struct fg_block_pair){keep_text(writer, label->name), keep_text(writer, label->value)};
    fg_assert(fg_map_add_in(&part->pair_map, writer->arena, hash, part->n_pairs));
    return part->n_pairs++;
}

static uint32_t find_schema(struct fg_block_writer *writer, const struct fg_block_series *series)
{
    struct fg_block_part_out *part = &writer->part;
    struct fg_block_schema wanted = schema_of(series), *made;
    struct fg_value_type *types;

    for (uint32_t i = part->n_schemas; i > 0; i--) /* mostly that of the series before */
        if (fg_block_schema_cmp(&part->schemas[i - 1], &wanted) == 0)
            return i - 1;
    fg_assert(fg_arena_grow(writer->arena, &part->schemas, part->n_schemas, 1, &part->cap_schemas,
                            sizeof *part->schemas));
    made = &part->schemas[part->n_schemas];
    made->n_types = series->n_types;
    made->period_type = keep_type(writer, &series->period_type);
    types = keep(writer, series->n_types, sizeof *types);
    for (uint32_t t = 0; t < series->n_types; t++)
        types[t] = keep_type(writer, &series->types[t]);
    made->types = types;
    return part->n_schemas++;
}

static enum fg_code check_series(const struct fg_block_part_out *part,
                                 const struct fg_block_series *series, struct fg_err *err)
{
    if (series->n_types == 0 || series->n_types > FG_BATCH_TYPES_MAX)
        return fg_fail(err, FG_E_INVALID, "a series of %u sample types", series->n_types);
    for (size_t i = 1; i < series->labels.count; i++)
        if (fg_slice_cmp(series->labels.items[i - 1].name, series->labels.items[i].name) >= 0)
            return fg_fail(err, FG_E_INVALID, "labels of a series are not sorted");
    if (part->in_stripe && fg_block_series_cmp(&part->series[part->at].key, series) >= 0)
        return fg_fail(err, FG_E_INVALID, "a series is out of order");
    if (part->n_series == FG_BLOCK_ITEMS_MAX)
        return fg_fail(err, FG_E_LIMIT, "more than %u series", part->n_series);
    return FG_OK;
}

static uint64_t hash_series(const struct fg_block_series *key)
{
    return fg_labels_hash(&key->labels).lo;
}

/* Finds the series among those of earlier stripes; FG_MAP_NONE: it is new. */
static uint32_t find_series(const struct fg_block_part_out *part,
                            const struct fg_block_series *series)
{
    struct fg_map_walk walk;

    if (part->stripe == 0)
        return FG_MAP_NONE;
    for (uint32_t i = fg_map_first(&part->series_map, hash_series(series), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&part->series_map, &walk))
        if (fg_block_series_cmp(&part->series[i].key, series) == 0)
            return i;
    return FG_MAP_NONE;
}

/* Behind the last one, where it stays if it gets profiles. */
static void copy_series(struct fg_block_writer *writer, const struct fg_block_series *series)
{
    struct fg_block_part_out *part = &writer->part;
    struct fg_block_series_out *made;
    struct fg_label *labels;
    uint32_t schema;

    fg_assert(fg_arena_grow(writer->arena, &part->series, part->n_series, 1, &part->cap_series,
                            sizeof *part->series));
    schema = find_schema(writer, series);
    made = &part->series[part->n_series];
    *made = (struct fg_block_series_out){.schema = schema};
    made->n_pairs = (uint32_t)series->labels.count;
    made->pairs = keep(writer, made->n_pairs, sizeof *made->pairs);
    labels = keep(writer, made->n_pairs, sizeof *labels);
    for (uint32_t i = 0; i < made->n_pairs; i++) {
        made->pairs[i] = find_pair(writer, &series->labels.items[i]);
        labels[i] =
            (struct fg_label){part->pairs[made->pairs[i]].name, part->pairs[made->pairs[i]].value};
    }
    made->key = (struct fg_block_series){.labels = {labels, made->n_pairs},
                                         .types = part->schemas[schema].types,
                                         .n_types = series->n_types,
                                         .period_type = part->schemas[schema].period_type};
}

enum fg_code fg_block_series_open(struct fg_block_writer *writer,
                                  const struct fg_block_series *series, struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;

    if (check_series(part, series, err) != FG_OK)
        return err->code;
    part->at = find_series(part, series);
    if (part->at == FG_MAP_NONE) {
        copy_series(writer, series);
        part->at = part->n_series;
    }
    part->n_types = series->n_types;
    part->in_series = part->in_stripe = true;
    return FG_OK;
}

static void add_chunk(struct fg_block_writer *writer)
{
    struct fg_block_part_out *part = &writer->part;
    struct fg_block_series_out *series = &part->series[part->at];
    const struct fg_block_span *span = &part->series_span;

    if (part->at == part->n_series) {
        series->span = *span;
        fg_assert(fg_map_add_in(&part->series_map, writer->arena, hash_series(&series->key),
                                part->n_series++));
    } else { /* stripes ascend */
        series->span.t_max_ns = span->t_max_ns;
    }
    series->seen |= part->seen;
    fg_assert(fg_arena_grow(writer->arena, &part->chunks, part->n_chunks, 1, &part->cap_chunks,
                            sizeof *part->chunks));
    part->chunks[part->n_chunks++] =
        (struct fg_block_chunk_out){part->stripe, part->at, span->count};
}

enum fg_code fg_block_series_close(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;
    struct fg_block_pages_out *pages = &writer->pages;

    part->in_series = false;
    if (part->series_span.count > 0)
        add_chunk(writer);
    part->series_span.count = 0;
    part->seen = 0;
    pages->has_before = false;
    if (pages->smp_series_profiles >= FG_BLOCK_SMP_OWN_PROFILES &&
        fg_block_smp_flush(writer, err) != FG_OK)
        return err->code;
    pages->smp_series_profiles = 0;
    return FG_OK;
}

/* ---- writing them ---- */

static int by_pair(const void *a, const void *b, void *arg)
{
    const struct fg_block_pair *pairs = arg;
    const struct fg_block_pair *left = &pairs[*(const uint32_t *)a];
    const struct fg_block_pair *right = &pairs[*(const uint32_t *)b];
    int order = fg_slice_cmp(left->name, right->name);

    return order != 0 ? order : fg_slice_cmp(left->value, right->value);
}

static int by_schema(const void *a, const void *b, void *arg)
{
    const struct fg_block_schema *schemas = arg;

    return fg_block_schema_cmp(&schemas[*(const uint32_t *)a], &schemas[*(const uint32_t *)b]);
}

/* Things in use, sorted: olds by new number and news by old one. */
static void renumber(struct fg_block_numbers *numbers, uint32_t count,
                     int (*cmp)(const void *, const void *, void *), void *things)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < count; i++)
        if (numbers->news[i] != FG_MAP_NONE)
            numbers->olds[n++] = i;
    numbers->count = n;
    if (n > 0)
        qsort_r(numbers->olds, n, sizeof *numbers->olds, cmp, things);
    for (uint32_t i = 0; i < n; i++)
        numbers->news[numbers->olds[i]] = i;
}

static struct fg_block_numbers numbers_new(struct fg_block_writer *writer, uint32_t count)
{
    struct fg_block_numbers numbers = {
        .olds = keep(writer, count, sizeof(uint32_t)),
        .news = keep(writer, count, sizeof(uint32_t)),
    };

    memset(numbers.news, 0xff, (size_t)count * sizeof *numbers.news);
    return numbers;
}

static void encode_labels(struct fg_block_writer *writer, const struct fg_block_numbers *pairs)
{
    const struct fg_block_part_out *part = &writer->part;
    struct fg_buf *raw = &writer->raw;
    uint32_t names = 0, end;

    fg_buf_clear(raw);
    for (uint32_t i = 0; i < pairs->count; i++)
        names += i == 0 || !fg_slice_eq(part->pairs[pairs->olds[i]].name,
                                        part->pairs[pairs->olds[i - 1]].name);
    fg_buf_varint(raw, names);
    for (uint32_t i = 0; i < pairs->count; i = end) {
        struct fg_slice name = part->pairs[pairs->olds[i]].name;

        for (end = i + 1;
             end < pairs->count && fg_slice_eq(part->pairs[pairs->olds[end]].name, name);)
            end++;
        fg_buf_lenbytes(raw, name);
        fg_buf_varint(raw, end - i);
        for (uint32_t k = i; k < end; k++)
            fg_buf_lenbytes(raw, part->pairs[pairs->olds[k]].value);
    }
}

static int by_key(const void *a, const void *b, void *arg)
{
    const struct fg_block_series_out *series = arg;

    return fg_block_series_cmp(&series[*(const uint32_t *)a].key,
                               &series[*(const uint32_t *)b].key);
}

struct fg_block_numbers fg_block_series_order(struct fg_block_writer *writer)
{
    struct fg_block_part_out *part = &writer->part;
    struct fg_block_numbers order = numbers_new(writer, part->n_series);

    memset(order.news, 0, part->n_series * sizeof *order.news); /* all are in use */
    renumber(&order, part->n_series, by_key, part->series);
    return order;
}

/* From `from` on those of its stripe. */
static uint32_t encode_stripe(struct fg_block_writer *writer, uint32_t from,
                              const struct fg_block_numbers *order)
{
    const struct fg_block_part_out *part = &writer->part;
    uint32_t end = from, next = 0;

    while (end < part->n_chunks && part->chunks[end].stripe == part->chunks[from].stripe)
        end++;
    fg_buf_varint(&writer->raw, end - from);
    for (uint32_t i = from; i < end; i++) {
        uint32_t series = order->news[part->chunks[i].series];

        fg_buf_varint(&writer->raw, series - next);
        fg_buf_varint(&writer->raw, part->chunks[i].count);
        next = series + 1;
    }
    return end;
}

static void encode_stripes(struct fg_block_writer *writer, const struct fg_block_numbers *order)
{
    const struct fg_block_part_out *part = &writer->part;
    uint32_t n_stripes = 0;

    for (uint32_t i = 0; i < part->n_chunks; i++)
        n_stripes += i == 0 || part->chunks[i].stripe != part->chunks[i - 1].stripe;
    fg_buf_varint(&writer->raw, n_stripes);
    fg_buf_varint(&writer->raw, part->n_chunks);
    for (uint32_t i = 0; i < part->n_chunks;)
        i = encode_stripe(writer, i, order);
}

static void encode_series(struct fg_block_writer *writer, const struct fg_block_numbers *pairs,
                          const struct fg_block_numbers *schemas,
                          const struct fg_block_numbers *order)
{
    const struct fg_block_part_out *part = &writer->part;
    struct fg_buf *raw = &writer->raw;
    int64_t before_ns = 0;

    fg_buf_clear(raw);
    fg_buf_varint(raw, schemas->count);
    for (uint32_t i = 0; i < schemas->count; i++) {
        const struct fg_block_schema *schema = &part->schemas[schemas->olds[i]];

        fg_buf_lenbytes(raw, schema->period_type.type);
        fg_buf_lenbytes(raw, schema->period_type.unit);
        fg_buf_varint(raw, schema->n_types);
        for (uint32_t t = 0; t < schema->n_types; t++) {
            fg_buf_lenbytes(raw, schema->types[t].type);
            fg_buf_lenbytes(raw, schema->types[t].unit);
        }
    }
    fg_buf_varint(raw, part->n_series);
    for (uint32_t i = 0; i < part->n_series; i++) {
        const struct fg_block_series_out *series = &part->series[order->olds[i]];
        uint32_t before = 0;

        fg_buf_varint(raw, schemas->news[series->schema]);
        fg_buf_varint(raw, series->n_pairs);
        for (uint32_t k = 0; k < series->n_pairs; k++) {
            uint32_t pair = pairs->news[series->pairs[k]];

            fg_buf_varint(raw, pair - before);
            before = pair;
        }
        fg_buf_varint(raw, series->seen);
        fg_buf_zigzag(raw, fg_wrap_sub(series->span.t_min_ns, before_ns));
        fg_buf_varint(raw, (uint64_t)series->span.t_max_ns - (uint64_t)series->span.t_min_ns);
        before_ns = series->span.t_min_ns;
    }
    encode_stripes(writer, order);
}

static enum fg_code put_section(struct fg_block_writer *writer, uint32_t kind, uint32_t items,
                                struct fg_err *err)
{
    const struct fg_block_span span = {.count = items};

    writer->rest.kind = kind;
    if (fg_block_page_put(writer, &writer->rest, &span, err) != FG_OK)
        return err->code;
    return fg_block_section_end(writer, &writer->rest, err);
}

enum fg_code fg_block_write_series(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_block_part_out *part = &writer->part;
    struct fg_block_numbers pairs = numbers_new(writer, part->n_pairs);
    struct fg_block_numbers schemas = numbers_new(writer, part->n_schemas);
    struct fg_block_numbers order = fg_block_series_order(writer);

    /* Series without profiles may have left unused pairs and schemas. */
    for (uint32_t i = 0; i < part->n_series; i++) {
        schemas.news[part->series[i].schema] = 0;
        for (uint32_t k = 0; k < part->series[i].n_pairs; k++)
            pairs.news[part->series[i].pairs[k]] = 0;
    }
    renumber(&pairs, part->n_pairs, by_pair, part->pairs);
    renumber(&schemas, part->n_schemas, by_schema, part->schemas);
    encode_labels(writer, &pairs);
    if (put_section(writer, FG_BLOCK_LBL, pairs.count, err) != FG_OK)
        return err->code;
    encode_series(writer, &pairs, &schemas, &order);
    return put_section(writer, FG_BLOCK_SER, part->n_series, err);
}
