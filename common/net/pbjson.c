#include "common/net/pbjson.h"

#include "common/base/cursor.h"
#include "common/base/json.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"

#include <math.h>

enum {
    PBJSON_DEPTH_MAX = 64,      /* of messages; ours nest four deep */
    PBJSON_NAME_MAX_BYTES = 64, /* of a field, as JSON spells it */
    VALUE_SHOWN_MAX_BYTES = 64, /* in an error */
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
    struct fg_json json;
    struct fg_arena *arena;
    struct fg_err *err;
    const ProtobufCFieldDescriptor *field; /* being read, for errors */
    struct fg_json value;                  /* before the value that is being read, for errors */
};

static enum fg_code read_message(struct pbjson_reader *reader, enum fg_json_token token,
                                 const ProtobufCMessageDescriptor *type, unsigned depth,
                                 ProtobufCMessage **ret_message);

static enum fg_code too_much(struct pbjson_reader *reader)
{
    return fg_fail(reader->err, FG_E_LIMIT, "message is too large");
}

/* Fails with the position of the reader. If the JSON itself is malformed there, the error says how
 * instead of `what`. */
static enum fg_code bad_json(struct pbjson_reader *reader, const char *what)
{
    (void)fg_json_fail(&reader->json, what, reader->err);
    reader->err->code = FG_E_INVALID;
    return FG_E_INVALID;
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

/* Shows the value as it was sent, from its first byte on. */
static enum fg_code wrong_value(struct pbjson_reader *reader)
{
    struct fg_json end = reader->value;
    struct fg_slice shown = fg_bytes(end.cur.ptr, end.cur.left);
    enum fg_json_token token = fg_json_next(&end);

    fg_json_skip(&end, token);
    if (end.why != NULL) {
        reader->json = end;
        return bad_json(reader, "");
    }
    shown = fg_trim(fg_slice_sub(shown, 0, shown.len - end.cur.left));
    /* The comma before an element of an array. */
    if (fg_slice_starts(shown, ","))
        shown = fg_trim(fg_slice_sub(shown, 1, shown.len));
    return fg_fail(reader->err, FG_E_INVALID, "invalid value for %s field %s: %.*s",
                   type_name(reader->field->type), reader->field->name,
                   FG_S(fg_slice_sub(shown, 0, VALUE_SHOWN_MAX_BYTES)));
}

static bool is_number(enum fg_json_token token)
{
    return token == FG_JSON_NUMBER || token == FG_JSON_STRING;
}

static bool read_double(const struct fg_json *json, enum fg_json_token token, double *ret_value)
{
    if (token == FG_JSON_STRING && fg_slice_is(json->text, "NaN"))
        *ret_value = NAN;
    else if (token == FG_JSON_STRING && fg_slice_is(json->text, "Infinity"))
        *ret_value = INFINITY;
    else if (token == FG_JSON_STRING && fg_slice_is(json->text, "-Infinity"))
        *ret_value = -INFINITY;
    else
        return is_number(token) && fg_json_f64(json, ret_value);
    return true;
}

/* ret_known: false for a name that this version of the enum does not have. */
static enum fg_code read_enum(struct pbjson_reader *reader, enum fg_json_token token,
                              const ProtobufCEnumDescriptor *type, int *ret_value, bool *ret_known)
{
    int64_t number;

    *ret_known = true;
    if (token == FG_JSON_STRING) {
        const ProtobufCEnumValue *value;
        struct fg_slice text = fg_json_text(&reader->json, reader->arena);
        char *name = text.ptr == NULL ? NULL : fg_arena_text(reader->arena, text);

        if (name == NULL)
            return too_much(reader);
        value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
        *ret_known = value != NULL;
        if (value != NULL)
            *ret_value = value->value;
        return FG_OK;
    }
    if (token != FG_JSON_NUMBER || !fg_json_i64(&reader->json, &number) || number < INT32_MIN ||
        number > INT32_MAX)
        return wrong_value(reader);
    *ret_value = (int)number;
    return FG_OK;
}

static enum fg_code read_bytes(struct pbjson_reader *reader, enum fg_json_token token,
                               ProtobufCBinaryData *ret_data)
{
    if (token != FG_JSON_STRING)
        return wrong_value(reader);
    struct fg_slice text = fg_json_text(&reader->json, reader->arena);
    uint8_t *data = text.ptr == NULL ? NULL : fg_arena_alloc(reader->arena, text.len + 1);
    size_t len;
    if (data == NULL)
        return too_much(reader);
    if (!fg_parse_base64(text, data, &len))
        return fg_fail(reader->err, FG_E_INVALID, "invalid value for bytes field %s: not base64",
                       reader->field->name);
    ret_data->data = data;
    ret_data->len = len;
    return FG_OK;
}

static enum fg_code read_string(struct pbjson_reader *reader, enum fg_json_token token,
                                char **ret_text)
{
    if (token != FG_JSON_STRING)
        return wrong_value(reader);
    struct fg_slice text = fg_json_text(&reader->json, reader->arena);
    if (text.ptr == NULL)
        return too_much(reader);
    /* It would end there as a C string. */
    if (fg_slice_find(text, '\0') != SIZE_MAX)
        return wrong_value(reader);
    *ret_text = fg_arena_text(reader->arena, text);
    return *ret_text == NULL ? too_much(reader) : FG_OK;
}

/* A number into its slot; false: not one of this type. */
static bool read_number(const struct fg_json *json, enum fg_json_token token, ProtobufCType type,
                        void *slot)
{
    int64_t i;
    uint64_t u;
    double d;

    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        if (!is_number(token) || !fg_json_i64(json, &i) || i < INT32_MIN || i > INT32_MAX)
            return false;
        *(int32_t *)slot = (int32_t)i;
        return true;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        if (!is_number(token) || !fg_json_u64(json, &u) || u > UINT32_MAX)
            return false;
        *(uint32_t *)slot = (uint32_t)u;
        return true;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return is_number(token) && fg_json_u64(json, slot);
    case PROTOBUF_C_TYPE_FLOAT:
        if (!read_double(json, token, &d))
            return false;
        *(float *)slot = (float)d;
        return true;
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(json, token, slot);
    case PROTOBUF_C_TYPE_BOOL:
        if (token != FG_JSON_TRUE && token != FG_JSON_FALSE)
            return false;
        *(protobuf_c_boolean *)slot = token == FG_JSON_TRUE;
        return true;
    default:
        return is_number(token) && fg_json_i64(json, slot);
    }
}

/* One value, whose first token was read, into its slot. ret_kept: false when it is to be treated
 * as if it had not been there. */
static enum fg_code read_value(struct pbjson_reader *reader, enum fg_json_token token,
                               const ProtobufCFieldDescriptor *field, unsigned depth, void *slot,
                               bool *ret_kept)
{
    reader->field = field;
    *ret_kept = true;
    if (token == FG_JSON_BAD)
        return bad_json(reader, "");
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return read_string(reader, token, slot);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(reader, token, slot);
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(reader, token, field->descriptor, depth, slot);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(reader, token, field->descriptor, slot, ret_kept);
    default:
        return read_number(&reader->json, token, field->type, slot) ? FG_OK : wrong_value(reader);
    }
}

static enum fg_code read_repeated(struct pbjson_reader *reader, enum fg_json_token token,
                                  const ProtobufCFieldDescriptor *field, unsigned depth,
                                  ProtobufCMessage *message)
{
    size_t size = element_size(field->type);
    uint32_t n = 0, cap = 0;
    char *items = NULL;

    reader->field = field;
    if (token != FG_JSON_ARRAY)
        return wrong_value(reader);
    for (;;) {
        bool kept;

        reader->value = reader->json;
        token = fg_json_next(&reader->json);
        if (token == FG_JSON_ARRAY_END)
            break;
        /* How many there are is known at the end. */
        if (!fg_arena_grow(reader->arena, &items, n, 1, &cap, size))
            return too_much(reader);
        if (read_value(reader, token, field, depth, items + n * size, &kept) != FG_OK)
            return reader->err->code;
        n += kept;
    }
    *(size_t *)member(message, field->quantifier_offset) = n;
    *(void **)member(message, field->offset) = n == 0 ? NULL : items;
    return FG_OK;
}

static enum fg_code read_field(struct pbjson_reader *reader, const ProtobufCFieldDescriptor *field,
                               unsigned depth, ProtobufCMessage *message)
{
    enum fg_json_token token;
    bool kept;

    reader->value = reader->json;
    token = fg_json_next(&reader->json);
    if (token == FG_JSON_NULL)
        return FG_OK;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_repeated(reader, token, field, depth, message);
    if (read_value(reader, token, field, depth, member(message, field->offset), &kept) != FG_OK)
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
                                                  struct fg_slice key)
{
    char name[PBJSON_NAME_MAX_BYTES];

    for (unsigned i = 0; i < type->n_fields; i++) {
        camel(type->fields[i].name, name);
        if (fg_slice_is(key, name) || fg_slice_is(key, type->fields[i].name))
            return &type->fields[i];
    }
    return NULL;
}

/* Reads a member, whose key was read. seen: a bit for each field that the message has so far. */
static enum fg_code read_member(struct pbjson_reader *reader,
                                const ProtobufCMessageDescriptor *type, unsigned depth,
                                uint64_t *seen, ProtobufCMessage *message)
{
    struct fg_slice key = fg_json_text(&reader->json, reader->arena);
    const ProtobufCFieldDescriptor *field;
    char what[2 * PBJSON_NAME_MAX_BYTES];
    uint64_t bit;

    if (key.ptr == NULL)
        return too_much(reader);
    field = find_field(type, key);
    if (field == NULL) {
        fg_json_skip(&reader->json, fg_json_next(&reader->json));
        return FG_OK;
    }
    bit = UINT64_C(1) << (field - type->fields);
    /* Which of them was meant nobody knows; a field has two spellings, too. */
    if ((*seen & bit) != 0) {
        (void)snprintf(what, sizeof what, "field %s is there twice", field->name);
        return bad_json(reader, what);
    }
    *seen |= bit;
    return read_field(reader, field, depth, message);
}

static enum fg_code read_message(struct pbjson_reader *reader, enum fg_json_token token,
                                 const ProtobufCMessageDescriptor *type, unsigned depth,
                                 ProtobufCMessage **ret_message)
{
    ProtobufCMessage *message;
    uint64_t seen = 0;

    /* The types are ours, so no input can fail this. */
    fg_assert(type->n_fields <= 64);
    if (depth == 0)
        return fg_fail(reader->err, FG_E_INVALID, "messages are nested too deep");
    if (token != FG_JSON_OBJECT)
        return fg_fail(reader->err, FG_E_INVALID, "%s is not a JSON object", type->short_name);
    message = fg_arena_alloc(reader->arena, type->sizeof_message);
    if (message == NULL)
        return too_much(reader);
    protobuf_c_message_init(type, message);
    while ((token = fg_json_next(&reader->json)) == FG_JSON_KEY)
        if (read_member(reader, type, depth - 1, &seen, message) != FG_OK)
            return reader->err->code;
    if (token == FG_JSON_BAD)
        return bad_json(reader, "");
    *ret_message = message;
    return FG_OK;
}

enum fg_code fg_pbjson_read(struct fg_slice json, const ProtobufCMessageDescriptor *type,
                            struct fg_arena *arena, ProtobufCMessage **ret_message,
                            struct fg_err *err)
{
    struct pbjson_reader reader = {.json = fg_json(json), .arena = arena, .err = err};
    ProtobufCMessage *message = NULL;
    enum fg_json_token token;

    if (fg_trim(json).len == 0)
        return fg_fail(err, FG_E_INVALID, "zero-length payload is not a valid JSON object");
    token = fg_json_next(&reader.json);
    if (token == FG_JSON_BAD)
        return bad_json(&reader, "");
    if (read_message(&reader, token, type, PBJSON_DEPTH_MAX, &message) != FG_OK)
        return err->code;
    if (fg_json_next(&reader.json) != FG_JSON_END)
        return bad_json(&reader, "");
    *ret_message = message;
    return FG_OK;
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
