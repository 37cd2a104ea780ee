/* The compactor's HTTP routes; see compactor.h. */
#ifndef FG_COMPACTOR_ROUTES_H
#define FG_COMPACTOR_ROUTES_H

#include "compactor/compaction.h"

/* What handlers need; borrowed, lives as long as the server. */
struct routes {
    const struct compactor_config *config;
    struct compaction *compaction;
};

void routes_add(struct routes *routes, struct fg_http_server *server);

#endif
