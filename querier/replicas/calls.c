#include "querier/replicas/calls.h"

#include "common/runtime/thread.h"

#include <time.h>

static const int64_t CANCEL_NS = 5 * FG_SECOND_NS; /* for its answer; a lost one costs only work */

struct qry_calls {
    struct qry_calls_pending *pending;
    pthread_mutex_t lock; /* of all below, and of `ended` and `wanted` of sent_calls */
    pthread_cond_t changed;
    unsigned refs; /* the query, and each call under way */
    size_t n_ended;
    struct qry_sent_call *sent_calls;
};

/* ---- of all queries ---- */

void qry_calls_pending_init(struct qry_calls_pending *pending)
{
    *pending = (struct qry_calls_pending){.n = 0};
    (void)pthread_mutex_init(&pending->lock, NULL);
    (void)pthread_cond_init(&pending->none, NULL);
}

void qry_calls_pending_done(struct qry_calls_pending *pending)
{
    (void)pthread_mutex_lock(&pending->lock);
    while (pending->n > 0)
        (void)pthread_cond_wait(&pending->none, &pending->lock);
    (void)pthread_mutex_unlock(&pending->lock);
    (void)pthread_cond_destroy(&pending->none);
    (void)pthread_mutex_destroy(&pending->lock);
}

/* ---- of one query ---- */

struct qry_calls *qry_calls_create(struct qry_calls_pending *pending)
{
    struct qry_calls *calls = fg_new(struct qry_calls);

    calls->pending = pending;
    calls->refs = 1;
    (void)pthread_mutex_init(&calls->lock, NULL);
    fg_cond_init(&calls->changed);
    (void)pthread_mutex_lock(&pending->lock);
    pending->n++;
    (void)pthread_mutex_unlock(&pending->lock);
    return calls;
}

static void destroy(struct qry_calls *calls)
{
    struct qry_calls_pending *pending = calls->pending;

    while (calls->sent_calls != NULL) {
        struct qry_sent_call *sent = calls->sent_calls;

        fg_assert(sent->ended && !sent->wanted);
        calls->sent_calls = sent->next;
        free(sent);
    }
    (void)pthread_cond_destroy(&calls->changed);
    (void)pthread_mutex_destroy(&calls->lock);
    free(calls);
    (void)pthread_mutex_lock(&pending->lock);
    fg_assert(pending->n > 0);
    if (--pending->n == 0)
        (void)pthread_cond_signal(&pending->none);
    (void)pthread_mutex_unlock(&pending->lock);
}

/* Locked; unlocks. */
static void unref(struct qry_calls *calls)
{
    bool last;

    fg_assert(calls->refs > 0);
    last = --calls->refs == 0;

    (void)pthread_mutex_unlock(&calls->lock);
    if (last)
        destroy(calls);
}

/* Runs on a thread of the transport. */
static void on_done(struct fg_call *call)
{
    struct qry_sent_call *sent = fg_container(call, struct qry_sent_call, call);
    struct qry_calls *calls = sent->calls;
    bool wanted;

    (void)pthread_mutex_lock(&calls->lock);
    fg_assert(!sent->ended);
    wanted = sent->wanted;
    /* Under the lock, so that qry_calls_drop() and this function agree on who releases the reply.
     */
    sent->ended = true;
    calls->n_ended++;
    (void)pthread_cond_signal(&calls->changed);
    if (wanted) {
        unref(calls);
        return;
    }
    (void)pthread_mutex_unlock(&calls->lock);
    /* Without the lock: the transport may free a large reply. The call's reference keeps `calls`.
     */
    fg_call_done(sent->peer, call);
    (void)pthread_mutex_lock(&calls->lock);
    unref(calls);
}

uint64_t qry_calls_cancel_key(void)
{
    /* Peers tell callers apart by their connections, so a number within this process is enough. */
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

struct qry_sent_call *qry_calls_send(struct qry_calls *calls, struct fg_peer *peer,
                                     const struct qry_calls_request *request)
{
    struct qry_sent_call *sent = fg_new(struct qry_sent_call);

    *sent = (struct qry_sent_call){
        .calls = calls, .peer = peer, .wanted = true, .cancel_key = request->cancel_key};
    sent->call = (struct fg_call){.method = request->method,
                                  .head = request->head,
                                  .deadline_mono_ns = request->deadline_mono_ns,
                                  .reply_max_bytes = request->reply_max_bytes,
                                  .done = on_done};
    (void)pthread_mutex_lock(&calls->lock);
    sent->next = calls->sent_calls;
    calls->sent_calls = sent;
    /* Before the call is sent: on_done() may come before fg_peer_send() returns. */
    calls->refs++;
    (void)pthread_mutex_unlock(&calls->lock);
    fg_peer_send(peer, &sent->call);
    return sent;
}

/* Tells the peer that nobody waits for the call. Without an effect on peers of earlier releases,
 * which refuse the method, and on a call that has just been answered. */
static void cancel(struct qry_sent_call *sent)
{
    uint8_t head[FG_RPC_CANCEL_BYTES];
    struct qry_sent_call *cancellation;

    fg_rpc_put_cancel(sent->cancel_key, head);
    cancellation = qry_calls_send(
        sent->calls, sent->peer,
        &(struct qry_calls_request){.method = FG_RPC_CANCEL,
                                    .head = fg_bytes(head, sizeof head),
                                    .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + CANCEL_NS});
    qry_calls_drop(cancellation);
}

bool qry_calls_has_ended(struct qry_sent_call *sent)
{
    bool ended;

    (void)pthread_mutex_lock(&sent->calls->lock);
    ended = sent->ended;
    (void)pthread_mutex_unlock(&sent->calls->lock);
    return ended;
}

void qry_calls_drop(struct qry_sent_call *sent)
{
    bool release;

    if (sent->wanted && sent->cancel_key != 0 && !qry_calls_has_ended(sent)) {
        /* Its end is no failure of the peer. */
        atomic_store(&sent->call.unwanted, true);
        /* While the call is wanted, so that on_done() does not give up the peer meanwhile. */
        cancel(sent);
    }
    (void)pthread_mutex_lock(&sent->calls->lock);
    /* Exactly one side releases the reply: this one if the call has ended, else on_done(). */
    release = sent->wanted && sent->ended;
    sent->wanted = false;
    (void)pthread_mutex_unlock(&sent->calls->lock);
    if (release)
        fg_call_done(sent->peer, &sent->call);
    else
        /* The transport then fetches no further parts of the reply. The query's reference keeps
         * `sent` until qry_calls_leave(). */
        atomic_store(&sent->call.unwanted, true);
}

void qry_calls_leave(struct qry_calls *calls)
{
    for (struct qry_sent_call *sent = calls->sent_calls; sent != NULL; sent = sent->next)
        qry_calls_drop(sent);
    (void)pthread_mutex_lock(&calls->lock);
    unref(calls);
}

size_t qry_calls_ended(struct qry_calls *calls)
{
    size_t ended;

    (void)pthread_mutex_lock(&calls->lock);
    ended = calls->n_ended;
    (void)pthread_mutex_unlock(&calls->lock);
    return ended;
}

void qry_calls_wait(struct qry_calls *calls, size_t ended, int64_t until_mono_ns)
{
    struct timespec until = {.tv_sec = until_mono_ns / FG_SECOND_NS,
                             .tv_nsec = until_mono_ns % FG_SECOND_NS};
    int rc = 0;

    (void)pthread_mutex_lock(&calls->lock);
    while (calls->n_ended <= ended && rc == 0)
        /* Wakes for replies that came since `ended` was read, so none is missed between two
         * calls. */
        rc = pthread_cond_timedwait(&calls->changed, &calls->lock, &until);
    (void)pthread_mutex_unlock(&calls->lock);
}
