#include "compactor/retention.h"

static int64_t from_ns(int64_t wall_ns, int64_t retention_ns)
{
    return retention_ns == 0 ? INT64_MIN : fg_time_add(wall_ns, -retention_ns);
}

int64_t cmp_retention_profiles_from_ns(const struct cmp_retention *retention, int64_t wall_ns)
{
    return from_ns(wall_ns, retention->profiles_ns);
}

int64_t cmp_retention_keep_from_ns(const struct cmp_retention *retention, int64_t wall_ns)
{
    return FG_MIN(from_ns(wall_ns, retention->profiles_ns),
                  from_ns(wall_ns, retention->rollups_ns));
}

enum cmp_retention_fate cmp_retention_of(const struct cmp_retention *retention,
                                         const struct fg_blocks_entry *block, bool broken,
                                         int64_t wall_ns)
{
    int64_t lost_from_ns =
        fg_time_add(cmp_retention_profiles_from_ns(retention, wall_ns), -RETENTION_LOST_NS);

    /* A rollup of blocks that are still there leaves the manifest with them. */
    if (fg_blocks_sums_others(block))
        return RETENTION_KEPT;
    if (block->t_max_ns < cmp_retention_keep_from_ns(retention, wall_ns))
        return RETENTION_EXPIRED;
    if (broken && !block->derived && block->t_max_ns < lost_from_ns)
        return RETENTION_LOST;
    return RETENTION_KEPT;
}

bool cmp_retention_replaces(const struct cmp_retention *retention, int64_t end_ns, int64_t wall_ns)
{
    int64_t profiles_from_ns = cmp_retention_profiles_from_ns(retention, wall_ns);

    return cmp_retention_keep_from_ns(retention, wall_ns) < profiles_from_ns &&
           end_ns <= profiles_from_ns;
}
