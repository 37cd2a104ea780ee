/*
 * Is a peer that says nothing still there? A machine that vanishes, without a word from TCP, leaves
 * a connection behind that the kernel gives up after a quarter of an hour. Until then the dialer
 * neither connects again nor asks for the name's address, though the peer may long be elsewhere.
 *
 * So who has been asked and gives no answer at all, to nobody, for a while (rpc.ping_after) gets a
 * PING, which a server answers beside its slowest calls; and if nothing comes in rpc.ping_timeout
 * either, the connection is closed. What is under way on it fails with FG_E_UNAVAILABLE, and the
 * dialer goes on. A server with all its requests at work for as long looks the same.
 *
 * What was asked and answered it takes from the peer's health: nothing is counted twice, and a PING
 * changes nothing there, since it says nothing about how calls go.
 *
 * Thread: any; the looking is done on nng's.
 */
#ifndef FG_COMMON_RPC_SILENCE_H
#define FG_COMMON_RPC_SILENCE_H

#include "common/rpc/rpc.h"

#include <nng/nng.h>

struct fg_silence;

/* All borrowed until destroy. */
struct fg_silence_config {
    struct fg_peer *peer;
    const char *url; /* for the log */
    nng_socket socket;
    uint64_t cluster;
    int64_t after_ns;   /* of silence; > 0. Found out within half as much again */
    int64_t timeout_ns; /* of the PING; > 0 */
};

/* nng's number; 0: *ret_silence is set. Where functions below take one NULL is fine. */
int fg_silence_create(const struct fg_silence_config *config, struct fg_silence **ret_silence);

/* The connection that there is from now on. */
void fg_silence_connected(struct fg_silence *silence, nng_pipe pipe);

/* Begins to look; once. */
void fg_silence_start(struct fg_silence *silence);
/* Waits for its callback: not on an nng thread, and before the socket is closed. */
void fg_silence_stop(struct fg_silence *silence);
/* After stop, and after the socket was closed. */
void fg_silence_destroy(struct fg_silence *silence);

#endif
