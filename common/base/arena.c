#include "common/base/arena.h"

#include <stdarg.h>

enum {
    ARENA_ALIGN = 16,
    ARENA_BLOCK_BYTES = 8 * 1024, /* a request's odds and ends fit one block */
    ARENA_BLOCK_MAX_BYTES = 2 * 1024 * 1024,
    ARENA_KEEP_MAX_BYTES = 4 * 1024 * 1024, /* by a reset */
    ARENA_GROW_MIN = 64,                    /* elements of a growing array */
};

struct block {
    struct block *next;
    size_t size, used;
    _Alignas(ARENA_ALIGN) uint8_t bytes[];
};

struct fg_arena {
    struct block *blocks; /* newest first; only the newest is filled */
    size_t used_bytes, limit_bytes;
};

struct fg_arena *fg_arena_create(size_t limit_bytes)
{
    struct fg_arena *arena = fg_new(struct fg_arena);

    arena->limit_bytes = limit_bytes;
    return arena;
}

size_t fg_arena_limit_bytes(const struct fg_arena *arena)
{
    return arena->limit_bytes;
}

/* Frees the blocks from `block` on that are newer than `kept`. */
static void free_newer(struct block *block, const struct block *kept)
{
    while (block != kept) {
        struct block *next = block->next;

        free(block);
        block = next;
    }
}

static void free_all(struct block *block)
{
    free_newer(block, NULL);
}

void fg_arena_destroy(struct fg_arena *arena)
{
    if (arena == NULL)
        return;
    free_all(arena->blocks);
    free(arena);
}

void fg_arena_set_limit(struct fg_arena *arena, size_t limit_bytes)
{
    /* Never below what is used: fg_arena_alloc() subtracts the two, and unsigned numbers would
     * wrap around. */
    arena->limit_bytes = FG_MAX(limit_bytes, arena->used_bytes);
}

void fg_arena_reset(struct fg_arena *arena)
{
    struct block *newest = arena->blocks;

    /* Blocks grow, so the newest is the largest: with it the next piece of work of the same size
     * asks malloc for nothing. A chunk for one giant request goes, or every worker would keep one.
     */
    if (newest != NULL && newest->size > ARENA_KEEP_MAX_BYTES) {
        free_all(newest);
        arena->blocks = NULL;
    } else if (newest != NULL) {
        free_all(newest->next);
        newest->next = NULL;
        newest->used = 0;
    }
    arena->used_bytes = 0;
}

static struct block *block_add(struct fg_arena *arena, size_t size)
{
    size_t grown = arena->blocks == NULL ? ARENA_BLOCK_BYTES : arena->blocks->size * 2;
    struct block *block;

    /* Blocks double up to 2 MiB, so an arena of n bytes needs O(log n) of them at first, and
     * wastes at most one block later. */
    grown = FG_MAX(FG_MIN(grown, ARENA_BLOCK_MAX_BYTES), size);
    block = fg_malloc(sizeof *block + grown);
    block->size = grown;
    block->used = 0;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *fg_arena_alloc(struct fg_arena *arena, size_t size)
{
    struct block *block = arena->blocks;
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    void *ptr;

    /* Half of all addresses is more than malloc gives, and leaves room to add a block's head. */
    if (rounded < size || rounded > SIZE_MAX / 2 ||
        rounded > arena->limit_bytes - arena->used_bytes)
        return NULL;
    if (block == NULL || rounded > block->size - block->used)
        block = block_add(arena, rounded);
    ptr = block->bytes + block->used;
    block->used += rounded;
    arena->used_bytes += rounded;
    return ptr;
}

void *fg_arena_calloc(struct fg_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    void *ptr;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    ptr = fg_arena_alloc(arena, bytes);
    return ptr == NULL ? NULL : memset(ptr, 0, bytes);
}

bool fg_arena_grow_slow(struct fg_arena *arena, void *array, uint32_t count, uint32_t more,
                        uint32_t *cap, size_t size)
{
    uint64_t want = FG_MAX(2 * (uint64_t)*cap, (uint64_t)ARENA_GROW_MIN);
    void **at = array;
    size_t bytes;
    void *grown;

    /* Computed in 64 bits: count + more may exceed 32. */
    want = FG_MAX(want, (uint64_t)count + more);
    if (want > UINT32_MAX || __builtin_mul_overflow(want, size, &bytes))
        return false;
    grown = fg_arena_alloc(arena, bytes);
    if (grown == NULL)
        return false;
    if (count > 0)
        memcpy(grown, *at, (size_t)count * size);
    *at = grown;
    *cap = (uint32_t)want;
    return true;
}

struct fg_slice fg_arena_copy(struct fg_arena *arena, struct fg_slice bytes)
{
    void *ptr = fg_arena_alloc(arena, bytes.len);

    if (ptr == NULL)
        return fg_bytes(NULL, 0);
    if (bytes.len > 0)
        memcpy(ptr, bytes.ptr, bytes.len);
    return fg_bytes(ptr, bytes.len);
}

char *fg_arena_text(struct fg_arena *arena, struct fg_slice bytes)
{
    char *text = bytes.len == SIZE_MAX ? NULL : fg_arena_alloc(arena, bytes.len + 1);

    if (text == NULL)
        return NULL;
    if (bytes.len > 0)
        memcpy(text, bytes.ptr, bytes.len);
    text[bytes.len] = '\0';
    return text;
}

void *fg_arena_copy_list(struct fg_arena *arena, const void *list, uint32_t count, size_t size)
{
    void *copy = fg_arena_calloc(arena, (size_t)count + 1, size);

    if (copy != NULL && count > 0)
        memcpy(copy, list, count * size);
    return copy;
}

char *fg_arena_printf(struct fg_arena *arena, const char *fmt, ...)
{
    va_list args, again;
    char *text;

    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    fg_assert(len >= 0);
    text = fg_arena_alloc(arena, (size_t)len + 1);
    if (text != NULL)
        (void)vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return text;
}

struct fg_arena_mark fg_arena_mark(const struct fg_arena *arena)
{
    return (struct fg_arena_mark){arena->blocks, arena->blocks == NULL ? 0 : arena->blocks->used,
                                  arena->used_bytes};
}

void fg_arena_release(struct fg_arena *arena, struct fg_arena_mark mark)
{
    /* Blocks that were added after the mark go; the block of the mark is cut back. */
    free_newer(arena->blocks, mark.block);
    arena->blocks = mark.block;
    if (arena->blocks != NULL)
        arena->blocks->used = mark.block_used;
    arena->used_bytes = mark.used_bytes;
}

size_t fg_arena_used_bytes(const struct fg_arena *arena)
{
    return arena->used_bytes;
}
