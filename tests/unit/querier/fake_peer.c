#include "tests/unit/querier/fake_peer.h"

static void answer(struct fg_rpc_request *req, void *arg)
{
    struct fake_peer *peer = arg;
    enum fg_rpc_method method = fg_rpc_method(req);
    struct fg_err err;

    peer->calls[method]++;
    fg_buf_clear(&peer->asked[method]);
    fg_buf_put(&peer->asked[method], fg_rpc_head(req));
    if (peer->code != FG_OK) {
        (void)fg_fail(&err, peer->code, "fake peer was told to fail");
        fg_rpc_reply_error(req, &err);
    } else {
        fg_rpc_reply(req, fg_buf_slice(&peer->heads[method]),
                     fg_buf_slice(&peer->payloads[method]));
    }
}

void fake_peer_init(struct fake_peer *peer, const char *url)
{
    struct fg_err err;

    *peer = (struct fake_peer){.server = fg_rpc_server_create(NULL, 4)};
    for (size_t i = 0; i < FG_RPC_METHODS; i++) {
        fg_buf_init(&peer->heads[i], SIZE_MAX);
        fg_buf_init(&peer->payloads[i], SIZE_MAX);
        fg_buf_init(&peer->asked[i], SIZE_MAX);
    }
    for (enum fg_rpc_method method = FG_RPC_SELECT; method <= FG_RPC_STATS; method++)
        fg_rpc_server_handle(peer->server, method, answer, peer);
    if (fg_rpc_server_start(peer->server, url, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
}

void fake_peer_done(struct fake_peer *peer)
{
    fg_rpc_server_stop(peer->server);
    fg_rpc_server_destroy(peer->server);
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
