/*
 * An ingester that answers each call at once with what the test put there, and remembers what it
 * was asked. One query at a time.
 */
#ifndef FG_TESTS_UNIT_QUERIER_FAKE_PEER_H
#define FG_TESTS_UNIT_QUERIER_FAKE_PEER_H

#include "common/net/rpc/rpc.h"

struct fake_peer {
    struct fg_rpc_server *server;
    struct fg_buf heads[FG_RPC_METHODS];    /* of replies; empty is a message of defaults */
    struct fg_buf payloads[FG_RPC_METHODS]; /* of replies */
    struct fg_buf asked[FG_RPC_METHODS];    /* the last head it got */
    unsigned calls[FG_RPC_METHODS];
    enum fg_code code; /* other than FG_OK: every call fails so */
};

/* At the address. */
void fake_peer_init(struct fake_peer *peer, const char *url);
void fake_peer_done(struct fake_peer *peer);
void fake_peer_forget(struct fake_peer *peer); /* replies, calls and code */

#endif
