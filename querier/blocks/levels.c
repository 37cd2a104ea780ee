/* What a tenant has in the bucket by level, from manifests alone. */
#include "querier/blocks/blocks.h"
#include "querier/blocks/blocks_impl.h"

static void add(struct qry_level *level, uint64_t bytes, uint64_t profiles, int64_t t_min_ns,
                int64_t t_max_ns)
{
    level->oldest_ns = level->objects == 0 ? t_min_ns : FG_MIN(level->oldest_ns, t_min_ns);
    level->newest_ns = level->objects == 0 ? t_max_ns : FG_MAX(level->newest_ns, t_max_ns);
    level->objects++;
    level->bytes += bytes;
    level->profiles += profiles;
}

void qry_blocks_levels(const struct qry_query *query, uint32_t tenant,
                       struct qry_level levels[QRY_LEVELS])
{
    memset(levels, 0, QRY_LEVELS * sizeof *levels);
    if (query->snapshot == NULL)
        return;
    const struct fg_snapshot *snapshot = &query->snapshot->core;
    const struct fg_blocks *blocks = &snapshot->blocks[tenant]->blocks;
    const struct fg_l0 *l0 = &snapshot->l0->l0;
    uint32_t number = fg_l0_tenant(l0, snapshot->tenants[tenant]);

    for (uint32_t i = 0; number != FG_L0_NO_TENANT && i < l0->n_segments; i++) {
        const struct fg_l0_part *part = fg_l0_part(&l0->segments[i], number);

        /* A segment is shared: its bytes are not those of this tenant alone. */
        if (part != NULL && fg_snapshot_reads(snapshot, tenant, &l0->segments[i]))
            add(&levels[0], 0, part->profiles, part->t_min_ns, part->t_max_ns);
    }
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *entry = &blocks->blocks[i];
        bool counts = !fg_blocks_sums_others(entry); /* else its profiles count elsewhere */

        if (entry->level >= QRY_LEVELS)
            continue; /* of a later version */
        add(&levels[entry->level], entry->bytes, counts ? entry->profiles : 0, entry->t_min_ns,
            entry->t_max_ns);
    }
}

struct fg_usage_row qry_blocks_waiting(const struct qry_query *query, uint32_t tenant)
{
    struct fg_usage_row waiting = {.service = FG_LIT("")};

    if (query->snapshot == NULL)
        return waiting;
    const struct fg_snapshot *snapshot = &query->snapshot->core;
    const struct fg_l0 *l0 = &snapshot->l0->l0;
    uint32_t number = fg_l0_tenant(l0, snapshot->tenants[tenant]);

    for (uint32_t i = 0; number != FG_L0_NO_TENANT && i < l0->n_segments; i++) {
        const struct fg_l0_part *part = fg_l0_part(&l0->segments[i], number);

        if (part == NULL || !fg_snapshot_reads(snapshot, tenant, &l0->segments[i]))
            continue;
        waiting.profiles = fg_usage_sum(waiting.profiles, part->profiles);
        fg_usage_add(&waiting.usage, &part->usage);
    }
    return waiting;
}
