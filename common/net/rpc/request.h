/*
 * A request as the server sees it, whatever way it came.
 */
#ifndef FG_COMMON_NET_RPC_REQUEST_H
#define FG_COMMON_NET_RPC_REQUEST_H

#include "common/net/rpc/connections.h"
#include "common/net/rpc/message.h"
#include "common/net/rpc/parts.h"

struct fg_rpc_request {
    struct fg_rpc_server *server;
    struct fg_slice head, payload;
    int64_t deadline_mono_ns;
    enum fg_rpc_method method;
    uint32_t owner;                   /* the connection it came by; 0: none */
    struct fg_connection *connection; /* likewise, a reference; NULL: none */
    struct fg_parts_whole *whole;     /* owns the bytes if it arrived in parts; else NULL */
    uint64_t charged_bytes;           /* taken from the server's budget */
    /* Takes the reply where it belongs, and the request with it. The frame's slices may be the
     * request's own: copy first. The frame fits a message. */
    void (*reply)(struct fg_rpc_request *req, const struct fg_rpc_frame *frame);
};

/* Fills in a request from its bytes and gives it to its handler, or refuses it. req->reply, and
 * owner and connection of one that came by a connection, are set; all else is zero. */
void fg_rpc_dispatch(struct fg_rpc_server *server, struct fg_rpc_request *req,
                     struct fg_slice bytes);

/* Returns the request's memory to the server's budgets. Call it from req->reply, after the reply
 * was copied. */
void fg_rpc_request_done(struct fg_rpc_request *req);

/* Large answers that wait for their callers. */
struct fg_chunked_replies *fg_rpc_server_chunked_replies(struct fg_rpc_server *server);

/* Returns the bytes of requests that are being assembled from parts or handled. */
uint64_t fg_rpc_server_request_bytes(struct fg_rpc_server *server);
unsigned fg_rpc_server_connections(struct fg_rpc_server *server);

/* What a caller of the server's own cluster writes in its frames. */
uint64_t fg_rpc_server_cluster(const struct fg_rpc_server *server);

#endif
