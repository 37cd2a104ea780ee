#include "querier/query_flow.h"

#include "common/base/hash.h"
#include "querier/query_quota.h"
#include "querier/usage_counts.h"

static const uint64_t SCRAPES = UINT64_C(0x736372617065); /* makes ids of flows of others */

/* Returns the smaller of two limits; 0 is no limit. */
static int64_t least(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return FG_MAX(a, b);
    return FG_MIN(a, b);
}

enum fg_code qry_flow_limit(struct qry_query *query, struct fg_err *err)
{
    struct fg_tenants *tenants = query->querier->tenants;
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < query->tenants.n; i++) {
        struct fg_limits *limits = fg_tenants_limits(tenants, query->tenants.ids[i]);

        /* A query of several tenants keeps to the strictest limit of each kind. */
        query->length_max_ns = least(query->length_max_ns, limits->values.max_query_length_ns);
        query->lookback_ns = least(query->lookback_ns, limits->values.max_query_lookback_ns);
        query->bytes_max =
            (uint64_t)least((int64_t)query->bytes_max, (int64_t)limits->values.max_query_bytes);
        if (code == FG_OK)
            code = qry_quota_check(query, i, limits, err);
        query->retention_ns[i] = fg_limits_longest_kept_ns(&limits->values);
        if (i == 0) /* a query of several tenants counts as one of the first */
            query->flow = (struct fg_flow){
                .id = fg_hash64_table(query->tenants.ids[0]),
                .queued_max = (unsigned)limits->values.max_queued_queries,
                .running_max = (unsigned)limits->values.max_concurrent_queries,
            };
        fg_limits_unref(limits);
    }
    return code;
}

enum fg_submit qry_flow_submit(struct qry_query *query)
{
    const struct querier *querier = query->querier;
    bool several = fg_tenants_are_several(querier->tenants);
    struct fg_flow flow = query->flow;

    /* A query by a program at an interval is one of its tenant apart from people's queries. So
     * neither these nor scrapes of other tenants wait behind it, and it takes no more of the lane
     * than a further tenant would. */
    if (query->scraped) {
        if (!several)
            flow = (struct fg_flow){.id = 0}; /* limits are for several tenants */
        flow.id = fg_mix64(query->flow.id ^ SCRAPES);
    }
    /* With several tenants each is a flow of the lane, so that none waits for all queries of
     * another. A tenant alone gets all workers. */
    if (query->scraped || several)
        return fg_work_submit_flow(querier->work, FG_LANE_QUERY, &flow, &query->job);
    return fg_work_submit(querier->work, FG_LANE_QUERY, &query->job) ? FG_SUBMIT_QUEUED
                                                                     : FG_SUBMIT_LANE_FULL;
}

void qry_flow_bill(const struct qry_query *query)
{
    if (query->together.joined)
        qry_usage_counts_add(query->querier->usage, query->tenants.ids[0],
                             &(struct fg_usage_queries){.queries = 1});
    else if (query->cpu_ns > 0)
        qry_usage_counts_add(query->querier->usage, query->tenants.ids[0],
                             &(struct fg_usage_queries){.queries = 1,
                                                        .requests = query->requests,
                                                        .read_bytes = query->planned_bytes,
                                                        .cpu_us = (uint64_t)query->cpu_ns / 1000});
}
