/*
 * A thread that looks at something every so often, but only while there is something to be looked
 * at: who needs it wakes it, and it sleeps again when it is told that nothing is left.
 *
 * Thread: wake from any; create, stop and destroy from the owner.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_WAKER_H
#define FG_DISTRIBUTOR_DELIVERY_WAKER_H

#include "common/base/time.h"

struct dist_waker;

/* look: on the thread; is there more to be looked at, after another every_ns? */
struct dist_waker *dist_waker_create(int64_t every_ns, bool (*look)(void *arg), void *arg);

/* Costs next to nothing where it is awake. It looks every_ns later for the first time. */
void dist_waker_wake(struct dist_waker *waker);

/* Ends the thread: a look that is under way ends first, and none comes after it. Waking is harmless
 * until destroy, which stops what was not. */
void dist_waker_stop(struct dist_waker *waker);

/* NULL is fine. */
void dist_waker_destroy(struct dist_waker *waker);

#endif
