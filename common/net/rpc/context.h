/* What the calls of a process have in common, as the files of this folder see it. */
#ifndef FG_COMMON_NET_RPC_CONTEXT_H
#define FG_COMMON_NET_RPC_CONTEXT_H

#include "common/net/rpc/rpc.h"
#include "common/net/rpc/settings.h"

/* NULL as well: a process without a cluster's name, with the defaults. */
uint64_t fg_rpc_cluster(const struct fg_rpc *rpc);         /* fg_rpc_cluster_key() of its name */
const char *fg_rpc_cluster_name(const struct fg_rpc *rpc); /* "" for none */
uint64_t fg_rpc_answers_max(const struct fg_rpc *rpc);
uint64_t fg_rpc_requests_max(const struct fg_rpc *rpc); /* bytes */
unsigned fg_rpc_connections_max(const struct fg_rpc *rpc);
unsigned fg_rpc_connections_per_address_max(const struct fg_rpc *rpc);
int64_t fg_rpc_ping_after_ns(const struct fg_rpc *rpc); /* 0: never */
int64_t fg_rpc_ping_timeout_ns(const struct fg_rpc *rpc);
/* How long a server waits for a caller that does not read: as long as a caller waits for a server
 * that does not answer. */
int64_t fg_rpc_unread_ns(const struct fg_rpc *rpc);
/* Checks that a server may listen at this address. FG_E_INVALID: it is in the clear and not on
 * loopback, and rpc.insecure is false. */
enum fg_code fg_rpc_check_listen(const struct fg_rpc *rpc, const char *url,
                                 struct fg_err *err) fg_must_check;
struct fg_rpc_secure *fg_rpc_secure(const struct fg_rpc *rpc); /* NULL: no TLS */

/* The peer is counted from now on, under its address, until remove, before it is destroyed. */
void fg_rpc_add_peer(struct fg_rpc *rpc, struct fg_peer *peer, const char *url);
void fg_rpc_remove_peer(struct fg_rpc *rpc, struct fg_peer *peer);

/* Exports the server's connections and memory as metrics from now on; NULL: stops that. */
void fg_rpc_show_server(struct fg_rpc *rpc, struct fg_rpc_server *server);

/* Why a server refuses a call or a connection; the label "reason" of its counter. */
enum fg_rpc_refusal {
    FG_RPC_REFUSED_PROTOCOL,    /* not a request that this release understands */
    FG_RPC_REFUSED_CLUSTER,     /* of another cluster */
    FG_RPC_REFUSED_METHOD,      /* not served here */
    FG_RPC_REFUSED_ROLE,        /* not for the service that the certificate names */
    FG_RPC_REFUSED_LATE,        /* after its deadline */
    FG_RPC_REFUSED_TOO_LARGE,   /* larger than its kind may be */
    FG_RPC_REFUSED_BUSY,        /* requests hold rpc.requests_max_bytes */
    FG_RPC_REFUSED_CONNECTIONS, /* rpc.connections_max */
    FG_RPC_REFUSED_ADDRESS,     /* rpc.connections_per_address_max */
    FG_RPC_REFUSED_CERTIFICATE, /* names no service */
    FG_RPC_REFUSED_SHARE,       /* the caller holds its share of the slots */
    FG_RPC_REFUSED_UNREAD,      /* its caller does not read replies */
};
void fg_rpc_count_refusal(struct fg_rpc *rpc, enum fg_rpc_refusal why);

#endif
