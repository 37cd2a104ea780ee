#include "common/base/buf.h"

#include <stdarg.h>

void fg_buf_init(struct fg_buf *buf, size_t max_bytes)
{
    *buf = (struct fg_buf){.max_bytes = max_bytes};
}

void fg_buf_done(struct fg_buf *buf)
{
    free(buf->ptr);
    *buf = (struct fg_buf){.max_bytes = buf->max_bytes};
}

bool fg_buf_reserve(struct fg_buf *buf, size_t len)
{
    size_t cap;

    if (buf->full)
        return false;
    if (len <= buf->cap - buf->len)
        return true;
    /* `full` is sticky: writers need not check each append, and one check at the end finds that
     * something is missing. */
    if (len > buf->max_bytes - buf->len) {
        buf->full = true;
        return false;
    }
    cap = FG_MAX(buf->cap * 2, 64);
    cap = FG_MAX(cap, buf->len + len);
    /* Doubling must not exceed the limit: a buffer of 1 MiB never takes 2. */
    cap = FG_MIN(cap, buf->max_bytes);
    buf->ptr = fg_realloc(buf->ptr, cap);
    buf->cap = cap;
    return true;
}

void fg_buf_append_slow(struct fg_buf *buf, const void *bytes, size_t len)
{
    if (!fg_buf_reserve(buf, len))
        return;
    if (len > 0)
        memcpy(buf->ptr + buf->len, bytes, len);
    buf->len += len;
}

void fg_buf_varint_slow(struct fg_buf *buf, uint64_t value)
{
    uint8_t bytes[FG_VARINT_MAX_BYTES];
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    fg_buf_append_slow(buf, bytes, n);
}

/* Writes through a copy: text that fits exactly leaves no place for the NUL of vsnprintf(). */
static fg_printf(3, 0) void printf_exact(struct fg_buf *buf, size_t len, const char *fmt,
                                         va_list args)
{
    char *text = fg_malloc(len + 1);

    (void)vsnprintf(text, len + 1, fmt, args);
    fg_buf_append(buf, text, len);
    free(text);
}

void fg_buf_printf(struct fg_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    size_t len;

    va_start(args, fmt);
    va_copy(again, args);
    /* Measured first: the text goes straight into the buffer, without a copy of unknown size. */
    int wanted = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    fg_assert(wanted >= 0);
    len = (size_t)wanted;
    /* A text that ends exactly at the limit is complete and must not set `full`. */
    if (len == buf->max_bytes - buf->len) {
        printf_exact(buf, len, fmt, again);
    } else if (fg_buf_reserve(buf, len + 1)) {
        (void)vsnprintf((char *)buf->ptr + buf->len, len + 1, fmt, again);
        buf->len += len;
    }
    va_end(again);
}
