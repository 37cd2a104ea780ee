/*
 * A request as the server sees it, from any transport.
 */
#ifndef FG_COMMON_NET_RPC_REQUEST_H
#define FG_COMMON_NET_RPC_REQUEST_H

#include "common/net/rpc/chunked_requests.h"
#include "common/net/rpc/connections.h"
#include "common/net/rpc/message.h"

#include <stdatomic.h>

struct fg_rpc_request {
    struct fg_rpc_server *server;
    struct fg_slice head, payload;
    int64_t deadline_mono_ns; /* 0: a malformed request, which has none */
    enum fg_rpc_method method;
    uint32_t owner;                   /* id of its connection; 0: none */
    struct fg_connection *connection; /* it exists until the reply has left; NULL: none */
    struct fg_whole_request *whole;   /* owns the bytes if it arrived in parts; else NULL */
    uint64_t charged_bytes;           /* taken from the server's budget */
    /* Of cancellations.h. */
    uint64_t cancel_key; /* 0: it cannot be canceled */
    atomic_bool canceled;
    struct fg_rpc_request *next, **at; /* in the list, if it has a key */
    /* Sends the reply and frees the request. The frame fits a message; its slices may be the
     * request's own, so copy it first. */
    void (*reply)(struct fg_rpc_request *req, const struct fg_rpc_frame *frame);
};

/* Reads a request from its bytes and passes it to its handler, or refuses it. The transport has set
 * req->reply and, if there is a connection, owner and connection; everything else is zero. */
void fg_rpc_dispatch(struct fg_rpc_server *server, struct fg_rpc_request *req,
                     struct fg_slice bytes);

/* Returns the request's memory to the server's budgets. Call it from req->reply, after the reply
 * was copied. */
void fg_rpc_request_done(struct fg_rpc_request *req);

/* Returns the chunked replies whose callers have not fetched everything. */
struct fg_chunked_replies *fg_rpc_server_chunked_replies(struct fg_rpc_server *server);

/* Returns the bytes of requests that are being assembled from parts or handled. */
uint64_t fg_rpc_server_request_bytes(struct fg_rpc_server *server);
/* Returns the number of connections. */
unsigned fg_rpc_server_connections(struct fg_rpc_server *server);

/* Returns the key of the server's cluster in frames. */
uint64_t fg_rpc_server_cluster(const struct fg_rpc_server *server);

#endif
