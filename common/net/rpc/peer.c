/*
 * The callers' side on nng: one REQ socket, and per call under way a slot with a context and an
 * aio.
 *
 *   send() --> [waits for a connection] --> on_aio: sent --> on_aio: reply, or why there is none
 *
 * nng's traps, all of which cost somebody a night:
 * - Resending is off, else a request is executed twice, at once after a reconnect. With it off, a
 * lost connection ends the calls under way with NNG_ECONNRESET.
 * - The receive starts in the send's callback; started earlier, cancelling it crashes.
 * - A send without a connection waits for one. That is no use for a caller who has other replicas,
 * so the wait is short.
 * - Nothing is freed or stopped in a callback.
 */
#include "common/base/time.h"
#include "common/net/rpc/context.h"
#include "common/net/rpc/dialing.h"
#include "common/net/rpc/keepalive.h"
#include "common/net/rpc/kinds.h"
#include "common/net/rpc/peer_metrics.h"
#include "common/net/rpc/secure.h"
#include "common/net/rpc/wire.h"
#include "common/runtime/log.h"

#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    SEND_TURN_MS = 250, /* so long a call waits for a connection before it is "unavailable" */
};

struct nng_peer;

struct peer_slot {
    struct nng_peer *peer;
    struct peer_slot *next_free;
    struct fg_call *call; /* NULL: the slot is free */
    nng_ctx ctx;
    nng_aio *aio;
    nng_msg *msg; /* that is being sent; nng's until on_unsent() */
    bool sent;
};

/* A connection of nng's, from before it is used until it has ended. */
struct peer_pipe {
    struct peer_pipe *next;
    int id;
    int64_t begun_mono_ns; /* since when it is used; 0: not yet */
};

struct nng_peer {
    struct fg_peer peer;
    struct fg_rpc *rpc; /* borrowed; NULL */
    char *url;
    nng_socket socket;
    struct fg_dialing *dialing;
    struct fg_keepalive *keepalive; /* NULL: nobody looks */
    pthread_mutex_t lock;           /* of the next two */
    struct peer_pipe *pipes;
    struct peer_slot *free;
    unsigned n_slots;
    struct peer_slot slots[];
};

static struct nng_peer *peer_of(struct fg_peer *peer)
{
    return fg_container(peer, struct nng_peer, peer);
}

static struct peer_slot *slot_take(struct nng_peer *peer)
{
    pthread_mutex_lock(&peer->lock);
    struct peer_slot *slot = peer->free;
    if (slot != NULL)
        peer->free = slot->next_free;
    pthread_mutex_unlock(&peer->lock);
    return slot;
}

/* The last access: another thread may take the slot before this returns. */
static void slot_give(struct peer_slot *slot)
{
    struct nng_peer *peer = slot->peer;

    slot->call = NULL;
    pthread_mutex_lock(&peer->lock);
    slot->next_free = peer->free;
    peer->free = slot;
    pthread_mutex_unlock(&peer->lock);
}

static void set_timeout(struct peer_slot *slot, uint64_t ms)
{
    nng_aio_set_timeout(slot->aio, (nng_duration)FG_MAX(FG_MIN(ms, (uint64_t)INT32_MAX), 1u));
}

static void start_send(struct peer_slot *slot, nng_msg *msg, uint64_t left_ms)
{
    slot->sent = false;
    slot->msg = msg;
    set_timeout(slot, FG_MIN(left_ms, (uint64_t)SEND_TURN_MS));
    nng_aio_set_msg(slot->aio, msg);
    nng_ctx_send(slot->ctx, slot->aio);
}

static void finish_failed(struct peer_slot *slot, enum fg_code code, const char *text)
{
    struct fg_call *call = slot->call;

    slot_give(slot);
    fg_call_fail(call, code, text);
}

static void finish_reply(struct peer_slot *slot)
{
    struct fg_call *call = slot->call;
    nng_msg *reply = nng_aio_get_msg(slot->aio);

    slot_give(slot);
    fg_peer_metrics_received(call->peer->metrics, nng_msg_len(reply));
    call->transport = reply;
    fg_call_read_reply(call, fg_wire_bytes(reply));
    fg_call_finish(call);
}

/* A failed send leaves the message with the aio. */
static void on_unsent(struct peer_slot *slot, int rv)
{
    nng_msg *msg = nng_aio_get_msg(slot->aio);
    uint64_t left_ms = fg_rpc_left_ms(slot->call->deadline_mono_ns);

    if (rv == NNG_ETIMEDOUT && left_ms > 0 && atomic_load(&slot->peer->peer.connections) > 0) {
        start_send(slot, msg, left_ms); /* the other side is there and busy */
        return;
    }
    nng_msg_free(msg);
    if (rv != NNG_ETIMEDOUT)
        finish_failed(slot, fg_wire_code(rv), nng_strerror(rv));
    else if (left_ms == 0)
        finish_failed(slot, FG_E_DEADLINE, "could not be sent before the deadline");
    else
        finish_failed(slot, FG_E_UNAVAILABLE, "not connected");
}

/* On an nng thread. */
static void on_aio(void *arg)
{
    struct peer_slot *slot = arg;
    int rv = nng_aio_result(slot->aio);

    if (rv != 0 && !slot->sent) {
        on_unsent(slot, rv);
    } else if (!slot->sent) {
        slot->sent = true;
        set_timeout(slot, fg_rpc_left_ms(slot->call->deadline_mono_ns));
        nng_ctx_recv(slot->ctx, slot->aio);
    } else if (rv == 0) {
        finish_reply(slot);
    } else if (rv == NNG_ETIMEDOUT) {
        finish_failed(slot, FG_E_DEADLINE, "no response before the deadline");
    } else {
        finish_failed(slot, fg_wire_code(rv), nng_strerror(rv));
    }
}

static void peer_send(struct fg_peer *base, struct fg_call *call)
{
    struct nng_peer *peer = peer_of(base);
    struct fg_rpc_frame frame = fg_call_frame(call, fg_rpc_cluster(peer->rpc));
    struct peer_slot *slot;

    if (fg_rpc_frame_size(&frame) == 0) {
        fg_call_refuse(call, FG_E_TOO_LARGE, "the request exceeds the message size limit");
    } else if (frame.left == 0) {
        fg_call_refuse(call, FG_E_DEADLINE, "the deadline expired before the call");
    } else if ((slot = slot_take(peer)) == NULL) {
        fg_call_refuse(call, FG_E_LIMIT, "too many calls in progress");
    } else {
        slot->call = call;
        fg_peer_metrics_sent(base->metrics, fg_rpc_frame_size(&frame));
        start_send(slot, fg_wire_msg(&frame), frame.left);
    }
}

static void peer_release(struct fg_call *call)
{
    if (call->transport != NULL)
        nng_msg_free(call->transport);
    call->transport = NULL;
}

/*
 * Not on an nng thread: nng_aio_stop() waits for callbacks. All are freed before the socket goes:
 * a time-out may have ended a call and still be about to leave the socket's lock, and
 * nng_aio_free() is what waits for that.
 */
static void peer_destroy(struct fg_peer *base)
{
    struct nng_peer *peer = peer_of(base);

    fg_dialing_stop(peer->dialing);
    fg_keepalive_stop(peer->keepalive);
    for (unsigned i = 0; i < peer->n_slots; i++)
        nng_aio_stop(peer->slots[i].aio);
    for (unsigned i = 0; i < peer->n_slots; i++)
        nng_aio_free(peer->slots[i].aio);
    /* Not before: while nng's timer ends an operation, nng_aio_stop() does not wait for its
     * callback, which may then come late. */
    for (unsigned i = 0; i < peer->n_slots; i++)
        if (peer->slots[i].call != NULL) {
            /* No callback ends this call: nng drops an operation that begins on an aio that was
             * stopped, and a message that was to be sent stays ours. */
            struct peer_slot *slot = &peer->slots[i];

            if (!slot->sent)
                nng_msg_free(slot->msg);
            finish_failed(slot, FG_E_CANCELED, "the connection to the service is closed");
        }
    (void)nng_close(peer->socket);
    fg_assert(peer->pipes == NULL);
    fg_keepalive_destroy(peer->keepalive);
    fg_dialing_destroy(peer->dialing);
    fg_rpc_remove_peer(peer->rpc, base);
    pthread_mutex_destroy(&peer->lock);
    free(peer->url);
    free(peer);
}

/* Locked. Returns the link that points to the connection, or to NULL. */
static struct peer_pipe **find_pipe(struct nng_peer *peer, nng_pipe pipe)
{
    struct peer_pipe **at = &peer->pipes;

    while (*at != NULL && (*at)->id != nng_pipe_id(pipe))
        at = &(*at)->next;
    return at;
}

/* Returns true if the other side may be called: it is an ingester or a querier, if services have
 * to prove what they are. No other service may pass for one, even if its certificate has the host
 * of the address. */
static bool may_be_called(const struct nng_peer *peer, nng_pipe pipe)
{
    static _Atomic int64_t quiet_until_mono_ns;
    const struct fg_rpc_secure *secure = fg_rpc_secure(peer->rpc);

    if (!fg_slice_starts(fg_cstr(peer->url), "tls+tcp") || !fg_secure_demands_roles(secure) ||
        (fg_secure_roles(secure, pipe) & (FG_RPC_INGESTER | FG_RPC_QUERIER)) != 0)
        return true;
    if (fg_wire_may_say(&quiet_until_mono_ns))
        fg_log_warn("certificate of another service names neither an ingester nor a querier, "
                    "connection closed (logged at most every 10 s)",
                    fg_ls("peer", peer->url));
    return false;
}

/*
 * The three notifications of a connection, on nng's threads. nng does not pair the last two: a
 * connection that is turned away, by us or because the other side speaks another protocol, ends
 * without having been added; and its end may be told before the addition is. Only this first one
 * comes always and before the others.
 */
static void on_pipe_new(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct nng_peer *peer = arg;
    struct peer_pipe *known;

    (void)event;
    if (!may_be_called(peer, pipe)) {
        (void)nng_pipe_close(pipe);
        return;
    }
    known = fg_new(struct peer_pipe);
    known->id = nng_pipe_id(pipe);
    (void)pthread_mutex_lock(&peer->lock);
    known->next = peer->pipes;
    peer->pipes = known;
    (void)pthread_mutex_unlock(&peer->lock);
}

/* Connections that begin and end are logged, as an operator's timeline; not within one process. */
static void on_pipe_added(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct nng_peer *peer = arg;
    struct fg_peer *base = &peer->peer;
    struct peer_pipe *known;

    (void)event;
    fg_keepalive_connected(peer->keepalive, pipe);
    fg_dialing_connected(peer->dialing, pipe);
    (void)pthread_mutex_lock(&peer->lock);
    known = *find_pipe(peer, pipe);
    if (known != NULL) {
        known->begun_mono_ns = fg_mono_ns(fg_clock_real());
        atomic_store(&base->connected_wall_ns, fg_wall_ns(fg_clock_real()));
        atomic_fetch_add(&base->connections, 1);
    }
    (void)pthread_mutex_unlock(&peer->lock);
    if (known != NULL && peer->rpc != NULL)
        fg_log_info("connected to another service", fg_ls("peer", peer->url));
}

static void on_pipe_ended(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct nng_peer *peer = arg;
    struct fg_peer *base = &peer->peer;
    struct peer_pipe **at, *known;
    bool was_last = false;
    int64_t lasted_ns = 0;

    (void)event;
    (void)pthread_mutex_lock(&peer->lock);
    at = find_pipe(peer, pipe);
    known = *at;
    if (known != NULL)
        *at = known->next;
    if (known != NULL && known->begun_mono_ns != 0) {
        lasted_ns = fg_mono_ns(fg_clock_real()) - known->begun_mono_ns;
        was_last = atomic_fetch_sub(&base->connections, 1) == 1;
        if (was_last)
            atomic_store(&base->connected_wall_ns, 0);
    }
    (void)pthread_mutex_unlock(&peer->lock);
    free(known);
    fg_dialing_ended(pipe, lasted_ns);
    if (was_last && peer->rpc != NULL)
        fg_log_info("connection to another service closed", fg_ls("peer", peer->url));
}

static int open_slots(struct nng_peer *peer, unsigned calls_max)
{
    for (unsigned i = 0; i < calls_max; i++) {
        struct peer_slot *slot = &peer->slots[i];
        int rv = nng_aio_alloc(&slot->aio, on_aio, slot);

        if (rv != 0)
            return rv;
        peer->n_slots++; /* counted by its aio; contexts are closed with the socket */
        slot->peer = peer;
        if ((rv = nng_ctx_open(&slot->ctx, peer->socket)) != 0)
            return rv;
        slot_give(slot);
    }
    return 0;
}

static int watch(struct nng_peer *peer)
{
    struct fg_keepalive_config config = {
        .peer = &peer->peer,
        .url = peer->url,
        .socket = peer->socket,
        .cluster = fg_rpc_cluster(peer->rpc),
        .after_ns = fg_rpc_ping_after_ns(peer->rpc),
        .timeout_ns = fg_rpc_ping_timeout_ns(peer->rpc),
    };

    return config.after_ns == 0 ? 0 : fg_keepalive_create(&config, &peer->keepalive);
}

static int set_up(struct nng_peer *peer, unsigned calls_max)
{
    /* Before the contexts, which take it over. */
    int rv = nng_socket_set_ms(peer->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);

    if (rv == 0)
        rv = nng_pipe_notify(peer->socket, NNG_PIPE_EV_ADD_PRE, on_pipe_new, peer);
    if (rv == 0)
        rv = nng_pipe_notify(peer->socket, NNG_PIPE_EV_ADD_POST, on_pipe_added, peer);
    if (rv == 0)
        rv = nng_pipe_notify(peer->socket, NNG_PIPE_EV_REM_POST, on_pipe_ended, peer);
    if (rv == 0)
        rv = open_slots(peer, calls_max);
    if (rv == 0)
        rv = watch(peer);
    if (rv == 0)
        peer->dialing = fg_dialing_create(&(struct fg_dialing_config){
            .rpc = peer->rpc,
            .url = peer->url,
            .socket = peer->socket,
            .connections = &peer->peer.connections,
        });
    return rv;
}

static struct nng_peer *create(struct fg_rpc *rpc, const char *url, unsigned calls_max)
{
    static const struct fg_peer_ops ops = {peer_send, peer_release, peer_destroy};
    struct nng_peer *peer;

    fg_assert(calls_max > 0);
    peer = fg_calloc(1, sizeof *peer + calls_max * sizeof(struct peer_slot));
    peer->peer.ops = &ops;
    peer->rpc = rpc;
    peer->url = fg_malloc(strlen(url) + 1);
    memcpy(peer->url, url, strlen(url) + 1);
    pthread_mutex_init(&peer->lock, NULL);
    return peer;
}

enum fg_code fg_peer_dial(struct fg_rpc *rpc, const char *url, unsigned calls_max,
                          struct fg_peer **ret_peer, struct fg_err *err)
{
    struct nng_peer *peer;
    nng_socket socket;

    if (fg_secure_check_url(fg_rpc_secure(rpc), url, err) != FG_OK ||
        fg_wire_check(nng_req0_open(&socket), err) != FG_OK)
        return fg_wrap(err, "peer %s", url);
    peer = create(rpc, url, calls_max);
    peer->socket = socket;
    if (fg_wire_check(set_up(peer, calls_max), err) != FG_OK ||
        fg_dialing_start(peer->dialing, err) != FG_OK) {
        peer_destroy(&peer->peer);
        return fg_wrap(err, "peer %s", url);
    }
    fg_rpc_add_peer(rpc, &peer->peer, url);
    fg_keepalive_start(peer->keepalive);
    *ret_peer = &peer->peer;
    return FG_OK;
}
