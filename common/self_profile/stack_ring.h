/*
 * A bounded ring of stacks between handlers of signals and one thread that takes them. Lock-free:
 * a handler neither waits nor allocates; if the ring is full, it counts the loss.
 *
 * Each slot has a turn, as in Vyukov's queue: `position` if it is free for that position,
 * `position + 1` once it is filled, `position + slots` after it was taken.
 *
 * Thread: fg_stack_ring_put() any, also in a handler; fg_stack_ring_take() one at a time.
 */
#ifndef FG_COMMON_SELF_PROFILE_STACK_RING_H
#define FG_COMMON_SELF_PROFILE_STACK_RING_H

#include "common/self_profile/stack_walk.h"

#include <stdatomic.h>

enum { FG_STACK_RING_SLOTS = 1024 }; /* half a second of 20 processors at 100 Hz; 0.5 MiB */

struct fg_stack_slot {
    _Atomic uint64_t turn;
    uint32_t tag;   /* the caller's: of the thread */
    uint32_t count; /* ticks that the stack stands for */
    uint32_t depth;
    uintptr_t pcs[FG_STACK_DEPTH_MAX];
};

struct fg_stack_ring {
    _Atomic uint64_t head; /* next position to fill */
    uint64_t tail;         /* next to take */
    _Atomic uint64_t dropped;
    struct fg_stack_slot slots[FG_STACK_RING_SLOTS];
};

/* Prepares a zeroed ring. */
void fg_stack_ring_init(struct fg_stack_ring *ring);

/* Walks a stack into the ring. Returns false, and counts `count` drops, if the ring is full. */
bool fg_stack_ring_put(struct fg_stack_ring *ring, uint32_t tag, uint32_t count,
                       const struct fg_unwind_map *map, const struct fg_stack_registers *registers);

/* Returns the oldest stack, or NULL. It is valid until fg_stack_ring_release(), which must follow.
 */
const struct fg_stack_slot *fg_stack_ring_take(struct fg_stack_ring *ring);
void fg_stack_ring_release(struct fg_stack_ring *ring);

#endif
