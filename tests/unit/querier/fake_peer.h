/* Provides an ingester that answers each call at once as the test has set it, and records the
 * requests. One query at a time. */
#ifndef FG_TESTS_UNIT_QUERIER_FAKE_PEER_H
#define FG_TESTS_UNIT_QUERIER_FAKE_PEER_H

#include "common/net/rpc/rpc.h"

struct fake_peer {
    struct fg_rpc_server *server;
    struct fg_buf heads[FG_RPC_METHODS];    /* of replies; empty: a message with default values */
    struct fg_buf payloads[FG_RPC_METHODS]; /* of replies */
    struct fg_buf asked[FG_RPC_METHODS];    /* the last request head */
    unsigned calls[FG_RPC_METHODS];
    enum fg_code code; /* other than FG_OK: every call fails with it */
};

/* At the address. */
void fake_peer_init(struct fake_peer *peer, const char *url);
void fake_peer_done(struct fake_peer *peer);
void fake_peer_forget(struct fake_peer *peer); /* replies, calls and code */

#endif
