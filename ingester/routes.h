/*
 * What operators ask of an ingester over HTTP. POST and DELETE need the header X-Flamegrid-Action.
 *
 *   POST /ingester/flush   puts all there is into segments; 200 when it is committed, 504 when that
 *                          takes longer than ten minutes (it goes on)
 *
 * and of one with a seat in the ring:
 *
 *   GET  /ring                         its copy of the ring (common/cluster/ring/route.h)
 *   POST /ingester/prepare-shutdown    from now on SIGTERM means: leave the ring for good, commit
 *                                      everything, then end; without it, a mere restart: the seat
 *                                      and the disk are kept. A restart forgets it
 *   GET                                200 "set" or "unset"
 *   DELETE                             takes it back
 */
#ifndef FG_INGESTER_ROUTES_H
#define FG_INGESTER_ROUTES_H

#include "common/net/http.h"
#include "ingester/ingester.h"

#include <stdatomic.h>

struct ing_routes {
    _Atomic(struct ingester *) ingester;   /* set when it is there; until then 503 */
    struct fg_work *work;                  /* its QUERY lane waits */
    _Atomic(struct fg_ring_watch *) watch; /* likewise; only of one with a seat */
    _Atomic bool leaves;                   /* prepare-shutdown */
};

/* Before the server, the operators' (admin_listen), starts; routes is borrowed and outlives it. */
void ing_routes(struct ing_routes *routes, struct fg_http_server *server);
/* Those of one with a seat. */
void ing_ring_routes(struct ing_routes *routes, struct fg_http_server *server);

#endif
