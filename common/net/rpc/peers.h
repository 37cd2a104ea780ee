/*
 * Peers by address. Members of a cluster come and go: a peer is dialled when its address is first
 * asked for, and closed when nobody has had it in hand for a while and no call is under way.
 *
 * Sockets are opened and closed one after another (nng's wish); closing is done by a thread of the
 * pool's own, since it waits for callbacks.
 */
#ifndef FG_COMMON_NET_RPC_PEERS_H
#define FG_COMMON_NET_RPC_PEERS_H

#include "common/net/rpc/rpc.h"

struct fg_peers;

struct fg_peers_config {
    struct fg_rpc *rpc; /* borrowed; NULL as for fg_peer_dial() */
    unsigned calls_max; /* of each peer */
    unsigned peers_max;
    int64_t idle_ns; /* how long one stays that nobody uses; 0: only fg_peers_sweep() closes any */
};

struct fg_peers *fg_peers_create(const struct fg_peers_config *config);
/* None is in hand and no call under way. NULL is fine. */
void fg_peers_destroy(struct fg_peers *peers);

/*
 * The peer at the address, in hand until it is put back; calls under way keep it too. One for each
 * address, whoever asks. A new one may take some milliseconds to make, and the place of one that is
 * idle: not from a loop, nor from a done() without a home. FG_E_LIMIT: as many as there may be are
 * in use; else as fg_peer_dial().
 */
enum fg_code fg_peers_get(struct fg_peers *peers, const char *url, struct fg_peer **ret_peer,
                          struct fg_err *err) fg_must_check;
/* Any thread. */
void fg_peers_put(struct fg_peers *peers, struct fg_peer *peer);

/* Closes those that nobody uses, however short that has been. As for get. */
void fg_peers_sweep(struct fg_peers *peers);

/* How many there are, used or not. */
unsigned fg_peers_count(struct fg_peers *peers);

#endif
