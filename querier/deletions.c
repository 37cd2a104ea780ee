#include "querier/deletions.h"

#include "querier/blocks/blocks.h"

/* The last moment that is too old; INT64_MIN: none is. */
static int64_t too_old_ns(const struct qry_query *query, int64_t retention_ns)
{
    return retention_ns <= 0 ? INT64_MIN
                             : fg_time_add(fg_wall_ns(query->querier->clock), -retention_ns - 1);
}

static enum fg_code take(struct qry_query *query, size_t tenant, struct fg_deletions *deletions,
                         struct fg_err *err)
{
    const struct fg_blocks *blocks = qry_blocks_manifest(query, tenant);
    const struct fg_deletion old = {.start_ns = INT64_MIN,
                                    .end_ns = too_old_ns(query, query->retention_ns[tenant])};

    if (blocks != NULL && fg_blocks_deletions(blocks, query->arena, deletions, err) != FG_OK)
        return err->code;
    return old.end_ns == INT64_MIN ? FG_OK : fg_deletions_add(deletions, &old, query->arena, err);
}

enum fg_code qry_deletions_take(struct qry_query *query, struct fg_err *err)
{
    qry_deletions_drop(query);
    query->deletions = fg_arena_new(query->arena, struct fg_deletions, query->tenants.n);
    if (query->deletions == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < query->tenants.n; i++)
        if (take(query, i, &query->deletions[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

void qry_deletions_drop(struct qry_query *query)
{
    for (size_t i = 0; i < query->tenants.n && query->deletions != NULL; i++)
        fg_deletions_done(&query->deletions[i]);
    query->deletions = NULL;
}
