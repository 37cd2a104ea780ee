#include "common/base/json_writer.h"

#include "common/base/str.h"

struct fg_json_writer fg_json_writer(struct fg_buf *out)
{
    return (struct fg_json_writer){.out = out};
}

static bool in_object(const struct fg_json_writer *json)
{
    return json->depth > 0 && (json->objects >> (json->depth - 1) & 1) != 0;
}

/* The comma between this key or element and the one before it. */
static void put_comma(struct fg_json_writer *json)
{
    if (json->comma)
        fg_buf_putc(json->out, ',');
    json->comma = false;
}

struct fg_buf *fg_json_value(struct fg_json_writer *json, const char *key)
{
    if (key != NULL) {
        fg_assert(in_object(json) && !json->keyed);
        put_comma(json);
        fg_buf_putc(json->out, '"');
        fg_buf_puts(json->out, key);
        fg_buf_puts(json->out, "\":");
    } else {
        /* In an object each value has a key, elsewhere none has: a wrong call would make invalid
         * JSON. */
        fg_assert(json->keyed == in_object(json));
        fg_assert(json->depth > 0 || !json->comma); /* one value at the outermost level */
        put_comma(json);
    }
    /* A key that was put by fg_json_put_key() has its value now. */
    json->keyed = false;
    json->comma = true; /* what follows this value needs one */
    return json->out;
}

static void begin(struct fg_json_writer *json, const char *key, bool object)
{
    fg_buf_putc(fg_json_value(json, key), object ? '{' : '[');
    /* Our own documents have a fixed depth, so this is a bug and not an input. */
    fg_assert(json->depth < FG_JSON_WRITER_DEPTH_MAX);
    /* Bit d says whether level d is an object. */
    json->objects &= ~(UINT64_C(1) << json->depth);
    json->objects |= (uint64_t)object << json->depth;
    json->depth++;
    json->comma = false;
}

void fg_json_begin_object(struct fg_json_writer *json, const char *key)
{
    begin(json, key, true);
}

void fg_json_begin_array(struct fg_json_writer *json, const char *key)
{
    begin(json, key, false);
}

void fg_json_end(struct fg_json_writer *json)
{
    fg_assert(json->depth > 0 && !json->keyed);
    fg_buf_putc(json->out, in_object(json) ? '}' : ']');
    json->depth--;
    json->comma = true;
}

void fg_json_put_key(struct fg_json_writer *json, struct fg_slice key)
{
    fg_assert(in_object(json) && !json->keyed);
    put_comma(json);
    fg_buf_putc(json->out, '"');
    fg_buf_json(json->out, key);
    fg_buf_puts(json->out, "\":");
    json->keyed = true;
}

void fg_json_put_text(struct fg_json_writer *json, const char *key, struct fg_slice text)
{
    struct fg_buf *out = fg_json_value(json, key);

    fg_buf_putc(out, '"');
    fg_buf_json(out, text);
    fg_buf_putc(out, '"');
}

void fg_json_put_cstr(struct fg_json_writer *json, const char *key, const char *text)
{
    fg_json_put_text(json, key, fg_cstr(text));
}

void fg_json_put_i64(struct fg_json_writer *json, const char *key, int64_t value)
{
    fg_buf_i64(fg_json_value(json, key), value);
}

void fg_json_put_u64(struct fg_json_writer *json, const char *key, uint64_t value)
{
    fg_buf_u64(fg_json_value(json, key), value);
}

void fg_json_put_fixed(struct fg_json_writer *json, const char *key, double value, int digits)
{
    fg_buf_printf(fg_json_value(json, key), "%.*f", digits, value);
}

void fg_json_put_bool(struct fg_json_writer *json, const char *key, bool value)
{
    fg_buf_puts(fg_json_value(json, key), value ? "true" : "false");
}

void fg_json_put_null(struct fg_json_writer *json, const char *key)
{
    fg_buf_puts(fg_json_value(json, key), "null");
}

void fg_json_newline(struct fg_json_writer *json)
{
    put_comma(json);
    fg_buf_putc(json->out, '\n');
}
