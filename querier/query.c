#include "querier/query.h"

#include "common/base/str.h"
#include "common/base/value.h"

/* Reads of the ring and of manifests take milliseconds. Waiting a few seconds for a complete answer
 * is better than an answer from old copies, which is better than none. */
static const int64_t BUCKET_PATIENCE_NS = 3 * FG_SECOND_NS;

enum fg_code qry_query_too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the query needs more memory than a query may use");
}

void qry_query_lacks(struct qry_query *query, struct fg_slice why)
{
    struct fg_buf *missing = &query->missing;
    /* Each attempt, and each of several objects, may give the same reason. */
    bool said = missing->len > 0 && memmem(missing->ptr, missing->len, why.ptr, why.len) != NULL;

    /* Even if the reason has no room any more. */
    query->incomplete = true;
    if (said || missing->max_bytes - missing->len <= why.len + 2)
        return;
    if (missing->len > 0)
        fg_buf_puts(missing, "; ");
    fg_buf_put(missing, why);
}

struct qry_counted qry_query_counted(const struct qry_query *query)
{
    return (struct qry_counted){query->profiles, query->series};
}

void qry_query_count_back(struct qry_query *query, struct qry_counted counted)
{
    query->profiles = counted.profiles;
    query->series = counted.series;
}

void qry_query_look_at_sum(struct qry_query *query, int64_t sum)
{
    if (sum != INT64_MAX && sum != INT64_MIN)
        return;
    query->saturated = query->inexact = true;
    query->bound = UINT64_MAX; /* nobody knows what was left out */
}

void qry_query_look_at_values(struct qry_query *query, const int64_t *values, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum = fg_value_add(sum, values[i]);
    qry_query_look_at_sum(query, sum);
}

void qry_query_lacks_since(struct qry_query *query, const char *what, int64_t age_ns,
                           const struct fg_err *why)
{
    char text[FG_ERR_MSG_MAX_BYTES + 64];

    (void)snprintf(text, sizeof text, "%s of %lld s ago: %s", what,
                   (long long)(age_ns / FG_SECOND_NS), why->msg);
    qry_query_lacks(query, fg_cstr(text));
}

int64_t qry_query_patience_mono_ns(const struct qry_query *query)
{
    return FG_MIN(query->deadline_mono_ns,
                  fg_time_add(fg_mono_ns(query->querier->clock), BUCKET_PATIENCE_NS));
}

bool qry_query_is_gone(const struct qry_query *query)
{
    return (query->req != NULL && fg_http_gone(query->req)) ||
           (query->caller != NULL && fg_rpc_is_abandoned(query->caller));
}

/* Returns whether nobody waits for the answer, of the query's own client and those of queries that
 * have joined it (together.h). Those of a part, like a rule, wait for the whole. */
static bool is_unwanted(const struct qry_query *query)
{
    const struct qry_query *follower;

    if (query->parent != NULL)
        query = query->parent;
    follower = query->together.followers;

    while (follower != NULL && qry_query_is_gone(follower))
        follower = follower->together.next;
    return qry_query_is_gone(query) && follower == NULL;
}

enum fg_code qry_query_check(struct qry_query *query, struct fg_err *err)
{
    if (is_unwanted(query))
        return fg_fail(err, FG_E_CANCELED, "client has disconnected");
    /* The HTTP server ends queries that have a client. Nobody else would end the others before
     * their deadline, and the end of the process waits for them. */
    if (query->req == NULL && atomic_load(&query->querier->stopping))
        return fg_fail(err, FG_E_CANCELED, "the querier stops");
    if (fg_mono_ns(query->querier->clock) >= query->deadline_mono_ns)
        return fg_fail(err, FG_E_DEADLINE, "no time is left");
    return FG_OK;
}

enum fg_code qry_query_charge(struct qry_query *query, uint64_t bytes, struct fg_err *err)
{
    query->planned_bytes += bytes;
    if (query->quota.bytes > 0)
        fg_quotas_add(query->querier->quotas, query->tenants.ids[0], &query->quota, bytes,
                      fg_wall_ns(query->querier->clock));
    if (query->querier->work != NULL)
        fg_work_charge(query->querier->work, FG_LANE_QUERY, qry_query_job(query), bytes);
    if (query->bytes_max > 0 && query->planned_bytes > query->bytes_max)
        return fg_fail(err, FG_E_TOO_MUCH,
                       "query of tenant %.*s reads more than %llu bytes (limits.max_query_bytes): "
                       "try a shorter time range or fewer series",
                       FG_S(query->tenants.ids[0]), (unsigned long long)query->bytes_max);
    return FG_OK;
}

int64_t qry_query_oldest_ns(const struct qry_query *query)
{
    int64_t longest_ns = 0;

    for (size_t i = 0; i < query->tenants.n; i++) {
        /* One tenant that keeps everything makes the query look at all times. */
        if (query->retention_ns[i] <= 0)
            return INT64_MIN;
        longest_ns = FG_MAX(longest_ns, query->retention_ns[i]);
    }
    return fg_time_add(fg_wall_ns(query->querier->clock), -longest_ns);
}
