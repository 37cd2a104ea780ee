/*
 * The heap profile: blocks that were sampled, by the stack that allocated them. A block stays until
 * it is freed, so the profile says what is in use as well as what was allocated.
 *
 * A sampled block lies at a multiple of FG_HEAP_MARK_BYTES, as one in 256 others does by chance. So
 * free() knows at once of nearly all blocks that they were not sampled, and nothing has to be
 * stored next to a block.
 *
 * Thread: any. Memory: bounded; a sample that finds no room is counted and lost.
 */
#ifndef FG_COMMON_SELF_PROFILE_HEAP_SAMPLES_H
#define FG_COMMON_SELF_PROFILE_HEAP_SAMPLES_H

#include "common/self_profile/stack_counts.h"

#include <stdatomic.h>

enum { FG_HEAP_MARK_BYTES = 4096 };

/* The values of a stack. Objects are in 1/1024. */
enum fg_heap_value {
    FG_HEAP_ALLOC_OBJECTS, /* since the last sweep */
    FG_HEAP_ALLOC_BYTES,
    FG_HEAP_INUSE_OBJECTS,
    FG_HEAP_INUSE_BYTES,
};

struct fg_heap_samples;

/* The profile that the hooks of malloc() and free() fill; NULL: none. It is set once and then lives
 * as long as the process, since a thread may be about to use it. */
extern struct fg_heap_samples *_Atomic fg_heap_sampled;

/* Creates a profile with a sample for every mean_bytes. */
struct fg_heap_samples *fg_heap_samples_create(int64_t mean_bytes);
/* Frees it, if no thread uses it. */
void fg_heap_samples_destroy(struct fg_heap_samples *heap);

int64_t fg_heap_samples_mean(const struct fg_heap_samples *heap);

/* Adds a block that was sampled. ptr: a multiple of FG_HEAP_MARK_BYTES. */
void fg_heap_samples_add(struct fg_heap_samples *heap, const void *ptr, size_t size,
                         const uintptr_t *pcs, uint32_t depth);

/* Removes a block that is about to be freed. Does nothing for one that was not sampled. */
void fg_heap_samples_remove(struct fg_heap_samples *heap, const void *ptr);

/* Calls each() with all stacks, and sets what was allocated since the last sweep to 0. */
void fg_heap_samples_sweep(struct fg_heap_samples *heap,
                           void (*each)(void *arg, const struct fg_stack_entry *entry), void *arg);

/* Returns how many samples found no room. */
uint64_t fg_heap_samples_dropped(const struct fg_heap_samples *heap);

#endif
