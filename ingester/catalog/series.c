/*
 * A series is one piece of memory: struct, arrays of labels, then texts. What many series have in
 * common (names of labels, sample types, the profile name) is in a kind, and the name of the
 * service is the service's: with a million series each text that is not repeated counts. Pointers
 * go from the series to its kind and service, which live as long.
 */
#include "ingester/catalog/series.h"

/* Appends the types to the content, and returns the hash of all of it. Frees the content. */
static struct fg_id id_with_types(const struct ing_series_def *def, struct fg_buf *content)
{
    struct fg_id id;

    fg_buf_lenbytes(content, def->period.type);
    fg_buf_lenbytes(content, def->period.unit);
    for (uint32_t t = 0; t < def->n_types; t++) {
        fg_buf_lenbytes(content, def->types[t].type);
        fg_buf_lenbytes(content, def->types[t].unit);
    }
    id = fg_hash128(fg_buf_slice(content));
    fg_buf_done(content);
    return id;
}

struct fg_id ing_series_id(const struct ing_series_def *def)
{
    struct fg_buf content;

    fg_buf_init(&content, SIZE_MAX);
    /* The shard is part of the identity: a series whose shard factor grew becomes another series,
     * so each has one shard. */
    fg_buf_varint(&content, def->shard);
    fg_labels_encode(&def->labels, &content);
    return id_with_types(def, &content);
}

/* ---- one piece of memory: arrays first, then texts ---- */

struct room {
    uint8_t *arrays, *texts; /* where the next ones go */
};

static void *take_array(struct room *room, size_t bytes)
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

/* ---- kinds ---- */

struct fg_id ing_series_kind_id(const struct ing_series_def *def)
{
    struct fg_buf content;

    fg_buf_init(&content, SIZE_MAX);
    fg_buf_varint(&content, def->labels.count);
    for (size_t i = 0; i < def->labels.count; i++)
        fg_buf_lenbytes(&content, def->labels.items[i].name);
    fg_buf_lenbytes(&content, fg_labels_get(&def->labels, FG_LABEL_NAME));
    return id_with_types(def, &content);
}

struct ing_series_kind *ing_series_kind_make(const struct ing_series_def *def)
{
    const struct fg_labels *labels = &def->labels;
    struct fg_slice name = fg_labels_get(labels, FG_LABEL_NAME);
    size_t arrays = sizeof(struct ing_series_kind) + labels->count * sizeof(struct fg_slice) +
                    def->n_types * sizeof(struct ing_series_type);
    size_t texts = name.len + def->period.type.len + def->period.unit.len;
    struct ing_series_kind *kind;
    struct fg_buf of_types;
    struct room room;

    fg_buf_init(&of_types, SIZE_MAX);
    /* All texts of types, without the parts that all share. */
    for (uint32_t t = 0; t < def->n_types; t++)
        fg_profile_type_write(&(struct fg_profile_type){name, def->types[t].type,
                                                        def->types[t].unit, def->period.type,
                                                        def->period.unit},
                              &of_types);
    texts += of_types.len;
    for (size_t i = 0; i < labels->count; i++)
        texts += labels->items[i].name.len;
    for (uint32_t t = 0; t < def->n_types; t++)
        texts += def->types[t].type.len + def->types[t].unit.len;
    kind = fg_calloc(1, arrays + texts);
    room = (struct room){(uint8_t *)(kind + 1), (uint8_t *)kind + arrays};
    kind->memory.bytes = arrays + texts;
    kind->id = ing_series_kind_id(def);
    kind->n_names = labels->count;
    kind->names = take_array(&room, labels->count * sizeof *kind->names);
    kind->n_types = def->n_types;
    kind->types = take_array(&room, def->n_types * sizeof *kind->types);
    for (size_t i = 0; i < labels->count; i++)
        kind->names[i] = keep_text(&room, labels->items[i].name);
    name = keep_text(&room, name);
    const struct fg_value_type period = {keep_text(&room, def->period.type),
                                         keep_text(&room, def->period.unit)};
    for (uint32_t t = 0; t < def->n_types; t++) {
        struct ing_series_type *type = &kind->types[t];

        type->parts = (struct fg_profile_type){name, keep_text(&room, def->types[t].type),
                                               keep_text(&room, def->types[t].unit), period.type,
                                               period.unit};
        fg_buf_clear(&of_types);
        fg_profile_type_write(&type->parts, &of_types);
        type->text = keep_text(&room, fg_buf_slice(&of_types));
    }
    fg_buf_done(&of_types);
    /* Sizes were added up before: a difference would be an overflow of the block. */
    fg_assert(room.texts == (uint8_t *)kind + arrays + texts);
    return kind;
}

/* ---- series ---- */

/* Returns true if the kind has the value of this label. */
static bool is_of_kind(const struct fg_label *label)
{
    return fg_slice_is(label->name, FG_LABEL_NAME);
}

static bool is_of_service(const struct fg_label *label, struct fg_slice service)
{
    return fg_slice_is(label->name, FG_LABEL_SERVICE) && fg_slice_eq(label->value, service);
}

struct ing_catalog_series *ing_series_make(const struct ing_series_def *def,
                                           struct fg_slice service)
{
    const struct fg_labels *labels = &def->labels;
    size_t arrays = sizeof(struct ing_catalog_series) + labels->count * sizeof(struct fg_label);
    size_t texts = 0;
    struct ing_catalog_series *series;
    struct room room;

    for (size_t i = 0; i < labels->count; i++)
        if (!is_of_kind(&labels->items[i]) && !is_of_service(&labels->items[i], service))
            texts += labels->items[i].value.len;
    series = fg_calloc(1, arrays + texts);
    room = (struct room){(uint8_t *)(series + 1), (uint8_t *)series + arrays};
    series->memory.bytes = arrays + texts;
    series->labels =
        (struct fg_labels){take_array(&room, labels->count * sizeof *labels->items), labels->count};
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];

        if (is_of_service(label, service))
            series->labels.items[i].value = service;
        else if (!is_of_kind(label))
            series->labels.items[i].value = keep_text(&room, label->value);
    }
    fg_assert(room.texts == (uint8_t *)series + arrays + texts);
    series->shard = def->shard;
    series->id = ing_series_id(def);
    series->least_ns = INT64_MAX;
    series->greatest_ns = INT64_MIN;
    return series;
}

void ing_series_bind(struct ing_catalog_series *series, struct ing_series_kind *kind)
{
    fg_assert(series->kind == NULL && series->labels.count == kind->n_names);
    series->kind = kind;
    for (size_t i = 0; i < kind->n_names; i++) {
        struct fg_label *label = &series->labels.items[i];

        label->name = kind->names[i];
        if (is_of_kind(label))
            label->value = kind->types[0].parts.name;
    }
}

struct fg_slice ing_series_label(const struct ing_catalog_series *series, uint32_t number,
                                 struct fg_slice name)
{
    const struct ing_series_type *type = &series->kind->types[number];

    if (fg_slice_starts(name, "__")) {
        const struct {
            const char *name;
            struct fg_slice value;
        } made[] = {
            {FG_LABEL_PROFILE_TYPE, type->text},
            {FG_LABEL_NAME, type->parts.name},
            {FG_LABEL_TYPE, type->parts.type},
            {FG_LABEL_UNIT, type->parts.unit},
            {FG_LABEL_PERIOD_TYPE, type->parts.period_type},
            {FG_LABEL_PERIOD_UNIT, type->parts.period_unit},
        };

        for (size_t i = 0; i < FG_COUNT(made); i++)
            if (fg_slice_is(name, made[i].name))
                return made[i].value;
        if (fg_slice_is(name, FG_LABEL_SERVICE_COPY))
            return fg_labels_get(&series->labels, FG_LABEL_SERVICE);
    }
    for (size_t i = 0; i < series->labels.count; i++)
        if (fg_slice_eq(series->labels.items[i].name, name))
            return series->labels.items[i].value;
    return fg_bytes(NULL, 0);
}

struct fg_labels ing_series_type_labels(const struct ing_catalog_series *series, uint32_t type,
                                        struct fg_arena *arena)
{
    return fg_labels_with_type(&series->labels, &series->kind->types[type].parts, arena);
}

/* ---- definitions ---- */

void ing_series_encode(const struct ing_catalog_series *series, uint32_t service,
                       struct fg_buf *out)
{
    const struct ing_series_kind *kind = series->kind;
    struct fg_buf labels;

    fg_buf_init(&labels, SIZE_MAX);
    fg_labels_encode(&series->labels, &labels);
    fg_buf_varint(out, service);
    fg_buf_varint(out, series->shard);
    fg_buf_lenbytes(out, fg_buf_slice(&labels));
    fg_buf_lenbytes(out, kind->types[0].parts.period_type);
    fg_buf_lenbytes(out, kind->types[0].parts.period_unit);
    fg_buf_varint(out, kind->n_types);
    for (uint32_t t = 0; t < kind->n_types; t++) {
        fg_buf_lenbytes(out, kind->types[t].parts.type);
        fg_buf_lenbytes(out, kind->types[t].parts.unit);
    }
    fg_buf_varint(out, atomic_load(&series->seen));
    fg_buf_done(&labels);
}

static enum fg_code corrupt(struct fg_err *err)
{
    return fg_fail(err, FG_E_CORRUPT, "series cannot be read");
}

enum fg_code ing_series_decode(struct fg_slice in, struct fg_arena *arena,
                               struct ing_series_stored *ret_stored, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct ing_series_stored stored = {.service = fg_cur_varint(&cur)};
    struct ing_series_def *def = &stored.def;
    uint64_t shard = fg_cur_varint(&cur), n_types;
    struct fg_slice labels = fg_cur_lenbytes(&cur);

    def->period.type = fg_cur_lenbytes(&cur);
    def->period.unit = fg_cur_lenbytes(&cur);
    n_types = fg_cur_count(&cur, 2);
    def->types = fg_arena_new(arena, struct fg_value_type, n_types);
    /* The kind reads its first type. */
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
