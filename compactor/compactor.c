#include "compactor/compactor.h"

#include "compactor/compaction.h"
#include "compactor/presence.h"
#include "compactor/routes.h"

struct compactor {
    struct cmp_config config;
    struct cmp_presence *presence; /* NULL: it is alone */
    struct cmp_compaction *compaction;
    struct cmp_routes routes;
};

enum fg_code cmp_create(const struct cmp_config *config, struct compactor **ret_compactor,
                        struct fg_err *err)
{
    const struct cmp_presence_config presence = {config->bucket, config->clock, config->name};
    struct compactor *compactor = fg_new(struct compactor);

    compactor->config = *config;
    if ((config->name != NULL &&
         cmp_presence_create(&presence, &compactor->presence, err) != FG_OK) ||
        cmp_compaction_create(config, compactor->presence, &compactor->compaction, err) != FG_OK) {
        cmp_destroy(compactor);
        return err->code;
    }
    compactor->routes = (struct cmp_routes){&compactor->config, compactor->compaction};
    *ret_compactor = compactor;
    return FG_OK;
}

enum fg_code cmp_start(struct compactor *compactor, struct fg_err *err)
{
    if (compactor->presence != NULL && cmp_presence_start(compactor->presence, err) != FG_OK)
        return err->code;
    return cmp_compaction_start(compactor->compaction, err);
}

void cmp_stop(struct compactor *compactor)
{
    if (compactor == NULL)
        return;
    cmp_compaction_stop(compactor->compaction);
    cmp_presence_stop(compactor->presence);
}

void cmp_destroy(struct compactor *compactor)
{
    if (compactor == NULL)
        return;
    cmp_compaction_destroy(compactor->compaction);
    cmp_presence_destroy(compactor->presence);
    free(compactor);
}

void cmp_routes(struct compactor *compactor, struct fg_http_server *server)
{
    cmp_routes_add(&compactor->routes, server);
}
