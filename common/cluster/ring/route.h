/* GET /ring: shows operators the copy of the ring that this program uses. */
#ifndef FG_COMMON_CLUSTER_RING_ROUTE_H
#define FG_COMMON_CLUSTER_RING_ROUTE_H

#include "common/cluster/ring/watch.h"
#include "common/net/http.h"

/*
 * Adds the route to a server that was not started yet; the watch outlives the server. Answers with
 * a page, or with JSON (fg_ring_json()) for ?format=json and for clients that accept
 * application/json and not text/html. 503 until the ring was read.
 */
void fg_ring_route(struct fg_http_server *server, struct fg_ring_watch *watch);

/* Answers a request likewise, for programs whose watch is made after the server has started. NULL:
 * there is no watch yet. */
void fg_ring_respond(struct fg_http_request *req, struct fg_ring_watch *watch);

#endif
