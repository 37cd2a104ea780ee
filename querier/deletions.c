#include "querier/deletions.h"

#include "querier/blocks/blocks.h"

enum fg_code qry_deletions_take(struct qry_query *query, struct fg_err *err)
{
    int64_t now_ns = fg_wall_ns(query->querier->clock);

    qry_deletions_drop(query);
    query->deletions = fg_arena_new(query->arena, struct fg_deletions, query->tenants.n);
    if (query->deletions == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < query->tenants.n; i++) {
        const struct fg_blocks *blocks = qry_blocks_manifest(query, i);
        /* Retention is a deletion of everything before a time: what is too old is not in responses,
         * whether the compactor has deleted it yet or not. */
        const struct fg_deletion old = {.start_ns = INT64_MIN,
                                        .end_ns = fg_time_add(now_ns, -query->retention_ns[i] - 1)};

        if (blocks != NULL &&
            fg_blocks_deletions(blocks, query->arena, &query->deletions[i], err) != FG_OK)
            return err->code;
        if (query->retention_ns[i] > 0 &&
            fg_deletions_add(&query->deletions[i], &old, query->arena, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

void qry_deletions_drop(struct qry_query *query)
{
    for (size_t i = 0; i < query->tenants.n && query->deletions != NULL; i++)
        fg_deletions_done(&query->deletions[i]);
    query->deletions = NULL;
}
