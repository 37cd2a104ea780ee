/* What the calls of a process have in common, as the files of this folder see it. */
#ifndef FG_COMMON_RPC_CONTEXT_H
#define FG_COMMON_RPC_CONTEXT_H

#include "common/rpc/held.h"
#include "common/rpc/rpc.h"

static inline bool fg_rpc_is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* NULL as well: a process without a cluster's name, with the defaults. */
uint64_t fg_rpc_cluster(const struct fg_rpc *rpc);         /* fg_rpc_cluster_key() of its name */
const char *fg_rpc_cluster_name(const struct fg_rpc *rpc); /* "" for none */
uint64_t fg_rpc_answers_max(const struct fg_rpc *rpc);
int64_t fg_rpc_ping_after_ns(const struct fg_rpc *rpc); /* 0: never */
int64_t fg_rpc_ping_timeout_ns(const struct fg_rpc *rpc);
struct fg_secure *fg_rpc_secure(const struct fg_rpc *rpc); /* NULL: no TLS */

/* The peer is counted from now on, under its address, until remove, before it is destroyed. */
void fg_rpc_add_peer(struct fg_rpc *rpc, struct fg_peer *peer, const char *url);
void fg_rpc_remove_peer(struct fg_rpc *rpc, struct fg_peer *peer);

/* A server's answers that wait are shown from now on; NULL: no more. */
void fg_rpc_show_held(struct fg_rpc *rpc, struct fg_held *held);

#endif
