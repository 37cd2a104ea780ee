/*
 * Calls under way to several peers, of which some may never be waited for: who was too slow goes on
 * until it has answered or its deadline is over, and its answer is thrown away.
 *
 * Thread: the query's, but as said. Replies live until qry_calls_leave().
 */
#ifndef FG_QUERIER_REPLICAS_CALLS_H
#define FG_QUERIER_REPLICAS_CALLS_H

#include "common/net/rpc/rpc.h"

#include <pthread.h>

/* What is under way for all queries of a process: peers outlive it. */
struct qry_calls_pending {
    pthread_mutex_t lock;
    pthread_cond_t none;
    size_t n;
};
void qry_calls_pending_init(struct qry_calls_pending *pending);
/* Waits until nothing is under way; who stops sees to it that calls end. */
void qry_calls_pending_done(struct qry_calls_pending *pending);

struct qry_calls;

/* One of them. */
struct qry_sent_call {
    struct fg_call call; /* code, err and reply once it has ended */
    struct qry_calls *calls;
    struct fg_peer *peer;
    struct qry_sent_call *next;
    bool ended; /* qry_calls_has_ended() */
    bool wanted;
};

struct qry_calls *qry_calls_create(struct qry_calls_pending *pending);
/* Nobody waits any more: replies are freed as they come. */
void qry_calls_leave(struct qry_calls *calls);

/* The head is copied. The peer lives on while the call is under way. */
struct qry_sent_call *qry_calls_send(struct qry_calls *calls, struct fg_peer *peer,
                                     enum fg_rpc_method method, struct fg_slice head,
                                     int64_t deadline_mono_ns);
bool qry_calls_has_ended(struct qry_sent_call *sent);

/* Its reply is not wanted any more, and freed when it comes. */
void qry_calls_drop(struct qry_sent_call *sent);

/* Calls that have ended so far. */
size_t qry_calls_ended(struct qry_calls *calls);
/* Until more than `ended` have, or until then. */
void qry_calls_wait(struct qry_calls *calls, size_t ended, int64_t until_mono_ns);

#endif
