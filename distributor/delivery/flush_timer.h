/*
 * A thread that looks at something every so often, but only while there is something to be looked
 * at: who needs it wakes it, and it sleeps again when it is told that nothing is left.
 *
 * Thread: wake from any; create, stop and destroy from the owner.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_FLUSH_TIMER_H
#define FG_DISTRIBUTOR_DELIVERY_FLUSH_TIMER_H

#include "common/base/time.h"

struct dist_flush_timer;

/* flush: on the thread; is there more to be looked at, after another every_ns? */
struct dist_flush_timer *dist_flush_timer_create(int64_t every_ns, bool (*flush)(void *arg),
                                                 void *arg);

/* Costs next to nothing where it is armed. It looks every_ns later for the first time. */
void dist_flush_timer_start(struct dist_flush_timer *timer);

/* Ends the thread: a flush that is under way ends first, and none comes after it. Waking is
 * harmless until destroy, which stops what was not. */
void dist_flush_timer_stop(struct dist_flush_timer *timer);

/* NULL is fine. */
void dist_flush_timer_destroy(struct dist_flush_timer *timer);

#endif
