/*
 * What peer and server share of nng. nng's numbers go no further than these files.
 */
#ifndef FG_COMMON_NET_RPC_WIRE_H
#define FG_COMMON_NET_RPC_WIRE_H

#include "common/net/rpc/call.h"
#include "common/net/rpc/connections.h"

#include <nng/nng.h>

/* Options of a dialer (at creation) or listener are set by these two. */
int fg_wire_tune_dialer(nng_dialer dialer);
int fg_wire_tune_listener(nng_listener listener);

/* A message holding the frame, in one copy; NULL: larger than a message may be. */
nng_msg *fg_wire_msg(const struct fg_rpc_frame *frame);

struct fg_slice fg_wire_bytes(nng_msg *msg);

enum fg_code fg_wire_code(int rv);

/* Returns true at most once every ten seconds, for warnings that strangers can cause. */
bool fg_wire_may_say(_Atomic int64_t *quiet_until_mono_ns);

/* Returns the remote address of a connection; zeros if it is in the same process. */
struct fg_connection_address fg_wire_address(nng_pipe pipe);

/* FG_OK for 0, else the code and nng's own words. */
enum fg_code fg_wire_check(int rv, struct fg_err *err) fg_must_check;

#endif
