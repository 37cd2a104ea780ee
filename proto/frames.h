/*
 * The frames of a stack that is walked down and up again: they come and go at the leaf, and stand
 * leaf first at any time, as fg_builder_stack() wants them.
 */
#ifndef FG_PROTO_FRAMES_H
#define FG_PROTO_FRAMES_H

#include "common/base/arena.h"

/* Zeroed: none. */
struct fg_frames {
    uint32_t *items; /* filled from the end */
    uint32_t cap, depth;
};

/* depth of them, the leaf first; NULL when there is none. */
static inline const uint32_t *fg_frames_leaf_first(const struct fg_frames *frames)
{
    return frames->depth == 0 ? NULL : frames->items + (frames->cap - frames->depth);
}

/* false: the arena is at its limit. */
fg_must_check static inline bool fg_frames_push(struct fg_frames *frames, struct fg_arena *arena,
                                                uint32_t location)
{
    if (frames->depth == frames->cap) {
        uint32_t cap = FG_MAX(frames->cap * 2, 128);
        uint32_t *grown = fg_arena_alloc(arena, cap * sizeof *grown);

        if (grown == NULL)
            return false;
        if (frames->depth > 0)
            memcpy(grown + (cap - frames->depth), frames->items, frames->depth * sizeof *grown);
        frames->items = grown;
        frames->cap = cap;
    }
    frames->depth++;
    frames->items[frames->cap - frames->depth] = location;
    return true;
}

/* Back to what there was when depth was this; not more than it is. */
static inline void fg_frames_pop_to(struct fg_frames *frames, uint32_t depth)
{
    fg_assert(depth <= frames->depth);
    frames->depth = depth;
}

#endif
