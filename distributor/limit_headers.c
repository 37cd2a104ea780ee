#include "distributor/limit_headers.h"

#include "common/base/time.h"
#include "common/net/limit_fields.h"

struct limit_fields {
    struct fg_limit_field items[2];
    size_t n;
};

void dist_limit_headers(struct fg_http_request *req, const struct fg_limits *limits,
                        const struct fg_rate_limit *rate, const struct dist_limit_use *use,
                        int64_t now_wall_ns)
{
    int64_t now_s = now_wall_ns / FG_SECOND_NS;
    const struct fg_quota_use *quota = &use->quota;
    double rate_bytes = rate->rate_mb * 1024 * 1024;
    uint64_t limit = limits->quota.bytes;
    struct limit_fields list = {.n = 0};

    if (rate_bytes > 0 && use->rate_used >= FG_LIMIT_NEAR)
        list.items[list.n++] =
            (struct fg_limit_field){rate->setting, (uint64_t)rate_bytes,
                                    (uint64_t)(rate_bytes * FG_MAX(1 - use->rate_used, 0.0)), 1, 1};
    if (quota->span.end_s != 0 && limit != 0 &&
        (double)quota->bytes >= FG_LIMIT_NEAR * (double)limit)
        list.items[list.n++] = (struct fg_limit_field){
            "ingestion_limit", limit, limit - FG_MIN(quota->bytes, limit),
            quota->span.end_s - quota->span.start_s, FG_MAX(quota->span.end_s - now_s, INT64_C(0))};
    fg_limit_fields_add(req, list.items, list.n);
    if (use->over_quota)
        fg_limit_retry_add(req, use->quota.span.end_s - now_s);
    else if (use->debt_ns > 0)
        fg_limit_retry_add(req, use->debt_ns / FG_SECOND_NS + 1);
    else if (use->retry_after_s > 0)
        fg_limit_retry_add(req, use->retry_after_s);
}
