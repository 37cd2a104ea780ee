/*
 * The message is written in the order of its field numbers, with everything numbered by first use.
 * What the samples use is taken over into a table of its own, so that ids are its numbers plus one
 * and nothing is in the message that no sample needs.
 */
#include "common/model/pprof_write.h"

#include "common/base/pprof_fields.h"
#include "common/base/str.h"

struct pprof_writing {
    const struct fg_tree *tree;
    struct fg_symbols used; /* what the samples refer to */
    struct fg_symbols_import import;
    struct fg_buf part, list; /* a message inside, and a packed list or a message in that */
    struct fg_buf text;
    struct fg_buf *out;
};

/* Writes a message inside. If the part was cut short, the whole counts as full as well. */
static void put_part(struct pprof_writing *writing, unsigned field)
{
    fg_buf_pb_bytes(writing->out, field, fg_buf_slice(&writing->part));
    writing->out->full = writing->out->full || writing->part.full;
}

static void put_value_type(struct pprof_writing *writing, unsigned field, struct fg_slice type,
                           struct fg_slice unit)
{
    fg_buf_clear(&writing->part);
    fg_buf_pb_number(&writing->part, PPROF_VALUE_TYPE_TYPE,
                     fg_symbols_string(&writing->used, type));
    fg_buf_pb_number(&writing->part, PPROF_VALUE_TYPE_UNIT,
                     fg_symbols_string(&writing->used, unit));
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
    fg_buf_pb_number(&writing->list, PPROF_LABEL_KEY,
                     fg_symbols_string(&writing->used, fg_cstr(name)));
    fg_buf_pb_number(&writing->list, PPROF_LABEL_STR,
                     fg_symbols_string(&writing->used, fg_buf_slice(&writing->text)));
    fg_buf_pb_bytes(&writing->part, PPROF_SAMPLE_LABEL, fg_buf_slice(&writing->list));
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
        fg_buf_pb_bytes(&writing->part, PPROF_SAMPLE_LOCATION, fg_buf_slice(&writing->list));
    fg_buf_clear(&writing->list);
    for (uint32_t i = 0; i < n_values; i++)
        fg_buf_varint(&writing->list, (uint64_t)values[(size_t)i * stride]);
    fg_buf_pb_bytes(&writing->part, PPROF_SAMPLE_VALUE, fg_buf_slice(&writing->list));
    if (link != NULL) {
        uint8_t span[FG_ID_BYTES];

        fg_id_put(span, (struct fg_id){.lo = link->span_id});
        put_hex_label(writing, "span_id", span, sizeof link->span_id);
        put_hex_label(writing, "trace_id", link->trace_id, sizeof link->trace_id);
    }
    put_part(writing, PPROF_PROFILE_SAMPLE);
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
    fg_buf_pb_number(part, PPROF_MAPPING_ID, (uint64_t)number + 1);
    fg_buf_pb_number(part, PPROF_MAPPING_START, mapping->start);
    fg_buf_pb_number(part, PPROF_MAPPING_LIMIT, mapping->limit);
    fg_buf_pb_number(part, PPROF_MAPPING_OFFSET, mapping->offset);
    fg_buf_pb_number(part, PPROF_MAPPING_FILENAME, mapping->filename);
    fg_buf_pb_number(part, PPROF_MAPPING_BUILD_ID, mapping->build_id);
    fg_buf_pb_number(part, PPROF_MAPPING_HAS_FUNCTIONS,
                     (mapping->flags & FG_MAPPING_FUNCTIONS) != 0);
    fg_buf_pb_number(part, PPROF_MAPPING_HAS_FILENAMES,
                     (mapping->flags & FG_MAPPING_FILENAMES) != 0);
    fg_buf_pb_number(part, PPROF_MAPPING_HAS_LINES, (mapping->flags & FG_MAPPING_LINES) != 0);
    fg_buf_pb_number(part, PPROF_MAPPING_HAS_INLINE, (mapping->flags & FG_MAPPING_INLINE) != 0);
    put_part(writing, PPROF_PROFILE_MAPPING);
}

static void put_location(struct pprof_writing *writing, uint32_t number)
{
    const struct fg_location *location = &writing->used.locations[number];
    bool mapped = location->mapping != FG_NO_MAPPING;

    fg_buf_clear(&writing->part);
    fg_buf_pb_number(&writing->part, PPROF_LOCATION_ID, (uint64_t)number + 1);
    fg_buf_pb_number(&writing->part, PPROF_LOCATION_MAPPING,
                     mapped ? (uint64_t)location->mapping + 1 : 0);
    fg_buf_pb_number(&writing->part, PPROF_LOCATION_ADDRESS, location->address);
    for (uint32_t i = 0; i < location->n_lines; i++) {
        const struct fg_line *line = &writing->used.lines[location->first_line + i];

        fg_buf_clear(&writing->list);
        fg_buf_pb_number(&writing->list, PPROF_LINE_FUNCTION, (uint64_t)line->function + 1);
        fg_buf_pb_number(&writing->list, PPROF_LINE_LINE, (uint64_t)line->line);
        fg_buf_pb_bytes(&writing->part, PPROF_LOCATION_LINE, fg_buf_slice(&writing->list));
    }
    fg_buf_pb_number(&writing->part, PPROF_LOCATION_FOLDED, location->folded);
    put_part(writing, PPROF_PROFILE_LOCATION);
}

static void put_function(struct pprof_writing *writing, uint32_t number)
{
    const struct fg_function *function = &writing->used.functions[number];

    fg_buf_clear(&writing->part);
    fg_buf_pb_number(&writing->part, PPROF_FUNCTION_ID, (uint64_t)number + 1);
    fg_buf_pb_number(&writing->part, PPROF_FUNCTION_NAME, function->name);
    fg_buf_pb_number(&writing->part, PPROF_FUNCTION_SYSTEM_NAME, function->system_name);
    fg_buf_pb_number(&writing->part, PPROF_FUNCTION_FILENAME, function->filename);
    fg_buf_pb_number(&writing->part, PPROF_FUNCTION_START_LINE, (uint64_t)function->start_line);
    put_part(writing, PPROF_PROFILE_FUNCTION);
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
        fg_buf_pb_bytes(writing->out, PPROF_PROFILE_STRING, fg_symbols_text(&writing->used, i));
    fg_buf_pb_number(writing->out, PPROF_PROFILE_TIME, (uint64_t)head->time_ns);
    fg_buf_pb_number(writing->out, PPROF_PROFILE_DURATION, (uint64_t)head->duration_ns);
    put_value_type(writing, PPROF_PROFILE_PERIOD_TYPE, head->type.period_type,
                   head->type.period_unit);
    fg_buf_pb_number(writing->out, PPROF_PROFILE_PERIOD, (uint64_t)period);
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
    put_value_type(&writing, PPROF_PROFILE_SAMPLE_TYPE, type->type, type->unit);
    add_strings(&writing, type);
    put_tree(&writing);
    put_rest(&writing, head, head->period != 0 ? head->period : usual_period(type));
    fg_buf_pb_number(out, PPROF_PROFILE_DEFAULT_TYPE, fg_symbols_string(&writing.used, type->type));
    writing_done(&writing);
}

void fg_pprof_write_samples(const struct fg_tree *tree, const struct fg_pprof_samples *samples,
                            const struct fg_pprof_head *head, struct fg_buf *out)
{
    struct pprof_writing writing;

    writing_init(&writing, tree, out);
    for (uint32_t i = 0; i < samples->n_types; i++)
        put_value_type(&writing, PPROF_PROFILE_SAMPLE_TYPE, samples->types[i].type,
                       samples->types[i].unit);
    add_strings(&writing, &head->type);
    put_samples(&writing, samples);
    put_rest(&writing, head, head->period);
    writing_done(&writing);
}
