#include "common/base/json.h"

#include "common/base/str.h"

#include <math.h>

/* Where in the grammar the reader stands. */
enum expected {
    VALUE,
    ELEMENT_OR_END, /* after '[' */
    KEY,
    KEY_OR_END,   /* after '{' */
    COMMA_OR_END, /* after a value inside something */
    NOTHING,      /* after the outermost value */
};

struct fg_json fg_json(struct fg_slice in)
{
    return (struct fg_json){.cur = fg_cur(in), .len = in.len, .expected = VALUE};
}

static enum fg_json_token bad(struct fg_json *json, const char *why)
{
    /* The first error counts: those after it follow from it. */
    if (json->why == NULL) {
        json->why = why;
        json->len -= json->cur.left; /* from now on: where it went wrong */
    }
    fg_cur_fail(&json->cur);
    return FG_JSON_BAD;
}

/* The next byte, which stays; 0, which JSON has nowhere, at the end. */
static uint8_t peek(const struct fg_json *json)
{
    return json->cur.left > 0 ? json->cur.ptr[0] : 0;
}

static void skip_blanks(struct fg_json *json)
{
    uint8_t c = peek(json);

    while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        (void)fg_cur_u8(&json->cur);
        c = peek(json);
    }
}

/* ---- nesting ---- */

static bool in_object(const struct fg_json *json)
{
    return fg_bits_has(json->objects, json->depth - 1u);
}

static enum fg_json_token open_level(struct fg_json *json, bool object)
{
    if (json->depth == FG_JSON_DEPTH_MAX)
        return bad(json, "objects and arrays are nested too deep");
    if (object)
        fg_bits_set(json->objects, json->depth);
    else
        fg_bits_clear(json->objects, json->depth);
    json->depth++;
    json->expected = object ? KEY_OR_END : ELEMENT_OR_END;
    return object ? FG_JSON_OBJECT : FG_JSON_ARRAY;
}

static void value_over(struct fg_json *json)
{
    json->expected = json->depth == 0 ? NOTHING : COMMA_OR_END;
}

static enum fg_json_token close_level(struct fg_json *json)
{
    bool object = in_object(json);

    (void)fg_cur_u8(&json->cur);
    json->depth--;
    value_over(json);
    return object ? FG_JSON_OBJECT_END : FG_JSON_ARRAY_END;
}

/* ---- strings ---- */

static bool is_hex(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Returns the length of the escape at the start of the text, which begins with a backslash; 0:
 * invalid. */
static size_t escape_len(struct fg_slice text)
{
    static const char letters[] = "\"\\/bfnrt";

    if (text.len < 2)
        return 0;
    if (text.ptr[1] != 'u')
        return memchr(letters, text.ptr[1], sizeof letters - 1) != NULL ? 2 : 0;
    if (text.len < 6)
        return 0;
    for (size_t i = 2; i < 6; i++)
        if (!is_hex(text.ptr[i]))
            return 0;
    return 6;
}

/* The inside of a string, up to its closing quote, which is taken too. false: it is bad. */
static bool read_string(struct fg_json *json)
{
    struct fg_slice rest;
    size_t len = 0;

    (void)fg_cur_u8(&json->cur); /* the opening quote */
    rest = fg_bytes(json->cur.ptr, json->cur.left);
    json->escaped = false;
    while (len < rest.len && rest.ptr[len] != '"' && rest.ptr[len] >= 0x20) {
        size_t step = 1;

        if (rest.ptr[len] == '\\') {
            json->escaped = true;
            step = escape_len(fg_slice_sub(rest, len, rest.len));
        }
        if (step == 0)
            break;
        len += step;
    }
    json->text = fg_cur_take(&json->cur, len);
    if (json->cur.left == 0)
        (void)bad(json, "the input ends inside a string");
    else if (peek(json) != '"')
        (void)bad(json, "a string has a control character or bad escape");
    else if (!fg_utf8_valid(json->text))
        (void)bad(json, "a string is not UTF-8");
    (void)fg_cur_u8(&json->cur);
    return json->why == NULL;
}

static enum fg_json_token read_key(struct fg_json *json)
{
    if (peek(json) != '"')
        return bad(json, "expected a member's name in quotes");
    if (!read_string(json))
        return FG_JSON_BAD;
    skip_blanks(json);
    if (peek(json) != ':')
        return bad(json, "expected ':' after a member's name");
    (void)fg_cur_u8(&json->cur);
    json->expected = VALUE;
    return FG_JSON_KEY;
}

/* ---- numbers and words ---- */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Length of the digits at `at`. */
static size_t digits(struct fg_slice text, size_t at)
{
    size_t len = 0;

    while (at + len < text.len && is_digit(text.ptr[at + len]))
        len++;
    return len;
}

static uint8_t byte_at(struct fg_slice text, size_t at)
{
    return at < text.len ? text.ptr[at] : 0;
}

/* Returns the length of the number at the start of the text; 0: no number (RFC 8259, 6). */
static size_t number_len(struct fg_slice text)
{
    size_t len = byte_at(text, 0) == '-', whole = digits(text, len), part;

    if (whole == 0 || (whole > 1 && text.ptr[len] == '0'))
        return 0;
    len += whole;
    if (byte_at(text, len) == '.') {
        part = digits(text, len + 1);
        if (part == 0)
            return 0;
        len += 1 + part;
    }
    if (byte_at(text, len) == 'e' || byte_at(text, len) == 'E') {
        len++;
        len += byte_at(text, len) == '+' || byte_at(text, len) == '-';
        part = digits(text, len);
        if (part == 0)
            return 0;
        len += part;
    }
    return len;
}

static enum fg_json_token read_number(struct fg_json *json)
{
    size_t len = number_len(fg_bytes(json->cur.ptr, json->cur.left));

    if (len == 0)
        return bad(json, "not a number");
    json->text = fg_cur_take(&json->cur, len);
    json->escaped = false;
    value_over(json);
    return FG_JSON_NUMBER;
}

static enum fg_json_token read_word(struct fg_json *json, const char *word,
                                    enum fg_json_token token)
{
    size_t len = strlen(word);

    /* "trueish" is refused by the next token, which is neither a comma nor an end. */
    if (!fg_slice_starts(fg_bytes(json->cur.ptr, json->cur.left), word))
        return bad(json, "expected a value");
    (void)fg_cur_take(&json->cur, len);
    value_over(json);
    return token;
}

static enum fg_json_token read_value(struct fg_json *json)
{
    uint8_t c = peek(json);

    switch (c) {
    case '{':
    case '[':
        (void)fg_cur_u8(&json->cur);
        return open_level(json, c == '{');
    case '"':
        if (!read_string(json))
            return FG_JSON_BAD;
        value_over(json);
        return FG_JSON_STRING;
    case 't':
        return read_word(json, "true", FG_JSON_TRUE);
    case 'f':
        return read_word(json, "false", FG_JSON_FALSE);
    case 'n':
        return read_word(json, "null", FG_JSON_NULL);
    default:
        if (json->cur.left == 0)
            return bad(json, "the input ends where a value is expected");
        return c == '-' || is_digit(c) ? read_number(json) : bad(json, "expected a value");
    }
}

/* ---- tokens ---- */

/* After a value inside something: its end, or the comma before the next. */
static enum fg_json_token read_more(struct fg_json *json)
{
    bool object = in_object(json);
    uint8_t c = peek(json);

    if (c == (object ? '}' : ']'))
        return close_level(json);
    if (c != ',')
        return bad(json, json->cur.left == 0 ? "the input ends inside an object or array"
                                             : "expected ',' or the end of an object or array");
    (void)fg_cur_u8(&json->cur);
    skip_blanks(json);
    return object ? read_key(json) : read_value(json);
}

enum fg_json_token fg_json_next(struct fg_json *json)
{
    if (json->why != NULL)
        return FG_JSON_BAD;
    skip_blanks(json);
    switch ((enum expected)json->expected) {
    case NOTHING:
        return json->cur.left == 0 ? FG_JSON_END : bad(json, "unexpected data after the value");
    case COMMA_OR_END:
        return read_more(json);
    case KEY_OR_END:
        return peek(json) == '}' ? close_level(json) : read_key(json);
    case KEY:
        return read_key(json);
    case ELEMENT_OR_END:
        return peek(json) == ']' ? close_level(json) : read_value(json);
    case VALUE:
        break;
    }
    return read_value(json);
}

void fg_json_skip(struct fg_json *json, enum fg_json_token token)
{
    unsigned outside = json->depth - 1u;

    if (token != FG_JSON_OBJECT && token != FG_JSON_ARRAY)
        return;
    while (json->depth > outside && fg_json_next(json) != FG_JSON_BAD)
        continue;
}

/* ---- what a token says ---- */

static uint32_t hex4(struct fg_slice text)
{
    uint8_t bytes[2] = {0};

    if (!fg_parse_hex(text, bytes, sizeof bytes))
        return 0; /* cannot be: read_string() has looked at it */
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

/* UTF-8 of a character; returns how many bytes. */
static size_t put_rune(uint32_t rune, uint8_t *out)
{
    static const uint8_t heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = rune < 0x80 ? 1 : rune < 0x800 ? 2 : rune < 0x10000 ? 3 : 4;

    for (size_t i = len; i > 1; i--) {
        out[i - 1] = (uint8_t)(0x80 | (rune & 0x3f));
        rune >>= 6;
    }
    out[0] = (uint8_t)(heads[len] | rune);
    return len;
}

/* The character of the "\uXXXX" at the start of the text, and how long it is with its other half.
 */
static uint32_t unicode_escape(struct fg_slice text, size_t *ret_len)
{
    uint32_t rune = hex4(fg_slice_sub(text, 2, 4)), low;

    *ret_len = 6;
    if (rune < 0xd800 || rune > 0xdfff)
        return rune;
    /* A lone half of a surrogate pair becomes U+FFFD, as in Go's decoder. */
    if (rune > 0xdbff || text.len < 12 || text.ptr[6] != '\\' || text.ptr[7] != 'u')
        return 0xfffd;
    low = hex4(fg_slice_sub(text, 8, 4));
    if (low < 0xdc00 || low > 0xdfff)
        return 0xfffd;
    *ret_len = 12;
    return 0x10000 + ((rune - 0xd800) << 10 | (low - 0xdc00));
}

/* The escape at the start of the text, into out; *ret_taken: how long it was. */
static size_t unescape(struct fg_slice text, uint8_t *out, size_t *ret_taken)
{
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *letter;

    if (text.ptr[1] == 'u')
        return put_rune(unicode_escape(text, ret_taken), out);
    letter = memchr(letters, text.ptr[1], sizeof letters - 1);
    out[0] = letter == NULL ? text.ptr[1] : (uint8_t)meant[letter - letters];
    *ret_taken = 2;
    return 1;
}

struct fg_slice fg_json_text(const struct fg_json *json, struct fg_arena *arena)
{
    struct fg_slice text = json->text;
    uint8_t *out;
    size_t len = 0, taken;

    if (!json->escaped)
        return text.ptr == NULL ? FG_LIT("") : text;
    out = fg_arena_alloc(arena, text.len); /* no escape is shorter than what it stands for */
    if (out == NULL)
        return fg_bytes(NULL, 0);
    for (; text.len > 0; text = fg_slice_sub(text, taken, text.len)) {
        size_t plain = fg_slice_find(text, '\\');

        taken = FG_MIN(plain, text.len);
        if (taken > 0) {
            memcpy(out + len, text.ptr, taken);
            len += taken;
        } else {
            len += unescape(text, out + len, &taken);
        }
    }
    return fg_bytes(out, len);
}

/* The double that is this whole number, where it is one. */
static bool whole(struct fg_slice text, double *ret_value)
{
    return fg_parse_f64(text, ret_value) && *ret_value == trunc(*ret_value);
}

/* Accepts 1e3 and 5.0, too: protobuf's JSON mapping allows them for integers. */
bool fg_json_i64(const struct fg_json *json, int64_t *ret_value)
{
    double real;

    if (fg_parse_i64(json->text, ret_value))
        return true;
    /* The bounds are powers of two, which doubles have exactly; INT64_MAX they have not. */
    if (!whole(json->text, &real) || real < -0x1p63 || real >= 0x1p63)
        return false;
    *ret_value = (int64_t)real;
    return true;
}

bool fg_json_u64(const struct fg_json *json, uint64_t *ret_value)
{
    double real;

    if (fg_parse_u64(json->text, ret_value))
        return true;
    if (!whole(json->text, &real) || real < 0 || real >= 0x1p64)
        return false;
    *ret_value = (uint64_t)real;
    return true;
}

bool fg_json_f64(const struct fg_json *json, double *ret_value)
{
    return fg_parse_f64(json->text, ret_value);
}

enum fg_code fg_json_fail(const struct fg_json *json, const char *what, struct fg_err *err)
{
    if (json->why != NULL)
        return fg_fail(err, FG_E_DECODE, "byte %zu: %s", json->len, json->why);
    return fg_fail(err, FG_E_DECODE, "byte %zu: %s", json->len - json->cur.left, what);
}
