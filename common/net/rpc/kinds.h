/*
 * The kinds of calls: which services may make them, and how large a request may be. The size is
 * that of the whole frame. The caller checks it before sending, and the server at the first part of
 * a request, before it allocates memory for the rest.
 */
#ifndef FG_COMMON_NET_RPC_KINDS_H
#define FG_COMMON_NET_RPC_KINDS_H

#include "common/base/def.h"

#include <stdint.h>

/* The services, as certificates name them ("ingester.flamegrid"). Bits. */
enum fg_rpc_role {
    FG_RPC_DISTRIBUTOR = 1,
    FG_RPC_INGESTER = 2,
    FG_RPC_QUERIER = 4,
    FG_RPC_COMPACTOR = 8,
    FG_RPC_ANY_ROLE = 15,
};

struct fg_rpc_kind {
    const char *name;
    unsigned callers; /* bits of enum fg_rpc_role */
    uint64_t request_max_bytes;
};

/* Returns the kind of a method; NULL: there is no such method. Any thread. */
const struct fg_rpc_kind *fg_rpc_kind_of(unsigned method);

/* Returns the role of that name, "ingester" in upper or lower case; 0: there is none. Any thread.
 */
unsigned fg_rpc_role_of(const char *name, size_t len);

#endif
