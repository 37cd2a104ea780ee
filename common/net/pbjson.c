#include "common/net/pbjson.h"

#include "common/base/cursor.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"

#include <jansson.h>
#include <math.h>

enum {
    PBJSON_DEPTH_MAX = 64,      /* of messages; ours nest four deep */
    PBJSON_NAME_MAX_BYTES = 64, /* of a field, as JSON spells it */
    KEY_SHOWN_MAX_BYTES = 64,   /* in an error */
};

/* --- memory: what protobuf-c asks for comes from the arena --- */

static void *arena_alloc(void *arena, size_t size)
{
    return fg_arena_alloc(arena, size);
}

static void arena_free(void *arena, void *ptr)
{
    (void)arena;
    (void)ptr; /* dies with the arena */
}

/* --- what descriptors say --- */

/* JSON's spelling of a field: each underscore makes the next letter a capital one. */
static size_t camel(const char *name, char out[PBJSON_NAME_MAX_BYTES])
{
    size_t len = 0;
    bool upper = false;

    for (; *name != '\0' && len + 1 < PBJSON_NAME_MAX_BYTES; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        out[len] = *name;
        if (upper && *name >= 'a' && *name <= 'z')
            out[len] &= ~0x20; /* ASCII's capital of a letter */
        len++;
        upper = false;
    }
    out[len] = '\0';
    return len;
}

static size_t element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return 4;
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 8;
    }
}

static bool is_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static void *member(ProtobufCMessage *message, unsigned offset)
{
    return (char *)message + offset;
}

/* --- reading --- */

struct pbjson_reader {
    struct fg_arena *arena;
    struct fg_err *err;
    const ProtobufCFieldDescriptor *field; /* being read, for errors */
};

static enum fg_code read_message(struct pbjson_reader *reader, json_t *json,
                                 const ProtobufCMessageDescriptor *type, unsigned depth,
                                 ProtobufCMessage **ret_message);

static enum fg_code too_much(struct pbjson_reader *reader)
{
    return fg_fail(reader->err, FG_E_LIMIT, "message is too large");
}

static const char *type_name(ProtobufCType type)
{
    static const char *const names[] = {
        [PROTOBUF_C_TYPE_INT32] = "int32",       [PROTOBUF_C_TYPE_SINT32] = "sint32",
        [PROTOBUF_C_TYPE_SFIXED32] = "sfixed32", [PROTOBUF_C_TYPE_INT64] = "int64",
        [PROTOBUF_C_TYPE_SINT64] = "sint64",     [PROTOBUF_C_TYPE_SFIXED64] = "sfixed64",
        [PROTOBUF_C_TYPE_UINT32] = "uint32",     [PROTOBUF_C_TYPE_FIXED32] = "fixed32",
        [PROTOBUF_C_TYPE_UINT64] = "uint64",     [PROTOBUF_C_TYPE_FIXED64] = "fixed64",
        [PROTOBUF_C_TYPE_FLOAT] = "float",       [PROTOBUF_C_TYPE_DOUBLE] = "double",
        [PROTOBUF_C_TYPE_BOOL] = "bool",         [PROTOBUF_C_TYPE_ENUM] = "enum",
        [PROTOBUF_C_TYPE_STRING] = "string",     [PROTOBUF_C_TYPE_BYTES] = "bytes",
        [PROTOBUF_C_TYPE_MESSAGE] = "message",
    };

    return names[type];
}

static enum fg_code wrong_value(struct pbjson_reader *reader, json_t *json)
{
    char *shown = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);

    fg_fail(reader->err, FG_E_INVALID, "invalid value for %s field %s: %.64s",
            type_name(reader->field->type), reader->field->name, shown == NULL ? "?" : shown);
    free(shown);
    return FG_E_INVALID;
}

/* A number as JSON may give it: 12, "12", 12.0, 1.2e1. false: not a whole number, or beyond 64
 * bits. */
static bool read_i64(json_t *json, int64_t *ret_value)
{
    double real;

    if (json_is_integer(json)) {
        *ret_value = json_integer_value(json);
        return true;
    }
    if (json_is_string(json)) {
        struct fg_slice text = fg_bytes(json_string_value(json), json_string_length(json));

        if (fg_parse_i64(text, ret_value))
            return true;
        if (!fg_parse_f64(text, &real))
            return false;
    } else if (json_is_real(json)) {
        real = json_real_value(json);
    } else {
        return false;
    }
    if (!(real >= -0x1p63 && real < 0x1p63) || real != trunc(real))
        return false;
    *ret_value = (int64_t)real;
    return true;
}

static bool read_u64(json_t *json, uint64_t *ret_value)
{
    int64_t number;

    if (json_is_string(json) &&
        fg_parse_u64(fg_bytes(json_string_value(json), json_string_length(json)), ret_value))
        return true;
    if (!read_i64(json, &number) || number < 0)
        return false;
    *ret_value = (uint64_t)number;
    return true;
}

static bool read_double(json_t *json, double *ret_value)
{
    if (json_is_number(json)) {
        *ret_value = json_number_value(json);
        return true;
    }
    if (!json_is_string(json))
        return false;
    struct fg_slice text = fg_bytes(json_string_value(json), json_string_length(json));
    if (fg_slice_is(text, "NaN"))
        *ret_value = NAN;
    else if (fg_slice_is(text, "Infinity"))
        *ret_value = INFINITY;
    else if (fg_slice_is(text, "-Infinity"))
        *ret_value = -INFINITY;
    else
        return fg_parse_f64(text, ret_value);
    return true;
}

/* ret_known: false for a name that this version of the enum does not have. */
static bool read_enum(json_t *json, const ProtobufCEnumDescriptor *type, int *ret_value,
                      bool *ret_known)
{
    int64_t number;

    *ret_known = true;
    if (json_is_string(json)) {
        const ProtobufCEnumValue *value =
            protobuf_c_enum_descriptor_get_value_by_name(type, json_string_value(json));

        *ret_known = value != NULL;
        if (value != NULL)
            *ret_value = value->value;
        return true;
    }
    if (!read_i64(json, &number) || number < INT32_MIN || number > INT32_MAX)
        return false;
    *ret_value = (int)number;
    return true;
}

static enum fg_code read_bytes(struct pbjson_reader *reader, json_t *json,
                               ProtobufCBinaryData *ret_data)
{
    if (!json_is_string(json))
        return wrong_value(reader, json);
    uint8_t *data = fg_arena_alloc(reader->arena, json_string_length(json) + 1);
    size_t len;
    if (data == NULL)
        return too_much(reader);
    if (!fg_parse_base64(fg_bytes(json_string_value(json), json_string_length(json)), data, &len))
        return fg_fail(reader->err, FG_E_INVALID, "invalid value for bytes field %s: not base64",
                       reader->field->name);
    ret_data->data = data;
    ret_data->len = len;
    return FG_OK;
}

static enum fg_code read_string(struct pbjson_reader *reader, json_t *json, char **ret_text)
{
    if (!json_is_string(json))
        return wrong_value(reader, json);
    /* jansson has refused U+0000, so the length is that of the C string. */
    *ret_text =
        fg_arena_text(reader->arena, fg_bytes(json_string_value(json), json_string_length(json)));
    return *ret_text == NULL ? too_much(reader) : FG_OK;
}

/* A number into its slot; false: not one of this type. */
static bool read_number(json_t *json, ProtobufCType type, void *slot)
{
    int64_t i;
    uint64_t u;
    double d;

    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        if (!read_i64(json, &i) || i < INT32_MIN || i > INT32_MAX)
            return false;
        *(int32_t *)slot = (int32_t)i;
        return true;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        if (!read_u64(json, &u) || u > UINT32_MAX)
            return false;
        *(uint32_t *)slot = (uint32_t)u;
        return true;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return read_u64(json, slot);
    case PROTOBUF_C_TYPE_FLOAT:
        if (!read_double(json, &d))
            return false;
        *(float *)slot = (float)d;
        return true;
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(json, slot);
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(json))
            return false;
        *(protobuf_c_boolean *)slot = json_is_true(json);
        return true;
    default:
        return read_i64(json, slot);
    }
}

/* One value into its slot. ret_kept: false when it is to be treated as if it had not been there. */
static enum fg_code read_value(struct pbjson_reader *reader, json_t *json,
                               const ProtobufCFieldDescriptor *field, unsigned depth, void *slot,
                               bool *ret_kept)
{
    reader->field = field;
    *ret_kept = true;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return read_string(reader, json, slot);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(reader, json, slot);
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(reader, json, field->descriptor, depth, slot);
    case PROTOBUF_C_TYPE_ENUM:
        if (!read_enum(json, field->descriptor, slot, ret_kept))
            return wrong_value(reader, json);
        return FG_OK;
    default:
        return read_number(json, field->type, slot) ? FG_OK : wrong_value(reader, json);
    }
}

static enum fg_code read_repeated(struct pbjson_reader *reader, json_t *json,
                                  const ProtobufCFieldDescriptor *field, unsigned depth,
                                  ProtobufCMessage *message)
{
    size_t size = element_size(field->type), n = 0;

    reader->field = field;
    if (!json_is_array(json))
        return wrong_value(reader, json);
    char *items = fg_arena_calloc(reader->arena, json_array_size(json), size);
    if (items == NULL)
        return too_much(reader);
    for (size_t i = 0; i < json_array_size(json); i++) {
        bool kept;

        if (read_value(reader, json_array_get(json, i), field, depth, items + n * size, &kept) !=
            FG_OK)
            return reader->err->code;
        n += kept;
    }
    *(size_t *)member(message, field->quantifier_offset) = n;
    *(void **)member(message, field->offset) = n == 0 ? NULL : items;
    return FG_OK;
}

static enum fg_code read_field(struct pbjson_reader *reader, json_t *json,
                               const ProtobufCFieldDescriptor *field, unsigned depth,
                               ProtobufCMessage *message)
{
    bool kept;

    if (json_is_null(json))
        return FG_OK;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_repeated(reader, json, field, depth, message);
    if (read_value(reader, json, field, depth, member(message, field->offset), &kept) != FG_OK)
        return reader->err->code;
    if (!kept)
        return FG_OK;
    /* Members of a oneof share their slot: of several the last one stays. */
    if (is_oneof(field))
        *(uint32_t *)member(message, field->quantifier_offset) = field->id;
    else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->quantifier_offset != 0)
        *(protobuf_c_boolean *)member(message, field->quantifier_offset) = true;
    return FG_OK;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  const char *key)
{
    char name[PBJSON_NAME_MAX_BYTES];

    for (unsigned i = 0; i < type->n_fields; i++) {
        camel(type->fields[i].name, name);
        if (strcmp(key, name) == 0 || strcmp(key, type->fields[i].name) == 0)
            return &type->fields[i];
    }
    return NULL;
}

static enum fg_code read_message(struct pbjson_reader *reader, json_t *json,
                                 const ProtobufCMessageDescriptor *type, unsigned depth,
                                 ProtobufCMessage **ret_message)
{
    uint64_t seen = 0; /* a bit for each field */
    const char *key;
    json_t *value;

    /* The types are ours, so no input can fail this. */
    fg_assert(type->n_fields <= 64);
    if (depth == 0)
        return fg_fail(reader->err, FG_E_INVALID, "messages are nested too deep");
    if (!json_is_object(json))
        return fg_fail(reader->err, FG_E_INVALID, "%s is not a JSON object", type->short_name);
    ProtobufCMessage *message = fg_arena_alloc(reader->arena, type->sizeof_message);
    if (message == NULL)
        return too_much(reader);
    protobuf_c_message_init(type, message);
    json_object_foreach(json, key, value)
    {
        const ProtobufCFieldDescriptor *field = find_field(type, key);

        if (field == NULL)
            continue;
        uint64_t bit = UINT64_C(1) << (field - type->fields);
        /* jansson refuses keys that are equal; a field has two spellings. */
        if ((seen & bit) != 0)
            return fg_fail(reader->err, FG_E_INVALID, "field %s is there twice", field->name);
        seen |= bit;
        if (read_field(reader, value, field, depth - 1, message) != FG_OK)
            return reader->err->code;
    }
    *ret_message = message;
    return FG_OK;
}

/* jansson names a key in its text only if it is short: the key is what ends where jansson stopped.
 */
static enum fg_code bad_syntax(struct fg_slice json, const json_error_t *why, struct fg_err *err)
{
    size_t end = why->position > 0 ? (size_t)why->position - 1 : 0; /* of the closing quote */
    size_t begin = FG_MIN(end, json.len);

    if (json_error_code(why) != json_error_duplicate_key || begin == 0)
        return fg_fail(err, FG_E_INVALID, "line %d, column %d: %s", why->line, why->column,
                       why->text);
    while (begin > 0 && (json.ptr[begin - 1] != '"' || (begin > 1 && json.ptr[begin - 2] == '\\')))
        begin--;
    struct fg_slice key = fg_slice_sub(json, begin, FG_MIN(end - begin, KEY_SHOWN_MAX_BYTES));
    return fg_fail(err, FG_E_INVALID, "line %d, column %d: key \"%.*s\" is there twice", why->line,
                   why->column, FG_S(key));
}

enum fg_code fg_pbjson_read(struct fg_slice json, const ProtobufCMessageDescriptor *type,
                            struct fg_arena *arena, ProtobufCMessage **ret_message,
                            struct fg_err *err)
{
    struct pbjson_reader reader = {.arena = arena, .err = err};
    json_error_t why;

    if (fg_trim(json).len == 0)
        return fg_fail(err, FG_E_INVALID, "zero-length payload is not a valid JSON object");
    /* The tree of jansson is not in the arena: only the caller's limit of the text bounds it. */
    json_t *root = json_loadb((const char *)json.ptr, json.len, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        return bad_syntax(json, &why, err);
    enum fg_code code = read_message(&reader, root, type, PBJSON_DEPTH_MAX, ret_message);
    json_decref(root);
    return code;
}

/* --- writing --- */

static void write_message(const ProtobufCMessage *message, struct fg_json_writer *json);

static const void *member_const(const ProtobufCMessage *message, unsigned offset)
{
    return (const char *)message + offset;
}

/* The shortest of the usual precisions that reads back as the same number. */
static void write_double(double value, struct fg_buf *out)
{
    char text[40];

    if (isnan(value)) {
        fg_buf_puts(out, "\"NaN\"");
        return;
    }
    if (isinf(value)) {
        fg_buf_puts(out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    if (value == trunc(value) && fabs(value) < 1e15) {
        fg_buf_i64(out, (int64_t)value);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fg_buf_puts(out, text);
}

static void write_base64(struct fg_slice in, struct fg_buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < in.len; i += 3) {
        size_t n = FG_MIN(in.len - i, (size_t)3);
        unsigned bits = (unsigned)in.ptr[i] << 16 | (n > 1 ? (unsigned)in.ptr[i + 1] << 8 : 0) |
                        (n > 2 ? in.ptr[i + 2] : 0);
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], '=', '='};

        if (n > 1)
            four[2] = digits[bits >> 6 & 63];
        if (n > 2)
            four[3] = digits[bits & 63];
        fg_buf_append(out, four, sizeof four);
    }
}

static void write_enum(int value, const ProtobufCEnumDescriptor *type, struct fg_json_writer *json)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);

    if (known == NULL)
        fg_json_put_i64(json, NULL, value);
    else
        fg_json_put_cstr(json, NULL, known->name);
}

static void write_i64(int64_t value, struct fg_buf *out)
{
    fg_buf_putc(out, '"');
    fg_buf_i64(out, value);
    fg_buf_putc(out, '"');
}

static void write_value(const ProtobufCFieldDescriptor *field, const void *slot,
                        struct fg_json_writer *json)
{
    const ProtobufCBinaryData *data = slot;
    struct fg_buf *out;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        fg_json_put_i64(json, NULL, *(const int32_t *)slot);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        fg_json_put_u64(json, NULL, *(const uint32_t *)slot);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        write_i64(*(const int64_t *)slot, fg_json_value(json, NULL));
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        out = fg_json_value(json, NULL);
        fg_buf_putc(out, '"');
        fg_buf_u64(out, *(const uint64_t *)slot);
        fg_buf_putc(out, '"');
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        write_double((double)*(const float *)slot, fg_json_value(json, NULL));
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        write_double(*(const double *)slot, fg_json_value(json, NULL));
        break;
    case PROTOBUF_C_TYPE_BOOL:
        fg_json_put_bool(json, NULL, *(const protobuf_c_boolean *)slot != 0);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(*(const int *)slot, field->descriptor, json);
        break;
    case PROTOBUF_C_TYPE_STRING:
        fg_json_put_cstr(json, NULL, *(char *const *)slot);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        out = fg_json_value(json, NULL);
        fg_buf_putc(out, '"');
        write_base64(fg_bytes(data->data, data->len), out);
        fg_buf_putc(out, '"');
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        write_message(*(ProtobufCMessage *const *)slot, json);
        break;
    }
}

static bool is_i64(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_INT64 || field->type == PROTOBUF_C_TYPE_SINT64 ||
           field->type == PROTOBUF_C_TYPE_SFIXED64;
}

/* Flame graphs are hundreds of thousands of these: nothing is looked up for each. */
static void write_i64s(const int64_t *values, size_t n, struct fg_json_writer *json)
{
    struct fg_buf *out = fg_json_value(json, NULL);

    fg_buf_putc(out, '[');
    /* Ends early if the answer is too large, since nothing of it will be sent. */
    for (size_t i = 0; i < n && !out->full; i++) {
        if (i > 0)
            fg_buf_putc(out, ',');
        write_i64(values[i], out);
    }
    fg_buf_putc(out, ']');
}

static void write_repeated(const ProtobufCFieldDescriptor *field, const void *items, size_t n,
                           struct fg_json_writer *json)
{
    size_t size = element_size(field->type);

    if (is_i64(field)) {
        write_i64s(items, n, json);
        return;
    }
    fg_json_begin_array(json, NULL);
    for (size_t i = 0; i < n && !json->out->full; i++)
        write_value(field, (const char *)items + i * size, json);
    fg_json_end(json);
}

/* Zero in every byte is the default of all numbers (and not of -0.0, which JSON keeps too). */
static bool is_default(const ProtobufCFieldDescriptor *field, const void *slot)
{
    static const char zero[8];
    const ProtobufCBinaryData *data = slot;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return *(char *const *)slot == NULL || **(char *const *)slot == '\0';
    case PROTOBUF_C_TYPE_BYTES:
        return data->len == 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(ProtobufCMessage *const *)slot == NULL;
    default:
        return memcmp(slot, zero, element_size(field->type)) == 0;
    }
}

static bool is_set(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
    const void *slot = member_const(message, field->offset);

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)member_const(message, field->quantifier_offset) > 0;
    if (is_oneof(field))
        return *(const uint32_t *)member_const(message, field->quantifier_offset) == field->id;
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->quantifier_offset != 0)
        return *(const protobuf_c_boolean *)member_const(message, field->quantifier_offset);
    return !is_default(field, slot);
}

static void write_fields(const ProtobufCMessage *message, struct fg_json_writer *json)
{
    char name[PBJSON_NAME_MAX_BYTES];

    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const void *slot = member_const(message, field->offset);

        if (!is_set(field, message))
            continue;
        fg_json_put_key(json, fg_bytes(name, camel(field->name, name)));
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            write_repeated(field, *(const void *const *)slot,
                           *(const size_t *)member_const(message, field->quantifier_offset), json);
        else
            write_value(field, slot, json);
    }
}

static void write_message(const ProtobufCMessage *message, struct fg_json_writer *json)
{
    fg_json_begin_object(json, NULL);
    write_fields(message, json);
    fg_json_end(json);
}

void fg_pbjson_write(const ProtobufCMessage *message, const struct fg_pb_extension *extension,
                     struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    write_fields(message, &json);
    if (extension != NULL) {
        fg_json_put_key(&json, fg_cstr(extension->name));
        write_message(extension->message, &json);
    }
    fg_json_end(&json);
}

/* --- the binary form --- */

enum fg_code fg_pb_read(struct fg_slice bytes, const ProtobufCMessageDescriptor *type,
                        struct fg_arena *arena, ProtobufCMessage **ret_message, struct fg_err *err)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, bytes.len, bytes.ptr);

    /* protobuf-c does not say whether the bytes are malformed or the arena is full. */
    if (message == NULL)
        return fg_fail(err, FG_E_INVALID, "%s: malformed or too large", type->short_name);
    *ret_message = message;
    return FG_OK;
}

void fg_pb_write(const ProtobufCMessage *message, struct fg_buf *out)
{
    size_t size = protobuf_c_message_get_packed_size(message);

    if (size > 0 && fg_buf_reserve(out, size))
        out->len += protobuf_c_message_pack(message, out->ptr + out->len);
}

void fg_pb_write_extension(const struct fg_pb_extension *extension, struct fg_buf *out)
{
    fg_buf_varint(out, FG_PB_TAG(extension->number, FG_PB_LEN));
    fg_buf_varint(out, protobuf_c_message_get_packed_size(extension->message));
    fg_pb_write(extension->message, out);
}
