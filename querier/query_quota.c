#include "querier/query_quota.h"

#include "common/cluster/shares/limit_gauges.h"
#include "common/cluster/shares/share_clock.h"
#include "common/cluster/shares/share_core.h"
#include "common/net/limit_fields.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"
#include "querier/meeting.h"

#include <sys/random.h>

enum {
    COUNTS_MAX = 256,  /* tenants in a round, in turn */
    SILENT_ROUNDS = 5, /* before it is told: a restart of the ingesters takes some */
};

/* A tenant may exceed its limit by what all queriers read in this time. */
static const int64_t EVERY_NS = 2 * FG_SECOND_NS;
static const int64_t TIMEOUT_NS = FG_SECOND_NS; /* of a round */

struct qry_quota {
    struct querier *querier;
    struct fg_ticker *ticker;
    uint64_t process; /* the id of this run */

    /* The ticker's. */
    struct fg_limit_gauges *gauges;
    struct fg_share_clock share_clock;
    struct fg_quota_count counts[COUNTS_MAX];
    uint32_t n_counts;
    unsigned silent; /* rounds without an answer, so far */
};

/* ---- a round ---- */

static void hear(void *arg, const Fg__Inner__UseReply *reply)
{
    struct qry_quota *quota = arg;

    fg_share_clock_hear(&quota->share_clock, fg_wall_ns(quota->querier->clock) / FG_SECOND_NS,
                        reply->now_s);
    for (uint32_t i = 0; i < quota->n_counts; i++) {
        const Fg__Inner__TenantUse *said = reply->uses[i];
        const struct fg_meeting_use use = {.span = {said->period_start_s, said->period_end_s},
                                           .bytes = said->period_bytes};

        fg_share_take_count(&quota->counts[i], &use);
    }
}

static bool meet(struct qry_quota *quota, struct fg_err *err)
{
    Fg__Inner__TenantUse uses[COUNTS_MAX], *list[COUNTS_MAX];
    Fg__Inner__UseHead head = FG__INNER__USE_HEAD__INIT;
    enum fg_code code;

    for (uint32_t i = 0; i < quota->n_counts; i++) {
        const struct fg_quota_count *count = &quota->counts[i];

        list[i] = &uses[i];
        fg__inner__tenant_use__init(&uses[i]);
        uses[i].tenant = (char *)(uintptr_t)count->tenant;
        uses[i].period_start_s = count->span.start_s;
        uses[i].period_end_s = count->span.end_s;
        uses[i].period_bytes = count->own;
    }
    head.process = quota->process;
    head.n_uses = quota->n_counts;
    head.uses = list;
    fg_share_clock_begin(&quota->share_clock);
    code = qry_meeting_ask(quota->querier, FG_RPC_QUERY_USE, &head, TIMEOUT_NS, hear, quota, err);
    (void)fg_share_clock_end(&quota->share_clock);
    return code == FG_OK;
}

static void tick(void *arg)
{
    struct qry_quota *quota = arg;
    struct fg_err err = {.code = FG_OK};

    quota->n_counts = fg_quotas_report(quota->querier->quotas, quota->counts, COUNTS_MAX);
    /* A querier that has read nothing has nothing to tell, and asks nobody. */
    if (quota->n_counts > 0) {
        bool heard = meet(quota, &err);

        fg_quotas_apply(quota->querier->quotas, quota->counts, heard ? quota->n_counts : 0);
        /* Logs when places cannot be reached any more, and when they can be again. */
        if (heard && quota->silent >= SILENT_ROUNDS)
            fg_log_info("bytes that queries read count for all queriers together again");
        quota->silent = heard ? 0 : quota->silent + 1;
        if (quota->silent == SILENT_ROUNDS)
            fg_log_warn("bytes that queries read count for each querier alone: no ingester tells "
                        "what the others have read",
                        fg_ls("limit", fg_quotas_setting(quota->querier->quotas)),
                        fg_ls("err", err.msg));
    }
    fg_limit_gauges_add_quotas(quota->gauges, quota->querier->quotas,
                               fg_wall_ns(quota->querier->clock));
    fg_limit_gauges_show(quota->gauges);
}

/* ---- life ---- */

enum fg_code qry_quota_create(struct querier *querier, struct fg_registry *registry,
                              struct qry_quota **ret_quota, struct fg_err *err)
{
    struct qry_quota *quota = fg_new(struct qry_quota);

    quota->querier = querier;
    while (quota->process == 0) /* 0: no querier */
        fg_assert(getrandom(&quota->process, sizeof quota->process, 0) == sizeof quota->process);
    quota->gauges = fg_limit_gauges_create(registry);
    if (fg_ticker_create(&(struct fg_ticker_config){"quota", EVERY_NS, tick, quota}, &quota->ticker,
                         err) != FG_OK) {
        qry_quota_destroy(quota);
        return err->code;
    }
    *ret_quota = quota;
    return FG_OK;
}

void qry_quota_destroy(struct qry_quota *quota)
{
    if (quota == NULL)
        return;
    if (quota->ticker != NULL) {
        fg_ticker_destroy(quota->ticker);
        tick(quota); /* what was read since the last round counts as well */
    }
    fg_limit_gauges_destroy(quota->gauges);
    free(quota);
}

/* ---- queries ---- */

enum fg_code qry_quota_check(struct qry_query *query, size_t tenant, const struct fg_limits *limits,
                             struct fg_err *err)
{
    const struct fg_quota_limit limit = {limits->values.query_bytes_per_hour, FG_QUOTA_HOUR};
    struct fg_quota_use use = {.bytes = 0};
    enum fg_code code;

    if (limit.bytes == 0 || query->querier->quotas == NULL)
        return FG_OK;
    code = fg_quotas_check(query->querier->quotas, query->tenants.ids[tenant], &limit,
                           fg_wall_ns(query->querier->clock), &use, err);
    /* Of several tenants headers tell about the one that refuses, else about the one that pays. */
    if (tenant == 0 || code != FG_OK) {
        query->quota = limit;
        query->quota_use = use;
    }
    return code;
}

void qry_quota_headers(const struct qry_query *query)
{
    const struct fg_quota_use *use = &query->quota_use;
    uint64_t limit = query->quota.bytes, read = use->bytes + query->planned_bytes;
    int64_t left_s = use->span.end_s - fg_wall_ns(query->querier->clock) / FG_SECOND_NS;
    if (limit == 0 || (double)read < FG_LIMIT_NEAR * (double)limit)
        return;
    fg_limit_fields_add(query->req,
                        &(struct fg_limit_field){.name = fg_quotas_setting(query->querier->quotas),
                                                 .limit = limit,
                                                 .left = limit - FG_MIN(read, limit),
                                                 .span_s = use->span.end_s - use->span.start_s,
                                                 .left_s = FG_MAX(left_s, INT64_C(0))},
                        1);
    if (use->bytes >= limit)
        fg_limit_retry_add(query->req, left_s);
}
