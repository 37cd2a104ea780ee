/*
 * A bounded table of stacks with four numbers each, which the kinds of profile give a meaning. It
 * allocates only when it is created, because hooks of malloc() use it.
 *
 * Thread: one at a time; the owner locks.
 */
#ifndef FG_COMMON_SELF_PROFILE_STACK_COUNTS_H
#define FG_COMMON_SELF_PROFILE_STACK_COUNTS_H

#include "common/self_profile/stack_walk.h"

enum {
    FG_STACK_VALUES = 4,
    FG_STACK_ALL_VALUES = (1 << FG_STACK_VALUES) - 1, /* of `reset` */
    FG_STACK_BATCH = 128,
};

#define FG_STACK_NONE UINT32_MAX

struct fg_stack_entry {
    uint64_t hash;
    int64_t values[FG_STACK_VALUES];
    uint32_t next; /* in its bucket, or in the list of free entries */
    uint32_t tag;
    uint32_t depth; /* 0: free */
    uintptr_t pcs[FG_STACK_DEPTH_MAX];
};

struct fg_stack_counts;

/* Creates a table of at most stacks_max stacks, a power of two. Memory is used as stacks come. */
struct fg_stack_counts *fg_stack_counts_create(uint32_t stacks_max);
void fg_stack_counts_destroy(struct fg_stack_counts *counts);

/* Finds or adds a stack with a tag; depth > 0. Returns its number, which stays until it is
 * taken and all its values are 0, or FG_STACK_NONE: the table is full. */
uint32_t fg_stack_counts_find(struct fg_stack_counts *counts, uint32_t tag, const uintptr_t *pcs,
                              uint32_t depth);

/* Returns an entry by its number, to add to its values. */
struct fg_stack_entry *fg_stack_counts_at(struct fg_stack_counts *counts, uint32_t number);

/* Stacks that were copied out of a table. */
struct fg_stack_batch {
    struct fg_stack_entry entries[FG_STACK_BATCH];
    uint32_t count;
};

/*
 * Copies the stacks with a value that is not 0, of the next FG_STACK_BATCH numbers from *from on,
 * which starts at 0. Then sets the values to 0 whose bits are set in `reset` (bit 0: the first
 * one), and frees entries whose values are all 0. In batches, so that a lock is neither held for a
 * whole table nor while the stacks are worked on. Returns false at the end.
 */
bool fg_stack_counts_take(struct fg_stack_counts *counts, unsigned reset, uint32_t *from,
                          struct fg_stack_batch *ret_batch);

/* Returns the number of stacks. */
uint32_t fg_stack_counts_used(const struct fg_stack_counts *counts);

#endif
