/* GET /ring: the copy of the ring that this program goes by, for operators. */
#ifndef FG_COMMON_CLUSTER_RING_ROUTE_H
#define FG_COMMON_CLUSTER_RING_ROUTE_H

#include "common/cluster/ring/watch.h"
#include "common/net/http.h"

/*
 * Before the server starts; the watch outlives it. A page; JSON (fg_ring_json()) for ?format=json,
 * and for who accepts application/json and not text/html. 503 until the ring was read.
 */
void fg_ring_route(struct fg_http_server *server, struct fg_ring_watch *watch);

/* The same answer, for who has no watch before the server starts; NULL: there is none yet. */
void fg_ring_respond(struct fg_http_request *req, struct fg_ring_watch *watch);

#endif
