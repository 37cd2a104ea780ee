/*
 * What operators ask of an ingester over HTTP.
 *
 *   POST /ingester/flush   puts all there is into segments; 200 when it is committed, 504 when that
 *                          takes longer than ten minutes (it goes on)
 */
#ifndef FG_INGESTER_ROUTES_H
#define FG_INGESTER_ROUTES_H

#include "common/net/http.h"
#include "ingester/ingester.h"

#include <stdatomic.h>

struct ingester_routes {
    _Atomic(struct ingester *) ingester; /* set when it is there; until then 503 */
    struct fg_work *work;                /* its QUERY lane waits */
};

/* Before the server starts; routes is borrowed and outlives it. */
void ingester_routes(struct ingester_routes *routes, struct fg_http_server *server);

#endif
