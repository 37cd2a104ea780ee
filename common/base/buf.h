/*
 * A buffer owns bytes and grows up to a maximum that is set at the start (as curl's dynbuf does).
 * An append that exceeds the maximum sets `full`, and all later appends do nothing. So write
 * without checks, and look at `full` once at the end.
 */
#ifndef FG_COMMON_BASE_BUF_H
#define FG_COMMON_BASE_BUF_H

#include "common/base/protobuf.h"
#include "common/base/slice.h"

#include <string.h>

enum { FG_VARINT_MAX_BYTES = 10 };

struct fg_buf {
    uint8_t *ptr;
    size_t len;
    size_t cap;       /* bytes allocated */
    size_t max_bytes; /* never more than this */
    bool full;        /* something did not fit; what is here is cut short */
};

/* Makes an empty buffer. It allocates nothing before the first append. */
void fg_buf_init(struct fg_buf *buf, size_t max_bytes);
/* Frees the memory and makes the buffer empty. */
void fg_buf_done(struct fg_buf *buf);

/* Makes room for len more bytes. Returns false and sets `full` if they exceed the maximum. */
bool fg_buf_reserve(struct fg_buf *buf, size_t len);

/* Appends len bytes. */
void fg_buf_append_slow(struct fg_buf *buf, const void *bytes, size_t len);
/* Appends formatted text without a NUL. */
void fg_buf_printf(struct fg_buf *buf, const char *fmt, ...) fg_printf(2, 3);

/* Removes the content and keeps the memory. */
static inline void fg_buf_clear(struct fg_buf *buf)
{
    buf->len = 0;
    buf->full = false;
}

static inline struct fg_slice fg_buf_slice(const struct fg_buf *buf)
{
    return fg_bytes(buf->ptr, buf->len);
}

static inline void fg_buf_append(struct fg_buf *buf, const void *bytes, size_t len)
{
    if (buf->ptr != NULL && len <= buf->cap - buf->len && !buf->full) {
        if (len > 0)
            memcpy(buf->ptr + buf->len, bytes, len);
        buf->len += len;
    } else {
        fg_buf_append_slow(buf, bytes, len);
    }
}

static inline void fg_buf_put(struct fg_buf *buf, struct fg_slice bytes)
{
    fg_buf_append(buf, bytes.ptr, bytes.len);
}

static inline void fg_buf_puts(struct fg_buf *buf, const char *text)
{
    fg_buf_append(buf, text, strlen(text));
}

static inline void fg_buf_putc(struct fg_buf *buf, uint8_t byte)
{
    fg_buf_append(buf, &byte, 1);
}

/* As fg_buf_varint(), if there may be no room. */
void fg_buf_varint_slow(struct fg_buf *buf, uint64_t value);

/* Appends a number as LEB128, as protobuf's varints: at most ten bytes. */
static inline void fg_buf_varint(struct fg_buf *buf, uint64_t value)
{
    uint8_t *at;

    if (buf->cap - buf->len < FG_VARINT_MAX_BYTES || buf->full) {
        fg_buf_varint_slow(buf, value);
        return;
    }
    for (at = buf->ptr + buf->len; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    buf->len = (size_t)(at - buf->ptr);
}

/* Maps a signed number to an unsigned one so that numbers near zero stay small: 0, -1, 1, -2 become
 * 0, 1, 2, 3 (protobuf's sint64). */
static inline uint64_t fg_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t fg_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static inline void fg_buf_zigzag(struct fg_buf *buf, int64_t value)
{
    fg_buf_varint(buf, fg_zigzag(value));
}

/* Appends a varint length, then the bytes. */
static inline void fg_buf_lenbytes(struct fg_buf *buf, struct fg_slice bytes)
{
    fg_buf_varint(buf, bytes.len);
    fg_buf_put(buf, bytes);
}

/* Appends a number of a protobuf message; as protobuf 3 has it, nothing for 0. */
static inline void fg_buf_pb_number(struct fg_buf *buf, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    fg_buf_varint(buf, FG_PB_TAG(field, FG_PB_VARINT));
    fg_buf_varint(buf, value);
}

/* Appends bytes, a text or a message inside a protobuf message, also if they are none. */
static inline void fg_buf_pb_bytes(struct fg_buf *buf, unsigned field, struct fg_slice bytes)
{
    fg_buf_varint(buf, FG_PB_TAG(field, FG_PB_LEN));
    fg_buf_lenbytes(buf, bytes);
}

/* Append integers of fixed width: little-endian (le) on disk and wire, big-endian (be) in keys that
 * have to sort. */
static inline void fg_buf_le32(struct fg_buf *buf, uint32_t value)
{
    uint8_t b[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                    (uint8_t)(value >> 24)};

    fg_buf_append(buf, b, sizeof b);
}

static inline void fg_buf_le64(struct fg_buf *buf, uint64_t value)
{
    fg_buf_le32(buf, (uint32_t)value);
    fg_buf_le32(buf, (uint32_t)(value >> 32));
}

static inline void fg_buf_be16(struct fg_buf *buf, uint16_t value)
{
    uint8_t b[2] = {(uint8_t)(value >> 8), (uint8_t)value};

    fg_buf_append(buf, b, sizeof b);
}

static inline void fg_buf_be32(struct fg_buf *buf, uint32_t value)
{
    fg_buf_be16(buf, (uint16_t)(value >> 16));
    fg_buf_be16(buf, (uint16_t)value);
}

static inline void fg_buf_be64(struct fg_buf *buf, uint64_t value)
{
    fg_buf_be32(buf, (uint32_t)(value >> 32));
    fg_buf_be32(buf, (uint32_t)value);
}

#endif
