/*
 * The answering side on nng: one REP socket with requests_max slots, each a context that is
 * receiving, has its request with a handler, or is sending the reply.
 *
 *   receive --> handler, on whatever threads --> fg_rpc_reply() --> sent --> receive ...
 *
 * Receiving and sending have an aio each: stop ends all receiving for good and must not end a
 * reply.
 */
#include "common/base/time.h"
#include "common/rpc/request.h"
#include "common/rpc/wire.h"

#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>

enum {
    REPLY_TIMEOUT_MS = 60 * 1000, /* a caller that does not read its answers; backstop */
    STOP_LINGER_MS = 50, /* nng says "sent" when the socket has it, and drops that on close */
};

struct slot {
    struct fg_rpc_request req;
    struct fg_rpc_server *server;
    nng_ctx ctx;
    nng_aio *recv_aio, *send_aio;
    nng_msg *msg; /* the request's bytes */
};

struct handler {
    fg_rpc_handler fn;
    void *arg;
};

struct fg_rpc_server {
    struct handler handlers[FG_RPC_METHODS];
    nng_socket socket;
    bool started;
    unsigned requests_max, n_slots;
    struct slot *slots;

    pthread_mutex_t lock;
    pthread_cond_t idle;
    unsigned under_way; /* received and not answered */
};

/* --- requests --- */

enum fg_rpc_method fg_rpc_method(const struct fg_rpc_request *req)
{
    return req->method;
}

struct fg_slice fg_rpc_head(const struct fg_rpc_request *req)
{
    return req->head;
}

struct fg_slice fg_rpc_payload(const struct fg_rpc_request *req)
{
    return req->payload;
}

int64_t fg_rpc_deadline_mono_ns(const struct fg_rpc_request *req)
{
    return req->deadline_mono_ns;
}

void fg_rpc_reply(struct fg_rpc_request *req, struct fg_slice head, struct fg_slice payload)
{
    struct fg_rpc_frame frame = {.head = head, .payload = payload};
    struct fg_err err;

    if (fg_rpc_frame_size(&frame) != 0) {
        req->reply(req, &frame);
        return;
    }
    (void)fg_fail(&err, FG_E_TOO_LARGE, "answer of %zu bytes is larger than a message may be",
                  head.len + payload.len);
    fg_rpc_reply_error(req, &err);
}

void fg_rpc_reply_error(struct fg_rpc_request *req, const struct fg_err *err)
{
    struct fg_rpc_frame frame = {
        .kind = (uint8_t)fg_code_grpc(err->code),
        .head = fg_cstr(err->msg),
    };

    fg_assert(err->code != FG_OK);
    req->reply(req, &frame);
}

static enum fg_code read_request(struct fg_rpc_server *server, struct fg_rpc_request *req,
                                 struct fg_slice bytes, struct fg_err *err)
{
    struct fg_rpc_frame frame;

    if (fg_rpc_frame_decode(bytes, &frame, err) != FG_OK)
        return fg_wrap(err, "request");
    if (frame.kind == 0 || frame.kind >= FG_RPC_METHODS || server->handlers[frame.kind].fn == NULL)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "method %u is not served here", frame.kind);
    if (frame.left_ms <= 0)
        return fg_fail(err, FG_E_DEADLINE, "request arrived after its deadline");
    req->method = (enum fg_rpc_method)frame.kind;
    req->head = frame.head;
    req->payload = frame.payload;
    req->deadline_mono_ns = fg_rpc_deadline_from(frame.left_ms);
    return FG_OK;
}

void fg_rpc_dispatch(struct fg_rpc_server *server, struct fg_rpc_request *req,
                     struct fg_slice bytes)
{
    struct fg_err err;

    if (read_request(server, req, bytes, &err) == FG_OK)
        server->handlers[req->method].fn(req, server->handlers[req->method].arg);
    else
        fg_rpc_reply_error(req, &err);
}

/* --- slots --- */

static void note_received(struct fg_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->under_way++;
    pthread_mutex_unlock(&server->lock);
}

static void note_answered(struct fg_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    if (--server->under_way == 0)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
}

/* On an nng thread. A stopped server's aio refuses to begin; that is the end of the slot's round.
 */
static void on_received(void *arg)
{
    struct slot *slot = arg;
    int rv = nng_aio_result(slot->recv_aio);

    if (rv == NNG_ECANCELED || rv == NNG_ECLOSED)
        return;
    if (rv != 0) { /* nothing that REP gives today; a slot less would be a slow death */
        nng_ctx_recv(slot->ctx, slot->recv_aio);
        return;
    }
    note_received(slot->server);
    slot->msg = nng_aio_get_msg(slot->recv_aio);
    fg_rpc_dispatch(slot->server, &slot->req, fg_wire_bytes(slot->msg));
}

/* On an nng thread. */
static void on_sent(void *arg)
{
    struct slot *slot = arg;
    struct fg_rpc_server *server = slot->server;

    if (nng_aio_result(slot->send_aio) != 0)
        nng_msg_free(nng_aio_get_msg(slot->send_aio)); /* the caller asks again */
    nng_ctx_recv(slot->ctx, slot->recv_aio);
    note_answered(server); /* last: stop and destroy wait for it */
}

static void slot_reply(struct fg_rpc_request *req, const struct fg_rpc_frame *frame)
{
    struct slot *slot = fg_container(req, struct slot, req);
    nng_msg *reply = fg_wire_msg(frame);

    nng_msg_free(fg_take(slot->msg));
    nng_aio_set_msg(slot->send_aio, reply);
    nng_ctx_send(slot->ctx, slot->send_aio);
}

static int open_slot(struct fg_rpc_server *server, struct slot *slot)
{
    int rv = nng_aio_alloc(&slot->recv_aio, on_received, slot);

    if (rv == 0)
        rv = nng_aio_alloc(&slot->send_aio, on_sent, slot);
    if (rv == 0)
        rv = nng_ctx_open(&slot->ctx, server->socket);
    if (rv != 0)
        return rv;
    slot->server = server;
    slot->req.reply = slot_reply;
    nng_aio_set_timeout(slot->send_aio, REPLY_TIMEOUT_MS);
    return 0;
}

/* --- the server --- */

static void on_ping(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    fg_rpc_reply(req, fg_bytes(NULL, 0), fg_bytes(NULL, 0));
}

struct fg_rpc_server *fg_rpc_server_create(unsigned requests_max)
{
    struct fg_rpc_server *server = fg_new(struct fg_rpc_server);

    fg_assert(requests_max > 0);
    server->requests_max = requests_max;
    server->slots = fg_calloc(requests_max, sizeof(struct slot));
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->idle, NULL);
    fg_rpc_server_handle(server, FG_RPC_PING, on_ping, NULL);
    return server;
}

void fg_rpc_server_handle(struct fg_rpc_server *server, enum fg_rpc_method method,
                          fg_rpc_handler handler, void *arg)
{
    fg_assert(!server->started && method > 0 && method < FG_RPC_METHODS);
    server->handlers[method] = (struct handler){handler, arg};
}

static int listen_on(struct fg_rpc_server *server, const char *url)
{
    nng_listener listener;
    int rv = nng_listener_create(&listener, server->socket, url);

    if (rv == 0)
        rv = fg_wire_tune_listener(listener);
    if (rv == 0)
        rv = nng_listener_start(listener, 0);
    return rv;
}

/* Receiving first: what connects finds somebody who listens. */
static int set_up(struct fg_rpc_server *server, const char *url)
{
    int rv = 0;

    for (unsigned i = 0; i < server->requests_max && rv == 0; i++) {
        server->n_slots++;
        rv = open_slot(server, &server->slots[i]);
        if (rv == 0)
            nng_ctx_recv(server->slots[i].ctx, server->slots[i].recv_aio);
    }
    return rv == 0 ? listen_on(server, url) : rv;
}

enum fg_code fg_rpc_server_start(struct fg_rpc_server *server, const char *url, struct fg_err *err)
{
    int rv;

    fg_assert(!server->started);
    rv = nng_rep0_open(&server->socket);
    if (rv != 0)
        return fg_fail(err, fg_wire_code(rv), "rpc server %s: %s", url, nng_strerror(rv));
    server->started = true;
    rv = set_up(server, url);
    if (rv != 0) {
        fg_rpc_server_stop(server);
        return fg_fail(err, fg_wire_code(rv), "rpc server %s: %s", url, nng_strerror(rv));
    }
    return FG_OK;
}

static void free_slots(struct fg_rpc_server *server)
{
    for (unsigned i = 0; i < server->n_slots; i++) {
        nng_aio_free(fg_take(server->slots[i].recv_aio)); /* waits for its callback; NULL is fine */
        nng_aio_free(fg_take(server->slots[i].send_aio));
    }
    server->n_slots = 0;
}

void fg_rpc_server_stop(struct fg_rpc_server *server)
{
    bool lingers;

    if (!server->started)
        return;
    for (unsigned i = 0; i < server->n_slots; i++)
        nng_aio_stop(server->slots[i].recv_aio); /* waits for its callback */
    pthread_mutex_lock(&server->lock);
    lingers = server->under_way > 0;
    while (server->under_way > 0)
        pthread_cond_wait(&server->idle, &server->lock);
    pthread_mutex_unlock(&server->lock);
    if (lingers)
        nng_msleep(STOP_LINGER_MS);
    (void)nng_close(server->socket);
    free_slots(server);
    server->started = false;
}

void fg_rpc_server_destroy(struct fg_rpc_server *server)
{
    if (server == NULL)
        return;
    fg_rpc_server_stop(server);
    pthread_cond_destroy(&server->idle);
    pthread_mutex_destroy(&server->lock);
    free(server->slots);
    free(server);
}
