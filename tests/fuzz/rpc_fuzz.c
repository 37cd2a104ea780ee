/*
 * Messages between services, from either end. The input is messages, each a little-endian length of
 * 16 bits and so many bytes: each is a request to a server, and all of them, one after another, are
 * the replies that a caller gets, who asks for as much of an answer as its limit lets it.
 */
#include "common/base/cursor.h"
#include "common/base/time.h"
#include "common/rpc/call.h"
#include "common/rpc/request.h"

enum { REPLY_MAX_BYTES = 64 * 1024 };

static const int64_t PATIENCE_NS = 60 * FG_SECOND_NS;

/* Whatever is taken for a frame is written back as it was. */
static void check_frame(struct fg_slice bytes)
{
    struct fg_rpc_frame frame;
    struct fg_err err;
    uint8_t *again;

    if (fg_rpc_frame_decode(bytes, &frame, &err) != FG_OK)
        return;
    fg_assert(fg_rpc_frame_size(&frame) == bytes.len);
    again = fg_malloc(bytes.len);
    fg_rpc_frame_encode(&frame, again);
    fg_assert(fg_slice_eq(bytes, fg_bytes(again, bytes.len)));
    free(again);
}

/* --- as requests --- */

static void echo(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    fg_assert(fg_rpc_deadline_mono_ns(req) > 0);
    fg_rpc_reply(req, fg_rpc_head(req), fg_rpc_payload(req));
}

struct asked {
    struct fg_rpc_request req;
    unsigned replies;
};

static void count_reply(struct fg_rpc_request *req, const struct fg_rpc_frame *frame)
{
    fg_assert(fg_rpc_frame_size(frame) != 0);
    fg_rpc_request_done(req);
    fg_container(req, struct asked, req)->replies++;
}

static void serve(struct fg_rpc_server *server, struct fg_slice bytes)
{
    struct asked asked = {.req.reply = count_reply};

    fg_rpc_dispatch(server, &asked.req, bytes);
    fg_assert(asked.replies == 1);
}

/* --- as replies --- */

struct replayer {
    struct fg_peer peer;
    struct fg_cur messages;
};

static bool next_message(struct fg_cur *cur, struct fg_slice *ret_bytes)
{
    uint64_t low = fg_cur_u8(cur), high = fg_cur_u8(cur);

    *ret_bytes = fg_cur_take(cur, low | high << 8);
    return !cur->bad;
}

static void replay(struct fg_peer *base, struct fg_call *call)
{
    struct replayer *replayer = fg_container(base, struct replayer, peer);
    struct fg_slice bytes;

    if (!next_message(&replayer->messages, &bytes)) {
        fg_call_fail(call, FG_E_UNAVAILABLE, "no more");
        return;
    }
    fg_call_read_reply(call, bytes);
    fg_call_finish(call);
}

static void forget(struct fg_call *call)
{
    (void)call;
}

static bool take_part(struct fg_call *call, struct fg_slice part)
{
    (void)call;
    return part.len != 7; /* some number that ends it */
}

static void call(struct fg_slice in, bool (*on_part)(struct fg_call *call, struct fg_slice part))
{
    static const struct fg_peer_ops ops = {replay, forget, NULL};
    struct replayer replayer = {.peer.ops = &ops, .messages = fg_cur(in)};
    struct fg_call call = {.method = FG_RPC_SELECT,
                           .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + PATIENCE_NS,
                           .reply_max_bytes = REPLY_MAX_BYTES,
                           .on_part = on_part};

    if (fg_peer_call(&replayer.peer, &call) == FG_OK)
        fg_assert(call.reply_payload.len <= REPLY_MAX_BYTES);
    else
        fg_assert(call.err.code == call.code && call.reply_payload.len == 0);
    fg_call_done(&replayer.peer, &call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fg_rpc_server *server;
    struct fg_slice in = fg_bytes(data, size), bytes;
    struct fg_cur cur = fg_cur(in);

    if (server == NULL) {
        server = fg_rpc_server_create(NULL, 1);
        fg_rpc_server_handle(server, FG_RPC_PUSH, echo, NULL);
    }
    while (next_message(&cur, &bytes)) {
        check_frame(bytes);
        serve(server, bytes);
    }
    call(in, NULL);
    call(in, take_part);
    return 0;
}
