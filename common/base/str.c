#include "common/base/str.h"

#include <errno.h>
#include <math.h>
#include <strings.h>

bool fg_parse_u64(struct fg_slice text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (text.len == 0)
        return false;
    fg_assert(text.ptr != NULL);
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)text.ptr[i] - '0';

        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *ret_value = value;
    return true;
}

bool fg_parse_i64(struct fg_slice text, int64_t *ret_value)
{
    bool negative = text.len > 0 && text.ptr[0] == '-';
    bool sign = negative || (text.len > 0 && text.ptr[0] == '+');
    uint64_t value;

    if (!fg_parse_u64(fg_slice_sub(text, sign ? 1 : 0, text.len), &value))
        return false;
    /* INT64_MIN has no positive counterpart, hence one more for negative numbers. */
    if (value > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *ret_value = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool fg_parse_f64(struct fg_slice text, double *ret_value)
{
    /* strtod() needs a NUL; 64 bytes are more than the 17 digits that a double can tell apart. */
    char copy[64];
    char *end;

    if (text.len == 0 || text.len >= sizeof copy)
        return false;
    for (size_t i = 0; i < text.len; i++)
        /* Only these characters: strtod() also takes "inf", "nan" and hexadecimal numbers. */
        if (strchr("+-.0123456789eE", text.ptr[i]) == NULL || text.ptr[i] == '\0')
            return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    double value = strtod(copy, &end);
    if (end != copy + text.len || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    /* Upper case differs from lower case in this bit alone. */
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool fg_parse_hex(struct fg_slice text, uint8_t *out, size_t len)
{
    if (text.len != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(text.ptr[2 * i]), low = hex_digit(text.ptr[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static int base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

bool fg_parse_base64(struct fg_slice text, uint8_t *out, size_t *ret_len)
{
    size_t n = 0;
    unsigned bits = 0, n_bits = 0;

    /* Both alphabets (RFC 4648, 4 and 5), with or without padding: senders differ. */
    while (text.len > 0 && text.ptr[text.len - 1] == '=')
        text.len--;
    /* 6 bits do not make a byte. */
    if (text.len % 4 == 1)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = base64_digit(text.ptr[i]);

        if (digit < 0)
            return false;
        /* Only the last bits are of use; the mask keeps the shift from overflowing. */
        bits = (bits << 6 | (unsigned)digit) & 0xffffff;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[n++] = (uint8_t)(bits >> n_bits);
        }
    }
    *ret_len = n;
    return true;
}

void fg_buf_hex(struct fg_buf *buf, const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        fg_buf_putc(buf, (uint8_t)digits[bytes[i] >> 4]);
        fg_buf_putc(buf, (uint8_t)digits[bytes[i] & 15]);
    }
}

void fg_buf_u64(struct fg_buf *buf, uint64_t value)
{
    /* Two digits a division: flame graphs have hundreds of thousands of numbers. */
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    /* 2^64 has 20 digits. */
    uint8_t digits[20];
    size_t at = sizeof digits;

    for (; value >= 100; value /= 100) {
        at -= 2;
        memcpy(digits + at, pairs + value % 100 * 2, 2);
    }
    if (value >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + value * 2, 2);
    } else {
        digits[--at] = (uint8_t)('0' + value);
    }
    fg_buf_append(buf, digits + at, sizeof digits - at);
}

void fg_buf_i64(struct fg_buf *buf, int64_t value)
{
    if (value < 0)
        fg_buf_putc(buf, '-');
    /* 0 - (uint64_t) and not -value, which overflows for INT64_MIN. */
    fg_buf_u64(buf, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/*
 * Length of the UTF-8 sequence at the start of the text, or 0 when it is not one: no overlong
 * forms, no surrogates, nothing above U+10FFFF (RFC 3629, 4).
 */
static size_t utf8_sequence(struct fg_slice text)
{
    const uint8_t *p = text.ptr;
    size_t len;

    fg_assert(p != NULL); /* callers have at least one byte */
    if (p[0] < 0x80)
        return 1;
    /* Heads: 110xxxxx two bytes, 1110xxxx three, 11110xxx four. 0xc0 and 0xc1 would be overlong
     * forms of ASCII, 0xf5 and above are past U+10FFFF. */
    len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > text.len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

bool fg_utf8_next(struct fg_slice text, uint32_t *ret_rune, size_t *ret_len)
{
    size_t len = text.len == 0 ? 0 : utf8_sequence(text);
    uint32_t rune;

    if (len == 0)
        return false;
    /* The head of a sequence has len ones and a zero in front of its bits. */
    rune = len == 1 ? text.ptr[0] : text.ptr[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        rune = rune << 6 | (text.ptr[i] & 0x3f);
    *ret_rune = rune;
    *ret_len = len;
    return true;
}

size_t fg_utf8_put(uint32_t rune, uint8_t out[FG_UTF8_RUNE_MAX_BYTES])
{
    size_t len = rune < 0x80 ? 1 : rune < 0x800 ? 2 : rune < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = len; i-- > 1; rune >>= 6)
        out[i] = (uint8_t)(0x80 | (rune & 0x3f));
    out[0] = (uint8_t)(first[len] | rune);
    return len;
}

bool fg_utf8_valid(struct fg_slice text)
{
    size_t at = 0;

    while (at < text.len) {
        uint64_t word;

        /* Eight bytes of ASCII at once: nearly all names are. */
        if (text.len - at >= sizeof word) {
            memcpy(&word, text.ptr + at, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                at += sizeof word;
                continue;
            }
        }
        size_t len = utf8_sequence(fg_slice_sub(text, at, text.len));
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

/* DEL is escaped, too, as a log would pass it to a terminal. */
static bool json_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != 0x7f;
}

static size_t json_special(struct fg_buf *buf, struct fg_slice rest)
{
    uint8_t c = rest.ptr[0];
    size_t len = utf8_sequence(rest);

    if (c == '"' || c == '\\') {
        fg_buf_putc(buf, '\\');
        fg_buf_putc(buf, c);
    } else if (c == '\n') {
        fg_buf_puts(buf, "\\n");
    } else if (c == '\t') {
        fg_buf_puts(buf, "\\t");
    } else if (c == '\r') {
        fg_buf_puts(buf, "\\r");
    } else if (len == 0) {
        fg_buf_puts(buf, "\\ufffd"); /* the replacement character, as Go's encoder writes */
        return 1;
    } else if (len == 1) {
        fg_buf_printf(buf, "\\u%04x", c);
    } else {
        fg_buf_append(buf, rest.ptr, len);
    }
    return len == 0 ? 1 : len;
}

void fg_buf_json(struct fg_buf *buf, struct fg_slice text)
{
    size_t at = 0;

    while (at < text.len) {
        size_t end = at;

        /* Runs of plain characters are copied at once: nearly all text is plain. */
        while (end < text.len && json_plain(text.ptr[end]))
            end++;
        fg_buf_append(buf, text.ptr + at, end - at);
        at = end;
        if (at < text.len)
            at += json_special(buf, fg_slice_sub(text, at, text.len));
    }
}

void fg_buf_url(struct fg_buf *buf, struct fg_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];
        /* The unreserved characters (RFC 3986 2.3); all others are escaped, so the result fits a
         * path and a query. */
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';

        if (plain)
            fg_buf_putc(buf, c);
        else
            fg_buf_printf(buf, "%%%02X", (unsigned)c);
    }
}

void fg_buf_html(struct fg_buf *buf, struct fg_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.ptr[i]) {
        case '<':
            fg_buf_puts(buf, "&lt;");
            break;
        case '>':
            fg_buf_puts(buf, "&gt;");
            break;
        case '&':
            fg_buf_puts(buf, "&amp;");
            break;
        case '"':
            fg_buf_puts(buf, "&quot;");
            break;
        case '\'':
            fg_buf_puts(buf, "&#39;");
            break;
        default:
            fg_buf_putc(buf, text.ptr[i]);
        }
    }
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

struct fg_slice fg_trim(struct fg_slice text)
{
    while (text.len > 0 && is_blank(text.ptr[0]))
        text = fg_slice_sub(text, 1, text.len);
    while (text.len > 0 && is_blank(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

bool fg_slice_eq_nocase(struct fg_slice a, struct fg_slice b)
{
    return a.len == b.len &&
           (a.len == 0 || strncasecmp((const char *)a.ptr, (const char *)b.ptr, a.len) == 0);
}

bool fg_slice_is_nocase(struct fg_slice a, const char *text)
{
    return fg_slice_eq_nocase(a, fg_cstr(text));
}

size_t fg_edit_distance(struct fg_slice a, struct fg_slice b)
{
    enum { LONGEST = 127 }; /* names are shorter; what is longer is "far away" */
    /* Levenshtein's distance with one row: row[j] is the distance of the prefixes a[0, i) and
     * b[0, j). */
    size_t row[LONGEST + 1];

    if (a.len > LONGEST || b.len > LONGEST)
        return FG_MAX(a.len, b.len);
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t above = row[j];
            size_t changed = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);

            row[j] = FG_MIN(FG_MIN(above, row[j - 1]) + 1, changed);
            diagonal = above;
        }
    }
    return row[b.len];
}

const char *fg_nearest(struct fg_slice wanted, const char *const *known, size_t n)
{
    /* A word that is further away than this is no typo, and a suggestion would be noise. */
    size_t nearest = fg_edit_distance_max(wanted.len) + 1;
    const char *word = NULL;

    for (size_t i = 0; i < n; i++) {
        size_t distance = fg_edit_distance(wanted, fg_cstr(known[i]));

        if (distance < nearest) {
            nearest = distance;
            word = known[i];
        }
    }
    return word;
}
