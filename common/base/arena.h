/*
 * An arena is the memory of one piece of work (a request, a call, a query): everything made on the
 * way dies with it. It has a limit; reaching it is an ordinary error of the caller's (FG_E_LIMIT).
 *
 * Thread: one at a time. Memory: blocks of at least 8 KiB from malloc; what is larger gets its own.
 */
#ifndef FG_COMMON_BASE_ARENA_H
#define FG_COMMON_BASE_ARENA_H

#include "common/base/slice.h"

struct fg_arena;

/* limit_bytes bounds what is asked for in total. Destroy accepts NULL. */
struct fg_arena *fg_arena_create(size_t limit_bytes);
void fg_arena_destroy(struct fg_arena *arena);
FG_AUTO(fg_arena, fg_arena_destroy)

/* Another limit from now on; what there is already stays. */
void fg_arena_set_limit(struct fg_arena *arena, size_t limit_bytes);

/* Everything made so far is gone; the largest block stays for the next piece of work. */
void fg_arena_reset(struct fg_arena *arena);

/* Bytes for any type, not zeroed; NULL only at the limit. size may be 0. */
void *fg_arena_alloc(struct fg_arena *arena, size_t size) fg_must_check;

/* count zeroed elements; NULL at the limit, also when count * size does not fit a size_t. */
void *fg_arena_calloc(struct fg_arena *arena, size_t count, size_t size) fg_must_check;
#define fg_arena_new(arena, type, count) ((type *)fg_arena_calloc(arena, count, sizeof(type)))

/*
 * Room for `more` elements behind the first `count` of an array that holds *cap: doubles at least,
 * and leaves the old array to the arena. array is the address of the pointer to it. false at the
 * limit: everything is as it was.
 */
bool fg_arena_grow_slow(struct fg_arena *arena, void *array, uint32_t count, uint32_t more,
                        uint32_t *cap, size_t size) fg_must_check;

fg_must_check static inline bool fg_arena_grow(struct fg_arena *arena, void *array, uint32_t count,
                                               uint32_t more, uint32_t *cap, size_t size)
{
    return (count <= *cap && more <= *cap - count) ||
           fg_arena_grow_slow(arena, array, count, more, cap, size);
}

/* Copies; .ptr is NULL at the limit. */
struct fg_slice fg_arena_copy(struct fg_arena *arena, struct fg_slice bytes) fg_must_check;

/* NUL-terminated copy; NULL at the limit. */
char *fg_arena_text(struct fg_arena *arena, struct fg_slice bytes) fg_must_check;

/* Formatted, NUL-terminated; NULL at the limit. */
char *fg_arena_printf(struct fg_arena *arena, const char *fmt, ...) fg_printf(2, 3) fg_must_check;

/*
 * A mark remembers how much there was: fg_arena_release() forgets all that was made since, for work
 * that comes in pieces. Marks are released last first.
 */
struct fg_arena_mark {
    void *block;
    size_t block_used, used_bytes;
};
struct fg_arena_mark fg_arena_mark(const struct fg_arena *arena);
void fg_arena_release(struct fg_arena *arena, struct fg_arena_mark mark);

size_t fg_arena_used_bytes(const struct fg_arena *arena);

#endif
