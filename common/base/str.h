/* Numbers and text: what the C library does only with NUL-terminated strings and silent overflow.
 */
#ifndef FG_COMMON_BASE_STR_H
#define FG_COMMON_BASE_STR_H

#include "common/base/buf.h"
#include "common/base/slice.h"

/* The whole slice is one decimal number, optionally with a sign for int; false for anything else.
 */
bool fg_parse_u64(struct fg_slice text, uint64_t *ret_value) fg_must_check;
bool fg_parse_i64(struct fg_slice text, int64_t *ret_value) fg_must_check;

/* The whole slice is a decimal fraction as strtod reads it, without hex, inf and nan. */
bool fg_parse_f64(struct fg_slice text, double *ret_value) fg_must_check;

/* Exactly len bytes out of 2 * len hexadecimal digits of either case. */
bool fg_parse_hex(struct fg_slice text, uint8_t *out, size_t len) fg_must_check;

/*
 * Base64 in either alphabet, with or without padding, as the JSON form of protobuf asks. out has
 * room for 3 bytes for every 4 characters and 2 more.
 */
bool fg_parse_base64(struct fg_slice text, uint8_t *out, size_t *ret_len) fg_must_check;

void fg_buf_hex(struct fg_buf *buf, const uint8_t *bytes, size_t len); /* lower case */

void fg_buf_u64(struct fg_buf *buf, uint64_t value); /* decimal; much faster than printf */
void fg_buf_i64(struct fg_buf *buf, int64_t value);

/* The inside of a JSON string: quotes not included, control and invalid UTF-8 bytes made harmless.
 */
void fg_buf_json(struct fg_buf *buf, struct fg_slice text);

/* A part of a URL's query: all but letters, digits and -._~ as %XX. */
void fg_buf_url(struct fg_buf *buf, struct fg_slice text);

/* Text in HTML, in an attribute too: < > & and quotes as entities. */
void fg_buf_html(struct fg_buf *buf, struct fg_slice text);

bool fg_utf8_valid(struct fg_slice text);

/*
 * The character at the start of the text and its length in bytes; false when there is none: the
 * text is empty, or is not UTF-8 there (RFC 3629, 4: no overlong forms, no surrogates).
 */
bool fg_utf8_next(struct fg_slice text, uint32_t *ret_rune, size_t *ret_len) fg_must_check;

/* The UTF-8 of a character up to U+10FFFF; returns its length. */
enum { FG_UTF8_RUNE_MAX_BYTES = 4 };
size_t fg_utf8_put(uint32_t rune, uint8_t out[FG_UTF8_RUNE_MAX_BYTES]);

/* Without the blanks, tabs and line ends around it. */
struct fg_slice fg_trim(struct fg_slice text);

/* ASCII letters of either case count as equal. */
bool fg_slice_eq_nocase(struct fg_slice a, struct fg_slice b);
bool fg_slice_is_nocase(struct fg_slice a, const char *text);

/* How many single-byte edits (insert, delete, change) lead from a to b; for "did you mean". */
size_t fg_edit_distance(struct fg_slice a, struct fg_slice b);

/* What is farther from a mistyped word of that length has nothing to do with what was meant. */
static inline size_t fg_edit_distance_max(size_t len)
{
    return FG_MAX(len / 3, (size_t)2);
}

/* Of the n known words the one that was meant, NULL when none is near enough. */
const char *fg_nearest(struct fg_slice wanted, const char *const *known, size_t n);

#endif
