#include "proto/otlp/json.h"

#include "common/base/cursor.h"
#include "common/base/json.h"
#include "common/base/str.h"
#include "proto/otlp/fields.h"

enum {
    LEVELS_MAX = 32, /* of messages; the decoder looks nine deep */
    /*
     * A message's length stands before it and is known after it: four bytes are left for it, a
     * varint with leading zeros.
     */
    LENGTH_BYTES = 4,
    INPUT_MAX_BYTES = 64 * 1024 * 1024, /* four times that is what such a length can say */
    ID_MAX_BYTES = 16,
};

/* ---- the messages ---- */

enum kind { INTEGER, FIXED64, STRING, ID, MESSAGE };

struct otlp_json_message;

struct otlp_json_field {
    const char *camel, *snake;
    uint8_t number;
    enum kind kind;
    bool repeated;
    uint8_t id_bytes; /* of an ID */
    const struct otlp_json_message *message;
};

struct otlp_json_message {
    const char *name;
    const struct otlp_json_field *fields;
    size_t n_fields;
};

#define MESSAGE_OF(fields) fields, FG_COUNT(fields)

/* Names that 1.8 has and later versions do not. */
static const char old_samples[] = "sample", old_lines[] = "line";

/* clang-format off */
static const struct otlp_json_message any_value;

static const struct otlp_json_field array_fields[] = {
    {"values", "values", OTLP_ARRAY_VALUES, MESSAGE, true, 0, &any_value},
};
static const struct otlp_json_message array_value = {"ArrayValue", MESSAGE_OF(array_fields)};

/* The others are no labels: a value without any of these is as good. */
static const struct otlp_json_field any_fields[] = {
    {"stringValue", "string_value", OTLP_ANY_STRING, STRING, false, 0, NULL},
    {"intValue", "int_value", OTLP_ANY_INT, INTEGER, false, 0, NULL},
    {"arrayValue", "array_value", OTLP_ANY_ARRAY, MESSAGE, false, 0, &array_value},
    {"stringValueStrindex", "string_value_strindex", OTLP_ANY_STRING_INDEX, INTEGER, false, 0, NULL},
};
static const struct otlp_json_message any_value = {"AnyValue", MESSAGE_OF(any_fields)};

static const struct otlp_json_field key_value_fields[] = {
    {"key", "key", OTLP_KEY_VALUE_KEY, STRING, false, 0, NULL},
    {"value", "value", OTLP_KEY_VALUE_VALUE, MESSAGE, false, 0, &any_value},
    {"keyStrindex", "key_strindex", OTLP_KEY_VALUE_KEY_INDEX, INTEGER, false, 0, NULL},
};
static const struct otlp_json_message key_value = {"KeyValue", MESSAGE_OF(key_value_fields)};

static const struct otlp_json_field resource_fields[] = {
    {"attributes", "attributes", OTLP_RESOURCE_ATTRIBUTES, MESSAGE, true, 0, &key_value},
};
static const struct otlp_json_message resource = {"Resource", MESSAGE_OF(resource_fields)};

static const struct otlp_json_field scope_fields[] = {
    {"attributes", "attributes", OTLP_SCOPE_ATTRIBUTES, MESSAGE, true, 0, &key_value},
};
static const struct otlp_json_message scope = {"InstrumentationScope", MESSAGE_OF(scope_fields)};

static const struct otlp_json_field value_type_fields[] = {
    {"typeStrindex", "type_strindex", OTLP_VALUE_TYPE_TYPE, INTEGER, false, 0, NULL},
    {"unitStrindex", "unit_strindex", OTLP_VALUE_TYPE_UNIT, INTEGER, false, 0, NULL},
};
static const struct otlp_json_message value_type = {"ValueType", MESSAGE_OF(value_type_fields)};

static const struct otlp_json_field sample_fields[] = {
    {"stackIndex", "stack_index", OTLP_SAMPLE_STACK, INTEGER, false, 0, NULL},
    {"attributeIndices", "attribute_indices", OTLP_SAMPLE_ATTRIBUTES, INTEGER, true, 0, NULL},
    {"linkIndex", "link_index", OTLP_SAMPLE_LINK, INTEGER, false, 0, NULL},
    {"values", "values", OTLP_SAMPLE_VALUES, INTEGER, true, 0, NULL},
    {"timestampsUnixNano", "timestamps_unix_nano", OTLP_SAMPLE_TIMESTAMPS, FIXED64, true, 0, NULL},
};
static const struct otlp_json_message sample = {"Sample", MESSAGE_OF(sample_fields)};

static const struct otlp_json_field profile_fields[] = {
    {"sampleType", "sample_type", OTLP_PROFILE_SAMPLE_TYPE, MESSAGE, false, 0, &value_type},
    {"samples", "samples", OTLP_PROFILE_SAMPLES, MESSAGE, true, 0, &sample},
    {old_samples, old_samples, OTLP_PROFILE_SAMPLES, MESSAGE, true, 0, &sample},
    {"timeUnixNano", "time_unix_nano", OTLP_PROFILE_TIME, FIXED64, false, 0, NULL},
    {"durationNano", "duration_nano", OTLP_PROFILE_DURATION, INTEGER, false, 0, NULL},
    {"periodType", "period_type", OTLP_PROFILE_PERIOD_TYPE, MESSAGE, false, 0, &value_type},
    {"period", "period", OTLP_PROFILE_PERIOD, INTEGER, false, 0, NULL},
};
static const struct otlp_json_message profile = {"Profile", MESSAGE_OF(profile_fields)};

static const struct otlp_json_field scopes_fields[] = {
    {"scope", "scope", OTLP_SCOPES_SCOPE, MESSAGE, false, 0, &scope},
    {"profiles", "profiles", OTLP_SCOPES_PROFILES, MESSAGE, true, 0, &profile},
};
static const struct otlp_json_message scope_profiles = {"ScopeProfiles", MESSAGE_OF(scopes_fields)};

static const struct otlp_json_field resources_fields[] = {
    {"resource", "resource", OTLP_RESOURCES_RESOURCE, MESSAGE, false, 0, &resource},
    {"scopeProfiles", "scope_profiles", OTLP_RESOURCES_SCOPES, MESSAGE, true, 0, &scope_profiles},
};
static const struct otlp_json_message resource_profiles = {"ResourceProfiles", MESSAGE_OF(resources_fields)};

static const struct otlp_json_field mapping_fields[] = {
    {"memoryStart", "memory_start", OTLP_MAPPING_START, INTEGER, false, 0, NULL},
    {"memoryLimit", "memory_limit", OTLP_MAPPING_LIMIT, INTEGER, false, 0, NULL},
    {"fileOffset", "file_offset", OTLP_MAPPING_OFFSET, INTEGER, false, 0, NULL},
    {"filenameStrindex", "filename_strindex", OTLP_MAPPING_FILENAME, INTEGER, false, 0, NULL},
    {"attributeIndices", "attribute_indices", OTLP_MAPPING_ATTRIBUTES, INTEGER, true, 0, NULL},
};
static const struct otlp_json_message mapping = {"Mapping", MESSAGE_OF(mapping_fields)};

static const struct otlp_json_field line_fields[] = {
    {"functionIndex", "function_index", OTLP_LINE_FUNCTION, INTEGER, false, 0, NULL},
    {"line", "line", OTLP_LINE_LINE, INTEGER, false, 0, NULL},
};
static const struct otlp_json_message line = {"Line", MESSAGE_OF(line_fields)};

static const struct otlp_json_field location_fields[] = {
    {"mappingIndex", "mapping_index", OTLP_LOCATION_MAPPING, INTEGER, false, 0, NULL},
    {"address", "address", OTLP_LOCATION_ADDRESS, INTEGER, false, 0, NULL},
    {"lines", "lines", OTLP_LOCATION_LINES, MESSAGE, true, 0, &line},
    {old_lines, old_lines, OTLP_LOCATION_LINES, MESSAGE, true, 0, &line},
};
static const struct otlp_json_message location = {"Location", MESSAGE_OF(location_fields)};

static const struct otlp_json_field function_fields[] = {
    {"nameStrindex", "name_strindex", OTLP_FUNCTION_NAME, INTEGER, false, 0, NULL},
    {"systemNameStrindex", "system_name_strindex", OTLP_FUNCTION_SYSTEM_NAME, INTEGER, false, 0, NULL},
    {"filenameStrindex", "filename_strindex", OTLP_FUNCTION_FILENAME, INTEGER, false, 0, NULL},
    {"startLine", "start_line", OTLP_FUNCTION_START_LINE, INTEGER, false, 0, NULL},
};
static const struct otlp_json_message function = {"Function", MESSAGE_OF(function_fields)};

static const struct otlp_json_field link_fields[] = {
    {"traceId", "trace_id", OTLP_LINK_TRACE_ID, ID, false, 16, NULL},
    {"spanId", "span_id", OTLP_LINK_SPAN_ID, ID, false, 8, NULL},
};
static const struct otlp_json_message link_message = {"Link", MESSAGE_OF(link_fields)};

static const struct otlp_json_field attribute_fields[] = {
    {"keyStrindex", "key_strindex", OTLP_ATTRIBUTE_KEY, INTEGER, false, 0, NULL},
    {"value", "value", OTLP_ATTRIBUTE_VALUE, MESSAGE, false, 0, &any_value},
};
static const struct otlp_json_message attribute = {"KeyValueAndUnit", MESSAGE_OF(attribute_fields)};

static const struct otlp_json_field stack_fields[] = {
    {"locationIndices", "location_indices", OTLP_STACK_LOCATIONS, INTEGER, true, 0, NULL},
};
static const struct otlp_json_message stack = {"Stack", MESSAGE_OF(stack_fields)};

static const struct otlp_json_field dictionary_fields[] = {
    {"mappingTable", "mapping_table", OTLP_DICTIONARY_MAPPINGS, MESSAGE, true, 0, &mapping},
    {"locationTable", "location_table", OTLP_DICTIONARY_LOCATIONS, MESSAGE, true, 0, &location},
    {"functionTable", "function_table", OTLP_DICTIONARY_FUNCTIONS, MESSAGE, true, 0, &function},
    {"linkTable", "link_table", OTLP_DICTIONARY_LINKS, MESSAGE, true, 0, &link_message},
    {"stringTable", "string_table", OTLP_DICTIONARY_STRINGS, STRING, true, 0, NULL},
    {"attributeTable", "attribute_table", OTLP_DICTIONARY_ATTRIBUTES, MESSAGE, true, 0, &attribute},
    {"stackTable", "stack_table", OTLP_DICTIONARY_STACKS, MESSAGE, true, 0, &stack},
};
static const struct otlp_json_message dictionary = {"ProfilesDictionary", MESSAGE_OF(dictionary_fields)};

static const struct otlp_json_field request_fields[] = {
    {"resourceProfiles", "resource_profiles", OTLP_REQUEST_RESOURCES, MESSAGE, true, 0, &resource_profiles},
    {"dictionary", "dictionary", OTLP_REQUEST_DICTIONARY, MESSAGE, false, 0, &dictionary},
};
static const struct otlp_json_message request = {"ExportProfilesServiceRequest", MESSAGE_OF(request_fields)};
/* clang-format on */

/* ---- writing ---- */

/* A message being written. */
struct otlp_json_level {
    const struct otlp_json_message *message;
    const struct otlp_json_field
        *list;             /* whose array is being read; NULL: none, members come next */
    uint32_t seen;         /* a bit for each of its fields that was there */
    size_t length_at;      /* where its length goes */
    size_t list_length_at; /* where the length of a list of numbers goes */
};

struct writer {
    struct fg_json json;
    struct fg_arena *arena;
    struct fg_buf *out;
    struct otlp_json_level levels[LEVELS_MAX];
    uint32_t depth;
    bool any_known, any_unknown; /* fields; what is unknown is not looked into */
    bool any_old;                /* names that only 1.8 has */
    struct fg_err *err;
};

static enum fg_code fail(struct writer *writer, const char *what)
{
    return fg_json_fail(&writer->json, what, writer->err);
}

static enum fg_code wrong_value(struct writer *writer, const struct otlp_json_field *field,
                                const char *wanted)
{
    char what[128];

    (void)snprintf(what, sizeof what, "%s is not %s", field->camel, wanted);
    return fail(writer, what);
}

static size_t open_length(struct fg_buf *out)
{
    static const uint8_t room[LENGTH_BYTES];

    fg_buf_append(out, room, sizeof room);
    return out->len;
}

/* body_at: where what has that length begins. */
static void close_length(struct fg_buf *out, size_t body_at)
{
    size_t len = out->len - body_at;

    if (out->full)
        return;
    /* Four bytes with seven bits each: 256 MiB, four times the largest input. */
    fg_assert(len >> 7 * LENGTH_BYTES == 0); /* the input would have been too large */
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        out->ptr[body_at - LENGTH_BYTES + i] =
            (uint8_t)((len & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
        len >>= 7;
    }
}

static bool is_number(const struct otlp_json_field *field)
{
    return field->kind == INTEGER || field->kind == FIXED64;
}

static enum fg_code put_number(struct writer *writer, const struct otlp_json_field *field)
{
    uint64_t value;
    int64_t number;

    /* 64-bit integers may be numbers or strings (proto3 JSON mapping); both signs are one wire
     * form. */
    if (fg_json_i64(&writer->json, &number))
        value = (uint64_t)number;
    else if (!fg_json_u64(&writer->json, &value))
        return wrong_value(writer, field, "an integer of 64 bits");
    if (field->kind == FIXED64)
        fg_buf_le64(writer->out, value);
    else
        fg_buf_varint(writer->out, value);
    return FG_OK;
}

static enum fg_code put_id(struct writer *writer, const struct otlp_json_field *field,
                           struct fg_slice text)
{
    /* Room for base64 of as many characters as hex has. */
    uint8_t bytes[2 * ID_MAX_BYTES + 2];
    size_t len = field->id_bytes;

    if (text.len > (size_t)2 * ID_MAX_BYTES ||
        (!fg_parse_hex(text, bytes, len) && !fg_parse_base64(text, bytes, &len)))
        return wrong_value(writer, field, "an id in hex or base64");
    fg_buf_lenbytes(writer->out, fg_bytes(bytes, len));
    return FG_OK;
}

/* One value of a field; token: its first. */
static enum fg_code put_value(struct writer *writer, const struct otlp_json_field *field,
                              enum fg_json_token token)
{
    static const uint8_t wire_types[] = {[INTEGER] = FG_PB_VARINT,
                                         [FIXED64] = FG_PB_I64,
                                         [STRING] = FG_PB_LEN,
                                         [ID] = FG_PB_LEN,
                                         [MESSAGE] = FG_PB_LEN};

    if (!field->repeated || !is_number(field)) /* a list of numbers is one value */
        fg_buf_varint(writer->out, FG_PB_TAG(field->number, wire_types[field->kind]));
    if (field->kind == MESSAGE) {
        if (token != FG_JSON_OBJECT)
            return wrong_value(writer, field, "an object");
        /* Fields of messages nest, and AnyValue nests in itself without an end. */
        if (writer->depth == LEVELS_MAX)
            return fail(writer, "messages are nested too deep");
        writer->levels[writer->depth++] = (struct otlp_json_level){
            .message = field->message, .length_at = open_length(writer->out)};
        return FG_OK;
    }
    if (is_number(field))
        return token == FG_JSON_NUMBER || token == FG_JSON_STRING
                   ? put_number(writer, field)
                   : wrong_value(writer, field, "an integer");

    if (token != FG_JSON_STRING)
        return wrong_value(writer, field, "a string");
    struct fg_slice text = fg_json_text(&writer->json, writer->arena);

    if (text.ptr == NULL)
        return fg_fail(writer->err, FG_E_TOO_LARGE, "no memory left for decoding");
    if (field->kind == ID)
        return put_id(writer, field, text);
    fg_buf_lenbytes(writer->out, text);
    return FG_OK;
}

static enum fg_code open_list(struct writer *writer, const struct otlp_json_field *field,
                              enum fg_json_token token)
{
    struct otlp_json_level *level = &writer->levels[writer->depth - 1];

    if (token != FG_JSON_ARRAY)
        return wrong_value(writer, field, "an array");
    level->list = field;
    if (is_number(field)) {
        fg_buf_varint(writer->out, FG_PB_TAG(field->number, FG_PB_LEN));
        level->list_length_at = open_length(writer->out);
    }
    return FG_OK;
}

static const struct otlp_json_field *find_field(const struct otlp_json_message *message,
                                                struct fg_slice name)
{
    for (size_t i = 0; i < message->n_fields; i++)
        if (fg_slice_is(name, message->fields[i].camel) ||
            fg_slice_is(name, message->fields[i].snake))
            return &message->fields[i];
    return NULL;
}

static enum fg_code on_key(struct writer *writer)
{
    struct fg_slice name = fg_json_text(&writer->json, writer->arena);
    struct otlp_json_level *level = &writer->levels[writer->depth - 1];
    const struct otlp_json_field *field = find_field(level->message, name);

    if (name.ptr == NULL)
        return fg_fail(writer->err, FG_E_TOO_LARGE, "no memory left for decoding");
    writer->any_known |= field != NULL;
    writer->any_unknown |= field == NULL;
    if (field == NULL) {
        fg_json_skip(&writer->json, fg_json_next(&writer->json));
        return FG_OK;
    }
    uint32_t bit = UINT32_C(1) << (field - level->message->fields);
    if ((level->seen & bit) != 0) {
        /* Protobuf would join both, other readers of JSON take either: which one was meant nobody
         * knows. */
        char what[128];

        (void)snprintf(what, sizeof what, "key \"%s\" is there twice", field->camel);
        return fail(writer, what);
    }
    level->seen |= bit;
    enum fg_json_token token = fg_json_next(&writer->json);
    writer->any_old |= field->camel == old_samples || field->camel == old_lines;
    if (token == FG_JSON_NULL || token == FG_JSON_BAD)
        return FG_OK;
    return field->repeated ? open_list(writer, field, token) : put_value(writer, field, token);
}

/* One token, or a key with its value's first. */
static enum fg_code convert_token(struct writer *writer)
{
    struct otlp_json_level *level = &writer->levels[writer->depth - 1];
    enum fg_json_token token = fg_json_next(&writer->json);

    if (token == FG_JSON_BAD)
        return fail(writer, "");
    if (level->list != NULL) {
        if (token != FG_JSON_ARRAY_END)
            return put_value(writer, level->list, token);
        if (is_number(level->list))
            close_length(writer->out, level->list_length_at);
        level->list = NULL;
        return FG_OK;
    }
    if (token == FG_JSON_KEY)
        return on_key(writer);
    /* The end of a message. The request itself, at depth 0, has no length in front. */
    if (--writer->depth > 0)
        close_length(writer->out, level->length_at);
    return FG_OK;
}

enum fg_code fg_otlp_json(struct fg_slice in, struct fg_arena *arena, struct fg_buf *out,
                          enum fg_otlp_version *ret_version, struct fg_err *err)
{
    struct writer writer = {.json = fg_json(in), .arena = arena, .out = out, .err = err};

    if (in.len > INPUT_MAX_BYTES)
        return fg_fail(err, FG_E_TOO_LARGE, "JSON of more than %d MiB",
                       INPUT_MAX_BYTES / 1024 / 1024);
    if (fg_json_next(&writer.json) != FG_JSON_OBJECT)
        return fail(&writer, "not a JSON object");
    writer.levels[writer.depth++].message = &request;
    while (writer.depth > 0) {
        if (convert_token(&writer) != FG_OK)
            return err->code;
        if (out->full)
            return fg_fail(err, FG_E_TOO_LARGE, "JSON needs more memory than decoding may use");
    }
    if (fg_json_next(&writer.json) != FG_JSON_END)
        return fail(&writer, "");
    if (writer.any_unknown && !writer.any_known)
        return fg_fail(err, FG_E_DECODE, "not an ExportProfilesServiceRequest: no field is known");
    *ret_version = writer.any_old ? FG_OTLP_1_8 : FG_OTLP_1_10;
    return FG_OK;
}
