#include "tests/unit/querier/fake_peer.h"

static void fake_send(struct fg_peer *base, struct fg_call *call)
{
    struct fake_peer *peer = fg_container(base, struct fake_peer, peer);

    peer->calls[call->method]++;
    fg_buf_clear(&peer->asked[call->method]);
    fg_buf_put(&peer->asked[call->method], call->head);
    call->code = peer->code;
    if (peer->code != FG_OK)
        (void)fg_fail(&call->err, peer->code, "fake peer was told to fail");
    call->reply_head = fg_buf_slice(&peer->heads[call->method]);
    call->reply_payload = fg_buf_slice(&peer->payloads[call->method]);
    call->done(call);
}

static void fake_release(struct fg_call *call)
{
    call->reply_head = call->reply_payload = fg_bytes(NULL, 0);
}

static void fake_destroy(struct fg_peer *base)
{
    (void)base;
}

void fake_peer_init(struct fake_peer *peer)
{
    static const struct fg_peer_ops ops = {fake_send, fake_release, fake_destroy};

    *peer = (struct fake_peer){.peer.ops = &ops};
    for (size_t i = 0; i < FG_RPC_METHODS; i++) {
        fg_buf_init(&peer->heads[i], SIZE_MAX);
        fg_buf_init(&peer->payloads[i], SIZE_MAX);
        fg_buf_init(&peer->asked[i], SIZE_MAX);
    }
}

void fake_peer_done(struct fake_peer *peer)
{
    for (size_t i = 0; i < FG_RPC_METHODS; i++) {
        fg_buf_done(&peer->heads[i]);
        fg_buf_done(&peer->payloads[i]);
        fg_buf_done(&peer->asked[i]);
    }
}

void fake_peer_forget(struct fake_peer *peer)
{
    for (size_t i = 0; i < FG_RPC_METHODS; i++) {
        fg_buf_clear(&peer->heads[i]);
        fg_buf_clear(&peer->payloads[i]);
        fg_buf_clear(&peer->asked[i]);
        peer->calls[i] = 0;
    }
    peer->code = FG_OK;
}
