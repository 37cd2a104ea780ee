#include "ingester/catalog/series.h"

struct fg_id series_id(const struct series_def *def)
{
    struct fg_buf content;
    struct fg_id id;

    fg_buf_init(&content, SIZE_MAX);
    fg_buf_varint(&content, def->shard);
    fg_labels_encode(&def->labels, &content);
    fg_buf_lenbytes(&content, def->period.type);
    fg_buf_lenbytes(&content, def->period.unit);
    for (uint32_t t = 0; t < def->n_types; t++) {
        fg_buf_lenbytes(&content, def->types[t].type);
        fg_buf_lenbytes(&content, def->types[t].unit);
    }
    id = fg_hash128(fg_buf_slice(&content));
    fg_buf_done(&content);
    return id;
}

/* ---- one piece of memory: arrays first, then texts ---- */

struct room {
    uint8_t *arrays, *texts; /* where the next ones go */
};

static void *take(struct room *room, size_t bytes)
{
    void *taken = room->arrays;

    room->arrays += bytes;
    return taken;
}

static struct fg_slice keep_text(struct room *room, struct fg_slice text)
{
    struct fg_slice kept = fg_bytes(room->texts, text.len);

    if (text.len > 0)
        memcpy(room->texts, text.ptr, text.len);
    room->texts += text.len;
    return kept;
}

static struct fg_profile_type type_of(const struct series_def *def, uint32_t t)
{
    return (struct fg_profile_type){
        .name = fg_labels_get(&def->labels, FG_LABEL_NAME),
        .type = def->types[t].type,
        .unit = def->types[t].unit,
        .period_type = def->period.type,
        .period_unit = def->period.unit,
    };
}

/* scratch has no limit: what gets here was checked before. */
static struct fg_labels with_type(const struct fg_labels *labels,
                                  const struct fg_profile_type *type, struct fg_arena *scratch)
{
    struct fg_labels all = fg_labels_with_type(labels, type, scratch);

    fg_assert(all.items != NULL);
    return all;
}

struct sizes {
    size_t arrays, texts;
};

static struct sizes measure(const struct series_def *def, struct fg_arena *scratch)
{
    const struct fg_labels *labels = &def->labels;
    struct sizes sizes = {
        .arrays = sizeof(struct catalog_series) + labels->count * sizeof(struct fg_label) +
                  def->n_types * (sizeof(struct fg_profile_type) + sizeof(struct fg_labels)),
        .texts = def->period.type.len + def->period.unit.len,
    };

    for (size_t i = 0; i < labels->count; i++)
        sizes.texts += labels->items[i].name.len + labels->items[i].value.len;
    for (uint32_t t = 0; t < def->n_types; t++) {
        const struct fg_profile_type type = type_of(def, t);
        struct fg_labels all = with_type(labels, &type, scratch);

        sizes.arrays += all.count * sizeof(struct fg_label);
        sizes.texts +=
            type.type.len + type.unit.len + fg_labels_get(&all, FG_LABEL_PROFILE_TYPE).len;
    }
    return sizes;
}

static struct fg_labels keep_labels(struct room *room, const struct fg_labels *labels)
{
    struct fg_labels kept = {take(room, labels->count * sizeof *kept.items), labels->count};

    for (size_t i = 0; i < labels->count; i++)
        kept.items[i] = (struct fg_label){keep_text(room, labels->items[i].name),
                                          keep_text(room, labels->items[i].value)};
    return kept;
}

/* All texts are those of the series but that of the profile type. */
static struct fg_labels keep_all(struct room *room, const struct fg_labels *all)
{
    struct fg_labels kept = {take(room, all->count * sizeof *kept.items), all->count};
    size_t at;

    memcpy(kept.items, all->items, all->count * sizeof *kept.items);
    if (fg_labels_find(&kept, FG_LIT(FG_LABEL_PROFILE_TYPE), &at))
        kept.items[at].value = keep_text(room, kept.items[at].value);
    return kept;
}

static void set_types(struct catalog_series *series, const struct series_def *def,
                      struct room *room, struct fg_arena *scratch)
{
    const struct series_def kept = {
        .labels = series->labels,
        .period = {keep_text(room, def->period.type), keep_text(room, def->period.unit)},
        .types = def->types,
    };

    series->n_types = def->n_types;
    series->types = take(room, def->n_types * sizeof *series->types);
    series->by_type = take(room, def->n_types * sizeof *series->by_type);
    for (uint32_t t = 0; t < def->n_types; t++) {
        struct fg_profile_type type = type_of(&kept, t);
        struct fg_labels all;

        type.type = keep_text(room, type.type);
        type.unit = keep_text(room, type.unit);
        series->types[t] = type;
        all = with_type(&series->labels, &type, scratch);
        series->by_type[t] = keep_all(room, &all);
    }
}

struct catalog_series *series_make(const struct series_def *def)
{
    fg_auto(fg_arena) *scratch = fg_arena_create(SIZE_MAX);
    struct sizes sizes = measure(def, scratch);
    struct catalog_series *series = fg_calloc(1, sizes.arrays + sizes.texts);
    uint8_t *bytes = (uint8_t *)series;
    struct room room = {bytes + sizeof *series, bytes + sizes.arrays};

    series->memory.bytes = sizes.arrays + sizes.texts;
    series->labels = keep_labels(&room, &def->labels);
    series->shard = def->shard;
    series->id = series_id(def);
    series->least_ns = INT64_MAX;
    series->greatest_ns = INT64_MIN;
    set_types(series, def, &room, scratch);
    fg_assert(room.arrays == bytes + sizes.arrays && room.texts == bytes + series->memory.bytes);
    return series;
}

/* ---- definitions ---- */

void series_encode(const struct catalog_series *series, uint32_t service, struct fg_buf *out)
{
    struct fg_buf labels;

    fg_buf_init(&labels, SIZE_MAX);
    fg_labels_encode(&series->labels, &labels);
    fg_buf_varint(out, service);
    fg_buf_varint(out, series->shard);
    fg_buf_lenbytes(out, fg_buf_slice(&labels));
    fg_buf_lenbytes(out, series->types[0].period_type);
    fg_buf_lenbytes(out, series->types[0].period_unit);
    fg_buf_varint(out, series->n_types);
    for (uint32_t t = 0; t < series->n_types; t++) {
        fg_buf_lenbytes(out, series->types[t].type);
        fg_buf_lenbytes(out, series->types[t].unit);
    }
    fg_buf_varint(out, atomic_load(&series->seen));
    fg_buf_done(&labels);
}

static enum fg_code corrupt(struct fg_err *err)
{
    return fg_fail(err, FG_E_CORRUPT, "series cannot be read");
}

enum fg_code series_decode(struct fg_slice in, struct fg_arena *arena,
                           struct series_stored *ret_stored, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct series_stored stored = {.service = fg_cur_varint(&cur)};
    struct series_def *def = &stored.def;
    uint64_t shard = fg_cur_varint(&cur), n_types;
    struct fg_slice labels = fg_cur_lenbytes(&cur);

    def->period.type = fg_cur_lenbytes(&cur);
    def->period.unit = fg_cur_lenbytes(&cur);
    n_types = fg_cur_count(&cur, 2);
    def->types = fg_arena_new(arena, struct fg_value_type, n_types);
    if (def->types == NULL || n_types == 0)
        return corrupt(err);
    def->n_types = (uint32_t)n_types;
    for (uint32_t t = 0; t < def->n_types; t++) {
        def->types[t].type = fg_cur_lenbytes(&cur);
        def->types[t].unit = fg_cur_lenbytes(&cur);
    }
    stored.seen = fg_cur_varint(&cur);
    if (!fg_cur_end(&cur) || shard > UINT16_MAX)
        return corrupt(err);
    def->shard = (uint16_t)shard;
    if (fg_labels_decode(labels, arena, &def->labels, err) != FG_OK)
        return fg_wrap(err, "series");
    *ret_stored = stored;
    return FG_OK;
}
