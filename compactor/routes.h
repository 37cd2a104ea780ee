/* The compactor's HTTP routes; see compactor.h. */
#ifndef FG_COMPACTOR_ROUTES_H
#define FG_COMPACTOR_ROUTES_H

#include "common/net/http.h"
#include "compactor/compaction.h"

/* What the handlers use. Borrowed; lives as long as the server. */
struct cmp_routes {
    const struct cmp_config *config;
    struct cmp_compaction *compaction;
};

/* Adds the routes to a server that was not started yet. */
void cmp_routes_add(struct cmp_routes *routes, struct fg_http_server *server);

#endif
