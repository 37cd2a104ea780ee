/*
 * Connects a socket to an address, and again whenever it has no connection.
 *
 * nng's dialer does that too, but knows no time limit of its own. An address that swallows packets
 * (a dead machine, a partition) makes the kernel repeat its SYN after 1, 3, 7, 15 ... seconds; a
 * stopped process accepts and does not greet, which nng bears for 10 s. Whoever comes back
 * meanwhile is found only then. So two dialers try while there is no connection: a patient one, for
 * slow name servers and handshakes, and a quick one that begins anew every second if no attempt
 * ends by itself. The first connection wins, and the other dialer is closed.
 *
 * Thread: any, but see stop.
 */
#ifndef FG_COMMON_RPC_DIALING_H
#define FG_COMMON_RPC_DIALING_H

#include "common/rpc/rpc.h"

#include <nng/nng.h>

struct fg_dialing;

struct fg_dialing_config {
    struct fg_rpc *rpc; /* borrowed; NULL */
    const char *url;    /* borrowed */
    nng_socket socket;
    const atomic_uint *connections; /* how many the socket has */
};

/* Does nothing yet. Never fails. */
struct fg_dialing *fg_dialing_create(const struct fg_dialing_config *config);

/* Begins to connect in the background. Fails where the address or the certificates cannot be used
 * at all. */
enum fg_code fg_dialing_start(struct fg_dialing *dialing, struct fg_err *err) fg_must_check;

/* Notes to whom the newest connection belongs. From nng's notification, before it is counted. */
void fg_dialing_connected(struct fg_dialing *dialing, nng_pipe pipe);

/* Ends connecting, before the socket is closed. May wait for nng: not on an nng thread. NULL, and
 * one that was not started, are fine. */
void fg_dialing_stop(struct fg_dialing *dialing);
/* Frees it, after the socket was closed. NULL is fine. */
void fg_dialing_destroy(struct fg_dialing *dialing);

#endif
