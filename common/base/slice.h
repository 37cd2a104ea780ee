/*
 * A slice is a pointer to bytes of another owner and a length, passed by value. It is valid as long
 * as the owner keeps the bytes. It is not NUL-terminated.
 */
#ifndef FG_COMMON_BASE_SLICE_H
#define FG_COMMON_BASE_SLICE_H

#include "common/base/def.h"

#include <string.h>

struct fg_slice {
    const uint8_t *ptr; /* may be NULL only when len is 0 */
    size_t len;
};

/* Returns a slice of len bytes at ptr. */
static inline struct fg_slice fg_bytes(const void *ptr, size_t len)
{
    return (struct fg_slice){ptr, len};
}

/* Returns the slice of a NUL-terminated text, without the NUL. */
static inline struct fg_slice fg_cstr(const char *text)
{
    return fg_bytes(text, strlen(text));
}

/* Returns the slice of a literal, whose length the compiler knows: FG_LIT("abc"). */
#define FG_LIT(text)                                                                               \
    (struct fg_slice)                                                                              \
    {                                                                                              \
        (const uint8_t *)("" text), sizeof(text) - 1                                               \
    }

/* Return whether two texts are equal. */
static inline bool fg_slice_eq(struct fg_slice a, struct fg_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool fg_slice_is(struct fg_slice a, const char *text)
{
    return fg_slice_eq(a, fg_cstr(text));
}

/* Compares bytewise: less than 0, 0, or more than 0. A prefix sorts first. */
static inline int fg_slice_cmp(struct fg_slice a, struct fg_slice b)
{
    size_t common = FG_MIN(a.len, b.len);
    int order = common == 0 ? 0 : memcmp(a.ptr, b.ptr, common);

    if (order != 0)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

/* Return whether a slice begins or ends with a text. */
static inline bool fg_slice_starts(struct fg_slice a, const char *prefix)
{
    size_t len = strlen(prefix);

    return a.len >= len && (len == 0 || memcmp(a.ptr, prefix, len) == 0);
}

static inline bool fg_slice_ends(struct fg_slice a, const char *suffix)
{
    size_t len = strlen(suffix);

    return a.len >= len && (len == 0 || memcmp(a.ptr + (a.len - len), suffix, len) == 0);
}

/* Returns len bytes from position `from` on. Both are clamped to the slice. */
static inline struct fg_slice fg_slice_sub(struct fg_slice a, size_t from, size_t len)
{
    from = FG_MIN(from, a.len);
    return fg_bytes(a.ptr == NULL ? NULL : a.ptr + from, FG_MIN(len, a.len - from));
}

/* Returns the position of the first such byte, or SIZE_MAX. */
static inline size_t fg_slice_find(struct fg_slice a, uint8_t byte)
{
    const uint8_t *hit = a.ptr == NULL ? NULL : memchr(a.ptr, byte, a.len);

    return hit == NULL ? SIZE_MAX : (size_t)(hit - a.ptr);
}

/* Returns the position of the first occurrence of the text, or SIZE_MAX. */
static inline size_t fg_slice_search(struct fg_slice a, const char *text)
{
    const uint8_t *hit = a.ptr == NULL ? NULL : memmem(a.ptr, a.len, text, strlen(text));

    return hit == NULL ? SIZE_MAX : (size_t)(hit - a.ptr);
}

/* Expands to the two arguments of "%.*s" in printf. */
#define FG_S(slice) (int)FG_MIN((slice).len, (size_t)INT32_MAX), (const char *)(slice).ptr

#endif
