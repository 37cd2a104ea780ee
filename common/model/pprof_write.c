/*
 * The message is written in the order of its field numbers, with everything numbered by first use.
 * What the samples use is taken over into a table of its own, so that ids are its numbers plus one
 * and nothing is in the message that no sample needs.
 */
#include "common/model/pprof_write.h"

#include "common/base/str.h"

/* Field numbers of google/pprof's profile.proto. */
enum profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};

struct pprof_writing {
    const struct fg_tree *tree;
    struct fg_symbols used; /* what the samples refer to */
    struct fg_symbols_import import;
    struct fg_buf part, list; /* a message inside, and a packed list or a message in that */
    struct fg_buf text;
    struct fg_buf *out;
};

static void put_number(struct fg_buf *out, unsigned field, uint64_t value)
{
    if (value == 0) /* proto3: the default is not sent */
        return;
    fg_buf_varint(out, FG_PB_TAG(field, FG_PB_VARINT));
    fg_buf_varint(out, value);
}

static void put_bytes(struct fg_buf *out, unsigned field, struct fg_slice bytes)
{
    fg_buf_varint(out, FG_PB_TAG(field, FG_PB_LEN));
    fg_buf_lenbytes(out, bytes);
}

/* Writes a message inside. If the part was cut short, the whole counts as full as well. */
static void put_part(struct pprof_writing *writing, unsigned field)
{
    put_bytes(writing->out, field, fg_buf_slice(&writing->part));
    writing->out->full = writing->out->full || writing->part.full;
}

static void put_value_type(struct pprof_writing *writing, unsigned field, struct fg_slice type,
                           struct fg_slice unit)
{
    fg_buf_clear(&writing->part);
    put_number(&writing->part, 1, fg_symbols_string(&writing->used, type));
    put_number(&writing->part, 2, fg_symbols_string(&writing->used, unit));
    put_part(writing, field);
}

/* ---- samples ---- */

/* Writes nothing if all bytes are zero, which means that there is no such id. */
static void put_hex_label(struct pprof_writing *writing, const char *name, const uint8_t *bytes,
                          size_t len)
{
    static const uint8_t none[FG_ID_BYTES];

    if (memcmp(bytes, none, len) == 0)
        return;
    fg_buf_clear(&writing->text);
    fg_buf_hex(&writing->text, bytes, len);
    fg_buf_clear(&writing->list);
    put_number(&writing->list, 1, fg_symbols_string(&writing->used, fg_cstr(name)));
    put_number(&writing->list, 2, fg_symbols_string(&writing->used, fg_buf_slice(&writing->text)));
    put_bytes(&writing->part, 3, fg_buf_slice(&writing->list));
}

/*
 * node FG_TREE_ROOT: the sample without a stack; link NULL: without a span. Its values are a column
 * of all values, stride from one to the next.
 */
static void put_sample(struct pprof_writing *writing, uint32_t node, const int64_t *values,
                       uint32_t n_values, uint32_t stride, const struct fg_link *link)
{
    const struct fg_tree *tree = writing->tree;

    fg_buf_clear(&writing->list);
    for (uint32_t i = node; i != FG_TREE_ROOT && !writing->list.full; i = tree->parents[i])
        fg_buf_varint(&writing->list,
                      (uint64_t)fg_symbols_import_location(&writing->import, tree->locations[i]) +
                          1);
    fg_buf_clear(&writing->part);
    if (node != FG_TREE_ROOT)
        put_bytes(&writing->part, 1, fg_buf_slice(&writing->list));
    fg_buf_clear(&writing->list);
    for (uint32_t i = 0; i < n_values; i++)
        fg_buf_varint(&writing->list, (uint64_t)values[(size_t)i * stride]);
    put_bytes(&writing->part, 2, fg_buf_slice(&writing->list));
    if (link != NULL) {
        uint8_t span[FG_ID_BYTES];

        fg_id_put(span, (struct fg_id){.lo = link->span_id});
        put_hex_label(writing, "span_id", span, sizeof link->span_id);
        put_hex_label(writing, "trace_id", link->trace_id, sizeof link->trace_id);
    }
    put_part(writing, PROFILE_SAMPLE);
}

/* Stops at the cap: a tree as deep as it has nodes gives samples of the square of their number. */
static void put_tree(struct pprof_writing *writing)
{
    const struct fg_tree *tree = writing->tree;

    for (uint32_t i = 0; i < tree->n_nodes && !writing->out->full; i++)
        if (tree->self[i] != 0)
            put_sample(writing, i, &tree->self[i], 1, 0, NULL);
    if (tree->root_self != 0)
        put_sample(writing, FG_TREE_ROOT, &tree->root_self, 1, 0, NULL);
}

static void put_samples(struct pprof_writing *writing, const struct fg_pprof_samples *samples)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < samples->count && !writing->out->full; i++) {
        bool linked = next < samples->n_links && samples->links[next].sample == i;

        put_sample(writing, samples->nodes[i], samples->values + i, samples->n_types,
                   samples->count, linked ? &samples->links[next] : NULL);
        next += linked;
    }
}

/* ---- tables ---- */

static void put_mapping(struct pprof_writing *writing, uint32_t number)
{
    const struct fg_mapping *mapping = &writing->used.mappings[number];
    struct fg_buf *part = &writing->part;

    fg_buf_clear(part);
    put_number(part, 1, (uint64_t)number + 1);
    put_number(part, 2, mapping->start);
    put_number(part, 3, mapping->limit);
    put_number(part, 4, mapping->offset);
    put_number(part, 5, mapping->filename);
    put_number(part, 6, mapping->build_id);
    put_number(part, 7, (mapping->flags & FG_MAPPING_FUNCTIONS) != 0);
    put_number(part, 8, (mapping->flags & FG_MAPPING_FILENAMES) != 0);
    put_number(part, 9, (mapping->flags & FG_MAPPING_LINES) != 0);
    put_number(part, 10, (mapping->flags & FG_MAPPING_INLINE) != 0);
    put_part(writing, PROFILE_MAPPING);
}

static void put_location(struct pprof_writing *writing, uint32_t number)
{
    const struct fg_location *location = &writing->used.locations[number];
    bool mapped = location->mapping != FG_NO_MAPPING;

    fg_buf_clear(&writing->part);
    put_number(&writing->part, 1, (uint64_t)number + 1);
    put_number(&writing->part, 2, mapped ? (uint64_t)location->mapping + 1 : 0);
    put_number(&writing->part, 3, location->address);
    for (uint32_t i = 0; i < location->n_lines; i++) {
        const struct fg_line *line = &writing->used.lines[location->first_line + i];

        fg_buf_clear(&writing->list);
        put_number(&writing->list, 1, (uint64_t)line->function + 1);
        put_number(&writing->list, 2, (uint64_t)line->line);
        put_bytes(&writing->part, 4, fg_buf_slice(&writing->list));
    }
    put_number(&writing->part, 5, location->folded);
    put_part(writing, PROFILE_LOCATION);
}

static void put_function(struct pprof_writing *writing, uint32_t number)
{
    const struct fg_function *function = &writing->used.functions[number];

    fg_buf_clear(&writing->part);
    put_number(&writing->part, 1, (uint64_t)number + 1);
    put_number(&writing->part, 2, function->name);
    put_number(&writing->part, 3, function->system_name);
    put_number(&writing->part, 4, function->filename);
    put_number(&writing->part, 5, (uint64_t)function->start_line);
    put_part(writing, PROFILE_FUNCTION);
}

/* ---- the whole ---- */

/* Returns the period that Pyroscope answers, whatever agents said: querier/API.md#pprof. */
static int64_t usual_period(const struct fg_profile_type *type)
{
    if (fg_slice_is(type->name, "process_cpu"))
        return 1000000000;
    if (fg_slice_is(type->name, "memory"))
        return INT64_C(512) * 1024;
    return 1;
}

/* Writes the fields that follow the samples. */
static void put_rest(struct pprof_writing *writing, const struct fg_pprof_head *head,
                     int64_t period)
{
    for (uint32_t i = 0; i < writing->used.n_mappings; i++)
        put_mapping(writing, i);
    for (uint32_t i = 0; i < writing->used.n_locations; i++)
        put_location(writing, i);
    for (uint32_t i = 0; i < writing->used.n_functions; i++)
        put_function(writing, i);
    for (uint32_t i = 0; i < writing->used.n_strings; i++)
        put_bytes(writing->out, PROFILE_STRING_TABLE, fg_symbols_text(&writing->used, i));
    put_number(writing->out, PROFILE_TIME_NANOS, (uint64_t)head->time_ns);
    put_number(writing->out, PROFILE_DURATION_NANOS, (uint64_t)head->duration_ns);
    put_value_type(writing, PROFILE_PERIOD_TYPE, head->type.period_type, head->type.period_unit);
    put_number(writing->out, PROFILE_PERIOD, (uint64_t)period);
}

/* The strings that the message's end refers to: they have to be there before the string table is
 * written. */
static void add_strings(struct pprof_writing *writing, const struct fg_profile_type *type)
{
    (void)fg_symbols_string(&writing->used, type->period_type);
    (void)fg_symbols_string(&writing->used, type->period_unit);
}

static void writing_init(struct pprof_writing *writing, const struct fg_tree *tree,
                         struct fg_buf *out)
{
    writing->tree = tree;
    writing->out = out;
    fg_buf_init(&writing->part, out->max_bytes);
    fg_buf_init(&writing->list, out->max_bytes);
    fg_buf_init(&writing->text, 2 * (size_t)FG_ID_BYTES);
    fg_symbols_init(&writing->used);
    fg_symbols_import_init(&writing->import, &writing->used, &tree->symbols);
}

static void writing_done(struct pprof_writing *writing)
{
    fg_symbols_import_done(&writing->import);
    fg_symbols_done(&writing->used);
    fg_buf_done(&writing->text);
    fg_buf_done(&writing->list);
    fg_buf_done(&writing->part);
}

void fg_pprof_write(const struct fg_tree *tree, const struct fg_pprof_head *head,
                    struct fg_buf *out)
{
    const struct fg_profile_type *type = &head->type;
    struct pprof_writing writing;

    writing_init(&writing, tree, out);
    put_value_type(&writing, PROFILE_SAMPLE_TYPE, type->type, type->unit);
    add_strings(&writing, type);
    put_tree(&writing);
    put_rest(&writing, head, head->period != 0 ? head->period : usual_period(type));
    put_number(out, PROFILE_DEFAULT_SAMPLE_TYPE, fg_symbols_string(&writing.used, type->type));
    writing_done(&writing);
}

void fg_pprof_write_samples(const struct fg_tree *tree, const struct fg_pprof_samples *samples,
                            const struct fg_pprof_head *head, struct fg_buf *out)
{
    struct pprof_writing writing;

    writing_init(&writing, tree, out);
    for (uint32_t i = 0; i < samples->n_types; i++)
        put_value_type(&writing, PROFILE_SAMPLE_TYPE, samples->types[i].type,
                       samples->types[i].unit);
    add_strings(&writing, &head->type);
    put_samples(&writing, samples);
    put_rest(&writing, head, head->period);
    writing_done(&writing);
}
