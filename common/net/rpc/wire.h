/*
 * What peer and server share of nng. nng's error numbers stay within these files.
 */
#ifndef FG_COMMON_NET_RPC_WIRE_H
#define FG_COMMON_NET_RPC_WIRE_H

#include "common/net/rpc/call.h"
#include "common/net/rpc/connections.h"

#include <nng/nng.h>

/* Set the options of a new dialer or listener. Return nng's error number, or 0. */
int fg_wire_tune_dialer(nng_dialer dialer);
int fg_wire_tune_listener(nng_listener listener);

/* Returns a message with a copy of the frame; NULL: the frame exceeds the maximum. */
nng_msg *fg_wire_msg(const struct fg_rpc_frame *frame);

/* Returns the bytes of a message, borrowed. */
struct fg_slice fg_wire_bytes(nng_msg *msg);

/* Returns the code for an error number of nng. */
enum fg_code fg_wire_code(int rv);

/* Returns true at most once every ten seconds, for warnings that strangers can cause. */
bool fg_wire_may_say(_Atomic int64_t *quiet_until_mono_ns);

/* Returns the remote address of a connection; zeros if it is in the same process. */
struct fg_connection_address fg_wire_address(nng_pipe pipe);

/* Returns how many connections to this process nng has closed because too many had no complete
 * greeting, or TLS handshake, at the same time. */
uint64_t fg_wire_greetings_refused(void);

/* Returns FG_OK for 0, else the code with nng's own message. */
enum fg_code fg_wire_check(int rv, struct fg_err *err) fg_must_check;

#endif
