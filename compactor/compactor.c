#include "compactor/compactor.h"

#include "common/cluster/manifest/name.h"
#include "common/cluster/membership/membership.h"
#include "compactor/compaction.h"
#include "compactor/routes.h"

struct compactor {
    struct cmp_config config;
    struct fg_membership *membership; /* NULL: it is alone */
    struct cmp_compaction *compaction;
    struct cmp_routes routes;
};

enum fg_code cmp_create(const struct cmp_config *config, struct compactor **ret_compactor,
                        struct fg_err *err)
{
    const struct fg_membership_config membership = {.bucket = config->bucket,
                                                    .clock = config->clock,
                                                    .object = FG_NAME_COMPACTORS,
                                                    .kind = "compactor",
                                                    .name = config->name};
    struct compactor *compactor = fg_new(struct compactor);

    compactor->config = *config;
    if ((config->name != NULL &&
         fg_membership_create(&membership, &compactor->membership, err) != FG_OK) ||
        cmp_compaction_create(config, compactor->membership, &compactor->compaction, err) !=
            FG_OK) {
        cmp_destroy(compactor);
        return err->code;
    }
    compactor->routes = (struct cmp_routes){&compactor->config, compactor->compaction};
    *ret_compactor = compactor;
    return FG_OK;
}

enum fg_code cmp_start(struct compactor *compactor, struct fg_err *err)
{
    if (compactor->membership != NULL && fg_membership_start(compactor->membership, err) != FG_OK)
        return err->code;
    return cmp_compaction_start(compactor->compaction, err);
}

void cmp_stop(struct compactor *compactor)
{
    if (compactor == NULL)
        return;
    cmp_compaction_stop(compactor->compaction);
    fg_membership_stop(compactor->membership);
}

void cmp_destroy(struct compactor *compactor)
{
    if (compactor == NULL)
        return;
    cmp_compaction_destroy(compactor->compaction);
    fg_membership_destroy(compactor->membership);
    free(compactor);
}

void cmp_routes(struct compactor *compactor, struct fg_http_server *server)
{
    cmp_routes_add(&compactor->routes, server);
}
