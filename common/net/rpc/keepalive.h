/*
 * Keep-alive of a peer's connection. If a machine vanishes without closing its connections, the
 * kernel gives a connection up only after a quarter of an hour. Until then the dialer neither
 * reconnects nor resolves the name again, although the peer may run elsewhere by now.
 *
 * So if calls are under way and none of them was answered for rpc.ping_after, this sends a PING,
 * which a server answers even while slow calls run. If no reply arrives within rpc.ping_timeout,
 * the connection is closed: calls under way fail with FG_E_UNAVAILABLE, and the dialer reconnects.
 * A server that has all its request slots busy for that long is treated the same.
 *
 * Calls and answers are counted in the peer's health, so nothing is counted twice. A PING does not
 * change the health, because it says nothing about how calls do.
 *
 * Thread: any; checks run on nng's threads.
 */
#ifndef FG_COMMON_NET_RPC_KEEPALIVE_H
#define FG_COMMON_NET_RPC_KEEPALIVE_H

#include "common/net/rpc/rpc.h"

#include <nng/nng.h>

struct fg_keepalive;

/* All borrowed until destroy. */
struct fg_keepalive_config {
    struct fg_peer *peer;
    const char *url; /* for the log */
    nng_socket socket;
    uint64_t cluster;
    int64_t after_ns;   /* without an answer; > 0. Detected after at most 1.5 times this */
    int64_t timeout_ns; /* of the PING; > 0 */
};

/* Returns 0 and sets *ret_keepalive, or returns nng's error. The functions below accept NULL. */
int fg_keepalive_create(const struct fg_keepalive_config *config,
                        struct fg_keepalive **ret_keepalive);

/* Tells which connection to watch from now on. */
void fg_keepalive_connected(struct fg_keepalive *keepalive, nng_pipe pipe);

/* Starts the checks; once. */
void fg_keepalive_start(struct fg_keepalive *keepalive);
/* Stops the checks and waits for a callback under way: call it before the socket is closed, and not
 * from an nng thread. */
void fg_keepalive_stop(struct fg_keepalive *keepalive);
/* Frees it. Call it after fg_keepalive_stop(), when the socket was closed. */
void fg_keepalive_destroy(struct fg_keepalive *keepalive);

#endif
