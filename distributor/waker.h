/*
 * A thread that looks at something every so often, but only while there is something to be looked
 * at: who needs it wakes it, and it sleeps again when it is told that nothing is left.
 *
 * Thread: wake from any; create and destroy from the owner.
 */
#ifndef FG_DISTRIBUTOR_WAKER_H
#define FG_DISTRIBUTOR_WAKER_H

#include "common/base/time.h"

struct waker;

/* look: on the thread; is there more to be looked at, after another every_ns? */
struct waker *waker_create(int64_t every_ns, bool (*look)(void *arg), void *arg);

/* Costs next to nothing where it is awake. It looks every_ns later for the first time. */
void waker_wake(struct waker *waker);

/* Ends the thread. NULL is fine. */
void waker_destroy(struct waker *waker);

#endif
