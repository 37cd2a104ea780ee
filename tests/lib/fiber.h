/*
 * Fibers in virtual time: straight-line code that waits, one at a time, in an order that follows
 * from the times alone. What a simulation is made of: sleeping is the only way to let others run,
 * so between two sleeps everything is one step.
 */
#ifndef FG_TESTS_LIB_FIBER_H
#define FG_TESTS_LIB_FIBER_H

#include "common/base/def.h"

struct fibers;
struct fiber;

struct fibers *fibers_create(void);
void fibers_destroy(struct fibers *fibers); /* none is left */

/* Runs as a fiber of its own, after so long. Returns it; valid until `run` returns. */
struct fiber *fibers_spawn(struct fibers *fibers, int64_t after_ns, void (*run)(void *arg),
                           void *arg);

/* In a fiber: goes on after so long. */
void fibers_sleep(struct fibers *fibers, int64_t ns);

/* In a fiber: goes on when it is woken, at the latest after so long; INT64_MAX: not before. Returns
 * whether it was woken. */
bool fibers_wait(struct fibers *fibers, int64_t ns);

/* Lets a fiber that is in fibers_wait() go on after so long; leaves any other as it is. */
void fibers_wake(struct fibers *fibers, struct fiber *fiber, int64_t after_ns);

/* Ends a fiber, which is not the running one, where it stands: it does not run again, and what it
 * holds is not freed. */
void fibers_kill(struct fibers *fibers, struct fiber *fiber);

/* Returns the fiber that runs; NULL: none does. */
struct fiber *fibers_running(const struct fibers *fibers);

/* Lets the next one run until it sleeps or ends; false: there is none. */
bool fibers_turn(struct fibers *fibers);

int64_t fibers_now_ns(const struct fibers *fibers);

#endif
