#include "proto/jfr/read.h"

#include "common/base/str.h"

enum {
    /* The byte before a string (OpenJDK, jdk.jfr.internal.consumer, StringParser). */
    TEXT_NULL = 0,
    TEXT_EMPTY = 1,
    TEXT_CONSTANT = 2,
    TEXT_UTF8 = 3,
    TEXT_CHARS = 4,
    TEXT_LATIN1 = 5
};

enum { REPLACEMENT = 0xfffd }; /* for what is no text */

uint64_t fg_jfr_count(struct fg_jfr_cur *cur)
{
    uint64_t count = fg_jfr_int(cur);

    /* An element takes a byte or more in all that is counted with this, so the input bounds the
     * count. */
    if (count > cur->in.left) {
        fg_cur_fail(&cur->in);
        return 0;
    }
    return count;
}

static void put_code(uint32_t code, struct fg_buf *out)
{
    if (code < 0x80) {
        fg_buf_putc(out, (uint8_t)code);
        return;
    }
    if (code < 0x800) {
        fg_buf_putc(out, (uint8_t)(0xc0 | code >> 6));
    } else if (code < 0x10000) {
        fg_buf_putc(out, (uint8_t)(0xe0 | code >> 12));
        fg_buf_putc(out, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
    } else {
        fg_buf_putc(out, (uint8_t)(0xf0 | code >> 18));
        fg_buf_putc(out, (uint8_t)(0x80 | (code >> 12 & 0x3f)));
        fg_buf_putc(out, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
    }
    fg_buf_putc(out, (uint8_t)(0x80 | (code & 0x3f)));
}

/* Units of UTF-16: the first half of a surrogate pair waits for the second. */
struct units {
    struct fg_buf *out;
    uint32_t first; /* 0: none waits */
};

static void end_units(struct units *units)
{
    if (units->first != 0)
        put_code(REPLACEMENT, units->out);
    units->first = 0;
}

static void put_unit(struct units *units, uint64_t unit)
{
    bool second = unit >= 0xdc00 && unit < 0xe000;

    if (units->first != 0 && second) {
        put_code(0x10000 + ((units->first - 0xd800) << 10) + ((uint32_t)unit - 0xdc00), units->out);
        units->first = 0;
        return;
    }
    end_units(units);
    if (unit >= 0xd800 && unit < 0xdc00)
        units->first = (uint32_t)unit;
    else
        /* A second half alone, and a varint beyond 16 bits, are no characters. */
        put_code(second || unit > 0xffff ? REPLACEMENT : (uint32_t)unit, units->out);
}

static uint32_t follower(struct fg_slice text, size_t at)
{
    return at < text.len && (text.ptr[at] & 0xc0) == 0x80 ? text.ptr[at] & 0x3f : REPLACEMENT;
}

/* HotSpot's "modified UTF-8": surrogates as two sequences of three bytes, and U+0000 as c0 80.
 * Each sequence of two or three bytes is a unit of UTF-16. */
static size_t put_sequence(struct units *units, struct fg_slice rest)
{
    uint8_t lead = rest.ptr[0];
    uint32_t second = follower(rest, 1), third = follower(rest, 2);

    if (lead < 0x80) {
        put_unit(units, lead);
        return 1;
    }
    if (lead >= 0xc0 && lead < 0xe0 && second != REPLACEMENT) {
        put_unit(units, (lead & 0x1fu) << 6 | second);
        return 2;
    }
    if (lead >= 0xe0 && lead < 0xf0 && second != REPLACEMENT && third != REPLACEMENT) {
        put_unit(units, (lead & 0xfu) << 12 | second << 6 | third);
        return 3;
    }
    end_units(units);
    if (lead >= 0xf0 && fg_utf8_valid(fg_slice_sub(rest, 0, 4))) {
        fg_buf_put(units->out, fg_slice_sub(rest, 0, 4));
        return 4;
    }
    put_code(REPLACEMENT, units->out);
    return 1;
}

static void put_utf8(struct fg_slice text, struct fg_buf *out)
{
    struct units units = {out, 0};

    if (fg_utf8_valid(text)) {
        fg_buf_put(out, text);
        return;
    }
    while (text.len > 0)
        text = fg_slice_sub(text, put_sequence(&units, text), SIZE_MAX);
    end_units(&units);
}

static void put_chars(struct fg_jfr_cur *cur, struct fg_buf *out)
{
    struct units units = {out, 0};

    for (uint64_t left = fg_jfr_count(cur); left > 0 && !cur->in.bad; left--)
        /* Uncompressed recordings have chars of two bytes, compressed ones varints. */
        put_unit(&units, cur->fixed ? fg_cur_be16(&cur->in) : fg_cur_varint9(&cur->in));
    end_units(&units);
}

/* Each byte of Latin-1 is the code point of the same number. */
static void put_latin1(struct fg_slice text, struct fg_buf *out)
{
    for (size_t i = 0; i < text.len; i++)
        put_code(text.ptr[i], out);
}

uint64_t fg_jfr_text(struct fg_jfr_cur *cur, struct fg_buf *out)
{
    switch (fg_cur_u8(&cur->in)) {
    case TEXT_NULL:
    case TEXT_EMPTY:
        break;
    /* The number of a constant in the pool of strings, which the caller looks up. */
    case TEXT_CONSTANT:
        return fg_jfr_long(cur);
    case TEXT_UTF8:
        put_utf8(fg_cur_take(&cur->in, fg_jfr_int(cur)), out);
        break;
    case TEXT_CHARS:
        put_chars(cur, out);
        break;
    case TEXT_LATIN1:
        put_latin1(fg_cur_take(&cur->in, fg_jfr_int(cur)), out);
        break;
    default:
        fg_cur_fail(&cur->in);
    }
    return JFR_NO_CONSTANT;
}

void fg_jfr_text_skip(struct fg_jfr_cur *cur)
{
    switch (fg_cur_u8(&cur->in)) {
    case TEXT_NULL:
    case TEXT_EMPTY:
        break;
    case TEXT_CONSTANT:
        (void)fg_jfr_long(cur);
        break;
    case TEXT_UTF8:
    case TEXT_LATIN1:
        (void)fg_cur_take(&cur->in, fg_jfr_int(cur));
        break;
    case TEXT_CHARS:
        if (cur->fixed)
            (void)fg_cur_take(&cur->in, 2 * fg_jfr_count(cur));
        else
            fg_cur_skip_varint9(&cur->in, fg_jfr_count(cur));
        break;
    default:
        fg_cur_fail(&cur->in);
    }
}
