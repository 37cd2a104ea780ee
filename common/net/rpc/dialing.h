/*
 * Connects a socket to an address, and reconnects whenever the connection is lost.
 *
 * nng's dialer does that too, but an attempt has no time limit of its own. If the address drops
 * packets (a dead machine, a partition), the kernel repeats its SYN after 1, 3, 7, 15 ... seconds;
 * if the process there is stopped, its kernel accepts and nng waits 10 s for the greeting. A peer
 * that comes back is noticed only after that. So two dialers try in parallel while there is no
 * connection: a patient one, for slow name servers and handshakes, and a quick one that abandons an
 * attempt after a second and starts the next. The first connection wins, and the other dialer is
 * closed.
 *
 * Thread: any, except as said at fg_dialing_stop().
 */
#ifndef FG_COMMON_NET_RPC_DIALING_H
#define FG_COMMON_NET_RPC_DIALING_H

#include "common/net/rpc/rpc.h"

#include <nng/nng.h>

struct fg_dialing;

struct fg_dialing_config {
    struct fg_rpc *rpc; /* borrowed; may be NULL */
    const char *url;    /* borrowed */
    nng_socket socket;
    const atomic_uint *connections; /* number of connections of the socket; borrowed */
};

/* Creates it; fg_dialing_start() begins to connect. Never fails. */
struct fg_dialing *fg_dialing_create(const struct fg_dialing_config *config);

/* Begins to connect in the background. Fails if the address or the certificates are invalid. */
enum fg_code fg_dialing_start(struct fg_dialing *dialing, struct fg_err *err) fg_must_check;

/* Notes which of the two dialers made a new connection. Call it from nng's notification, before the
 * connection is counted. */
void fg_dialing_connected(struct fg_dialing *dialing, nng_pipe pipe);

/* Notes that a connection has ended, and how long it was used; 0: not at all. Call it from nng's
 * notification. One that was short delays the next attempt: the other side may have as many as it
 * takes, or be no service of this cluster. */
void fg_dialing_ended(nng_pipe pipe, int64_t lasted_ns);

/* Stops connecting. Call it before the socket is closed, and not from an nng thread: it may wait
 * for nng's callbacks. Accepts NULL, and one that was not started. */
void fg_dialing_stop(struct fg_dialing *dialing);
/* Frees it. Call it after the socket was closed. Accepts NULL. */
void fg_dialing_destroy(struct fg_dialing *dialing);

#endif
