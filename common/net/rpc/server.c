/*
 * The answering side on nng: one REP socket with a slot for each of requests_max requests, and some
 * for refusals. Each is a context that is receiving, has its request with a handler, or is sending
 * the reply.
 *
 *   receive --> handler, on whatever threads --> fg_rpc_reply() --> sent --> receive ...
 *
 * A reply keeps its slot until the replies before it on its connection have left. So that callers
 * that do not read cannot take the slots of others, connections.h bounds what each caller holds,
 * and a connection whose replies do not leave is closed.
 *
 * Receiving and sending have an aio each: stop ends all receiving for good and must not end a
 * reply.
 */
#include "common/base/cursor.h"
#include "common/base/time.h"
#include "common/net/rpc/cancellations.h"
#include "common/net/rpc/chunked_replies.h"
#include "common/net/rpc/context.h"
#include "common/net/rpc/kinds.h"
#include "common/net/rpc/request.h"
#include "common/net/rpc/secure.h"
#include "common/net/rpc/wire.h"
#include "common/runtime/log.h"

#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>

enum {
    REQUESTS_LEAST = 4, /* a slot is free a moment after its reply has arrived, and a caller that
                         * asks one thing after another must not be refused */
    SWEEP_MS = 1000,
    UNREAD_AT_A_TIME = 64, /* connections closed in one sweep; more are closed by the next */
    STOP_LINGER_MS = 50,   /* nng says "sent" when the socket has it, and drops that on close */
};

struct rpc_server_slot {
    struct fg_rpc_request req;
    struct fg_rpc_server *server;
    nng_ctx ctx;
    nng_aio *recv_aio, *send_aio;
    nng_msg *msg;                     /* the request's bytes */
    struct fg_connection *connection; /* whose slot it is; NULL: it has ended before that */
    enum fg_slot_verdict verdict;     /* with which it was taken */
};

struct handler {
    fg_rpc_handler fn;
    void *arg;
};

struct fg_rpc_server {
    struct fg_rpc *rpc; /* borrowed; NULL */
    struct fg_chunked_replies *chunked_replies;
    struct fg_budget whole_budget, parts_budget; /* of requests that came whole, and in parts */
    struct fg_chunked_requests *parts;
    struct fg_cancellations *cancellations;
    struct fg_connections *connections;
    struct handler handlers[FG_RPC_METHODS];
    nng_socket socket;
    struct fg_secure_end end; /* its listener */
    bool started;
    nng_aio *sweep_aio; /* a timer */
    unsigned requests_max, n_slots, slots_max;
    struct rpc_server_slot *slots;

    pthread_mutex_t lock; /* of under_way */
    pthread_cond_t idle;  /* under_way has become 0 */
    unsigned under_way;   /* received and not answered */
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

bool fg_rpc_is_abandoned(const struct fg_rpc_request *req)
{
    return atomic_load_explicit(&req->canceled, memory_order_relaxed) ||
           (req->connection != NULL && fg_connection_is_gone(req->connection));
}

void fg_rpc_let_cancel(struct fg_rpc_request *req, uint64_t key)
{
    if (key != 0)
        fg_cancellations_add(req->server->cancellations, req, key);
}

void fg_rpc_put_cancel(uint64_t key, uint8_t out[FG_RPC_CANCEL_BYTES])
{
    for (size_t i = 0; i < FG_RPC_CANCEL_BYTES; i++)
        out[i] = (uint8_t)(key >> (8 * i));
}

void fg_rpc_request_done(struct fg_rpc_request *req)
{
    /* First: afterwards a cancellation must not find what the next request will use. */
    fg_cancellations_remove(req->server->cancellations, req);
    fg_whole_request_free(fg_take(req->whole));
    fg_budget_give(&req->server->whole_budget, req->charged_bytes);
    req->charged_bytes = 0;
    req->connection = NULL;
}

/* Replies with the whole payload, or with its first part. */
static void reply_with(struct fg_rpc_request *req, const struct fg_rpc_frame *frame)
{
    struct fg_err err;

    if (fg_rpc_frame_size(frame) != 0) {
        req->reply(req, frame);
        return;
    }
    (void)fg_fail(&err, FG_E_TOO_LARGE, "response head of %zu bytes exceeds the message size limit",
                  frame->head.len);
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
    struct fg_chunked_replies *chunked_replies = req->server->chunked_replies;
    struct fg_chunked_reply *answer;
    struct fg_rpc_frame frame;
    struct fg_err err;

    if (fg_chunked_replies_add(chunked_replies, req->owner, payload, fg_mono_ns(fg_clock_real()),
                               req->deadline_mono_ns, &answer, &err) != FG_OK) {
        fg_rpc_reply_error(req, &err);
        return;
    }
    /* Nobody would fetch it. Checked after it was added: a connection that ends later than this
     * drops it itself (on_pipe_gone()). */
    if (req->connection != NULL && fg_connection_is_gone(req->connection))
        fg_chunked_replies_drop(chunked_replies, answer);
    frame = (struct fg_rpc_frame){
        .key = answer->key,
        .left = answer->payload.len - FG_RPC_PART_BYTES,
        .head = head,
        .payload = fg_slice_sub(answer->payload, 0, FG_RPC_PART_BYTES),
    };
    reply_with(req, &frame);
    fg_chunked_replies_unref(chunked_replies, answer);
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
    /* A caller that gave up does not see the reply. For one that does, this service canceled the
     * work because it is stopping: the caller should ask another replica. */
    enum fg_code code = err->code == FG_E_CANCELED ? FG_E_UNAVAILABLE : err->code;
    struct fg_rpc_frame frame = {
        .kind = (uint8_t)fg_code_grpc(code),
        .head = fg_cstr(err->msg),
    };

    fg_assert(code != FG_OK);
    req->reply(req, &frame);
}

static enum fg_code refuse(struct fg_rpc_server *server, enum fg_rpc_refusal why, enum fg_code code)
{
    fg_rpc_count_refusal(server->rpc, why);
    return code;
}

/* Checks whether the caller may make this kind of call here, with so large a request. A role
 * that does not fit is a fault of the cluster's settings, so outside it must not become a 403:
 * agents drop profiles for that. */
static enum fg_code check_kind(struct fg_rpc_server *server, const struct fg_rpc_request *req,
                               unsigned method, uint64_t size, struct fg_err *err)
{
    const struct fg_rpc_kind *kind = fg_rpc_kind_of(method);

    if (kind == NULL || server->handlers[method].fn == NULL)
        return refuse(
            server, FG_RPC_REFUSED_METHOD,
            fg_fail(err, FG_E_UNIMPLEMENTED, "this service does not serve method %u", method));
    if (req->connection != NULL && (fg_connection_roles(req->connection) & kind->callers) == 0)
        return refuse(server, FG_RPC_REFUSED_ROLE,
                      fg_fail(err, FG_E_UNAVAILABLE,
                              "the service that the caller's certificate names may not make a %s "
                              "call",
                              kind->name));
    if (size > kind->request_max_bytes)
        return refuse(server, FG_RPC_REFUSED_TOO_LARGE,
                      fg_fail(err, FG_E_TOO_LARGE, "%s of %llu bytes, at most %llu", kind->name,
                              (unsigned long long)size,
                              (unsigned long long)kind->request_max_bytes));
    return FG_OK;
}

/* True if a request counts against the budget. Those of this module live no longer than their
 * handler, and what PART brings is counted as the request that it is a part of. */
static bool is_charged(unsigned method)
{
    return method != FG_RPC_PING && method != FG_RPC_MORE && method != FG_RPC_PART &&
           method != FG_RPC_CANCEL;
}

static enum fg_code charge(struct fg_rpc_server *server, struct fg_rpc_request *req, uint64_t size,
                           struct fg_err *err)
{
    if (!fg_budget_take(&server->whole_budget, size))
        return refuse(server, FG_RPC_REFUSED_BUSY,
                      fg_fail(err, FG_E_UNAVAILABLE,
                              "busy: no memory for a request of %llu bytes, other requests use "
                              "%llu of %llu bytes (half of rpc.requests_max_bytes)",
                              (unsigned long long)size,
                              (unsigned long long)fg_budget_used(&server->whole_budget),
                              (unsigned long long)server->whole_budget.limit_bytes));
    req->charged_bytes = size;
    return FG_OK;
}

static enum fg_code read_request(struct fg_rpc_server *server, struct fg_rpc_request *req,
                                 struct fg_slice bytes, struct fg_err *err)
{
    struct fg_rpc_frame frame;

    if (fg_rpc_frame_decode(bytes, &frame, err) != FG_OK)
        return refuse(server, FG_RPC_REFUSED_PROTOCOL, fg_wrap(err, "request"));
    req->deadline_mono_ns = fg_rpc_deadline_from(frame.left); /* of a refusal, too */
    if (frame.key != fg_rpc_cluster(server->rpc))
        return refuse(server, FG_RPC_REFUSED_CLUSTER,
                      fg_fail(err, FG_E_UNAVAILABLE,
                              "this is cluster \"%s\", the caller belongs to another",
                              fg_rpc_cluster_name(server->rpc)));
    if (check_kind(server, req, frame.kind, bytes.len, err) != FG_OK)
        return err->code;
    if (frame.left == 0)
        return refuse(server, FG_RPC_REFUSED_LATE,
                      fg_fail(err, FG_E_DEADLINE, "request arrived after its deadline"));
    if (frame.left > INT32_MAX) /* 24 days; as milliseconds of nng's */
        return refuse(
            server, FG_RPC_REFUSED_PROTOCOL,
            fg_fail(err, FG_E_INVALID, "deadline in %llu ms", (unsigned long long)frame.left));
    if (is_charged(frame.kind) && charge(server, req, bytes.len, err) != FG_OK)
        return err->code;
    req->method = (enum fg_rpc_method)frame.kind;
    req->head = frame.head;
    req->payload = frame.payload;
    return FG_OK;
}

/* Reads a frame that came in parts. The parts had the cluster and the deadline. */
static enum fg_code read_whole(struct fg_rpc_server *server, struct fg_rpc_request *req,
                               struct fg_err *err)
{
    struct fg_slice bytes = fg_whole_request_bytes(req->whole);
    struct fg_rpc_frame frame;

    if (fg_rpc_frame_decode(bytes, &frame, err) != FG_OK)
        return refuse(server, FG_RPC_REFUSED_PROTOCOL, fg_wrap(err, "request in parts"));
    if (check_kind(server, req, frame.kind, bytes.len, err) != FG_OK)
        return err->code;
    req->method = (enum fg_rpc_method)frame.kind;
    req->head = frame.head;
    req->payload = frame.payload;
    return FG_OK;
}

uint64_t fg_rpc_server_cluster(const struct fg_rpc_server *server)
{
    return fg_rpc_cluster(server->rpc);
}

struct fg_chunked_replies *fg_rpc_server_chunked_replies(struct fg_rpc_server *server)
{
    return server->chunked_replies;
}

void fg_rpc_dispatch(struct fg_rpc_server *server, struct fg_rpc_request *req,
                     struct fg_slice bytes)
{
    struct fg_err err;

    req->server = server;
    req->whole = NULL;
    req->charged_bytes = 0;
    req->deadline_mono_ns = 0;
    if (read_request(server, req, bytes, &err) == FG_OK)
        server->handlers[req->method].fn(req, server->handlers[req->method].arg);
    else
        fg_rpc_reply_error(req, &err);
}

uint64_t fg_rpc_server_request_bytes(struct fg_rpc_server *server)
{
    return fg_budget_used(&server->whole_budget) + fg_budget_used(&server->parts_budget);
}

unsigned fg_rpc_server_connections(struct fg_rpc_server *server)
{
    return fg_connections_count(server->connections);
}

/* --- slots --- */

static void refuse_share(struct rpc_server_slot *slot)
{
    struct fg_err err;

    slot->req.server = slot->server;
    slot->req.whole = NULL;
    (void)refuse(slot->server, FG_RPC_REFUSED_SHARE,
                 fg_fail(&err, FG_E_UNAVAILABLE,
                         "busy: this caller already has its share of the %u requests that are "
                         "handled at a time (requests_max)",
                         slot->server->requests_max));
    fg_rpc_reply_error(&slot->req, &err);
}

/* On an nng thread. The aio of a stopped server refuses to begin, which ends the slot's cycle. */
static void on_received(void *arg)
{
    struct rpc_server_slot *slot = arg;
    int rv = nng_aio_result(slot->recv_aio);

    if (rv == NNG_ECANCELED || rv == NNG_ECLOSED)
        return;
    if (rv != 0) { /* nothing that REP gives today; a slot less would be a slow death */
        nng_ctx_recv(slot->ctx, slot->recv_aio);
        return;
    }
    slot->msg = nng_aio_get_msg(slot->recv_aio);
    slot->req.owner = (uint32_t)nng_pipe_id(nng_msg_get_pipe(slot->msg));
    slot->verdict =
        fg_connections_take_slot(slot->server->connections, slot->req.owner, &slot->connection);
    if (slot->verdict == FG_SLOT_DROPPED || slot->verdict == FG_SLOT_GONE) {
        if (slot->verdict == FG_SLOT_DROPPED)
            fg_rpc_count_refusal(slot->server->rpc, FG_RPC_REFUSED_SHARE);
        nng_msg_free(fg_take(slot->msg));
        nng_ctx_recv(slot->ctx, slot->recv_aio); /* nng forgets the request before */
        return;
    }
    pthread_mutex_lock(&slot->server->lock);
    slot->server->under_way++;
    pthread_mutex_unlock(&slot->server->lock);
    slot->req.connection = slot->connection;
    if (slot->verdict == FG_SLOT_TAKEN)
        fg_rpc_dispatch(slot->server, &slot->req, fg_wire_bytes(slot->msg));
    else
        refuse_share(slot);
}

/* On an nng thread. */
static void on_sent(void *arg)
{
    struct rpc_server_slot *slot = arg;
    struct fg_rpc_server *server = slot->server;

    if (nng_aio_result(slot->send_aio) != 0)
        nng_msg_free(nng_aio_get_msg(slot->send_aio)); /* the caller asks again */
    fg_connections_give_slot(server->connections, fg_take(slot->connection), slot->verdict);
    nng_ctx_recv(slot->ctx, slot->recv_aio);
    /* Last: stop and destroy wait for it. */
    pthread_mutex_lock(&server->lock);
    if (--server->under_way == 0)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
}

static void slot_reply(struct fg_rpc_request *req, const struct fg_rpc_frame *frame)
{
    struct rpc_server_slot *slot = fg_container(req, struct rpc_server_slot, req);
    nng_msg *reply = fg_wire_msg(frame);

    fg_rpc_request_done(req); /* after the copy: the reply may be made of the request */
    nng_msg_free(fg_take(slot->msg));
    fg_connections_reply_waits(slot->server->connections, slot->connection);
    nng_aio_set_msg(slot->send_aio, reply);
    nng_ctx_send(slot->ctx, slot->send_aio);
}

static int open_slot(struct fg_rpc_server *server, struct rpc_server_slot *slot)
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
    return 0;
}

/* --- the server --- */

static void on_ping(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    fg_rpc_reply(req, fg_bytes(NULL, 0), fg_bytes(NULL, 0));
}

static void on_cancel(struct fg_rpc_request *req, void *arg)
{
    struct fg_rpc_server *server = arg;
    struct fg_cur cur = fg_cur(req->head);
    uint64_t key = fg_cur_le64(&cur);
    struct fg_err err;

    if (cur.bad) {
        (void)fg_fail(&err, FG_E_INVALID, "malformed cancellation of %zu bytes", req->head.len);
        fg_rpc_reply_error(req, &err);
        return;
    }
    fg_cancellations_cancel(server->cancellations, req->owner, key);
    fg_rpc_reply(req, fg_bytes(NULL, 0), fg_bytes(NULL, 0));
}

static void reply_part(struct fg_rpc_request *req, struct fg_chunked_reply *answer, uint64_t offset)
{
    struct fg_slice rest = fg_slice_sub(answer->payload, offset, SIZE_MAX);
    struct fg_rpc_frame frame = {
        .key = answer->key,
        .payload = fg_slice_sub(rest, 0, FG_RPC_PART_BYTES),
    };

    frame.left = rest.len - frame.payload.len;
    if (frame.left == 0)
        fg_chunked_replies_drop(req->server->chunked_replies,
                                answer); /* the caller of this function still holds it */
    req->reply(req, &frame);
}

static void on_more(struct fg_rpc_request *req, void *arg)
{
    struct fg_rpc_server *server = arg;
    struct fg_cur cur = fg_cur(req->head);
    uint64_t key = fg_cur_le64(&cur), offset = fg_cur_le64(&cur);
    struct fg_chunked_reply *answer;
    struct fg_err err;

    if (cur.bad) {
        (void)fg_fail(&err, FG_E_INVALID,
                      "malformed request of %zu bytes for the rest of a response", req->head.len);
        fg_rpc_reply_error(req, &err);
        return;
    }
    answer = fg_chunked_replies_find(server->chunked_replies, req->owner, key,
                                     fg_mono_ns(fg_clock_real()));
    if (answer == NULL) {
        (void)fg_fail(&err, FG_E_UNAVAILABLE, "the response was discarded");
        fg_rpc_reply_error(req, &err);
        return;
    }
    reply_part(req, answer, FG_MIN(offset, SIZE_MAX)); /* beyond the end: nothing, and it goes */
    fg_chunked_replies_unref(server->chunked_replies, answer);
}

/* Checks what the first part says of the request: the method in its frame. */
static enum fg_code check_first(struct fg_rpc_server *server, const struct fg_rpc_request *req,
                                const struct fg_request_part *part, struct fg_err *err)
{
    unsigned method;

    if (part->bytes.len < FG_RPC_FRAME_BYTES || part->total <= FG_RPC_PART_BYTES)
        return refuse(server, FG_RPC_REFUSED_PROTOCOL,
                      fg_fail(err, FG_E_INVALID, "part of %zu bytes of a request of %llu",
                              part->bytes.len, (unsigned long long)part->total));
    method = part->bytes.ptr[FG_RPC_FRAME_METHOD_AT];
    if (!is_charged(method))
        return refuse(server, FG_RPC_REFUSED_PROTOCOL,
                      fg_fail(err, FG_E_INVALID, "method %u in parts", method));
    return check_kind(server, req, method, part->total, err);
}

static enum fg_code take_part(struct fg_rpc_server *server, struct fg_rpc_request *req,
                              struct fg_err *err)
{
    struct fg_cur cur = fg_cur(req->head);
    struct fg_request_part part = {
        .owner = req->owner, .bytes = req->payload, .deadline_mono_ns = req->deadline_mono_ns};

    part.key = fg_cur_le64(&cur);
    part.offset = fg_cur_le64(&cur);
    part.total = fg_cur_le64(&cur);
    if (cur.bad)
        return refuse(server, FG_RPC_REFUSED_PROTOCOL,
                      fg_fail(err, FG_E_INVALID, "part with a head of %zu bytes", req->head.len));
    if (part.offset == 0 && check_first(server, req, &part, err) != FG_OK)
        return err->code;
    if (fg_chunked_requests_add(server->parts, &part, fg_mono_ns(fg_clock_real()), &req->whole,
                                err) == FG_OK) {
        /* As of replies (reply_first()): else the part would stay until it is idle. */
        if (req->connection != NULL && fg_connection_is_gone(req->connection))
            fg_chunked_requests_drop_owner(server->parts, req->owner);
        return FG_OK;
    }
    return refuse(server,
                  err->code == FG_E_UNAVAILABLE ? FG_RPC_REFUSED_BUSY
                  : err->code == FG_E_TOO_LARGE ? FG_RPC_REFUSED_TOO_LARGE
                                                : FG_RPC_REFUSED_PROTOCOL,
                  err->code);
}

/* The reply to the last part is that of the request. */
static void on_part(struct fg_rpc_request *req, void *arg)
{
    struct fg_rpc_server *server = arg;
    struct fg_err err;

    if (take_part(server, req, &err) != FG_OK ||
        (req->whole != NULL && read_whole(server, req, &err) != FG_OK))
        fg_rpc_reply_error(req, &err);
    else if (req->whole == NULL)
        fg_rpc_reply(req, fg_bytes(NULL, 0), fg_bytes(NULL, 0));
    else
        server->handlers[req->method].fn(req, server->handlers[req->method].arg);
}

struct fg_rpc_server *fg_rpc_server_create(struct fg_rpc *rpc, unsigned requests_max)
{
    struct fg_rpc_server *server = fg_new(struct fg_rpc_server);

    fg_assert(requests_max > 0);
    server->requests_max = FG_MAX(requests_max, (unsigned)REQUESTS_LEAST);
    server->rpc = rpc;
    server->chunked_replies = fg_chunked_replies_create(fg_rpc_answers_max(rpc));
    fg_budget_init(&server->whole_budget, fg_rpc_requests_max(rpc) / 2);
    fg_budget_init(&server->parts_budget, fg_rpc_requests_max(rpc) / 2);
    server->parts = fg_chunked_requests_create(&server->parts_budget);
    server->cancellations = fg_cancellations_create();
    server->connections = fg_connections_create(
        fg_rpc_connections_max(rpc), fg_rpc_connections_per_address_max(rpc), server->requests_max);
    server->slots_max = server->requests_max + FG_SLOTS_FOR_REFUSALS;
    server->slots = fg_calloc(server->slots_max, sizeof(struct rpc_server_slot));
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->idle, NULL);
    fg_rpc_server_handle(server, FG_RPC_PING, on_ping, NULL);
    fg_rpc_server_handle(server, FG_RPC_MORE, on_more, server);
    fg_rpc_server_handle(server, FG_RPC_PART, on_part, server);
    fg_rpc_server_handle(server, FG_RPC_CANCEL, on_cancel, server);
    fg_rpc_show_server(rpc, server);
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

/* A caller that does not read keeps its slots as long as its connection exists. It may be stopped,
 * or its machine gone, or it wants to do harm. */
static void close_unread(struct fg_rpc_server *server)
{
    static _Atomic int64_t quiet_until_mono_ns;
    const int64_t sweep_ns = SWEEP_MS * FG_MS_NS;
    int64_t looks = (fg_rpc_unread_ns(server->rpc) + sweep_ns - 1) / sweep_ns;
    uint32_t ids[UNREAD_AT_A_TIME];
    size_t n = fg_connections_find_unread(server->connections, (unsigned)FG_MAX(looks, 2), ids,
                                          UNREAD_AT_A_TIME);

    for (size_t i = 0; i < n; i++) {
        (void)nng_pipe_close((nng_pipe){.id = ids[i]});
        fg_rpc_count_refusal(server->rpc, FG_RPC_REFUSED_UNREAD);
    }
    if (n > 0 && fg_wire_may_say(&quiet_until_mono_ns))
        fg_log_warn("connection of another service closed, it does not read responses (logged at "
                    "most every 10 s)",
                    fg_lu("connections", n));
}

/* On an nng thread. */
static void on_sweep(void *arg)
{
    struct fg_rpc_server *server = arg;

    if (nng_aio_result(server->sweep_aio) != 0)
        return; /* stopped */
    fg_chunked_replies_sweep(server->chunked_replies, fg_mono_ns(fg_clock_real()));
    fg_chunked_requests_sweep(server->parts, fg_mono_ns(fg_clock_real()));
    close_unread(server);
    nng_sleep_aio(SWEEP_MS, server->sweep_aio);
}

static void refuse_connection(struct fg_rpc_server *server, nng_pipe pipe, enum fg_rpc_refusal why,
                              const char *text)
{
    static _Atomic int64_t quiet_until_mono_ns;

    (void)nng_pipe_close(pipe);
    fg_rpc_count_refusal(server->rpc, why);
    if (fg_wire_may_say(&quiet_until_mono_ns))
        fg_log_warn("connection of another service refused (logged at most every 10 s)",
                    fg_ls("err", text));
}

/* On an nng thread, after TLS and nng's greeting, and before a message is read. */
static void on_pipe_new(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct fg_rpc_server *server = arg;
    struct fg_connection_address address = fg_wire_address(pipe);
    const struct fg_rpc_secure *secure = fg_rpc_secure(server->rpc);
    unsigned roles = FG_RPC_ANY_ROLE;

    (void)event;
    if (server->end.listens && fg_secure_demands_roles(secure))
        roles = fg_secure_roles(secure, pipe);
    if (roles == 0) {
        refuse_connection(server, pipe, FG_RPC_REFUSED_CERTIFICATE,
                          "the certificate names no service of rpc.tls_role_domain");
        return;
    }
    switch (fg_connections_add(server->connections, (uint32_t)nng_pipe_id(pipe), &address, roles)) {
    case FG_CONNECTION_TAKEN:
        return;
    case FG_CONNECTION_TOO_MANY:
        refuse_connection(server, pipe, FG_RPC_REFUSED_CONNECTIONS, "rpc.connections_max reached");
        return;
    case FG_CONNECTION_TOO_MANY_FROM_ADDRESS:
        refuse_connection(server, pipe, FG_RPC_REFUSED_ADDRESS,
                          "rpc.connections_per_address_max reached");
    }
}

/* On an nng thread: a connection has ended. */
static void on_pipe_gone(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct fg_rpc_server *server = arg;
    uint32_t owner = (uint32_t)nng_pipe_id(pipe);

    (void)event;
    fg_connections_remove(server->connections, owner);
    fg_chunked_replies_drop_owner(server->chunked_replies, owner);
    fg_chunked_requests_drop_owner(server->parts, owner);
}

static int watch(struct fg_rpc_server *server)
{
    int rv = nng_pipe_notify(server->socket, NNG_PIPE_EV_ADD_PRE, on_pipe_new, server);

    if (rv == 0)
        rv = nng_pipe_notify(server->socket, NNG_PIPE_EV_REM_POST, on_pipe_gone, server);
    if (rv == 0)
        rv = nng_aio_alloc(&server->sweep_aio, on_sweep, server);
    if (rv == 0)
        nng_sleep_aio(SWEEP_MS, server->sweep_aio);
    return rv;
}

static int set_up(struct fg_rpc_server *server)
{
    int rv = watch(server);

    for (unsigned i = 0; i < server->slots_max && rv == 0; i++) {
        server->n_slots++;
        rv = open_slot(server, &server->slots[i]);
        if (rv == 0)
            nng_ctx_recv(server->slots[i].ctx, server->slots[i].recv_aio);
    }
    return rv;
}

/* Slots receive before the server listens, so a connection finds somebody who reads. */
enum fg_code fg_rpc_server_start(struct fg_rpc_server *server, const char *url, struct fg_err *err)
{
    fg_assert(!server->started);
    if (fg_secure_check_url(fg_rpc_secure(server->rpc), url, err) != FG_OK ||
        fg_rpc_check_listen(server->rpc, url, err) != FG_OK ||
        fg_wire_check(nng_rep0_open(&server->socket), err) != FG_OK)
        return fg_wrap(err, "rpc server %s", url);
    server->started = true;
    if (fg_wire_check(set_up(server), err) != FG_OK || listen_on(server, url, err) != FG_OK) {
        fg_rpc_server_stop(server);
        return fg_wrap(err, "rpc server %s", url);
    }
    return FG_OK;
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
    /* Before the socket: see peer_destroy(). */
    for (unsigned i = 0; i < server->n_slots; i++) {
        nng_aio_free(fg_take(server->slots[i].recv_aio)); /* waits for its callback; NULL is fine */
        nng_aio_free(fg_take(server->slots[i].send_aio));
    }
    server->n_slots = 0;
    (void)nng_close(server->socket);
    fg_secure_remove(fg_rpc_secure(server->rpc), &server->end);
    server->started = false;
}

void fg_rpc_server_destroy(struct fg_rpc_server *server)
{
    if (server == NULL)
        return;
    fg_rpc_server_stop(server);
    fg_rpc_show_server(server->rpc, NULL);
    fg_chunked_replies_destroy(server->chunked_replies);
    fg_chunked_requests_destroy(server->parts);
    fg_cancellations_destroy(server->cancellations);
    fg_connections_destroy(server->connections);
    pthread_cond_destroy(&server->idle);
    pthread_mutex_destroy(&server->lock);
    free(server->slots);
    free(server);
}
