/*
 * A thread that calls a function some time after it was started, and again until the function says
 * that nothing is left to do. Otherwise it sleeps: unlike a ticker it wakes no processor while
 * nothing waits.
 *
 * Thread: start from any; create, stop and destroy from the owner.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_FLUSH_TIMER_H
#define FG_DISTRIBUTOR_DELIVERY_FLUSH_TIMER_H

#include "common/base/time.h"

struct dist_flush_timer;

/* Creates the thread. flush runs on it and returns true if it has to run again after every_ns. */
struct dist_flush_timer *dist_flush_timer_create(int64_t every_ns, bool (*flush)(void *arg),
                                                 void *arg);

/* Arms the timer: flush() runs every_ns later. Costs one atomic load if it is armed already. */
void dist_flush_timer_start(struct dist_flush_timer *timer);

/* Ends the thread, after a call of flush() that is under way. Starting the timer is harmless until
 * it is destroyed. */
void dist_flush_timer_stop(struct dist_flush_timer *timer);

/* Stops it if it was not stopped, and frees it. NULL is fine. */
void dist_flush_timer_destroy(struct dist_flush_timer *timer);

#endif
