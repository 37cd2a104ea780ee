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
    if (len > buf->max_bytes - buf->len) {
        buf->full = true;
        return false;
    }
    cap = FG_MAX(buf->cap * 2, 64);
    cap = FG_MAX(cap, buf->len + len);
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

void fg_buf_printf(struct fg_buf *buf, const char *fmt, ...)
{
    va_list args, again;

    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    fg_assert(len >= 0);
    /* vsnprintf ends with a NUL that we do not count but that needs a place. */
    if (fg_buf_reserve(buf, (size_t)len + 1)) {
        (void)vsnprintf((char *)buf->ptr + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}
