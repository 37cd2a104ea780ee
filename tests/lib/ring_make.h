/* Rings for tests, change by change. */
#ifndef FG_TESTS_LIB_RING_MAKE_H
#define FG_TESTS_LIB_RING_MAKE_H

#include "common/cluster/ring/view.h"

/* The ring with the change, which has to change it. */
struct fg_ring ring_make(const struct fg_ring *ring, struct fg_ring_change change,
                         struct fg_arena *arena);

/* Joins with the store {store, 1}, at the address "tcp://NAME:1", of a ring of three replicas. */
struct fg_ring_change ring_make_join(const char *name, const char *zone, uint64_t store);
struct fg_ring_change ring_make_leave(const char *name, uint64_t store);
/* At generation 10 * revision. */
struct fg_ring_change ring_make_drained(const char *name, uint64_t store, uint64_t revision);
struct fg_ring_change ring_make_forget(const char *name);

/* As if it had been read from the bucket; the caller's reference. */
struct fg_ring_view *ring_make_view(const struct fg_ring *ring);

/* What ring.h says of every value that was made by changes; fails the test where it is not so. */
void ring_make_check(const struct fg_ring *ring);

#endif
