#include "common/rpc/hedge.h"

#include "common/base/time.h"

#include <pthread.h>
#include <time.h>

struct leg {
    struct fg_call call;
    struct hedge *hedge;
    size_t peer;
};

struct hedge {
    struct fg_peer *peers[FG_HEDGE_PEERS_MAX];
    size_t order[FG_HEDGE_PEERS_MAX]; /* in which they are asked */
    size_t n;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    unsigned refs; /* of the one who waits, and of each leg under way */
    bool settled;  /* nobody waits any more */
    size_t n_sent, n_ended;
    struct leg *chosen; /* ended: the answer, or the last failure */
    struct leg legs[FG_HEDGE_PEERS_MAX];
};

/* Could another one have an answer? Not after one, nor where all would say the same. */
static bool another_may(enum fg_code code)
{
    return fg_code_retry(code) || code == FG_E_CORRUPT || code == FG_E_INTERNAL ||
           code == FG_E_UNKNOWN || code == FG_E_UNIMPLEMENTED;
}

/* Locked; unlocks. */
static void unref(struct hedge *hedge)
{
    bool last = --hedge->refs == 0;

    (void)pthread_mutex_unlock(&hedge->lock);
    if (!last)
        return;
    (void)pthread_cond_destroy(&hedge->changed);
    (void)pthread_mutex_destroy(&hedge->lock);
    free(hedge);
}

static void release(struct leg *leg)
{
    fg_call_done(leg->hedge->peers[leg->peer], &leg->call);
}

/* Locked. What decided it stays; of other failures the last one counts. Returns who is to be
 * released. */
static struct leg *choose(struct hedge *hedge, struct leg *leg)
{
    struct leg *other = hedge->chosen;

    if (hedge->settled || (other != NULL && !another_may(other->call.code)))
        return leg;
    hedge->chosen = leg;
    return other;
}

/* On a transport's thread. */
static void on_done(struct fg_call *call)
{
    struct leg *leg = fg_container(call, struct leg, call), *unused;
    struct hedge *hedge = leg->hedge;

    (void)pthread_mutex_lock(&hedge->lock);
    hedge->n_ended++;
    unused = choose(hedge, leg);
    (void)pthread_cond_signal(&hedge->changed);
    (void)pthread_mutex_unlock(&hedge->lock);
    if (unused != NULL)
        release(unused);
    (void)pthread_mutex_lock(&hedge->lock);
    unref(hedge);
}

static void send_next(struct hedge *hedge, const struct fg_call *call)
{
    struct leg *leg = &hedge->legs[hedge->n_sent];

    leg->hedge = hedge;
    leg->peer = hedge->order[hedge->n_sent];
    leg->call = (struct fg_call){
        .method = call->method,
        .head = call->head,
        .payload = call->payload,
        .deadline_mono_ns = call->deadline_mono_ns,
        .reply_max_bytes = call->reply_max_bytes,
        .done = on_done,
    };
    (void)pthread_mutex_lock(&hedge->lock);
    hedge->refs++;
    hedge->n_sent++;
    (void)pthread_mutex_unlock(&hedge->lock);
    fg_peer_send(hedge->peers[leg->peer], &leg->call);
}

/* Locked. */
static bool is_decided(const struct hedge *hedge)
{
    return hedge->chosen != NULL &&
           (!another_may(hedge->chosen->call.code) || hedge->n_ended == hedge->n);
}

/* Until it is decided, or there is reason to ask the next one. */
static bool wait_for(struct hedge *hedge, int64_t after_ns)
{
    int64_t at_ns = fg_time_add(fg_mono_ns(fg_clock_real()), after_ns);
    struct timespec until = {.tv_sec = at_ns / FG_SECOND_NS, .tv_nsec = at_ns % FG_SECOND_NS};
    bool all_asked = hedge->n_sent == hedge->n, decided;
    int rc = 0;

    (void)pthread_mutex_lock(&hedge->lock);
    while (!is_decided(hedge) && (all_asked || (hedge->n_ended < hedge->n_sent && rc == 0)))
        rc = all_asked ? pthread_cond_wait(&hedge->changed, &hedge->lock)
                       : pthread_cond_timedwait(&hedge->changed, &hedge->lock, &until);
    decided = is_decided(hedge);
    (void)pthread_mutex_unlock(&hedge->lock);
    return decided;
}

/* Those that do well first; otherwise as they were given. */
static void put_in_order(struct hedge *hedge)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    size_t at = 0;

    for (unsigned bad = 0; bad < 2; bad++)
        for (size_t i = 0; i < hedge->n; i++)
            if (fg_peer_is_bad(hedge->peers[i], now_ns) == (bad == 1))
                hedge->order[at++] = i;
}

static struct hedge *create(struct fg_peer *const *peers, size_t n)
{
    struct hedge *hedge = fg_new(struct hedge);
    pthread_condattr_t monotonic;

    fg_assert(n > 0 && n <= FG_HEDGE_PEERS_MAX);
    memcpy(hedge->peers, peers, n * sizeof(struct fg_peer *));
    hedge->n = n;
    hedge->refs = 1;
    put_in_order(hedge);
    (void)pthread_mutex_init(&hedge->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&hedge->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return hedge;
}

/* The chosen one's result, and what its bytes belong to. */
static void take_result(struct hedge *hedge, struct fg_call *call, size_t *ret_from)
{
    struct leg *leg = hedge->chosen;

    call->code = leg->call.code;
    call->err = leg->call.err;
    call->reply_head = leg->call.reply_head;
    call->reply_payload = leg->call.reply_payload;
    call->transport = leg->call.transport;
    call->gather = leg->call.gather;
    *ret_from = leg->peer;
}

enum fg_code fg_call_hedged(struct fg_peer *const *peers, size_t n, int64_t after_ns,
                            struct fg_call *call, size_t *ret_from)
{
    struct hedge *hedge = create(peers, n);

    do
        send_next(hedge, call);
    while (!wait_for(hedge, after_ns));
    (void)pthread_mutex_lock(&hedge->lock);
    hedge->settled = true;
    for (size_t i = 0; i < hedge->n_sent; i++)
        atomic_store(&hedge->legs[i].call.unwanted, true);
    take_result(hedge, call, ret_from);
    unref(hedge);
    return call->code;
}
