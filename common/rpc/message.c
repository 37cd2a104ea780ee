#include "common/rpc/message.h"

#include "common/base/cursor.h"
#include "common/base/time.h"

#include <semaphore.h>

enum { DEADLINE_MAX_MS = 24 * 3600 * 1000 }; /* keeps a stranger's number from overflowing */

static const char magic[4] = {'F', 'G', 'R', '1'};

size_t fg_rpc_frame_size(const struct fg_rpc_frame *frame)
{
    size_t room = FG_RPC_MESSAGE_MAX_BYTES - FG_RPC_FRAME_BYTES;

    if (frame->head.len > room || frame->payload.len > room - frame->head.len)
        return 0;
    return FG_RPC_FRAME_BYTES + frame->head.len + frame->payload.len;
}

static uint8_t *put_le(uint8_t *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *out++ = (uint8_t)(value >> (8 * i));
    return out;
}

static uint8_t *put_slice(uint8_t *out, struct fg_slice bytes)
{
    if (bytes.len > 0)
        memcpy(out, bytes.ptr, bytes.len);
    return out + bytes.len;
}

void fg_rpc_frame_encode(const struct fg_rpc_frame *frame, uint8_t *out)
{
    memcpy(out, magic, sizeof magic);
    out = put_le(out + sizeof magic, frame->kind, 4); /* with the three zero bytes */
    out = put_le(out, (uint64_t)frame->left_ms, 8);
    out = put_le(out, frame->head.len, 4);
    out = put_slice(out, frame->head);
    (void)put_slice(out, frame->payload);
}

enum fg_code fg_rpc_frame_decode(struct fg_slice bytes, struct fg_rpc_frame *ret_frame,
                                 struct fg_err *err)
{
    struct fg_cur cur = fg_cur(bytes);
    struct fg_rpc_frame frame;
    struct fg_slice seen = fg_cur_take(&cur, sizeof magic);
    uint32_t kind = fg_cur_le32(&cur);

    if (!fg_slice_eq(seen, fg_bytes(magic, sizeof magic)))
        return fg_fail(err, FG_E_INVALID, "not a message of protocol FGR1 (%zu bytes)", bytes.len);
    frame.left_ms = (int64_t)fg_cur_le64(&cur);
    frame.head = fg_cur_take(&cur, fg_cur_le32(&cur));
    if (cur.bad)
        return fg_fail(err, FG_E_INVALID, "message cut short in %zu bytes", bytes.len);
    /* A later version that gives them a meaning cannot be understood by halves. */
    if (kind > UINT8_MAX)
        return fg_fail(err, FG_E_INVALID, "message with unknown flags %06x", kind >> 8);
    frame.kind = (uint8_t)kind;
    frame.payload = fg_cur_take(&cur, cur.left);
    *ret_frame = frame;
    return FG_OK;
}

int64_t fg_rpc_left_ms(int64_t deadline_mono_ns)
{
    int64_t left_ns = deadline_mono_ns - fg_mono_ns(fg_clock_real());

    return left_ns <= 0 ? 0 : (left_ns - 1) / FG_MS_NS + 1;
}

int64_t fg_rpc_deadline_from(int64_t left_ms)
{
    left_ms = FG_MAX(FG_MIN(left_ms, (int64_t)DEADLINE_MAX_MS), INT64_C(0));
    return fg_mono_ns(fg_clock_real()) + left_ms * FG_MS_NS;
}

/* --- how a call ends --- */

static void run_done(struct fg_msg *msg)
{
    struct fg_call *call = fg_container(msg, struct fg_call, msg);

    call->done(call);
}

void fg_call_finish(struct fg_call *call)
{
    if (call->home == NULL) {
        call->done(call);
        return;
    }
    call->msg.run = run_done;
    fg_loop_post(call->home, &call->msg); /* from here the call is not ours */
}

void fg_call_fail(struct fg_call *call, enum fg_code code, const char *text)
{
    call->transport = NULL;
    call->reply_head = call->reply_payload = (struct fg_slice){NULL, 0};
    call->code = fg_fail(&call->err, code, "%s", text);
    fg_call_finish(call);
}

void fg_call_read_reply(struct fg_call *call, struct fg_slice bytes)
{
    struct fg_rpc_frame frame = {0};

    call->reply_head = call->reply_payload = (struct fg_slice){NULL, 0};
    call->code = fg_rpc_frame_decode(bytes, &frame, &call->err);
    if (call->code != FG_OK) {
        (void)fg_wrap(&call->err, "reply");
        return;
    }
    call->code = fg_code_from_grpc(frame.kind);
    if (call->code != FG_OK) {
        (void)fg_fail(&call->err, call->code, "%.*s", FG_S(frame.head));
        return;
    }
    call->reply_head = frame.head;
    call->reply_payload = frame.payload;
}

/* --- waiting for one --- */

struct waiter {
    struct fg_msg msg; /* its place in the call, which is not posted anywhere */
    sem_t ended;
};

static void wake_waiter(struct fg_call *call)
{
    fg_assert(sem_post(&fg_container(call->msg.next, struct waiter, msg)->ended) == 0);
}

enum fg_code fg_peer_call(struct fg_peer *peer, struct fg_call *call)
{
    struct waiter waiter;

    fg_assert(sem_init(&waiter.ended, 0, 0) == 0);
    call->home = NULL;
    call->done = wake_waiter;
    call->msg.next = &waiter.msg;
    fg_peer_send(peer, call);
    while (sem_wait(&waiter.ended) != 0)
        continue; /* EINTR */
    (void)sem_destroy(&waiter.ended);
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
            return fg_fail(err, FG_E_DEADLINE, "no answer to a ping in %lld ms",
                           (long long)(timeout_ns / FG_MS_NS));
        (void)nanosleep(&pause, NULL);
    }
}
