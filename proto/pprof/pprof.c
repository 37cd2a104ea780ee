#include "proto/pprof/pprof.h"

#include "common/base/cursor.h"
#include "common/base/pprof_fields.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "proto/ids.h"
#include "proto/pprof/go_stacks.h"
#include "proto/pprof/names.h"

enum { FIRST_FIELD = PPROF_PROFILE_SAMPLE_TYPE, LAST_TABLE = PPROF_PROFILE_STRING };

enum {
    TYPES_MAX = FG_BATCH_TYPES_MAX,
    LINES_MAX = 1024,     /* of one location: functions inlined into each other */
    NOTHING = UINT32_MAX, /* a location with nothing to show: it leaves its stacks */
    LOST = NOTHING - 1,   /* a location whose function or names are not there: its samples go */
    YEAR_1970_NS_DAYS = 365,
    /* Bytes of names of all functions together. Many functions may share one long string, so a
     * small upload can name gigabytes, and each name is hashed and checked. */
    NAMES_MAX_BYTES = 256 * 1024 * 1024,
};

/* Entries of one table as they stand in the input. */
struct pprof_table {
    struct fg_slice *entries;
    uint32_t count, cap;
};

struct pprof_reader {
    struct fg_arena *arena;
    const struct fg_pprof_request *request;
    struct fg_batch *batch;
    struct fg_builder *builder;
    struct fg_decode_counts *counts;

    struct pprof_table tables[LAST_TABLE + 1]; /* by field number */
    int64_t time_ns, duration_ns, period;
    struct fg_slice period_type;

    uint64_t names_bytes; /* of functions and mappings so far */
    struct fg_ids functions, mappings, locations;
    uint32_t cap_lines, cap_mappings;
    uint32_t *unnamed;     /* of a mapping: the same for locations without names; 0: none yet */
    uint32_t *location_of; /* number in the input -> number in the batch, or NOTHING or LOST */
    bool *function_lost;   /* of a number: names that are not in the string table */

    struct fg_go_stack *completed; /* of a sample; NULL: stacks are as they were sent */

    /* Of the sample at hand, kept for the next. */
    uint32_t *stack;
    uint32_t depth, cap_stack;
    int64_t values[TYPES_MAX];
    struct fg_label *labels;
    uint32_t n_labels, cap_labels;
    uint32_t bare_group; /* of samples without labels */
    bool has_bare_group;
    bool lost;            /* it refers to what is not there, */
    struct fg_err dangle; /* namely this */
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

static enum fg_code cut_short(struct fg_err *err, const char *what, uint32_t number)
{
    return fg_fail(err, FG_E_DECODE, "pprof: %s %u cannot be read", what, number);
}

/* ---- tables ---- */

static uint32_t table_of(uint64_t tag)
{
    uint64_t field = tag >> 3;

    return (tag & 7) == FG_PB_LEN && field >= FIRST_FIELD && field <= LAST_TABLE ? (uint32_t)field
                                                                                 : 0;
}

static void read_scalar(struct pprof_reader *reader, uint64_t tag, struct fg_cur *cur)
{
    switch (tag) {
    case FG_PB_TAG(PPROF_PROFILE_TIME, FG_PB_VARINT):
        reader->time_ns = (int64_t)fg_cur_varint(cur);
        break;
    case FG_PB_TAG(PPROF_PROFILE_DURATION, FG_PB_VARINT):
        reader->duration_ns = (int64_t)fg_cur_varint(cur);
        break;
    case FG_PB_TAG(PPROF_PROFILE_PERIOD, FG_PB_VARINT):
        reader->period = (int64_t)fg_cur_varint(cur);
        break;
    case FG_PB_TAG(PPROF_PROFILE_PERIOD_TYPE, FG_PB_LEN):
        reader->period_type = fg_cur_lenbytes(cur);
        break;
    default:
        fg_pb_skip(cur, tag);
    }
}

/* A first pass that only notes where the entries are. Tables may come in any order (protobuf),
 * and samples refer to strings that often come last. */
static enum fg_code find_tables(struct pprof_reader *reader, struct fg_slice in, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);
        uint32_t field = table_of(tag);
        struct pprof_table *table = &reader->tables[field];

        if (field == 0) {
            read_scalar(reader, tag, &cur);
            continue;
        }
        if (table->count == table->cap &&
            !fg_arena_grow(reader->arena, &table->entries, table->count, 1, &table->cap,
                           sizeof *table->entries))
            return too_large(err);
        table->entries[table->count++] = fg_cur_lenbytes(&cur);
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "pprof: not a profile, or cut short, in %zu bytes",
                       in.len);
    return FG_OK;
}

static enum fg_code check_strings(struct pprof_reader *reader, struct fg_err *err)
{
    struct pprof_table *strings = &reader->tables[PPROF_PROFILE_STRING];

    if (strings->count == 0 || strings->entries[0].len != 0)
        return fg_fail(err, FG_E_INVALID, "string 0 should be empty string");
    for (uint32_t i = 0; i < strings->count; i++) {
        struct fg_slice *text = &strings->entries[i];

        /* Cut before the check: the cut falls between two characters. */
        *text = fg_symbol_cut(*text, &reader->request->upload.limits, reader->counts);
        if (!fg_utf8_valid(*text))
            return fg_fail(err, FG_E_INVALID, "invalid utf8 string: string %u of the profile", i);
    }
    return FG_OK;
}

/* Returns the string of an index. Out of range: sets *bad and returns "". */
static struct fg_slice text_at(const struct pprof_reader *reader, uint64_t index, bool *bad)
{
    const struct pprof_table *strings = &reader->tables[PPROF_PROFILE_STRING];

    if (index < strings->count)
        return strings->entries[index];
    *bad = true;
    return FG_LIT("");
}

/* ---- sample types ---- */

static enum fg_code read_value_type(struct pprof_reader *reader, struct fg_slice in,
                                    struct fg_value_type *ret_type, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    uint64_t type = 0, unit = 0;
    bool bad = false;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(PPROF_VALUE_TYPE_TYPE, FG_PB_VARINT))
            type = fg_cur_varint(&cur);
        else if (tag == FG_PB_TAG(PPROF_VALUE_TYPE_UNIT, FG_PB_VARINT))
            unit = fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    ret_type->type = text_at(reader, type, &bad);
    ret_type->unit = text_at(reader, unit, &bad);
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "pprof: a value type cannot be read");
    if (bad)
        return fg_fail(err, FG_E_INVALID, "sample type string index out of range");
    return FG_OK;
}

/* "alloc-size" to "alloc_size". */
static enum fg_code replace_dashes(struct pprof_reader *reader, struct fg_slice *text,
                                   struct fg_err *err)
{
    char *copy = fg_arena_text(reader->arena, *text);

    if (copy == NULL)
        return too_large(err);
    for (char *c = copy; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
    *text = fg_bytes(copy, text->len);
    return FG_OK;
}

static enum fg_code read_types(struct pprof_reader *reader, struct fg_err *err)
{
    const struct pprof_table *types = &reader->tables[PPROF_PROFILE_SAMPLE_TYPE];
    struct fg_batch *batch = reader->batch;

    if (types->count == 0)
        return fg_fail(err, FG_E_INVALID, "empty profile");
    if (types->count > TYPES_MAX)
        return fg_fail(err, FG_E_INVALID, "profile has %u sample types; limit %d", types->count,
                       TYPES_MAX);
    batch->types = fg_arena_new(reader->arena, struct fg_value_type, types->count);
    if (batch->types == NULL)
        return too_large(err);
    batch->n_types = types->count;
    for (uint32_t i = 0; i < types->count; i++) {
        struct fg_value_type *type = &batch->types[i];

        if (read_value_type(reader, types->entries[i], type, err) != FG_OK)
            return err->code;
        if ((reader->request->quirks & FG_PPROF_DOTNET) != 0 &&
            replace_dashes(reader, &type->type, err) != FG_OK)
            return err->code;
        /* Refused as by Pyroscope, with its sentence. */
        if (fg_slice_find(type->type, '-') != SIZE_MAX)
            return fg_fail(err, FG_E_INVALID, "sample type contains -");
    }
    /* Absent: an empty message, so both texts are string 0, which is empty. */
    return read_value_type(reader, reader->period_type, &batch->period_type, err);
}

/* ---- functions and mappings ---- */

/* Counts what a function or mapping is called. */
static enum fg_code count_names(struct pprof_reader *reader, size_t bytes, struct fg_err *err)
{
    reader->names_bytes += bytes;
    if (reader->names_bytes > NAMES_MAX_BYTES)
        return fg_fail(err, FG_E_TOO_LARGE, "names of functions add up to more than %d MiB",
                       NAMES_MAX_BYTES / (1024 * 1024));
    return FG_OK;
}

static enum fg_code read_function(struct pprof_reader *reader, uint32_t number, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(reader->tables[PPROF_PROFILE_FUNCTION].entries[number]);
    struct fg_batch_function *function = &reader->batch->functions[number];
    uint64_t id = 0, name = 0, system_name = 0, filename = 0, start_line = 0;
    bool bad = false;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(PPROF_FUNCTION_ID, FG_PB_VARINT):
            id = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_FUNCTION_NAME, FG_PB_VARINT):
            name = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_FUNCTION_SYSTEM_NAME, FG_PB_VARINT):
            system_name = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_FUNCTION_FILENAME, FG_PB_VARINT):
            filename = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_FUNCTION_START_LINE, FG_PB_VARINT):
            start_line = fg_cur_varint(&cur);
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    *function = (struct fg_batch_function){
        .name = text_at(reader, name, &bad),
        .system_name = text_at(reader, system_name, &bad),
        .filename = text_at(reader, filename, &bad),
        .start_line = (int64_t)start_line,
    };
    /* Also of a function without names: ids have to keep the order of the table. */
    fg_ids_add(&reader->functions, id);
    reader->function_lost[number] = bad;
    if (cur.bad)
        return cut_short(err, "function", number);
    return count_names(
        reader, function->name.len + function->system_name.len + function->filename.len, err);
}

/* Old .NET agents send functions without ids, one for each location and in their order. */
static bool dotnet_ids_missing(const struct pprof_reader *reader)
{
    if ((reader->request->quirks & FG_PPROF_DOTNET) == 0 ||
        reader->functions.count != reader->tables[PPROF_PROFILE_LOCATION].count)
        return false;
    for (uint32_t i = 0; i < reader->functions.count; i++)
        if (reader->functions.ids[i] != 0)
            return false;
    return true;
}

/* Reads the id of an entry before its table is read; 0: it has none. */
static uint64_t id_of(struct fg_slice entry, uint64_t field)
{
    struct fg_cur cur = fg_cur(entry);
    uint64_t id = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(field, FG_PB_VARINT))
            id = fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    return id;
}

static enum fg_code read_functions(struct pprof_reader *reader, struct fg_err *err)
{
    uint32_t count = reader->tables[PPROF_PROFILE_FUNCTION].count;

    reader->batch->functions = fg_arena_new(reader->arena, struct fg_batch_function, count);
    reader->function_lost = fg_arena_new(reader->arena, bool, count);
    if (reader->batch->functions == NULL || reader->function_lost == NULL ||
        !fg_ids_reserve(&reader->functions, reader->arena, count))
        return too_large(err);
    for (uint32_t i = 0; i < count; i++)
        if (read_function(reader, i, err) != FG_OK)
            return err->code;
    reader->batch->n_functions = count;
    if (dotnet_ids_missing(reader)) {
        fg_ids_clear(&reader->functions);
        for (uint32_t i = 0; i < count; i++)
            fg_ids_add(&reader->functions,
                       id_of(reader->tables[PPROF_PROFILE_LOCATION].entries[i], PPROF_LOCATION_ID));
    }
    return fg_ids_ready(&reader->functions, reader->arena) ? FG_OK : too_large(err);
}

static enum fg_code read_mapping(struct pprof_reader *reader, uint32_t number, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(reader->tables[PPROF_PROFILE_MAPPING].entries[number]);
    struct fg_batch_mapping mapping = {0};
    uint64_t id = 0, filename = 0, build_id = 0;
    bool bad = false;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(PPROF_MAPPING_ID, FG_PB_VARINT):
            id = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_MAPPING_START, FG_PB_VARINT):
            mapping.start = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_MAPPING_LIMIT, FG_PB_VARINT):
            mapping.limit = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_MAPPING_OFFSET, FG_PB_VARINT):
            mapping.offset = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_MAPPING_FILENAME, FG_PB_VARINT):
            filename = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_MAPPING_BUILD_ID, FG_PB_VARINT):
            build_id = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_MAPPING_HAS_FUNCTIONS, FG_PB_VARINT):
            mapping.flags |= fg_cur_varint(&cur) != 0 ? FG_MAPPING_FUNCTIONS : 0;
            break;
        case FG_PB_TAG(PPROF_MAPPING_HAS_FILENAMES, FG_PB_VARINT):
            mapping.flags |= fg_cur_varint(&cur) != 0 ? FG_MAPPING_FILENAMES : 0;
            break;
        case FG_PB_TAG(PPROF_MAPPING_HAS_LINES, FG_PB_VARINT):
            mapping.flags |= fg_cur_varint(&cur) != 0 ? FG_MAPPING_LINES : 0;
            break;
        case FG_PB_TAG(PPROF_MAPPING_HAS_INLINE, FG_PB_VARINT):
            mapping.flags |= fg_cur_varint(&cur) != 0 ? FG_MAPPING_INLINE : 0;
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    mapping.filename = text_at(reader, filename, &bad);
    mapping.build_id = text_at(reader, build_id, &bad);
    reader->batch->mappings[number] = mapping;
    fg_ids_add(&reader->mappings, bad ? 0 : id); /* as if it were not there: nobody finds 0 */
    if (cur.bad)
        return cut_short(err, "mapping", number);
    return count_names(reader, mapping.filename.len + mapping.build_id.len, err);
}

static enum fg_code read_mappings(struct pprof_reader *reader, struct fg_err *err)
{
    uint32_t count = reader->tables[PPROF_PROFILE_MAPPING].count;

    reader->batch->mappings = fg_arena_new(reader->arena, struct fg_batch_mapping, count);
    reader->unnamed = fg_arena_new(reader->arena, uint32_t, count);
    if (reader->batch->mappings == NULL || reader->unnamed == NULL ||
        !fg_ids_reserve(&reader->mappings, reader->arena, count))
        return too_large(err);
    reader->cap_mappings = count;
    for (uint32_t i = 0; i < count; i++)
        if (read_mapping(reader, i, err) != FG_OK)
            return err->code;
    reader->batch->n_mappings = count;
    return fg_ids_ready(&reader->mappings, reader->arena) ? FG_OK : too_large(err);
}

static bool has_functions(const struct pprof_reader *reader, uint32_t mapping)
{
    return mapping != FG_NO_MAPPING &&
           (reader->batch->mappings[mapping].flags & FG_MAPPING_FUNCTIONS) != 0;
}

/*
 * Addresses differ from one start of a program to the next, names do not. So a mapping that has
 * functions loses its addresses, and a location with a name is the same one everywhere. What a
 * location without a name has is its address and where that is mapped: it gets a mapping of its
 * own, which has no functions, for later symbolisation.
 */
static enum fg_code use_unnamed(struct pprof_reader *reader, uint32_t *mapping, struct fg_err *err)
{
    struct fg_batch *batch = reader->batch;
    uint32_t *unnamed = &reader->unnamed[*mapping];

    if (*unnamed == 0) {
        if (!fg_arena_grow(reader->arena, &batch->mappings, batch->n_mappings, 1,
                           &reader->cap_mappings, sizeof *batch->mappings))
            return too_large(err);
        batch->mappings[batch->n_mappings] = batch->mappings[*mapping];
        batch->mappings[batch->n_mappings].flags = 0;
        *unnamed = batch->n_mappings++;
    }
    *mapping = *unnamed;
    return FG_OK;
}

/* ---- locations ---- */

/* *lost: the function is not there; else it is left alone. */
static enum fg_code read_line(struct pprof_reader *reader, struct fg_slice in, bool *lost,
                              struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    uint64_t function = 0, line = 0;
    uint32_t number;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(PPROF_LINE_FUNCTION, FG_PB_VARINT))
            function = fg_cur_varint(&cur);
        else if (tag == FG_PB_TAG(PPROF_LINE_LINE, FG_PB_VARINT))
            line = fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "pprof: a line cannot be read");
    number = function == 0 ? UINT32_MAX : fg_ids_find(&reader->functions, function);
    if (number == UINT32_MAX || reader->function_lost[number]) {
        *lost = true;
        return FG_OK;
    }
    if (!fg_arena_grow(reader->arena, &reader->batch->lines, reader->batch->n_lines, 1,
                       &reader->cap_lines, sizeof *reader->batch->lines))
        return too_large(err);
    reader->batch->lines[reader->batch->n_lines++] = (struct fg_line){number, (int64_t)line};
    return FG_OK;
}

static enum fg_code read_location(struct pprof_reader *reader, uint32_t number, struct fg_err *err)
{
    struct fg_batch *batch = reader->batch;
    struct fg_cur cur = fg_cur(reader->tables[PPROF_PROFILE_LOCATION].entries[number]);
    struct fg_batch_location location = {.mapping = FG_NO_MAPPING, .first_line = batch->n_lines};
    uint64_t id = 0, mapping = 0;
    bool lost = false;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(PPROF_LOCATION_ID, FG_PB_VARINT):
            id = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_LOCATION_MAPPING, FG_PB_VARINT):
            mapping = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_LOCATION_ADDRESS, FG_PB_VARINT):
            location.address = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(PPROF_LOCATION_FOLDED, FG_PB_VARINT):
            location.folded = fg_cur_varint(&cur) != 0;
            break;
        case FG_PB_TAG(PPROF_LOCATION_LINE, FG_PB_LEN):
            if (read_line(reader, fg_cur_lenbytes(&cur), &lost, err) != FG_OK)
                return fg_wrap(err, "location %u", number);
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    if (cur.bad)
        return cut_short(err, "location", number);
    /* profile.proto: "A value of 0 means nil". A location of that id could not be referred to. */
    if (id == 0)
        return fg_fail(err, FG_E_INVALID, "location id is 0");
    fg_ids_add(&reader->locations, id);
    if (mapping != 0) /* one that is not there is none: FG_NO_MAPPING */
        location.mapping = fg_ids_find(&reader->mappings, mapping);
    /* Its lines go, too, or the next location would get them. */
    if (lost) {
        batch->n_lines = location.first_line;
        reader->location_of[number] = LOST;
        return FG_OK;
    }
    location.n_lines = batch->n_lines - location.first_line;
    if (location.n_lines > LINES_MAX) /* each stack that goes through it would show them all */
        return fg_fail(err, FG_E_INVALID, "location %u has %u lines; limit %d", number,
                       location.n_lines, LINES_MAX);
    if (location.n_lines == 0 && location.address == 0) {
        reader->location_of[number] = NOTHING;
        reader->counts->locations_dropped++;
        return FG_OK;
    }
    if (has_functions(reader, location.mapping)) {
        if (location.n_lines > 0)
            location.address = 0;
        else if (use_unnamed(reader, &location.mapping, err) != FG_OK)
            return err->code;
    }
    reader->location_of[number] = batch->n_locations;
    batch->locations[batch->n_locations++] = location;
    return FG_OK;
}

static enum fg_code read_locations(struct pprof_reader *reader, struct fg_err *err)
{
    struct fg_batch *batch = reader->batch;
    uint32_t count = reader->tables[PPROF_PROFILE_LOCATION].count;

    batch->locations = fg_arena_new(reader->arena, struct fg_batch_location, count);
    reader->location_of = fg_arena_new(reader->arena, uint32_t, count);
    if (batch->locations == NULL || reader->location_of == NULL ||
        !fg_ids_reserve(&reader->locations, reader->arena, count) ||
        !fg_arena_grow(reader->arena, &batch->lines, 0, count, &reader->cap_lines,
                       sizeof *batch->lines)) /* mostly one line each */
        return too_large(err);
    for (uint32_t i = 0; i < count; i++)
        if (read_location(reader, i, err) != FG_OK)
            return err->code;
    /* After all locations are read: until then a location without a name may still need its
     * mapping's addresses. */
    for (uint32_t i = 0; i < batch->n_mappings; i++)
        if ((batch->mappings[i].flags & FG_MAPPING_FUNCTIONS) != 0)
            batch->mappings[i].start = batch->mappings[i].limit = batch->mappings[i].offset = 0;
    return fg_ids_ready(&reader->locations, reader->arena) ? FG_OK : too_large(err);
}

/* ---- samples ---- */

/* Notes that the sample at hand refers to something that is not there. Only the sample is
 * dropped; the rest of the profile stays. */
static void lose_sample(struct pprof_reader *reader, const char *what, uint64_t number)
{
    reader->lost = true;
    (void)fg_fail(&reader->dangle, FG_E_INVALID, "%s %llu is not there", what,
                  (unsigned long long)number);
}

/* Adds one location id of a sample to the stack. */
static enum fg_code add_frame(struct pprof_reader *reader, uint64_t id, struct fg_err *err)
{
    uint32_t number = id == 0 ? UINT32_MAX : fg_ids_find(&reader->locations, id);

    if (number == UINT32_MAX) {
        lose_sample(reader, "location id", id);
        return FG_OK;
    }
    if (reader->location_of[number] == LOST) {
        lose_sample(reader, "the function, or its name, of location id", id);
        return FG_OK;
    }
    if (reader->location_of[number] == NOTHING)
        return FG_OK;
    if (!fg_arena_grow(reader->arena, &reader->stack, reader->depth, 1, &reader->cap_stack,
                       sizeof *reader->stack))
        return too_large(err);
    reader->stack[reader->depth++] = reader->location_of[number];
    return FG_OK;
}

static enum fg_code add_frames(struct pprof_reader *reader, struct fg_slice packed,
                               struct fg_err *err)
{
    /* Ids 1, 2, 3 … are their own places: no lookup is needed. */
    uint64_t n_plain = reader->locations.counted ? reader->locations.count : 0;
    struct fg_cur cur = fg_cur(packed);

    /* An id takes a byte at least, so this is room for all of them. */
    if (packed.len > UINT32_MAX ||
        !fg_arena_grow(reader->arena, &reader->stack, reader->depth, (uint32_t)packed.len,
                       &reader->cap_stack, sizeof *reader->stack))
        return too_large(err);
    while (fg_cur_more(&cur)) {
        uint64_t id = fg_cur_varint(&cur);
        uint32_t location = id - 1 < n_plain ? reader->location_of[id - 1] : NOTHING;

        /* Nearly every producer counts its locations: then this is all there is to a frame. */
        if (location < LOST)
            reader->stack[reader->depth++] = location;
        else if (!cur.bad && add_frame(reader, id, err) != FG_OK)
            return err->code;
    }
    return cur.bad ? fg_fail(err, FG_E_DECODE, "pprof: location ids cut short") : FG_OK;
}

static void add_values(struct pprof_reader *reader, struct fg_slice packed, uint32_t *count,
                       struct fg_cur *outer)
{
    struct fg_cur cur = fg_cur(packed);

    while (fg_cur_more(&cur)) {
        int64_t value = (int64_t)fg_cur_varint(&cur);

        /* Values beyond the types are counted, so that the caller refuses the sample, but have
         * no room. */
        if (*count < TYPES_MAX)
            reader->values[*count] = value;
        (*count)++;
    }
    if (cur.bad)
        fg_cur_fail(outer);
}

static enum fg_code add_label(struct pprof_reader *reader, struct fg_slice in, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    uint64_t key = 0, str = 0;
    bool bad = false;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(PPROF_LABEL_KEY, FG_PB_VARINT))
            key = fg_cur_varint(&cur);
        else if (tag == FG_PB_TAG(PPROF_LABEL_STR, FG_PB_VARINT))
            str = fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "pprof: a sample's label cannot be read");
    if (!fg_arena_grow(reader->arena, &reader->labels, reader->n_labels, 1, &reader->cap_labels,
                       sizeof *reader->labels))
        return too_large(err);
    reader->labels[reader->n_labels++] =
        (struct fg_label){text_at(reader, key, &bad), text_at(reader, str, &bad)};
    if (bad)
        lose_sample(reader, "the text of label", reader->n_labels - 1);
    return FG_OK;
}

/* The group of the labels. Most samples have no labels at all: their group is looked for
 * once. */
static enum fg_code find_group(struct pprof_reader *reader, struct fg_labels *labels,
                               uint32_t *ret_group, struct fg_err *err)
{
    if (labels->count == 0) {
        if (!reader->has_bare_group &&
            fg_builder_group(reader->builder, labels, &reader->bare_group, err) != FG_OK)
            return err->code;
        reader->has_bare_group = true;
        *ret_group = reader->bare_group;
        return FG_OK;
    }
    fg_labels_sort(labels);
    return fg_builder_group(reader->builder, labels, ret_group, err);
}

/* stack: its locations, if they were read before; depth 0: they were not, or there are none. */
static enum fg_code read_sample(struct pprof_reader *reader, struct fg_slice in,
                                struct fg_go_stack stack, uint32_t *ret_n_values,
                                struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);

    *ret_n_values = 0;
    reader->depth = 0;
    if (stack.depth > 0) {
        if (!fg_arena_grow(reader->arena, &reader->stack, 0, stack.depth, &reader->cap_stack,
                           sizeof *reader->stack))
            return too_large(err);
        memcpy(reader->stack, stack.locations, stack.depth * sizeof *reader->stack);
        reader->depth = stack.depth;
    }
    reader->n_labels = 0;
    reader->lost = false;
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);
        enum fg_code code = FG_OK;

        switch (tag) {
        case FG_PB_TAG(PPROF_SAMPLE_LOCATION, FG_PB_LEN):
        case FG_PB_TAG(PPROF_SAMPLE_LOCATION, FG_PB_VARINT):
            if (stack.depth > 0)
                fg_pb_skip(&cur, tag);
            else
                code = add_frames(reader, fg_pb_varints(&cur, tag), err);
            break;
        case FG_PB_TAG(PPROF_SAMPLE_VALUE, FG_PB_LEN):
        case FG_PB_TAG(PPROF_SAMPLE_VALUE, FG_PB_VARINT):
            add_values(reader, fg_pb_varints(&cur, tag), ret_n_values, &cur);
            break;
        case FG_PB_TAG(PPROF_SAMPLE_LABEL, FG_PB_LEN):
            code = add_label(reader, fg_cur_lenbytes(&cur), err);
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
        if (cur.bad)
            break;
        if (code != FG_OK)
            return code;
    }
    return cur.bad ? fg_fail(err, FG_E_DECODE, "pprof: cut short") : FG_OK;
}

static enum fg_code keep_sample(struct pprof_reader *reader, uint32_t n_values, struct fg_err *err)
{
    uint32_t max_labels = reader->request->upload.limits.sample_labels_max;
    struct fg_labels labels;
    struct fg_link link;
    bool linked;
    uint32_t group = 0, stack = 0;

    if (n_values != reader->batch->n_types)
        return fg_fail(err, FG_E_INVALID, "sample value length mismatch: %u values for %u types",
                       n_values, reader->batch->n_types);
    if (max_labels != 0 && reader->n_labels > max_labels)
        return fg_fail(err, FG_E_INVALID,
                       "profile exceeds the sample labels limit (max_profile_stacktrace_sample_"
                       "labels, actual: %u, limit: %u)",
                       reader->n_labels, max_labels);
    labels = (struct fg_labels){reader->labels, reader->n_labels};
    /* Before the group is looked for: span ids would make a group of each sample. */
    linked = fg_link_take(&labels, &link);
    if (find_group(reader, &labels, &group, err) != FG_OK ||
        fg_builder_stack(reader->builder, reader->stack, reader->depth, &stack, err) != FG_OK)
        return err->code;
    return fg_builder_sample(reader->builder, group, stack, linked ? &link : NULL, reader->values,
                             err);
}

/* How many locations a sample names. */
static uint32_t depth_of(struct fg_slice in)
{
    struct fg_cur cur = fg_cur(in);
    uint32_t depth = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(PPROF_SAMPLE_LOCATION, FG_PB_LEN) ||
            tag == FG_PB_TAG(PPROF_SAMPLE_LOCATION, FG_PB_VARINT)) {
            struct fg_slice ids = fg_pb_varints(&cur, tag);

            for (size_t i = 0; i < ids.len; i++)
                depth += (ids.ptr[i] & 0x80) == 0; /* the last byte of a number */
        } else {
            fg_pb_skip(&cur, tag);
        }
    }
    return depth;
}

/* Whether Go's profiler may have cut stacks: one is as deep as it gets, and none is deeper. */
static bool may_be_cut(const struct pprof_reader *reader)
{
    const struct pprof_table *table = &reader->tables[PPROF_PROFILE_SAMPLE];
    uint32_t less_than, from = fg_go_cut_depth(reader->batch, &less_than);
    bool deep = false;

    if (from == 0 || !fg_pprof_is_go(reader->batch, reader->request->quirks))
        return false;
    for (uint32_t i = 0; i < table->count && (!deep || less_than > 0); i++) {
        /* An id takes a byte at least. */
        uint32_t depth = table->entries[i].len < from ? 0 : depth_of(table->entries[i]);

        deep |= depth >= from;
        if (less_than > 0 && depth >= less_than)
            return false;
    }
    return deep;
}

/* Makes reader->completed, a stack for each sample. */
static enum fg_code complete_stacks(struct pprof_reader *reader, struct fg_err *err)
{
    const struct pprof_table *table = &reader->tables[PPROF_PROFILE_SAMPLE];
    const struct fg_go_stack none = {NULL, 0};
    uint32_t n_values, n_completed;

    reader->completed = fg_arena_new(reader->arena, struct fg_go_stack, table->count);
    if (reader->completed == NULL)
        return too_large(err);
    for (uint32_t i = 0; i < table->count; i++) {
        uint32_t *copy;

        if (read_sample(reader, table->entries[i], none, &n_values, err) != FG_OK)
            return fg_wrap(err, "sample %u", i);
        if (reader->lost || reader->depth == 0)
            continue;
        copy = fg_arena_new(reader->arena, uint32_t, reader->depth);
        if (copy == NULL)
            return too_large(err);
        memcpy(copy, reader->stack, reader->depth * sizeof *copy);
        reader->completed[i] = (struct fg_go_stack){copy, reader->depth};
    }
    if (fg_go_complete(reader->completed, table->count, reader->arena, &n_completed, err) != FG_OK)
        return err->code;
    reader->counts->stacks_completed += n_completed;
    return FG_OK;
}

static enum fg_code read_samples(struct pprof_reader *reader, struct fg_err *err)
{
    const struct pprof_table *table = &reader->tables[PPROF_PROFILE_SAMPLE];
    uint32_t max = reader->request->upload.limits.samples_max;
    const struct fg_go_stack none = {NULL, 0};
    uint32_t n_values, n_lost = 0;

    if (max != 0 && table->count > max)
        return fg_fail(err, FG_E_INVALID,
                       "profile exceeds the samples count limit (max_profile_stacktrace_samples, "
                       "actual: %u, limit: %u)",
                       table->count, max);
    if (may_be_cut(reader) && complete_stacks(reader, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < table->count; i++) {
        struct fg_go_stack stack = reader->completed == NULL ? none : reader->completed[i];

        if (read_sample(reader, table->entries[i], stack, &n_values, err) != FG_OK)
            return fg_wrap(err, "sample %u", i);
        if (reader->lost)
            n_lost++;
        else if (keep_sample(reader, n_values, err) != FG_OK)
            return fg_wrap(err, "sample %u", i);
    }
    reader->counts->samples_dangling += n_lost;
    if (n_lost == 0 || n_lost < table->count)
        return FG_OK;
    *err = reader->dangle; /* nothing is left that an answer could be about */
    return fg_wrap(err, "sample %u", table->count - 1);
}

/* ---- all of it ---- */

static enum fg_code read_all(struct pprof_reader *reader, struct fg_slice in, struct fg_err *err)
{
    if (find_tables(reader, in, err) != FG_OK || check_strings(reader, err) != FG_OK ||
        read_types(reader, err) != FG_OK || read_functions(reader, err) != FG_OK ||
        read_mappings(reader, err) != FG_OK || read_locations(reader, err) != FG_OK ||
        fg_pprof_rename(reader->batch, reader->request->quirks, reader->arena, err) != FG_OK)
        return err->code;
    /* After renaming: the builder hashes names, and ids must be of the final ones. */
    reader->builder = fg_builder_create(reader->arena, &reader->request->upload.limits,
                                        reader->batch, reader->counts);
    if (reader->builder == NULL)
        return too_large(err);
    if (fg_builder_hash_locations(reader->builder, err) != FG_OK ||
        fg_builder_reserve(reader->builder, reader->tables[PPROF_PROFILE_SAMPLE].count, err) !=
            FG_OK)
        return err->code;
    return read_samples(reader, err);
}

/* The upload with the profile's own times and name where it has them. */
static enum fg_code complete_upload(struct pprof_reader *reader, struct fg_upload *upload,
                                    struct fg_pprof_info *info, struct fg_err *err)
{
    info->period = reader->period;
    info->has_time = reader->time_ns / FG_HOUR_NS / 24 >= YEAR_1970_NS_DAYS;
    if (info->has_time)
        upload->time_ns = reader->time_ns;
    else
        reader->counts->times_repaired += reader->time_ns != 0;
    /* A negative or absent duration says nothing; that of the upload stays. */
    if (reader->duration_ns > 0)
        upload->duration_ns = reader->duration_ns;
    if (reader->request->name != NULL) {
        size_t count = upload->labels.count;
        struct fg_label *items = fg_arena_new(reader->arena, struct fg_label, count + 1);

        if (items == NULL)
            return too_large(err);
        /* First, so that a name the sender gave itself, which comes later, wins. */
        items[0] = (struct fg_label){FG_LIT(FG_LABEL_NAME),
                                     reader->request->name(reader->batch, reader->request->arg)};
        if (count > 0)
            memcpy(items + 1, upload->labels.items, count * sizeof *items);
        upload->labels = (struct fg_labels){items, count + 1};
    }
    return FG_OK;
}

enum fg_code fg_pprof_decode(struct fg_slice in, const struct fg_pprof_request *request,
                             struct fg_arena *arena, struct fg_batch *ret_batch,
                             struct fg_pprof_info *ret_info, struct fg_decode_counts *counts,
                             struct fg_err *err)
{
    struct fg_batch *batch = fg_arena_new(arena, struct fg_batch, 1);
    struct fg_upload upload = request->upload;
    struct fg_pprof_info info = {0};
    struct pprof_reader reader = {
        .arena = arena, .request = request, .batch = batch, .counts = counts};

    if (batch == NULL)
        return too_large(err);
    if (read_all(&reader, in, err) != FG_OK ||
        complete_upload(&reader, &upload, &info, err) != FG_OK ||
        fg_builder_finish(reader.builder, &upload, reader.period, err) != FG_OK)
        return err->code;
    *ret_batch = *batch;
    *ret_info = info;
    return FG_OK;
}
