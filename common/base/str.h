/* Parses and writes numbers and text in slices, which the C library does only for NUL-terminated
 * strings and without overflow checks. */
#ifndef FG_COMMON_BASE_STR_H
#define FG_COMMON_BASE_STR_H

#include "common/base/buf.h"
#include "common/base/slice.h"

/* Parse a slice that is one decimal number and nothing else; fg_parse_i64() allows a sign. Return
 * false for other text and on overflow. */
bool fg_parse_u64(struct fg_slice text, uint64_t *ret_value) fg_must_check;
bool fg_parse_i64(struct fg_slice text, int64_t *ret_value) fg_must_check;

/* Parses a slice that is one decimal fraction, as strtod() does, but without hex, inf and nan.
 * Returns false for other text. */
bool fg_parse_f64(struct fg_slice text, double *ret_value) fg_must_check;

/* Parses exactly 2 * len hexadecimal digits of either case into len bytes. Returns false for other
 * text. */
bool fg_parse_hex(struct fg_slice text, uint8_t *out, size_t len) fg_must_check;

/*
 * Decodes base64 of either alphabet, with or without padding, as the JSON form of protobuf
 * requires. out has room for 3 bytes per 4 characters and 2 more. Returns false for other text.
 */
bool fg_parse_base64(struct fg_slice text, uint8_t *out, size_t *ret_len) fg_must_check;

/* Appends bytes as hexadecimal digits in lower case. */
void fg_buf_hex(struct fg_buf *buf, const uint8_t *bytes, size_t len);

/* Append a decimal number, much faster than fg_buf_printf(). */
void fg_buf_u64(struct fg_buf *buf, uint64_t value);
void fg_buf_i64(struct fg_buf *buf, int64_t value);

/* Appends text as the inside of a JSON string, without the quotes. Escapes control characters and
 * replaces invalid UTF-8 by U+FFFD. common/base/json_writer.h writes whole values. */
void fg_buf_json(struct fg_buf *buf, struct fg_slice text);

/* Appends text as a part of a URL's query: all bytes other than letters, digits and -._~ become
 * %XX. */
void fg_buf_url(struct fg_buf *buf, struct fg_slice text);

/* Appends text for HTML, also for attributes: < > & and quotes become entities. */
void fg_buf_html(struct fg_buf *buf, struct fg_slice text);

/* Returns whether the text is UTF-8 (RFC 3629). */
bool fg_utf8_valid(struct fg_slice text);

/*
 * Decodes the character at the start of the text and its length in bytes. Returns false if the text
 * is empty or is not UTF-8 there (RFC 3629, 4: no overlong forms, no surrogates).
 */
bool fg_utf8_next(struct fg_slice text, uint32_t *ret_rune, size_t *ret_len) fg_must_check;

enum { FG_UTF8_RUNE_MAX_BYTES = 4 };
/* Encodes a character up to U+10FFFF as UTF-8. Returns its length in bytes. */
size_t fg_utf8_put(uint32_t rune, uint8_t out[FG_UTF8_RUNE_MAX_BYTES]);

/* Returns the text without spaces, tabs and line ends around it. */
struct fg_slice fg_trim(struct fg_slice text);

/* Return whether two texts are equal if ASCII letters of either case count as equal. */
bool fg_slice_eq_nocase(struct fg_slice a, struct fg_slice b);
bool fg_slice_is_nocase(struct fg_slice a, const char *text);

/* Returns how many edits of one byte (insert, delete, change) lead from a to b. */
size_t fg_edit_distance(struct fg_slice a, struct fg_slice b);

/* Returns the largest distance at which "did you mean" suggests a word for a mistyped one of that
 * length. */
static inline size_t fg_edit_distance_max(size_t len)
{
    return FG_MAX(len / 3, (size_t)2);
}

/* Returns the known word nearest to `wanted`, NULL if none is near enough. */
const char *fg_nearest(struct fg_slice wanted, const char *const *known, size_t n);

#endif
