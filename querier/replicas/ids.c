#include "querier/replicas/ids.h"

#include "common/base/time.h"

enum {
    DIFFERED_MAX = 3,   /* attempts that differed; from then on all ids are asked for */
    GROUPS_MAX = 65536, /* in a request: proto/inner.proto */
    RECENT_S = 120,     /* younger profiles may be on their way to some replica */
};

void qry_ids_wanted_init(struct qry_ids_wanted *wanted, int64_t wall_ns)
{
    *wanted = (struct qry_ids_wanted){.since_ns = fg_time_add(wall_ns, -RECENT_S * FG_SECOND_NS)};
}

enum fg_code qry_ids_wanted_add(struct qry_ids_wanted *wanted,
                                const struct qry_replica_compare_result *result,
                                struct fg_arena *arena, struct fg_err *err)
{
    /* A group that changes between attempts would be found different for ever; ids cannot differ
     * from themselves. */
    if (++wanted->differed >= DIFFERED_MAX || wanted->n_of + result->n_differ > GROUPS_MAX) {
        wanted->since_ns = INT64_MIN;
        wanted->n_of = 0;
        return FG_OK;
    }
    for (uint32_t i = 0; i < result->n_differ; i++) {
        Fg__Inner__Group *group = fg_arena_new(arena, Fg__Inner__Group, 1);

        if (group == NULL ||
            !fg_arena_grow(arena, &wanted->of, wanted->n_of, 1, &wanted->cap_of, sizeof(void *)))
            return fg_fail(err, FG_E_LIMIT, "the query needs more memory than a query may use");
        fg__inner__group__init(group);
        group->shard = result->differ[i].shard;
        group->window = result->differ[i].window;
        wanted->of[wanted->n_of++] = group;
    }
    return FG_OK;
}
