#include "distributor/limit_headers.h"

#include "common/base/time.h"

enum {
    LINE_MAX_BYTES = 512,
    /* Whoever is told to wait for longer would not notice that the limit was raised. */
    RETRY_MAX_S = 3600,
};

static const double NEAR = 0.8; /* of a limit */

/* One limit that is near. */
struct limit_field {
    const char *name;
    uint64_t limit, left; /* bytes */
    int64_t span_s, left_s;
};

struct limit_fields {
    struct limit_field items[2];
    size_t n;
};

static void add_rate(struct limit_fields *list, const struct fg_limits *limits, double used)
{
    double rate = limits->values.ingestion_rate_mb * 1024 * 1024;

    if (rate > 0 && used >= NEAR)
        list->items[list->n++] = (struct limit_field){
            "ingestion_rate_mb", (uint64_t)rate, (uint64_t)(rate * FG_MAX(1 - used, 0.0)), 1, 1};
}

static void add_quota(struct limit_fields *list, const struct fg_limits *limits,
                      const struct fg_quota_use *use, int64_t now_s)
{
    uint64_t limit = limits->quota.bytes;

    if (use->span.end_s == 0 || limit == 0 || (double)use->bytes < NEAR * (double)limit)
        return;
    list->items[list->n++] = (struct limit_field){
        "ingestion_limit", limit, limit - FG_MIN(use->bytes, limit),
        use->span.end_s - use->span.start_s, FG_MAX(use->span.end_s - now_s, INT64_C(0))};
}

static void put(struct fg_http_request *req, const struct limit_fields *list)
{
    struct fg_buf policy, state;

    fg_buf_init(&policy, LINE_MAX_BYTES);
    fg_buf_init(&state, LINE_MAX_BYTES);
    for (size_t i = 0; i < list->n; i++) {
        const struct limit_field *near = &list->items[i];

        fg_buf_printf(&policy, "%s\"%s\";q=%llu;qu=\"content-bytes\";w=%lld", i > 0 ? ", " : "",
                      near->name, (unsigned long long)near->limit, (long long)near->span_s);
        fg_buf_printf(&state, "%s\"%s\";r=%llu;t=%lld", i > 0 ? ", " : "", near->name,
                      (unsigned long long)near->left, (long long)near->left_s);
    }
    fg_buf_putc(&policy, '\0');
    fg_buf_putc(&state, '\0');
    fg_http_add_header(req, "RateLimit-Policy", (const char *)policy.ptr);
    fg_http_add_header(req, "RateLimit", (const char *)state.ptr);
    fg_buf_done(&policy);
    fg_buf_done(&state);
}

static void put_retry(struct fg_http_request *req, int64_t left_s)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%lld",
                   (long long)FG_MAX(FG_MIN(left_s, (int64_t)RETRY_MAX_S), INT64_C(1)));
    fg_http_add_header(req, "Retry-After", text);
}

void dist_limit_headers(struct fg_http_request *req, const struct fg_limits *limits,
                        const struct dist_limit_use *use, int64_t now_wall_ns)
{
    int64_t now_s = now_wall_ns / FG_SECOND_NS;
    struct limit_fields list = {.n = 0};

    add_rate(&list, limits, use->rate_used);
    add_quota(&list, limits, &use->quota, now_s);
    if (list.n > 0)
        put(req, &list);
    if (use->over_quota)
        put_retry(req, use->quota.span.end_s - now_s);
    else if (use->debt_ns > 0)
        put_retry(req, use->debt_ns / FG_SECOND_NS + 1);
}
