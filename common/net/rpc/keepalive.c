/*
 * One thing after another, each from the callback of the one before:
 *
 *   rest --> look: asked, and no answer to anybody? --> ask -- sent --> hear --> rest
 *    ^ \<-- no, or not for so long ------------------/   \               |
 *    |                                                    no time left   |
 *    \------- closed, if nobody else had an answer <-------\-------------/
 *
 * nng's trap: an aio that has slept once ends with 0 instead of NNG_ETIMEDOUT for ever after. So
 * resting and asking have one each.
 */
#include "common/net/rpc/keepalive.h"

#include "common/base/time.h"
#include "common/net/rpc/message.h"
#include "common/net/rpc/peer_metrics.h"
#include "common/net/rpc/wire.h"
#include "common/runtime/log.h"

#include <pthread.h>

enum {
    LOOKS = 4, /* in after_ns: that is how exact it is */
    /* A call may have begun just before the look that first sees it: one more look. */
    QUIET_LOOKS = LOOKS + 1,
};

struct fg_keepalive {
    struct fg_keepalive_config config;
    nng_ctx ctx;
    nng_aio *rest_aio, *ask_aio;
    atomic_bool stopping;
    bool sent;               /* what was asked last */
    unsigned quiet_looks;    /* running: something was asked, nothing answered */
    int64_t success_mono_ns; /* of the peer's health, at the last look */
    unsigned failures;       /* likewise */
    nng_pipe asked;          /* the connection there was when we asked */
    pthread_mutex_t lock;    /* of `pipe`, which nng's threads set */
    nng_pipe pipe;           /* the newest connection */
};

static nng_duration ms_of(int64_t ns)
{
    return (nng_duration)FG_MIN(FG_MAX(ns / FG_MS_NS, 1), INT32_MAX);
}

static void schedule_check(struct fg_keepalive *keepalive)
{
    nng_sleep_aio(ms_of(keepalive->config.after_ns / LOOKS), keepalive->rest_aio);
}

static void send_ping(struct fg_keepalive *keepalive)
{
    struct fg_rpc_frame frame = {
        .kind = FG_RPC_PING,
        .key = keepalive->config.cluster,
        .left = (uint64_t)ms_of(keepalive->config.timeout_ns),
    };

    (void)pthread_mutex_lock(&keepalive->lock);
    keepalive->asked = keepalive->pipe;
    (void)pthread_mutex_unlock(&keepalive->lock);
    keepalive->sent = false;
    nng_aio_set_msg(keepalive->ask_aio, fg_wire_msg(&frame));
    nng_ctx_send(keepalive->ctx, keepalive->ask_aio);
}

static void note_answer(struct fg_keepalive *keepalive)
{
    keepalive->sent = true;
    nng_ctx_recv(keepalive->ctx, keepalive->ask_aio);
}

/* On an nng thread. Calls that ended since the last look without an answer were asked as well. A
 * look at which nobody has asked says nothing: calls may be rare. */
static void check_peer(void *arg)
{
    struct fg_keepalive *keepalive = arg;
    struct fg_peer_health health;

    if (atomic_load(&keepalive->stopping))
        return;
    fg_peer_health(keepalive->config.peer, &health);
    if (!health.connected || health.success_mono_ns != keepalive->success_mono_ns)
        keepalive->quiet_looks = 0;
    else if (health.calls > 0 || health.failures != keepalive->failures)
        keepalive->quiet_looks++;
    keepalive->success_mono_ns = health.success_mono_ns;
    keepalive->failures = health.failures;
    if (keepalive->quiet_looks < QUIET_LOOKS)
        schedule_check(keepalive);
    else
        send_ping(keepalive);
}

/* Closes the connection; the next one is the dialer's business. If it has ended meanwhile, nng
 * finds nothing to close. */
static void give_up(struct fg_keepalive *keepalive)
{
    struct fg_peer_health health;

    fg_peer_health(keepalive->config.peer, &health);
    if (health.success_mono_ns != keepalive->success_mono_ns ||
        nng_pipe_close(keepalive->asked) != 0)
        return;
    fg_peer_metrics_keepalive_close(keepalive->config.peer->metrics);
    fg_log_warn("another service does not respond, reconnecting",
                fg_ls("peer", keepalive->config.url));
}

/* On an nng thread. An aio that was stopped refuses to begin, which ends the chain of callbacks. */
static void on_asked(void *arg)
{
    struct fg_keepalive *keepalive = arg;
    int rv = nng_aio_result(keepalive->ask_aio);

    if (rv == 0 && !keepalive->sent) {
        note_answer(keepalive);
        return;
    }
    /* The answer, or the message that was not sent; NULL is fine. */
    nng_msg_free(nng_aio_get_msg(keepalive->ask_aio));
    nng_aio_set_msg(keepalive->ask_aio, NULL);
    if (atomic_load(&keepalive->stopping))
        return;
    if (rv == NNG_ETIMEDOUT)
        give_up(keepalive);
    keepalive->quiet_looks = 0;
    schedule_check(keepalive);
}

int fg_keepalive_create(const struct fg_keepalive_config *config,
                        struct fg_keepalive **ret_keepalive)
{
    struct fg_keepalive *keepalive = fg_new(struct fg_keepalive);
    int rv;

    fg_assert(config->after_ns > 0 && config->timeout_ns > 0);
    keepalive->config = *config;
    (void)pthread_mutex_init(&keepalive->lock, NULL);
    rv = nng_ctx_open(&keepalive->ctx, config->socket); /* closed with the socket */
    if (rv == 0)
        rv = nng_aio_alloc(&keepalive->rest_aio, check_peer, keepalive);
    if (rv == 0)
        rv = nng_aio_alloc(&keepalive->ask_aio, on_asked, keepalive);
    if (rv != 0) {
        fg_keepalive_stop(keepalive);
        fg_keepalive_destroy(keepalive);
        return rv;
    }
    nng_aio_set_timeout(keepalive->ask_aio, ms_of(config->timeout_ns));
    *ret_keepalive = keepalive;
    return 0;
}

void fg_keepalive_connected(struct fg_keepalive *keepalive, nng_pipe pipe)
{
    if (keepalive == NULL)
        return;
    (void)pthread_mutex_lock(&keepalive->lock);
    keepalive->pipe = pipe;
    (void)pthread_mutex_unlock(&keepalive->lock);
}

void fg_keepalive_start(struct fg_keepalive *keepalive)
{
    if (keepalive != NULL)
        schedule_check(keepalive);
}

/* A time-out's callback may begin after nng_aio_stop(): nng_aio_free() is what waits for it.
 * Resting ends first, so that nothing is asked of an aio that is stopped, which would keep the
 * message. */
void fg_keepalive_stop(struct fg_keepalive *keepalive)
{
    if (keepalive == NULL)
        return;
    atomic_store(&keepalive->stopping, true);
    nng_aio_stop(keepalive->rest_aio);
    nng_aio_stop(keepalive->ask_aio);
    nng_aio_free(keepalive->rest_aio);
    nng_aio_free(keepalive->ask_aio);
}

void fg_keepalive_destroy(struct fg_keepalive *keepalive)
{
    if (keepalive == NULL)
        return;
    (void)pthread_mutex_destroy(&keepalive->lock);
    free(keepalive);
}
