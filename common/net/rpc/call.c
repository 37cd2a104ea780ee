#include "common/net/rpc/call.h"

#include "common/base/time.h"
#include "common/net/rpc/kinds.h"
#include "common/net/rpc/peer_metrics.h"

#include <semaphore.h>
#include <stdio.h>
#include <time.h>

uint64_t fg_rpc_left_ms(int64_t deadline_mono_ns)
{
    int64_t left_ns = deadline_mono_ns - fg_mono_ns(fg_clock_real());

    return left_ns <= 0 ? 0 : (uint64_t)((left_ns - 1) / FG_MS_NS + 1);
}

int64_t fg_rpc_deadline_from(uint64_t left_ms)
{
    left_ms = FG_MIN(left_ms, (uint64_t)FG_RPC_DEADLINE_MAX_MS);
    return fg_mono_ns(fg_clock_real()) + (int64_t)left_ms * FG_MS_NS;
}

struct fg_rpc_frame fg_call_frame(const struct fg_call *call, uint64_t cluster)
{
    return (struct fg_rpc_frame){
        .kind = (uint8_t)call->method,
        .key = cluster,
        .left = FG_MIN(fg_rpc_left_ms(call->deadline_mono_ns), (uint64_t)FG_RPC_DEADLINE_MAX_MS),
        .head = call->head,
        .payload = call->payload,
    };
}

/* --- how a peer does --- */

enum { BAD_FAILURES = 3 };                       /* in a row: one or two may be a lost packet */
static const int64_t BAD_NS = 10 * FG_SECOND_NS; /* then it is asked again */

static void note_answer(const struct fg_call *call)
{
    struct fg_peer *peer = call->peer;
    int64_t now_ns = fg_mono_ns(fg_clock_real());

    /* A call that its caller gave up may end so because the caller canceled it. */
    if ((call->code == FG_E_UNAVAILABLE || call->code == FG_E_DEADLINE) &&
        atomic_load(&call->unwanted))
        return;
    if (call->code == FG_E_UNAVAILABLE || call->code == FG_E_DEADLINE) {
        atomic_fetch_add(&peer->failures, 1);
        atomic_store(&peer->failure_mono_ns, now_ns);
        return;
    }
    atomic_store_explicit(&peer->success_mono_ns, now_ns, memory_order_relaxed);
    if (atomic_load_explicit(&peer->failures, memory_order_relaxed) != 0)
        atomic_store(&peer->failures, 0);
}

void fg_peer_health(const struct fg_peer *peer, struct fg_peer_health *ret_health)
{
    *ret_health = (struct fg_peer_health){
        .calls = atomic_load(&peer->calls),
        .failures = atomic_load(&peer->failures),
        .success_mono_ns = atomic_load(&peer->success_mono_ns),
        .failure_mono_ns = atomic_load(&peer->failure_mono_ns),
        .connected = atomic_load(&peer->connections) > 0,
        .connected_wall_ns = atomic_load(&peer->connected_wall_ns),
    };
}

void fg_call_is_late(const struct fg_call *call)
{
    if (atomic_load(&call->peer->success_mono_ns) <= call->begun_mono_ns)
        atomic_store(&call->peer->late_mono_ns, fg_mono_ns(fg_clock_real()));
}

bool fg_peer_is_bad(const struct fg_peer *peer, int64_t now_mono_ns)
{
    int64_t late_mono_ns = atomic_load(&peer->late_mono_ns);

    if (late_mono_ns > atomic_load(&peer->success_mono_ns) && now_mono_ns - late_mono_ns < BAD_NS)
        return true;
    return atomic_load(&peer->failures) >= BAD_FAILURES &&
           now_mono_ns - atomic_load(&peer->failure_mono_ns) < BAD_NS;
}

/* --- there --- */

/* The frame of a call in parts has neither cluster nor deadline: its parts have them. */
void fg_peer_send(struct fg_peer *peer, struct fg_call *call)
{
    const struct fg_rpc_frame frame = {
        .kind = (uint8_t)call->method, .head = call->head, .payload = call->payload};
    uint64_t max = fg_rpc_kind_of(call->method)->request_max_bytes;
    size_t size = fg_rpc_frame_size(&frame);

    call->peer = peer;
    call->transport = NULL;
    call->fetch = NULL;
    call->split = NULL;
    call->rest_bytes = 0;
    call->begun_mono_ns = fg_mono_ns(fg_clock_real());
    atomic_fetch_add(&peer->calls, 1);
    if (size == 0 || size > max) {
        char text[100];

        (void)snprintf(text, sizeof text, "%s of %zu bytes, at most %llu",
                       fg_rpc_kind_of(call->method)->name, call->head.len + call->payload.len,
                       (unsigned long long)max);
        fg_call_refuse(call, FG_E_TOO_LARGE, text);
    } else if (size > FG_RPC_WHOLE_MAX_BYTES) {
        fg_split_send(call, &frame);
    } else {
        peer->ops->send(peer, call);
    }
}

void fg_call_done(struct fg_peer *peer, struct fg_call *call)
{
    peer->ops->release(call);
    fg_reply_fetch_free(fg_take(call->fetch));
    fg_split_free(fg_take(call->split));
    atomic_fetch_sub(&peer->calls, 1); /* last: who waits for the last call may destroy the peer */
}

/* --- and back --- */

static void run_done(struct fg_msg *msg)
{
    struct fg_call *call = fg_container(msg, struct fg_call, msg);

    call->done(call);
}

void fg_call_end(struct fg_call *call)
{
    if (!call->single)
        fg_peer_metrics_call(call->peer->metrics, call->code,
                             fg_mono_ns(fg_clock_real()) - call->begun_mono_ns);
    if (call->home == NULL) {
        call->done(call);
        return;
    }
    call->msg.run = run_done;
    fg_loop_post(call->home, &call->msg); /* from here the call is not ours */
}

void fg_call_deliver(struct fg_call *call)
{
    if (call->code == FG_OK && !call->single)
        fg_reply_fetch_start(call);
    else
        fg_call_end(call);
}

void fg_call_finish(struct fg_call *call)
{
    note_answer(call);
    fg_call_deliver(call);
}

static void fill_failure(struct fg_call *call, enum fg_code code, const char *text)
{
    call->transport = NULL;
    call->reply_head = call->reply_payload = (struct fg_slice){NULL, 0};
    call->code = fg_fail(&call->err, code, "%s", text);
}

void fg_call_fail(struct fg_call *call, enum fg_code code, const char *text)
{
    fill_failure(call, code, text);
    fg_call_finish(call);
}

void fg_call_refuse(struct fg_call *call, enum fg_code code, const char *text)
{
    fill_failure(call, code, text);
    fg_call_end(call);
}

void fg_call_read_reply(struct fg_call *call, struct fg_slice bytes)
{
    struct fg_rpc_frame frame = {0};

    call->reply_head = call->reply_payload = (struct fg_slice){NULL, 0};
    if (fg_rpc_frame_decode(bytes, &frame, &call->err) != FG_OK) {
        /* Not the code of the decoder, which would blame the request: the caller would not ask
         * another replica, and a client would drop its profiles. */
        call->err.code = FG_E_UNAVAILABLE;
        call->code = fg_wrap(&call->err, "not a reply of a service of flamegrid");
        return;
    }
    call->code = fg_code_from_grpc(frame.kind);
    if (call->code != FG_OK) {
        (void)fg_fail(&call->err, call->code, "%.*s", FG_S(frame.head));
        return;
    }
    call->reply_head = frame.head;
    call->reply_payload = frame.payload;
    call->rest_key = frame.key;
    call->rest_bytes = frame.left;
}

/* --- waiting --- */

struct call_waiter {
    struct fg_msg msg; /* its place in each call, which is not posted anywhere */
    sem_t ended;
};

static void wake_waiter(struct fg_call *call)
{
    fg_assert(sem_post(&fg_container(call->msg.next, struct call_waiter, msg)->ended) == 0);
}

void fg_peer_call_all(struct fg_peer *const *peers, struct fg_call *calls, unsigned n)
{
    struct call_waiter waiter;

    fg_assert(sem_init(&waiter.ended, 0, 0) == 0);
    for (unsigned i = 0; i < n; i++) {
        calls[i].home = NULL;
        calls[i].done = wake_waiter;
        calls[i].msg.next = &waiter.msg;
        fg_peer_send(peers[i], &calls[i]);
    }
    for (unsigned i = 0; i < n; i++)
        while (sem_wait(&waiter.ended) != 0)
            continue; /* EINTR */
    (void)sem_destroy(&waiter.ended);
}

enum fg_code fg_peer_call(struct fg_peer *peer, struct fg_call *call)
{
    fg_peer_call_all(&peer, call, 1);
    return call->code;
}

enum fg_code fg_peer_wait(struct fg_peer *peer, int64_t timeout_ns, struct fg_err *err)
{
    const struct timespec pause = {.tv_nsec = 10 * FG_MS_NS};
    int64_t deadline_mono_ns = fg_mono_ns(fg_clock_real()) + timeout_ns;

    for (;;) {
        struct fg_call call = {.method = FG_RPC_PING, .deadline_mono_ns = deadline_mono_ns};
        enum fg_code code = fg_peer_call(peer, &call);

        *err = call.err;
        fg_call_done(peer, &call);
        if (code == FG_OK)
            return FG_OK;
        if (fg_mono_ns(fg_clock_real()) >= deadline_mono_ns)
            return fg_fail(err, FG_E_DEADLINE, "no response to a ping within %lld ms",
                           (long long)(timeout_ns / FG_MS_NS));
        (void)nanosleep(&pause, NULL);
    }
}
