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
#include "common/net/rpc/silence.h"

#include "common/base/time.h"
#include "common/net/rpc/message.h"
#include "common/net/rpc/record.h"
#include "common/net/rpc/wire.h"
#include "common/runtime/log.h"

#include <pthread.h>

enum {
    LOOKS = 4, /* in after_ns: that is how exact it is */
    /* A call may have begun just before the look that first sees it: one more look. */
    QUIET_LOOKS = LOOKS + 1,
};

struct fg_silence {
    struct fg_silence_config config;
    nng_ctx ctx;
    nng_aio *rest_aio, *ask_aio;
    atomic_bool stopping;
    bool sent;               /* what was asked last */
    unsigned quiet_looks;    /* running: something was asked, nothing answered */
    int64_t success_mono_ns; /* of the peer's health, at the last look */
    unsigned failures;       /* likewise */
    nng_pipe asked;          /* the connection there was when we asked */
    pthread_mutex_t lock;
    nng_pipe pipe; /* locked: the newest connection */
};

static nng_duration ms_of(int64_t ns)
{
    return (nng_duration)FG_MIN(FG_MAX(ns / FG_MS_NS, 1), INT32_MAX);
}

static void rest(struct fg_silence *silence)
{
    nng_sleep_aio(ms_of(silence->config.after_ns / LOOKS), silence->rest_aio);
}

static void ask(struct fg_silence *silence)
{
    struct fg_rpc_frame frame = {
        .kind = FG_RPC_PING,
        .key = silence->config.cluster,
        .left = (uint64_t)ms_of(silence->config.timeout_ns),
    };

    (void)pthread_mutex_lock(&silence->lock);
    silence->asked = silence->pipe;
    (void)pthread_mutex_unlock(&silence->lock);
    silence->sent = false;
    nng_aio_set_msg(silence->ask_aio, fg_wire_msg(&frame));
    nng_ctx_send(silence->ctx, silence->ask_aio);
}

static void hear(struct fg_silence *silence)
{
    silence->sent = true;
    nng_ctx_recv(silence->ctx, silence->ask_aio);
}

/* On an nng thread. Calls that ended since the last look without an answer were asked as well. A
 * look at which nobody has asked says nothing: calls may be rare. */
static void look(void *arg)
{
    struct fg_silence *silence = arg;
    struct fg_peer_health health;

    if (atomic_load(&silence->stopping))
        return;
    fg_peer_health(silence->config.peer, &health);
    if (!health.connected || health.success_mono_ns != silence->success_mono_ns)
        silence->quiet_looks = 0;
    else if (health.calls > 0 || health.failures != silence->failures)
        silence->quiet_looks++;
    silence->success_mono_ns = health.success_mono_ns;
    silence->failures = health.failures;
    if (silence->quiet_looks < QUIET_LOOKS)
        rest(silence);
    else
        ask(silence);
}

/* The next connection is the dialer's business. If that one has ended meanwhile there is nothing
 * to be closed, and nng says so. */
static void give_up(struct fg_silence *silence)
{
    struct fg_peer_health health;

    fg_peer_health(silence->config.peer, &health);
    if (health.success_mono_ns != silence->success_mono_ns || nng_pipe_close(silence->asked) != 0)
        return;
    fg_record_silence(silence->config.peer->record);
    fg_log_warn("another service does not respond, reconnecting",
                fg_ls("peer", silence->config.url));
}

static void drop_message(struct fg_silence *silence)
{
    nng_msg_free(nng_aio_get_msg(silence->ask_aio)); /* NULL is fine */
    nng_aio_set_msg(silence->ask_aio, NULL);
}

/* On an nng thread. What is stopped refuses to begin; that is the end. */
static void on_asked(void *arg)
{
    struct fg_silence *silence = arg;
    int rv = nng_aio_result(silence->ask_aio);

    if (rv == 0 && !silence->sent) {
        hear(silence);
        return;
    }
    drop_message(silence); /* the answer, or what could not be sent */
    if (atomic_load(&silence->stopping))
        return;
    if (rv == NNG_ETIMEDOUT)
        give_up(silence);
    silence->quiet_looks = 0;
    rest(silence);
}

int fg_silence_create(const struct fg_silence_config *config, struct fg_silence **ret_silence)
{
    struct fg_silence *silence = fg_new(struct fg_silence);
    int rv;

    fg_assert(config->after_ns > 0 && config->timeout_ns > 0);
    silence->config = *config;
    (void)pthread_mutex_init(&silence->lock, NULL);
    rv = nng_ctx_open(&silence->ctx, config->socket); /* closed with the socket */
    if (rv == 0)
        rv = nng_aio_alloc(&silence->rest_aio, look, silence);
    if (rv == 0)
        rv = nng_aio_alloc(&silence->ask_aio, on_asked, silence);
    if (rv != 0) {
        fg_silence_stop(silence);
        fg_silence_destroy(silence);
        return rv;
    }
    nng_aio_set_timeout(silence->ask_aio, ms_of(config->timeout_ns));
    *ret_silence = silence;
    return 0;
}

void fg_silence_connected(struct fg_silence *silence, nng_pipe pipe)
{
    if (silence == NULL)
        return;
    (void)pthread_mutex_lock(&silence->lock);
    silence->pipe = pipe;
    (void)pthread_mutex_unlock(&silence->lock);
}

void fg_silence_start(struct fg_silence *silence)
{
    if (silence != NULL)
        rest(silence);
}

/* A time-out's callback may begin after nng_aio_stop(): nng_aio_free() is what waits for it.
 * Resting ends first, so that nothing is asked of an aio that is stopped, which would keep the
 * message. */
void fg_silence_stop(struct fg_silence *silence)
{
    if (silence == NULL)
        return;
    atomic_store(&silence->stopping, true);
    nng_aio_stop(silence->rest_aio);
    nng_aio_stop(silence->ask_aio);
    nng_aio_free(silence->rest_aio);
    nng_aio_free(silence->ask_aio);
}

void fg_silence_destroy(struct fg_silence *silence)
{
    if (silence == NULL)
        return;
    (void)pthread_mutex_destroy(&silence->lock);
    free(silence);
}
