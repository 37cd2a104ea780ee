/*
 * A pool of peers by address. Members of a cluster come and go: a peer is dialed when its address
 * is first requested, and closed when it was not referenced for a while and no call is in flight.
 *
 * Sockets are opened and closed one at a time, as nng requires. A thread of the pool closes them,
 * because closing waits for callbacks.
 *
 * Thread: any, except as said below.
 */
#ifndef FG_COMMON_NET_RPC_PEERS_H
#define FG_COMMON_NET_RPC_PEERS_H

#include "common/base/time.h"
#include "common/net/rpc/rpc.h"

struct fg_peers;

/*
 * How long services keep the unused peer of one that may be gone: longer than the minute between
 * two repairs or two refreshes of a dashboard. Within it and a quarter more the peer's metrics
 * disappear, before five minutes without a connection are an alert (FlamegridMemberAway in
 * deploy/prometheus/alerts.yaml).
 */
#define FG_PEERS_IDLE_NS (2 * FG_MINUTE_NS)

struct fg_peers_config {
    struct fg_rpc *rpc; /* borrowed; NULL as for fg_peer_dial() */
    unsigned calls_max; /* in flight, per peer */
    unsigned peers_max;
    int64_t idle_ns; /* how long an unused peer stays open; 0: until fg_peers_sweep() */
};

/* Creates an empty pool and its thread. Never fails. */
struct fg_peers *fg_peers_create(const struct fg_peers_config *config);
/* Closes all peers. No peer is referenced and no call is in flight. NULL is fine. */
void fg_peers_destroy(struct fg_peers *peers);

/*
 * Returns a reference to the peer at an address, the same for all callers. Release it with
 * fg_peers_put(); calls in flight keep the peer open, too. Creating a new peer may take some
 * milliseconds and may close an idle one: do not call this from a loop, or from a done() without a
 * home. FG_E_LIMIT: peers_max peers are in use; other errors as for fg_peer_dial().
 */
enum fg_code fg_peers_get(struct fg_peers *peers, const char *url, struct fg_peer **ret_peer,
                          struct fg_err *err) fg_must_check;
/* Releases a reference. */
void fg_peers_put(struct fg_peers *peers, struct fg_peer *peer);

/* Closes all unused peers now. Not from the threads that fg_peers_get() excludes. */
void fg_peers_sweep(struct fg_peers *peers);

/* Returns the number of open peers, used or not. */
unsigned fg_peers_count(struct fg_peers *peers);

#endif
