/*
 * Fibers in virtual time: straight-line code that waits, one at a time, in an order that follows
 * from the times alone. What a simulation is made of: sleeping is the only way to let others run,
 * so between two sleeps everything is one step.
 */
#ifndef FG_TESTS_LIB_FIBER_H
#define FG_TESTS_LIB_FIBER_H

#include "common/base/def.h"

struct fibers;

struct fibers *fibers_create(void);
void fibers_destroy(struct fibers *fibers); /* none is left */

/* Runs as a fiber of its own, after so long. */
void fibers_spawn(struct fibers *fibers, int64_t after_ns, void (*run)(void *arg), void *arg);

/* In a fiber: goes on after so long. */
void fibers_sleep(struct fibers *fibers, int64_t ns);

/* Lets the next one run until it sleeps or ends; false: there is none. */
bool fibers_turn(struct fibers *fibers);

int64_t fibers_now_ns(const struct fibers *fibers);

#endif
