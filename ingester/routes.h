/*
 * HTTP routes of an ingester for operators. POST and DELETE need the header X-Flamegrid-Action.
 *
 *   POST /ingester/flush               commits everything to segments; 200 when done, 504 after ten
 *                                      minutes (the commit goes on)
 *
 * A member of a ring also has:
 *
 *   GET  /ring                         its copy of the ring (common/cluster/ring/route.h)
 *   POST /ingester/prepare-shutdown    makes SIGTERM mean: leave the ring for good, commit
 *                                      everything, then end. Without it SIGTERM is a restart,
 *                                      which keeps membership and disk. Not kept over a restart
 *   GET                                200 "set" or "unset"
 *   DELETE                             undoes it
 */
#ifndef FG_INGESTER_ROUTES_H
#define FG_INGESTER_ROUTES_H

#include "common/net/http.h"
#include "ingester/ingester.h"

#include <stdatomic.h>

struct ing_routes {
    _Atomic(struct ingester *) ingester;   /* set once it is created; until then 503 */
    struct fg_work *work;                  /* its QUERY lane waits for flushes */
    _Atomic(struct fg_ring_watch *) watch; /* likewise; only with a ring */
    _Atomic bool leaves;                   /* prepare-shutdown */
};

/* Adds the routes of every ingester to the operators' server (admin_listen), before it starts.
 * routes is borrowed and outlives the server. */
void ing_routes(struct ing_routes *routes, struct fg_http_server *server);

/* Adds the routes of a member of a ring. */
void ing_ring_routes(struct ing_routes *routes, struct fg_http_server *server);

#endif
