#include "proto/otlp/dict.h"

#include "common/base/cursor.h"
#include "common/base/str.h"

enum {
    FIRST_TABLE = OTLP_DICTIONARY_MAPPINGS,
    LINES_MAX = 1024,     /* of one location: functions inlined into each other */
    NOTHING = UINT32_MAX, /* number of a function or location with nothing to show */
    LOST = NOTHING - 1,   /* number of an entry that leads to one that is not there */

    /* What batches may read of the dictionary, in steps of about ten nanoseconds: a frame of a
     * stack is one, an entry ENTRY_STEPS, and so is each piece of text. Without a limit, many
     * small profiles that all use one large stack would cost n * n. Agents whose profiles share
     * much, such as those of one program in hundreds of containers, stay far below. */
    STEPS_MAX = 32 * 1024 * 1024,
    STEPS_PER_BYTE = 4, /* more, for each byte of the request */
    ENTRY_STEPS = 4,
    TEXT_STEP_BYTES = 64,
};

/* A batch may need two kinds of a mapping: with its addresses, for frames without names, which
 * mean nothing without them; and without, for frames with names. Addresses differ from one start
 * of a program to the next and names do not, so a named frame is equal everywhere. */
enum form { FORM_ADDRESSES, FORM_FUNCTIONS, FORM_ALL_NAMES };

static const char *const table_names[OTLP_TABLES] = {
    [OTLP_DICTIONARY_MAPPINGS] = "mapping",   [OTLP_DICTIONARY_LOCATIONS] = "location",
    [OTLP_DICTIONARY_FUNCTIONS] = "function", [OTLP_DICTIONARY_LINKS] = "link",
    [OTLP_DICTIONARY_STRINGS] = "string",     [OTLP_DICTIONARY_ATTRIBUTES] = "attribute",
    [OTLP_DICTIONARY_STACKS] = "stack",
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "request needs more memory than decoding may use");
}

/* Faults of attributes that refer to what is not there. */
static const char no_key[] = "its key is out of bounds";
static const char no_value[] = "the string of its value is out of bounds";

static enum fg_code check_bounds(struct fg_otlp_dict *dict, uint32_t field, uint64_t index,
                                 struct fg_err *err)
{
    uint32_t count = dict->tables[field].count;

    if (index < count)
        return FG_OK;
    dict->dangling = true;
    /* int32 in the schema: a negative index arrives as a varint of ten bytes. */
    if ((int64_t)index < 0)
        return fg_fail(err, FG_E_INVALID, "%s index %lld is negative", table_names[field],
                       (long long)index);
    return fg_fail(err, FG_E_INVALID, "%s index %llu out of bounds (%u in the dictionary)",
                   table_names[field], (unsigned long long)index, count);
}

static enum fg_code cannot_read(struct fg_err *err, uint32_t field, uint64_t index)
{
    return fg_fail(err, FG_E_DECODE, "%s %llu of the dictionary cannot be read", table_names[field],
                   (unsigned long long)index);
}

static enum fg_code take_steps(struct fg_otlp_dict *dict, uint64_t steps, struct fg_err *err)
{
    if (steps > dict->steps)
        return fg_fail(err, FG_E_TOO_LARGE,
                       "profiles use too much of the dictionary, too many times");
    dict->steps -= steps;
    return FG_OK;
}

/* ---- tables ---- */

static uint32_t table_of(uint64_t tag)
{
    uint64_t field = tag >> 3;

    return (tag & 7) == FG_PB_LEN && field >= FIRST_TABLE && field < OTLP_TABLES ? (uint32_t)field
                                                                                 : 0;
}

/* Counts the entries of one dictionary, or puts them behind those that are there. Two passes, so
 * that the arrays fit exactly. */
static bool find_entries(struct fg_otlp_dict *dict, struct fg_slice in, bool put)
{
    struct fg_cur cur = fg_cur(in);

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);
        uint32_t field = table_of(tag);
        struct fg_otlp_table *table = &dict->tables[field];

        if (field == 0) {
            fg_pb_skip(&cur, tag);
            continue;
        }
        if (put)
            /* In bounds: the first pass has counted the same entries. */
            table->entries[table->count] = fg_cur_lenbytes(&cur);
        else
            (void)fg_cur_lenbytes(&cur);
        table->count++;
    }
    return !cur.bad;
}

/* Finds the dictionaries of the request. There is one as a rule, but protobuf lets a message
 * come in several parts. */
static enum fg_code find_tables(struct fg_otlp_dict *dict, struct fg_slice request, bool put,
                                struct fg_err *err)
{
    struct fg_cur cur = fg_cur(request);
    bool any = false;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag != FG_PB_TAG(OTLP_REQUEST_DICTIONARY, FG_PB_LEN)) {
            fg_pb_skip(&cur, tag);
            continue;
        }
        any = true;
        if (!find_entries(dict, fg_cur_lenbytes(&cur), put))
            return fg_fail(err, FG_E_DECODE, "the dictionary cannot be read");
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "not an OTLP request, or cut short, in %zu bytes",
                       request.len);
    return any ? FG_OK : fg_fail(err, FG_E_INVALID, "missing profile metadata dictionary");
}

/* Takes room for the entries that were counted. `count` is reset and counts again when they are
 * put there. */
static enum fg_code make_tables(struct fg_otlp_dict *dict, struct fg_err *err)
{
    for (uint32_t field = FIRST_TABLE; field < OTLP_TABLES; field++) {
        struct fg_otlp_table *table = &dict->tables[field];

        table->entries = fg_arena_new(dict->arena, struct fg_slice, FG_MAX(table->count, 1));
        if (table->entries == NULL)
            return too_large(err);
        table->count = 0;
    }
    return FG_OK;
}

static enum fg_code make_uses(struct fg_otlp_dict *dict, uint32_t field, uint32_t forms,
                              struct fg_err *err)
{
    struct fg_otlp_table *table = &dict->tables[field];

    for (uint32_t form = 0; form < forms; form++) {
        table->uses[form] = fg_arena_new(dict->arena, struct fg_otlp_use, table->count);
        if (table->uses[form] == NULL)
            return too_large(err);
    }
    return FG_OK;
}

/* ---- texts and attributes ---- */

/* Returns a string. ptr NULL: the index is out of bounds. */
static struct fg_slice string_at(const struct fg_otlp_dict *dict, uint64_t index)
{
    const struct fg_otlp_table *strings = &dict->tables[OTLP_DICTIONARY_STRINGS];

    if (index >= strings->count)
        return fg_bytes(NULL, 0);
    /* An empty entry may have a NULL pointer, which means "out of bounds" here. */
    return strings->entries[index].len == 0 ? FG_LIT("") : strings->entries[index];
}

enum fg_code fg_otlp_text(struct fg_otlp_dict *dict, uint64_t index, struct fg_slice *ret_text,
                          struct fg_err *err)
{
    struct fg_slice text;

    if (check_bounds(dict, OTLP_DICTIONARY_STRINGS, index, err) != FG_OK)
        return err->code;
    text = fg_symbol_cut(string_at(dict, index), dict->limits, dict->counts);
    if (take_steps(dict, text.len / TEXT_STEP_BYTES, err) != FG_OK)
        return err->code;
    if (!fg_utf8_valid(text))
        return fg_fail(err, FG_E_INVALID, "string %llu of the dictionary is not UTF-8",
                       (unsigned long long)index);
    *ret_text = text;
    return FG_OK;
}

/* An AnyValue, if it can be a label's value. */
struct any {
    enum { ANY_OTHER, ANY_STRING, ANY_INT, ANY_STRING_INDEX, ANY_ARRAY } kind;
    struct fg_slice bytes; /* of a string or an array */
    uint64_t number;       /* or index */
};

static void read_any(struct fg_slice in, struct any *any, bool *bad)
{
    struct fg_cur cur = fg_cur(in);

    /* A oneof: of several fields on the wire the last one counts (protobuf). */
    *any = (struct any){.kind = ANY_OTHER};
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(OTLP_ANY_STRING, FG_PB_LEN):
            *any = (struct any){.kind = ANY_STRING, .bytes = fg_cur_lenbytes(&cur)};
            break;
        case FG_PB_TAG(OTLP_ANY_INT, FG_PB_VARINT):
            *any = (struct any){.kind = ANY_INT, .number = fg_cur_varint(&cur)};
            break;
        case FG_PB_TAG(OTLP_ANY_STRING_INDEX, FG_PB_VARINT):
            *any = (struct any){.kind = ANY_STRING_INDEX, .number = fg_cur_varint(&cur)};
            break;
        case FG_PB_TAG(OTLP_ANY_ARRAY, FG_PB_LEN):
            *any = (struct any){.kind = ANY_ARRAY, .bytes = fg_cur_lenbytes(&cur)};
            break;
        case FG_PB_TAG(OTLP_ANY_BOOL, FG_PB_VARINT):
        case FG_PB_TAG(OTLP_ANY_DOUBLE, FG_PB_I64):
        case FG_PB_TAG(OTLP_ANY_MAP, FG_PB_LEN):
        case FG_PB_TAG(OTLP_ANY_BYTES, FG_PB_LEN):
            any->kind = ANY_OTHER;
            fg_pb_skip(&cur, tag);
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    /* Faults are kept and not returned: an attribute that no sample uses must not fail the
     * request. */
    *bad |= cur.bad;
}

/* An array of one value counts as that value. Arrays in arrays are not followed, so there is no
 * recursion. */
static void read_only_element(struct fg_slice array, struct any *any, bool *bad)
{
    struct fg_cur cur = fg_cur(array);
    struct fg_slice element = {NULL, 0};
    size_t count = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(OTLP_ARRAY_VALUES, FG_PB_LEN)) {
            element = fg_cur_lenbytes(&cur);
            count++;
        } else {
            fg_pb_skip(&cur, tag);
        }
    }
    *bad |= cur.bad;
    *any = (struct any){.kind = ANY_OTHER};
    if (count == 1)
        read_any(element, any, bad);
}

/* Returns the text of an AnyValue; empty if it has none that can be a label's. */
static enum fg_code any_text(struct fg_otlp_dict *dict, struct fg_slice in,
                             struct fg_slice *ret_text, const char **fault, struct fg_err *err)
{
    struct any any;
    bool bad = false;
    const char *decimal;

    read_any(in, &any, &bad);
    if (any.kind == ANY_ARRAY)
        read_only_element(any.bytes, &any, &bad);
    *ret_text = FG_LIT("");
    if (bad) {
        *fault = "its value cannot be read";
    } else if (any.kind == ANY_STRING) {
        *ret_text = any.bytes;
    } else if (any.kind == ANY_STRING_INDEX) {
        *ret_text = string_at(dict, any.number);
        if (ret_text->ptr == NULL)
            *fault = no_value;
    } else if (any.kind == ANY_INT) {
        /* Integers are labels, too: agents send process ids and ports as numbers. */
        decimal = fg_arena_printf(dict->arena, "%lld", (long long)any.number);
        if (decimal == NULL)
            return too_large(err);
        *ret_text = fg_cstr(decimal);
    }
    return FG_OK;
}

/* Reads a KeyValue, or a KeyValueAndUnit, whose field 3 is an index as well, but not that of the
 * key. */
static enum fg_code read_attribute(struct fg_otlp_dict *dict, struct fg_slice in,
                                   uint64_t key_index, struct fg_otlp_attribute *ret_attribute,
                                   struct fg_err *err)
{
    struct fg_otlp_attribute attribute = {{FG_LIT(""), FG_LIT("")}, NULL, OTLP_NO_SERVICE};
    struct fg_cur cur = fg_cur(in);
    struct fg_slice value = {NULL, 0};

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(OTLP_KEY_VALUE_KEY, FG_PB_LEN)) {
            attribute.label.name = fg_cur_lenbytes(&cur);
        } else if (tag == FG_PB_TAG(key_index, FG_PB_VARINT)) {
            attribute.label.name = string_at(dict, fg_cur_varint(&cur));
            if (attribute.label.name.ptr == NULL)
                attribute.fault = no_key;
        } else if (tag == FG_PB_TAG(OTLP_ATTRIBUTE_VALUE, FG_PB_LEN)) {
            value = fg_cur_lenbytes(&cur);
        } else {
            fg_pb_skip(&cur, tag);
        }
    }
    if (cur.bad)
        attribute.fault = "it cannot be read";
    if (any_text(dict, value, &attribute.label.value, &attribute.fault, err) != FG_OK)
        return err->code;

    /* Here and not only with the label sets: very many attributes may share one long text, and
     * labels are sorted and compared before. */
    uint32_t name_max = dict->limits->label_name_max_bytes;
    uint32_t value_max = dict->limits->label_value_max_bytes;

    if (name_max != 0 && attribute.label.name.len > name_max)
        attribute.fault = "label name too long";
    else if (value_max != 0 && attribute.label.value.len > value_max)
        attribute.fault = "label value too long";
    *ret_attribute = attribute;
    return FG_OK;
}

uint32_t fg_otlp_service(const struct fg_otlp_dict *dict, struct fg_slice name)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&dict->service_map, fg_hash64_table(name), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&dict->service_map, &walk))
        if (fg_slice_eq(dict->services[i], name))
            return i;
    return OTLP_NO_SERVICE;
}

/* Numbers the service that the attribute names, if it names one. */
static enum fg_code note_service(struct fg_otlp_dict *dict, struct fg_otlp_attribute *attribute,
                                 struct fg_err *err)
{
    struct fg_slice name = attribute->label.value;

    if (!fg_slice_is(attribute->label.name, "service.name") || name.len == 0 ||
        attribute->fault != NULL)
        return FG_OK;
    attribute->service = fg_otlp_service(dict, name);
    if (attribute->service != OTLP_NO_SERVICE)
        return FG_OK;
    if (!fg_arena_grow(dict->arena, &dict->services, dict->n_services, 1, &dict->cap_services,
                       sizeof *dict->services) ||
        !fg_map_add_in(&dict->service_map, dict->arena, fg_hash64_table(name), dict->n_services))
        return too_large(err);
    dict->services[dict->n_services] = name;
    attribute->service = dict->n_services++;
    return FG_OK;
}

static enum fg_code read_attributes(struct fg_otlp_dict *dict, struct fg_err *err)
{
    const struct fg_otlp_table *table = &dict->tables[OTLP_DICTIONARY_ATTRIBUTES];

    dict->attributes = fg_arena_new(dict->arena, struct fg_otlp_attribute, table->count);
    if (dict->attributes == NULL)
        return too_large(err);
    for (uint32_t i = 0; i < table->count; i++)
        if (read_attribute(dict, table->entries[i], OTLP_ATTRIBUTE_KEY, &dict->attributes[i],
                           err) != FG_OK ||
            note_service(dict, &dict->attributes[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

const struct fg_otlp_attribute *fg_otlp_attribute(struct fg_otlp_dict *dict, uint64_t index,
                                                  struct fg_err *err)
{
    if (check_bounds(dict, OTLP_DICTIONARY_ATTRIBUTES, index, err) != FG_OK)
        return NULL;
    if (dict->attributes[index].fault != NULL) {
        dict->dangling =
            dict->attributes[index].fault == no_key || dict->attributes[index].fault == no_value;
        (void)fg_fail(err, FG_E_INVALID, "attribute %llu of the dictionary: %s",
                      (unsigned long long)index, dict->attributes[index].fault);
        return NULL;
    }
    return &dict->attributes[index];
}

enum fg_code fg_otlp_key_value(struct fg_otlp_dict *dict, struct fg_slice in,
                               struct fg_otlp_attribute *ret_attribute, struct fg_err *err)
{
    if (read_attribute(dict, in, OTLP_KEY_VALUE_KEY_INDEX, ret_attribute, err) != FG_OK)
        return err->code;
    if (ret_attribute->fault != NULL)
        return fg_fail(err, FG_E_INVALID, "an attribute: %s", ret_attribute->fault);
    return FG_OK;
}

enum fg_code fg_otlp_link(struct fg_otlp_dict *dict, uint64_t index, struct fg_link *ret_link,
                          bool *ret_linked, struct fg_err *err)
{
    static const uint8_t no_trace[FG_ID_BYTES];
    struct fg_slice trace = {NULL, 0}, span = {NULL, 0};
    struct fg_link link = {0};
    struct fg_cur cur;

    if (check_bounds(dict, OTLP_DICTIONARY_LINKS, index, err) != FG_OK)
        return err->code;
    cur = fg_cur(dict->tables[OTLP_DICTIONARY_LINKS].entries[index]);
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(OTLP_LINK_TRACE_ID, FG_PB_LEN))
            trace = fg_cur_lenbytes(&cur);
        else if (tag == FG_PB_TAG(OTLP_LINK_SPAN_ID, FG_PB_LEN))
            span = fg_cur_lenbytes(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    if (cur.bad)
        return cannot_read(err, OTLP_DICTIONARY_LINKS, index);
    if (trace.len == sizeof link.trace_id)
        memcpy(link.trace_id, trace.ptr, trace.len);
    cur = fg_cur(span);
    if (span.len == sizeof link.span_id)
        link.span_id = fg_cur_le64(&cur);
    *ret_link = link;
    *ret_linked = link.span_id != 0 || memcmp(link.trace_id, no_trace, sizeof no_trace) != 0;
    return FG_OK;
}

/* ---- opening ---- */

enum fg_code fg_otlp_dict_open(struct fg_otlp_dict *dict, struct fg_slice request,
                               struct fg_arena *arena, const struct fg_decode_limits *limits,
                               struct fg_decode_counts *counts, struct fg_err *err)
{
    *dict = (struct fg_otlp_dict){
        .arena = arena,
        .limits = limits,
        .counts = counts,
        .steps = STEPS_MAX + (uint64_t)STEPS_PER_BYTE * request.len,
    };
    if (find_tables(dict, request, false, err) != FG_OK || make_tables(dict, err) != FG_OK ||
        find_tables(dict, request, true, err) != FG_OK)
        return err->code;
    for (uint32_t field = FIRST_TABLE; field < OTLP_TABLES; field++)
        /* Entry 0 of each table means "none", also where a sender leaves out the table. */
        dict->tables[field].count = FG_MAX(dict->tables[field].count, 1);
    if (read_attributes(dict, err) != FG_OK)
        return err->code;
    /* Only tables whose entries are translated into a batch; the others are read in place. */
    if (make_uses(dict, OTLP_DICTIONARY_MAPPINGS, OTLP_FORMS, err) != FG_OK ||
        make_uses(dict, OTLP_DICTIONARY_LOCATIONS, 1, err) != FG_OK ||
        make_uses(dict, OTLP_DICTIONARY_FUNCTIONS, 1, err) != FG_OK)
        return err->code;
    return make_uses(dict, OTLP_DICTIONARY_STACKS, 1, err);
}

void fg_otlp_dict_start(struct fg_otlp_dict *dict, struct fg_batch *batch)
{
    dict->batch = batch;
    dict->batch_number++;
    dict->cap_functions = dict->cap_locations = dict->cap_lines = dict->cap_mappings = 0;
    dict->frames = NULL;
    dict->used = NULL;
    dict->n_frames = dict->n_used = dict->cap_frames = dict->cap_used = 0;
}

/* ---- entries into the batch ---- */

/* Marks an entry as used by the batch. NULL: err has the reason. *ret_entry: its bytes; ptr is
 * NULL if the batch used it before, so that its number is known. */
static struct fg_otlp_use *use_entry(struct fg_otlp_dict *dict, uint32_t field, enum form form,
                                     uint64_t index, struct fg_slice *ret_entry, struct fg_err *err)
{
    struct fg_otlp_table *table = &dict->tables[field];
    struct fg_otlp_use *use;

    if (check_bounds(dict, field, index, err) != FG_OK)
        return NULL;
    use = &table->uses[form][index];
    *ret_entry = fg_bytes(NULL, 0);
    if (use->batch == dict->batch_number && use->number == LOST) {
        dict->dangling = true;
        (void)fg_fail(err, FG_E_INVALID, "%s %llu leads to what is not in the dictionary",
                      table_names[field], (unsigned long long)index);
        return NULL;
    }
    if (use->batch == dict->batch_number)
        return use;
    if (take_steps(dict, ENTRY_STEPS, err) != FG_OK)
        return NULL;
    use->batch = dict->batch_number;
    use->number = LOST; /* until it was read */
    *ret_entry = table->entries[index].len == 0 ? FG_LIT("") : table->entries[index];
    return use;
}

static enum fg_code read_function(struct fg_otlp_dict *dict, uint64_t index, struct fg_slice in,
                                  struct fg_batch_function *function, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    uint64_t name = 0, system_name = 0, filename = 0;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(OTLP_FUNCTION_NAME, FG_PB_VARINT):
            name = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_FUNCTION_SYSTEM_NAME, FG_PB_VARINT):
            system_name = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_FUNCTION_FILENAME, FG_PB_VARINT):
            filename = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_FUNCTION_START_LINE, FG_PB_VARINT):
            function->start_line = (int64_t)fg_cur_varint(&cur);
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    if (cur.bad)
        return cannot_read(err, OTLP_DICTIONARY_FUNCTIONS, index);
    if (fg_otlp_text(dict, name, &function->name, err) != FG_OK ||
        fg_otlp_text(dict, system_name, &function->system_name, err) != FG_OK ||
        fg_otlp_text(dict, filename, &function->filename, err) != FG_OK)
        return fg_wrap(err, "function %llu", (unsigned long long)index);
    return FG_OK;
}

/* Gives the number of the function in the batch, or NOTHING if it has no name. */
static enum fg_code use_function(struct fg_otlp_dict *dict, uint64_t index, uint32_t *ret_number,
                                 struct fg_err *err)
{
    struct fg_batch *batch = dict->batch;
    struct fg_batch_function function = {.start_line = 0};
    struct fg_slice in = {NULL, 0};
    struct fg_otlp_use *use = use_entry(dict, OTLP_DICTIONARY_FUNCTIONS, 0, index, &in, err);

    if (use == NULL)
        return err->code;
    if (in.ptr != NULL) {
        if (read_function(dict, index, in, &function, err) != FG_OK)
            return err->code;
        use->number = NOTHING;
        if (function.name.len + function.system_name.len > 0) {
            if (!fg_arena_grow(dict->arena, &batch->functions, batch->n_functions, 1,
                               &dict->cap_functions, sizeof function))
                return too_large(err);
            batch->functions[batch->n_functions] = function;
            use->number = batch->n_functions++;
        }
    }
    fg_assert(use->number != LOST); /* use_entry() refuses these */
    *ret_number = use->number;
    return FG_OK;
}

/* Finds the build id among the attributes of a mapping; the best one if there are several. */
static enum fg_code read_build_id(struct fg_otlp_dict *dict, struct fg_slice indices,
                                  struct fg_batch_mapping *mapping, size_t *best,
                                  struct fg_err *err)
{
    static const char *const keys[] = {"process.executable.build_id.gnu",
                                       "process.executable.build_id.go",
                                       "process.executable.build_id.htlhash"};
    struct fg_cur cur = fg_cur(indices);

    while (fg_cur_more(&cur)) {
        uint64_t index = fg_cur_varint(&cur);
        const struct fg_otlp_attribute *attribute;

        if (take_steps(dict, 1, err) != FG_OK)
            return err->code;
        if (cur.bad)
            break;
        attribute = fg_otlp_attribute(dict, index, err);
        if (attribute == NULL)
            return err->code;
        for (size_t i = 0; i < *best; i++) {
            if (fg_slice_is(attribute->label.name, keys[i])) {
                mapping->build_id = attribute->label.value;
                *best = i;
            }
        }
    }
    return cur.bad ? fg_fail(err, FG_E_DECODE, "attribute indices cut short") : FG_OK;
}

static enum fg_code read_mapping(struct fg_otlp_dict *dict, uint64_t index, struct fg_slice in,
                                 struct fg_batch_mapping *mapping, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    uint64_t filename = 0;
    /* The number of keys: none was found. */
    size_t best = 3;

    mapping->build_id = FG_LIT("");
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(OTLP_MAPPING_START, FG_PB_VARINT):
            mapping->start = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_MAPPING_LIMIT, FG_PB_VARINT):
            mapping->limit = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_MAPPING_OFFSET, FG_PB_VARINT):
            mapping->offset = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_MAPPING_FILENAME, FG_PB_VARINT):
            filename = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_MAPPING_ATTRIBUTES, FG_PB_LEN):
        case FG_PB_TAG(OTLP_MAPPING_ATTRIBUTES, FG_PB_VARINT):
            if (read_build_id(dict, fg_pb_varints(&cur, tag), mapping, &best, err) != FG_OK)
                return fg_wrap(err, "mapping %llu", (unsigned long long)index);
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    if (cur.bad)
        return cannot_read(err, OTLP_DICTIONARY_MAPPINGS, index);
    if (!fg_utf8_valid(mapping->build_id))
        return fg_fail(err, FG_E_INVALID, "mapping %llu: build id is not UTF-8",
                       (unsigned long long)index);
    if (fg_otlp_text(dict, filename, &mapping->filename, err) != FG_OK)
        return fg_wrap(err, "mapping %llu", (unsigned long long)index);
    return FG_OK;
}

/* Gives the number of the mapping in the batch, or FG_NO_MAPPING for one that says nothing. */
static enum fg_code use_mapping(struct fg_otlp_dict *dict, uint64_t index, enum form form,
                                uint32_t *ret_number, struct fg_err *err)
{
    struct fg_batch *batch = dict->batch;
    struct fg_batch_mapping mapping = {0};
    struct fg_slice in = {NULL, 0};
    struct fg_otlp_use *use = use_entry(dict, OTLP_DICTIONARY_MAPPINGS, form, index, &in, err);

    if (use == NULL)
        return err->code;
    if (in.ptr != NULL) {
        if (read_mapping(dict, index, in, &mapping, err) != FG_OK)
            return err->code;
        use->number = FG_NO_MAPPING;
        /* Frames without names are shown by these addresses. */
        if (form != FORM_ADDRESSES) {
            mapping.start = mapping.limit = mapping.offset = 0;
            mapping.flags = FG_MAPPING_FUNCTIONS;
            if (form == FORM_ALL_NAMES)
                mapping.flags |= FG_MAPPING_FILENAMES | FG_MAPPING_LINES;
        }
        if ((mapping.start | mapping.limit | mapping.offset) != 0 ||
            mapping.filename.len + mapping.build_id.len != 0) {
            if (!fg_arena_grow(dict->arena, &batch->mappings, batch->n_mappings, 1,
                               &dict->cap_mappings, sizeof mapping))
                return too_large(err);
            batch->mappings[batch->n_mappings] = mapping;
            use->number = batch->n_mappings++;
        }
    }
    fg_assert(use->number != LOST); /* use_entry() refuses these */
    *ret_number = use->number;
    return FG_OK;
}

/* Reads a line of a location. A line whose function has no name is left out. */
static enum fg_code read_line(struct fg_otlp_dict *dict, struct fg_slice in, enum form *form,
                              struct fg_err *err)
{
    struct fg_batch *batch = dict->batch;
    struct fg_cur cur = fg_cur(in);
    uint64_t function = 0, line = 0;
    uint32_t number = NOTHING;

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(OTLP_LINE_FUNCTION, FG_PB_VARINT))
            function = fg_cur_varint(&cur);
        else if (tag == FG_PB_TAG(OTLP_LINE_LINE, FG_PB_VARINT))
            line = fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "a line cannot be read");
    if (take_steps(dict, ENTRY_STEPS, err) != FG_OK ||
        use_function(dict, function, &number, err) != FG_OK)
        return err->code;
    if (number == NOTHING)
        return FG_OK;
    /* The mapping then must not claim that all of its locations have files and lines. */
    if (line == 0 || batch->functions[number].filename.len == 0)
        *form = FORM_FUNCTIONS;
    if (!fg_arena_grow(dict->arena, &batch->lines, batch->n_lines, 1, &dict->cap_lines,
                       sizeof *batch->lines))
        return too_large(err);
    batch->lines[batch->n_lines++] = (struct fg_line){number, (int64_t)line};
    return FG_OK;
}

static enum fg_code read_location(struct fg_otlp_dict *dict, uint64_t index, struct fg_slice in,
                                  struct fg_batch_location *location, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    enum form form = FORM_ALL_NAMES;
    uint64_t mapping = 0;
    bool full = false;

    location->first_line = dict->batch->n_lines;
    while (fg_cur_more(&cur) && !full) {
        uint64_t tag = fg_cur_varint(&cur);

        switch (tag) {
        case FG_PB_TAG(OTLP_LOCATION_MAPPING, FG_PB_VARINT):
            mapping = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_LOCATION_ADDRESS, FG_PB_VARINT):
            location->address = fg_cur_varint(&cur);
            break;
        case FG_PB_TAG(OTLP_LOCATION_LINES, FG_PB_LEN):
            if (read_line(dict, fg_cur_lenbytes(&cur), &form, err) != FG_OK)
                return fg_wrap(err, "location %llu", (unsigned long long)index);
            full = dict->batch->n_lines - location->first_line > LINES_MAX;
            break;
        default:
            fg_pb_skip(&cur, tag);
        }
    }
    if (cur.bad)
        return cannot_read(err, OTLP_DICTIONARY_LOCATIONS, index);
    if (full) /* each stack that goes through it would show them all */
        return fg_fail(err, FG_E_INVALID, "location %llu has more than %d lines",
                       (unsigned long long)index, LINES_MAX);
    location->n_lines = dict->batch->n_lines - location->first_line;
    if (location->n_lines > 0)
        location->address = 0;
    else
        form = FORM_ADDRESSES;
    if (use_mapping(dict, mapping, form, &location->mapping, err) != FG_OK)
        return fg_wrap(err, "location %llu", (unsigned long long)index);
    return FG_OK;
}

/* Gives the number of the location in the batch, or NOTHING if it has neither name nor address. */
static enum fg_code use_location(struct fg_otlp_dict *dict, uint64_t index, uint32_t *ret_number,
                                 struct fg_err *err)
{
    struct fg_batch *batch = dict->batch;
    struct fg_batch_location location = {0};
    struct fg_slice in = {NULL, 0};
    uint32_t n_lines = batch->n_lines;
    struct fg_otlp_use *use = use_entry(dict, OTLP_DICTIONARY_LOCATIONS, 0, index, &in, err);

    if (use == NULL)
        return err->code;
    if (in.ptr != NULL) {
        if (read_location(dict, index, in, &location, err) != FG_OK) {
            /* A location that fails leaves no lines behind, or the next one would get them. */
            batch->n_lines = n_lines;
            return err->code;
        }
        use->number = NOTHING;
        if (location.n_lines == 0 && location.address == 0) {
            dict->counts->locations_dropped++;
        } else {
            if (!fg_arena_grow(dict->arena, &batch->locations, batch->n_locations, 1,
                               &dict->cap_locations, sizeof location))
                return too_large(err);
            batch->locations[batch->n_locations] = location;
            use->number = batch->n_locations++;
        }
    }
    fg_assert(use->number != LOST); /* use_entry() refuses these */
    *ret_number = use->number;
    return FG_OK;
}

/* Locations of a stack, leaf first, behind the frames there are. */
static enum fg_code add_frames(struct fg_otlp_dict *dict, struct fg_slice indices,
                               struct fg_err *err)
{
    struct fg_cur cur = fg_cur(indices);
    uint32_t location = NOTHING;

    /* An index takes a byte at least, so this is room for all of them. */
    if (indices.len > UINT32_MAX ||
        !fg_arena_grow(dict->arena, &dict->frames, dict->n_frames, (uint32_t)indices.len,
                       &dict->cap_frames, sizeof *dict->frames))
        return too_large(err);
    while (fg_cur_more(&cur)) {
        uint64_t index = fg_cur_varint(&cur);

        if (cur.bad)
            return fg_fail(err, FG_E_DECODE, "location indices cut short");
        if (take_steps(dict, 1, err) != FG_OK || use_location(dict, index, &location, err) != FG_OK)
            return err->code;
        if (location != NOTHING)
            dict->frames[dict->n_frames++] = location;
    }
    return FG_OK;
}

static enum fg_code read_stack(struct fg_otlp_dict *dict, uint64_t index, struct fg_slice in,
                               struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);

    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag != FG_PB_TAG(OTLP_STACK_LOCATIONS, FG_PB_LEN) &&
            tag != FG_PB_TAG(OTLP_STACK_LOCATIONS, FG_PB_VARINT))
            fg_pb_skip(&cur, tag);
        else if (add_frames(dict, fg_pb_varints(&cur, tag), err) != FG_OK)
            return fg_wrap(err, "stack %llu", (unsigned long long)index);
    }
    return cur.bad ? cannot_read(err, OTLP_DICTIONARY_STACKS, index) : FG_OK;
}

enum fg_code fg_otlp_use_stack(struct fg_otlp_dict *dict, uint64_t index, struct fg_err *err)
{
    uint32_t first = dict->n_frames;
    struct fg_slice in = {NULL, 0};
    struct fg_otlp_use *use = use_entry(dict, OTLP_DICTIONARY_STACKS, 0, index, &in, err);

    if (use == NULL)
        return err->code;
    if (in.ptr == NULL)
        return FG_OK;
    if (read_stack(dict, index, in, err) != FG_OK) {
        /* The same for the frames of a stack that fails. */
        dict->n_frames = first;
        return err->code;
    }
    use->number = 0; /* fg_otlp_build_stacks() has the real one */
    if (!fg_arena_grow(dict->arena, &dict->used, dict->n_used, 1, &dict->cap_used,
                       sizeof *dict->used))
        return too_large(err);
    /* Built later, when the locations of all stacks have their hashes. */
    dict->used[dict->n_used++] = (struct fg_otlp_stack){use, first, dict->n_frames - first};
    return FG_OK;
}

enum fg_code fg_otlp_build_stacks(struct fg_otlp_dict *dict, struct fg_builder *builder,
                                  struct fg_err *err)
{
    for (uint32_t i = 0; i < dict->n_used; i++) {
        const struct fg_otlp_stack *stack = &dict->used[i];
        const uint32_t *frames = stack->depth == 0 ? NULL : dict->frames + stack->first;

        if (fg_builder_stack(builder, frames, stack->depth, &stack->use->number, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

uint32_t fg_otlp_stack(const struct fg_otlp_dict *dict, uint64_t index)
{
    return dict->tables[OTLP_DICTIONARY_STACKS].uses[0][index].number;
}
