/*
 * Messages between services, from either end. The input is messages, each a little-endian length of
 * 16 bits and so many bytes: each is a request to a server, and all of them, one after another, are
 * the replies that a caller gets, who asks for as much of an answer as its limit lets it. Each is
 * also a part of a small request: u8 connection, u8 key, u8 offset, u8 total, bytes. All of the
 * input is a file with secrets.
 */
#include "common/base/cursor.h"
#include "common/base/time.h"
#include "common/net/rpc/call.h"
#include "common/net/rpc/request.h"
#include "common/net/rpc/secret.h"

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

static bool next_message(struct fg_cur *cur, struct fg_slice *ret_bytes)
{
    uint64_t low = fg_cur_u8(cur), high = fg_cur_u8(cur);

    *ret_bytes = fg_cur_take(cur, low | high << 8);
    return !cur->bad;
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

/* --- as parts of requests --- */

enum { PARTS_BUDGET_BYTES = 300 };

/* What comes whole is what was sent, and nothing is charged that is not there. */
static void add_part(struct fg_chunked_requests *parts, struct fg_budget *budget,
                     struct fg_slice message, int64_t now_ns)
{
    struct fg_cur cur = fg_cur(message);
    struct fg_request_part part = {.owner = fg_cur_u8(&cur), .key = fg_cur_u8(&cur)};
    struct fg_whole_request *whole;
    struct fg_err err;

    part.offset = fg_cur_u8(&cur);
    part.total = fg_cur_u8(&cur);
    part.bytes = fg_cur_take(&cur, cur.left);
    part.deadline_mono_ns = now_ns + PATIENCE_NS;
    if (fg_chunked_requests_add(parts, &part, now_ns, &whole, &err) != FG_OK || whole == NULL) {
        fg_assert(fg_budget_used(budget) <= PARTS_BUDGET_BYTES);
        return;
    }
    fg_assert(fg_whole_request_bytes(whole).len == part.total);
    fg_assert(fg_slice_eq(fg_slice_sub(fg_whole_request_bytes(whole), part.offset, SIZE_MAX),
                          part.bytes));
    fg_whole_request_free(whole);
}

static void join_parts(struct fg_slice in)
{
    struct fg_budget budget;
    struct fg_chunked_requests *parts;
    struct fg_cur cur = fg_cur(in);
    struct fg_slice message;
    int64_t now_ns = 0;

    fg_budget_init(&budget, PARTS_BUDGET_BYTES);
    parts = fg_chunked_requests_create(&budget);
    while (next_message(&cur, &message)) {
        now_ns += FG_SECOND_NS;
        if (message.len == 1)
            fg_chunked_requests_drop_owner(parts, message.ptr[0]);
        else
            add_part(parts, &budget, message, now_ns);
    }
    fg_chunked_requests_sweep(parts, INT64_MAX);
    fg_assert(fg_budget_used(&budget) == 0);
    fg_chunked_requests_destroy(parts);
}

/* --- as secrets --- */

static void read_secrets(struct fg_slice in)
{
    struct fg_pem_file file = {.setting = "rpc.secret_file", .path = "secret"};
    struct fg_secret secret;
    struct fg_err err;

    fg_buf_init(&file.content, in.len + 1);
    fg_buf_put(&file.content, in);
    if (fg_secret_read(&file, &secret, &err) == FG_OK) {
        fg_assert(secret.n > 0 && secret.n <= FG_SECRETS_MAX);
        for (size_t i = 0; i < secret.n; i++)
            fg_assert(strlen(secret.keys[i].identity) == FG_SECRET_IDENTITY_BYTES - 1);
        fg_secret_done(&secret);
    }
    fg_pem_done(&file);
}

/* --- as replies --- */

struct replayer {
    struct fg_peer peer;
    struct fg_cur messages;
};

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
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);
    struct fg_slice in = fg_bytes(data, size), bytes;
    struct fg_cur cur = fg_cur(in);

    fg_rpc_server_handle(server, FG_RPC_PUSH, echo, NULL);
    while (next_message(&cur, &bytes)) {
        check_frame(bytes);
        serve(server, bytes);
    }
    fg_rpc_server_destroy(server);
    join_parts(in);
    read_secrets(in);
    call(in, NULL);
    call(in, take_part);
    return 0;
}
