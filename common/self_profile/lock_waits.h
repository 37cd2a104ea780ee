/*
 * The profile of waits for locks: how often and how long threads waited for a mutex or a read-write
 * lock, by the stack that waited. A lock that is free is never looked at.
 *
 * Thread: any. Memory: bounded; a wait that finds no room is counted and lost.
 */
#ifndef FG_COMMON_SELF_PROFILE_LOCK_WAITS_H
#define FG_COMMON_SELF_PROFILE_LOCK_WAITS_H

#include "common/self_profile/stack_counts.h"

#include <stdatomic.h>

/* Waits as long as this are all recorded, and of shorter ones as many as their part of it: a
 * hundred samples for a second of waiting, as of processor time. */
enum { FG_LOCK_WAIT_MEAN_NS = 10 * 1000 * 1000 };

/* The values of a stack. */
enum fg_lock_value { FG_LOCK_CONTENTIONS, FG_LOCK_DELAY_NS };

struct fg_lock_waits;

/* The profile that the hooks of locks fill; NULL: none. As fg_heap_sampled. */
extern struct fg_lock_waits *_Atomic fg_lock_waits_sampled;

struct fg_lock_waits *fg_lock_waits_create(void);
/* Frees it, if no thread uses it. */
void fg_lock_waits_destroy(struct fg_lock_waits *waits);

/* Adds so many waits of delay_ns together. */
void fg_lock_waits_add(struct fg_lock_waits *waits, int64_t count, int64_t delay_ns,
                       const uintptr_t *pcs, uint32_t depth);

/* Calls each() with all stacks, and empties the profile. */
void fg_lock_waits_sweep(struct fg_lock_waits *waits,
                         void (*each)(void *arg, const struct fg_stack_entry *entry), void *arg);

/* Returns how many samples found no room. */
uint64_t fg_lock_waits_dropped(const struct fg_lock_waits *waits);

#endif
