/*
 * Calls under way to several peers. Some may be abandoned: the peer is told to end its work, and
 * the call goes on until it is answered or its deadline is over, and its reply is thrown away.
 *
 * Thread: the query's, except qry_calls_pending_*(). Replies live until the call is dropped, or
 * until qry_calls_leave().
 */
#ifndef FG_QUERIER_REPLICAS_CALLS_H
#define FG_QUERIER_REPLICAS_CALLS_H

#include "common/net/rpc/rpc.h"

#include <pthread.h>

/* Counts the queries of a process that have calls under way, so that peers outlive these. */
struct qry_calls_pending {
    pthread_mutex_t lock; /* of n */
    pthread_cond_t none;
    size_t n;
};
void qry_calls_pending_init(struct qry_calls_pending *pending);

/* Waits until nothing is under way. The caller has seen to it that calls end. */
void qry_calls_pending_done(struct qry_calls_pending *pending);

struct qry_calls;

/* One call. */
struct qry_sent_call {
    struct fg_call call; /* code, err and reply once it has ended */
    struct qry_calls *calls;
    struct fg_peer *peer;
    struct qry_sent_call *next;
    uint64_t cancel_key; /* 0: it cannot be canceled */
    bool ended;          /* see qry_calls_has_ended() */
    bool wanted;         /* false: it was dropped */
};

/* Creates the calls of one query; never fails. */
struct qry_calls *qry_calls_create(struct qry_calls_pending *pending);

/* Drops all calls and gives up the object; it goes when the last call has ended. Does not wait. */
void qry_calls_leave(struct qry_calls *calls);

/* Returns a key that no other call of this process has. Any thread. */
uint64_t qry_calls_cancel_key(void);

struct qry_calls_request {
    enum fg_rpc_method method;
    struct fg_slice head;
    uint64_t cancel_key; /* that is in the head; 0: the peer knows no way to cancel it */
    int64_t deadline_mono_ns;
    uint64_t reply_max_bytes; /* as of struct fg_call */
};

/* Sends a call. The head is copied; the peer is kept while the call is under way. Never fails: an
 * error is the call's. */
struct qry_sent_call *qry_calls_send(struct qry_calls *calls, struct fg_peer *peer,
                                     const struct qry_calls_request *request);

/* Returns true once the call has its result. */
bool qry_calls_has_ended(struct qry_sent_call *sent);

/* Abandons a call: its reply is freed now, or when it comes. Cancels the work for it. */
void qry_calls_drop(struct qry_sent_call *sent);

/* Returns how many calls have ended so far. */
size_t qry_calls_ended(struct qry_calls *calls);

/* Waits until more than `ended` calls have ended, or until the time, of the machine's clock. */
void qry_calls_wait(struct qry_calls *calls, size_t ended, int64_t until_mono_ns);

#endif
