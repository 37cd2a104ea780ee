/*
 * Base64url without padding (RFC 4648, 5; RFC 7515, 2), strict: one text for each sequence of
 * bytes. Other characters, padding, and bits after the last byte that are not zero are errors, so
 * nobody can write a token in a second way. fg_parse_base64() is for senders that differ.
 */
#ifndef FG_COMMON_BASE_BASE64URL_H
#define FG_COMMON_BASE_BASE64URL_H

#include "common/base/arena.h"
#include "common/base/buf.h"

/* Returns how many bytes a text of that length has. */
static inline size_t fg_base64url_size(size_t len)
{
    return len / 4 * 3 + (len % 4 == 0 ? 0 : len % 4 - 1);
}

/* Decodes the text into `out`, which has room for fg_base64url_size(text.len) bytes. Returns false
 * for other text. */
bool fg_base64url_parse(struct fg_slice text, uint8_t *out) fg_must_check;

/* Does the same into the arena. ptr is NULL for other text, and at the limit of the arena. */
struct fg_slice fg_base64url_decode(struct fg_slice text, struct fg_arena *arena) fg_must_check;

/* Appends the bytes as base64url. */
void fg_base64url_put(struct fg_buf *out, struct fg_slice bytes);

#endif
