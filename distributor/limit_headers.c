#include "distributor/limit_headers.h"

#include "common/base/time.h"
#include "common/net/limit_fields.h"

struct limit_fields {
    struct fg_limit_field items[2];
    size_t n;
};

static void add_rate(struct limit_fields *list, const struct fg_rate_limit *limit, double used)
{
    double rate = limit->rate_mb * 1024 * 1024;

    if (rate > 0 && used >= FG_LIMIT_NEAR)
        list->items[list->n++] = (struct fg_limit_field){
            limit->setting, (uint64_t)rate, (uint64_t)(rate * FG_MAX(1 - used, 0.0)), 1, 1};
}

static void add_quota(struct limit_fields *list, const struct fg_limits *limits,
                      const struct fg_quota_use *use, int64_t now_s)
{
    uint64_t limit = limits->quota.bytes;

    if (use->span.end_s == 0 || limit == 0 || (double)use->bytes < FG_LIMIT_NEAR * (double)limit)
        return;
    list->items[list->n++] = (struct fg_limit_field){
        "ingestion_limit", limit, limit - FG_MIN(use->bytes, limit),
        use->span.end_s - use->span.start_s, FG_MAX(use->span.end_s - now_s, INT64_C(0))};
}

void dist_limit_headers(struct fg_http_request *req, const struct fg_limits *limits,
                        const struct fg_rate_limit *rate, const struct dist_limit_use *use,
                        int64_t now_wall_ns)
{
    int64_t now_s = now_wall_ns / FG_SECOND_NS;
    struct limit_fields list = {.n = 0};

    add_rate(&list, rate, use->rate_used);
    add_quota(&list, limits, &use->quota, now_s);
    fg_limit_fields_add(req, list.items, list.n);
    if (use->over_quota)
        fg_limit_retry_add(req, use->quota.span.end_s - now_s);
    else if (use->debt_ns > 0)
        fg_limit_retry_add(req, use->debt_ns / FG_SECOND_NS + 1);
    else if (use->retry_after_s > 0)
        fg_limit_retry_add(req, use->retry_after_s);
}
