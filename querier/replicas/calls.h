/*
 * Calls under way to several peers, of which some may never be waited for: who was too slow goes on
 * until it has answered or its deadline is over, and its answer is thrown away.
 *
 * Thread: the question's, but as said. Replies live until calls_leave().
 */
#ifndef FG_QUERIER_REPLICAS_CALLS_H
#define FG_QUERIER_REPLICAS_CALLS_H

#include "common/net/rpc/rpc.h"

#include <pthread.h>

/* What is under way for all questions of a process: peers outlive it. */
struct calls_pending {
    pthread_mutex_t lock;
    pthread_cond_t none;
    size_t n;
};
void calls_pending_init(struct calls_pending *pending);
/* Waits until nothing is under way; who stops sees to it that calls end. */
void calls_pending_done(struct calls_pending *pending);

struct calls;

/* One of them. */
struct calls_leg {
    struct fg_call call; /* code, err and reply once it has ended */
    struct calls *calls;
    struct fg_peer *peer;
    struct calls_leg *next;
    bool ended; /* calls_has_ended() */
    bool wanted;
};

struct calls *calls_create(struct calls_pending *pending);
/* Nobody waits any more: replies are freed as they come. */
void calls_leave(struct calls *calls);

/* The head is copied. The peer lives on while the call is under way. */
struct calls_leg *calls_send(struct calls *calls, struct fg_peer *peer, enum fg_rpc_method method,
                             struct fg_slice head, int64_t deadline_mono_ns);
bool calls_has_ended(struct calls_leg *leg);

/* Its reply is not wanted any more, and freed when it comes. */
void calls_drop(struct calls_leg *leg);

/* Calls that have ended so far. */
size_t calls_ended(struct calls *calls);
/* Until more than `ended` have, or until then. */
void calls_wait(struct calls *calls, size_t ended, int64_t until_mono_ns);

#endif
