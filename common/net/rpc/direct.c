/*
 * A peer that calls a server's handlers on the caller's thread, through the same frames as a socket
 * would: no threads, no time, for tests and the simulator. Handlers may still reply later.
 */
#include "common/net/rpc/call.h"
#include "common/net/rpc/request.h"

struct direct {
    struct fg_peer peer;
    struct fg_rpc_server *server; /* borrowed */
};

struct direct_request {
    struct fg_rpc_request req;
    struct fg_call *call;
    uint8_t bytes[]; /* the frame */
};

static void direct_reply(struct fg_rpc_request *base, const struct fg_rpc_frame *frame)
{
    struct direct_request *req = fg_container(base, struct direct_request, req);
    struct fg_call *call = req->call;

    call->transport = fg_malloc(fg_rpc_frame_size(frame));
    fg_rpc_frame_encode(frame, call->transport);
    fg_rpc_request_done(base); /* after the copy: the reply may be made of the request */
    free(req);
    fg_call_read_reply(call, fg_bytes(call->transport, fg_rpc_frame_size(frame)));
    fg_call_finish(call);
}

static void direct_send(struct fg_peer *base, struct fg_call *call)
{
    struct direct *direct = fg_container(base, struct direct, peer);
    struct fg_rpc_frame frame = fg_call_frame(call, fg_rpc_server_cluster(direct->server));
    size_t size = fg_rpc_frame_size(&frame);
    struct direct_request *req;

    if (size == 0) {
        fg_call_refuse(call, FG_E_TOO_LARGE, "the request exceeds the message size limit");
        return;
    }
    req = fg_calloc(1, sizeof *req + size);
    req->req.reply = direct_reply;
    req->call = call;
    fg_rpc_frame_encode(&frame, req->bytes);
    fg_rpc_dispatch(direct->server, &req->req, fg_bytes(req->bytes, size));
}

static void direct_release(struct fg_call *call)
{
    free(call->transport);
    call->transport = NULL;
}

static void direct_destroy(struct fg_peer *base)
{
    free(fg_container(base, struct direct, peer));
}

struct fg_peer *fg_peer_direct(struct fg_rpc_server *server)
{
    static const struct fg_peer_ops ops = {direct_send, direct_release, direct_destroy};
    struct direct *direct = fg_new(struct direct);

    direct->peer.ops = &ops;
    direct->server = server;
    return &direct->peer;
}
