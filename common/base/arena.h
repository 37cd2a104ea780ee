/*
 * An arena holds the memory of one piece of work (a request, a call, a query) and frees all of it
 * at once. It has a limit. Reaching the limit is an ordinary error, which the caller reports
 * (FG_E_LIMIT).
 *
 * Thread: one at a time. Memory: blocks of at least 8 KiB from malloc; a larger allocation gets a
 * block of its own.
 */
#ifndef FG_COMMON_BASE_ARENA_H
#define FG_COMMON_BASE_ARENA_H

#include "common/base/slice.h"

struct fg_arena;

/* Creates an arena whose allocations may add up to limit_bytes. */
struct fg_arena *fg_arena_create(size_t limit_bytes);
/* Frees the arena and all that it holds. Accepts NULL. */
void fg_arena_destroy(struct fg_arena *arena);
FG_AUTO(fg_arena, fg_arena_destroy)

/* Sets another limit. Memory that was allocated stays valid, even if it exceeds the limit. */
void fg_arena_set_limit(struct fg_arena *arena, size_t limit_bytes);

/* Returns the limit. */
size_t fg_arena_limit_bytes(const struct fg_arena *arena);

/* Frees all allocations, and keeps the largest block for the next piece of work. */
void fg_arena_reset(struct fg_arena *arena);

/* Returns size bytes (0 is allowed) aligned for any type, not zeroed. Returns NULL only at the
 * limit. */
void *fg_arena_alloc(struct fg_arena *arena, size_t size) fg_must_check;

/* Returns an array of count zeroed elements. Returns NULL at the limit, and if count * size does
 * not fit a size_t. */
void *fg_arena_calloc(struct fg_arena *arena, size_t count, size_t size) fg_must_check;
#define fg_arena_new(arena, type, count) ((type *)fg_arena_calloc(arena, count, sizeof(type)))

/*
 * Makes room for `more` elements after the first `count` elements of an array with room for *cap.
 * It at least doubles the array; the old one stays in the arena. array is the address of the
 * pointer to the array. Returns false at the limit, and changes nothing then.
 */
bool fg_arena_grow_slow(struct fg_arena *arena, void *array, uint32_t count, uint32_t more,
                        uint32_t *cap, size_t size) fg_must_check;

fg_must_check static inline bool fg_arena_grow(struct fg_arena *arena, void *array, uint32_t count,
                                               uint32_t more, uint32_t *cap, size_t size)
{
    return (count <= *cap && more <= *cap - count) ||
           fg_arena_grow_slow(arena, array, count, more, cap, size);
}

/* Returns a copy of the bytes. Its ptr is NULL at the limit. */
struct fg_slice fg_arena_copy(struct fg_arena *arena, struct fg_slice bytes) fg_must_check;

/* Returns a NUL-terminated copy of the bytes, or NULL at the limit. */
char *fg_arena_text(struct fg_arena *arena, struct fg_slice bytes) fg_must_check;

/* Returns a copy of a list of `count` elements with room for one more, which is zeroed. Returns
 * NULL at the limit. */
void *fg_arena_copy_list(struct fg_arena *arena, const void *list, uint32_t count,
                         size_t size) fg_must_check;

/* Returns formatted text, NUL-terminated, or NULL at the limit. */
char *fg_arena_printf(struct fg_arena *arena, const char *fmt, ...) fg_printf(2, 3) fg_must_check;

/*
 * A mark remembers how much of an arena is in use. fg_arena_release() frees all that was allocated
 * since the mark was taken. Release marks in reverse order.
 */
struct fg_arena_mark {
    void *block;
    size_t block_used, used_bytes;
};
struct fg_arena_mark fg_arena_mark(const struct fg_arena *arena);
void fg_arena_release(struct fg_arena *arena, struct fg_arena_mark mark);

/* Returns the sum of all allocations so far, in bytes. */
size_t fg_arena_used_bytes(const struct fg_arena *arena);

#endif
