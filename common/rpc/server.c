/*
 * The answering side on nng: one REP socket with requests_max slots, each a context that is
 * receiving, has its request with a handler, or is sending the reply.
 *
 *   receive --> handler, on whatever threads --> fg_rpc_reply() --> sent --> receive ...
 *
 * Receiving and sending have an aio each: stop ends all receiving for good and must not end a
 * reply.
 */
#include "common/base/cursor.h"
#include "common/base/time.h"
#include "common/rpc/context.h"
#include "common/rpc/held.h"
#include "common/rpc/request.h"
#include "common/rpc/secure.h"
#include "common/rpc/wire.h"

#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>

enum {
    REPLY_TIMEOUT_MS = 60 * 1000, /* a caller that does not read its answers; backstop */
    SWEEP_MS = 1000,
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
    struct fg_rpc *rpc; /* borrowed; NULL */
    struct fg_held *held;
    struct handler handlers[FG_RPC_METHODS];
    nng_socket socket;
    struct fg_secure_end end; /* its listener */
    bool started;
    nng_aio *sweep_aio; /* a timer */
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

/* The whole payload, or its first part. */
static void reply_with(struct fg_rpc_request *req, const struct fg_rpc_frame *frame)
{
    struct fg_err err;

    if (fg_rpc_frame_size(frame) != 0) {
        req->reply(req, frame);
        return;
    }
    (void)fg_fail(&err, FG_E_TOO_LARGE,
                  "answer's head of %zu bytes is larger than a message may be", frame->head.len);
    fg_rpc_reply_error(req, &err);
}

void fg_rpc_reply(struct fg_rpc_request *req, struct fg_slice head, struct fg_slice payload)
{
    struct fg_buf copy;

    if (payload.len <= FG_RPC_PART_BYTES) {
        reply_with(req, &(struct fg_rpc_frame){.head = head, .payload = payload});
        return;
    }
    fg_buf_init(&copy, payload.len);
    fg_buf_put(&copy, payload);
    fg_rpc_reply_take(req, head, &copy);
}

static void reply_first(struct fg_rpc_request *req, struct fg_slice head, struct fg_buf *payload)
{
    struct fg_held *held = req->server->held;
    struct fg_held_answer *answer;
    struct fg_rpc_frame frame;
    struct fg_err err;

    if (fg_held_add(held, req->owner, payload, fg_mono_ns(fg_clock_real()), req->deadline_mono_ns,
                    &answer, &err) != FG_OK) {
        fg_rpc_reply_error(req, &err);
        return;
    }
    frame = (struct fg_rpc_frame){
        .key = answer->key,
        .left = answer->payload.len - FG_RPC_PART_BYTES,
        .head = head,
        .payload = fg_slice_sub(answer->payload, 0, FG_RPC_PART_BYTES),
    };
    reply_with(req, &frame);
    fg_held_put(held, answer);
}

void fg_rpc_reply_take(struct fg_rpc_request *req, struct fg_slice head, struct fg_buf *payload)
{
    if (payload->len <= FG_RPC_PART_BYTES)
        fg_rpc_reply(req, head, fg_buf_slice(payload));
    else
        reply_first(req, head, payload);
    fg_buf_done(payload);
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
    if (frame.key != fg_rpc_cluster(server->rpc))
        return fg_fail(err, FG_E_UNAVAILABLE, "here is cluster \"%s\", the caller is of another",
                       fg_rpc_cluster_name(server->rpc));
    if (frame.kind == 0 || frame.kind >= FG_RPC_METHODS || server->handlers[frame.kind].fn == NULL)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "method %u is not served here", frame.kind);
    if (frame.left == 0)
        return fg_fail(err, FG_E_DEADLINE, "request arrived after its deadline");
    req->method = (enum fg_rpc_method)frame.kind;
    req->head = frame.head;
    req->payload = frame.payload;
    req->deadline_mono_ns = fg_rpc_deadline_from(frame.left);
    return FG_OK;
}

uint64_t fg_rpc_server_cluster(const struct fg_rpc_server *server)
{
    return fg_rpc_cluster(server->rpc);
}

struct fg_held *fg_rpc_server_held(struct fg_rpc_server *server)
{
    return server->held;
}

void fg_rpc_dispatch(struct fg_rpc_server *server, struct fg_rpc_request *req,
                     struct fg_slice bytes)
{
    struct fg_err err;

    req->server = server;
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
    slot->req.owner = (uint32_t)nng_pipe_id(nng_msg_get_pipe(slot->msg));
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

static void reply_part(struct fg_rpc_request *req, struct fg_held_answer *answer, uint64_t offset)
{
    struct fg_slice rest = fg_slice_sub(answer->payload, offset, SIZE_MAX);
    struct fg_rpc_frame frame = {
        .key = answer->key,
        .payload = fg_slice_sub(rest, 0, FG_RPC_PART_BYTES),
    };

    frame.left = rest.len - frame.payload.len;
    if (frame.left == 0)
        fg_held_drop(req->server->held, answer); /* the caller of this function still holds it */
    req->reply(req, &frame);
}

static void on_more(struct fg_rpc_request *req, void *arg)
{
    struct fg_rpc_server *server = arg;
    struct fg_cur cur = fg_cur(req->head);
    uint64_t key = fg_cur_le64(&cur), offset = fg_cur_le64(&cur);
    struct fg_held_answer *answer;
    struct fg_err err;

    if (cur.bad) {
        (void)fg_fail(&err, FG_E_INVALID, "question for the rest of an answer, in %zu bytes",
                      req->head.len);
        fg_rpc_reply_error(req, &err);
        return;
    }
    answer = fg_held_find(server->held, req->owner, key, fg_mono_ns(fg_clock_real()));
    if (answer == NULL) {
        (void)fg_fail(&err, FG_E_UNAVAILABLE, "it is not here any more");
        fg_rpc_reply_error(req, &err);
        return;
    }
    reply_part(req, answer, FG_MIN(offset, SIZE_MAX)); /* beyond the end: nothing, and it goes */
    fg_held_put(server->held, answer);
}

struct fg_rpc_server *fg_rpc_server_create(struct fg_rpc *rpc, unsigned requests_max)
{
    struct fg_rpc_server *server = fg_new(struct fg_rpc_server);

    fg_assert(requests_max > 0);
    server->rpc = rpc;
    server->held = fg_held_create(fg_rpc_answers_max(rpc));
    fg_rpc_show_held(rpc, server->held);
    server->requests_max = requests_max;
    server->slots = fg_calloc(requests_max, sizeof(struct slot));
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->idle, NULL);
    fg_rpc_server_handle(server, FG_RPC_PING, on_ping, NULL);
    fg_rpc_server_handle(server, FG_RPC_MORE, on_more, server);
    return server;
}

void fg_rpc_server_handle(struct fg_rpc_server *server, enum fg_rpc_method method,
                          fg_rpc_handler handler, void *arg)
{
    fg_assert(!server->started && method > 0 && method < FG_RPC_METHODS);
    server->handlers[method] = (struct handler){handler, arg};
}

static enum fg_code listen_on(struct fg_rpc_server *server, const char *url, struct fg_err *err)
{
    nng_listener listener;
    int rv = nng_listener_create(&listener, server->socket, url);

    if (rv == 0)
        rv = fg_wire_tune_listener(listener);
    if (rv == 0 && fg_secure_add_listener(fg_rpc_secure(server->rpc), &server->end, listener, url,
                                          err) != FG_OK)
        return err->code;
    if (rv == 0)
        rv = nng_listener_start(listener, 0);
    return fg_wire_check(rv, err);
}

/* On an nng thread. */
static void on_sweep(void *arg)
{
    struct fg_rpc_server *server = arg;

    if (nng_aio_result(server->sweep_aio) != 0)
        return; /* stopped */
    fg_held_sweep(server->held, fg_mono_ns(fg_clock_real()));
    nng_sleep_aio(SWEEP_MS, server->sweep_aio);
}

/* On an nng thread: a connection has ended. */
static void on_pipe_gone(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct fg_rpc_server *server = arg;

    (void)event;
    fg_held_drop_owner(server->held, (uint32_t)nng_pipe_id(pipe));
}

static int watch(struct fg_rpc_server *server)
{
    int rv = nng_pipe_notify(server->socket, NNG_PIPE_EV_REM_POST, on_pipe_gone, server);

    if (rv == 0)
        rv = nng_aio_alloc(&server->sweep_aio, on_sweep, server);
    if (rv == 0)
        nng_sleep_aio(SWEEP_MS, server->sweep_aio);
    return rv;
}

static int set_up(struct fg_rpc_server *server)
{
    int rv = watch(server);

    for (unsigned i = 0; i < server->requests_max && rv == 0; i++) {
        server->n_slots++;
        rv = open_slot(server, &server->slots[i]);
        if (rv == 0)
            nng_ctx_recv(server->slots[i].ctx, server->slots[i].recv_aio);
    }
    return rv;
}

/* Receiving first: what connects finds somebody who listens. */
enum fg_code fg_rpc_server_start(struct fg_rpc_server *server, const char *url, struct fg_err *err)
{
    fg_assert(!server->started);
    if (fg_secure_check_url(fg_rpc_secure(server->rpc), url, err) != FG_OK ||
        fg_wire_check(nng_rep0_open(&server->socket), err) != FG_OK)
        return fg_wrap(err, "rpc server %s", url);
    server->started = true;
    if (fg_wire_check(set_up(server), err) != FG_OK || listen_on(server, url, err) != FG_OK) {
        fg_rpc_server_stop(server);
        return fg_wrap(err, "rpc server %s", url);
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
    nng_aio_stop(server->sweep_aio);
    nng_aio_free(server->sweep_aio); /* its callback may begin until this returns */
    server->sweep_aio = NULL;
    free_slots(server); /* before the socket: see peer_destroy() */
    (void)nng_close(server->socket);
    fg_secure_remove(fg_rpc_secure(server->rpc), &server->end);
    server->started = false;
}

void fg_rpc_server_destroy(struct fg_rpc_server *server)
{
    if (server == NULL)
        return;
    fg_rpc_server_stop(server);
    fg_rpc_show_held(server->rpc, NULL);
    fg_held_destroy(server->held);
    pthread_cond_destroy(&server->idle);
    pthread_mutex_destroy(&server->lock);
    free(server->slots);
    free(server);
}
