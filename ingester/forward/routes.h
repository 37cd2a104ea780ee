/*
 * HTTP routes of forwarding, of a server that has targets or may have some:
 * querier/API.md#forwarding.
 *
 *   GET  /api/forward                  the targets with their state
 *   GET  /api/forward/TARGET/dead      profiles that a target has refused for good
 *   POST /api/forward/TARGET/pause     sends nothing until it is resumed, also after a restart
 *   POST /api/forward/TARGET/resume
 *   POST /api/forward/TARGET/drop      gives up all that is pending
 *
 * All demand the scope admin, POST the header X-Flamegrid-Action. A change is recorded in the audit
 * before it is made, and what came of it afterwards.
 *
 * Thread: handlers run on loops and workers.
 */
#ifndef FG_INGESTER_FORWARD_ROUTES_H
#define FG_INGESTER_FORWARD_ROUTES_H

#include "common/access/audit/audit.h"
#include "common/net/http.h"
#include "ingester/ingester.h"

#include <stdatomic.h>

/* Everything is borrowed and outlives the server. */
struct ing_forward_routes {
    _Atomic(struct ingester *) ingester; /* set after ing_start_forwarding(); until then 503 */
    struct fg_work *work;                /* its QUERY lane waits for the disk */
    struct fg_audit *audit;              /* NULL: none */
};

/* Adds the routes, before the server starts. */
void ing_forward_routes(struct ing_forward_routes *routes, struct fg_http_server *server);

#endif
