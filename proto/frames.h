/*
 * The frames of a stack while a tree is walked: they are pushed and popped at the leaf, and are
 * always in leaf-first order, as fg_builder_stack() takes them.
 */
#ifndef FG_PROTO_FRAMES_H
#define FG_PROTO_FRAMES_H

#include "common/base/arena.h"

/* Starts zeroed: no frames. */
struct fg_frames {
    uint32_t *items; /* filled from the end */
    uint32_t cap, depth;
};

/* Returns the frames, leaf first; NULL if there are none. */
static inline const uint32_t *fg_frames_leaf_first(const struct fg_frames *frames)
{
    return frames->depth == 0 ? NULL : frames->items + (frames->cap - frames->depth);
}

/* Pushes a frame. Returns false if the arena is full. */
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

/* Pops frames until `depth` remain. */
static inline void fg_frames_pop_to(struct fg_frames *frames, uint32_t depth)
{
    fg_assert(depth <= frames->depth);
    frames->depth = depth;
}

#endif
