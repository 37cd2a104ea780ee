#include "common/net/limit_fields.h"

enum {
    LINE_MAX_BYTES = 512, /* a handful of limits with their numbers */
    /* A client that waits for longer would not notice that the limit was raised. */
    RETRY_MAX_S = 3600,
};

void fg_limit_fields_add(struct fg_http_request *req, const struct fg_limit_field *near, size_t n)
{
    struct fg_buf policy, state;

    if (n == 0)
        return;
    fg_buf_init(&policy, LINE_MAX_BYTES);
    fg_buf_init(&state, LINE_MAX_BYTES);
    for (size_t i = 0; i < n; i++) {
        fg_buf_printf(&policy, "%s\"%s\";q=%llu;qu=\"content-bytes\";w=%lld", i > 0 ? ", " : "",
                      near[i].name, (unsigned long long)near[i].limit, (long long)near[i].span_s);
        fg_buf_printf(&state, "%s\"%s\";r=%llu;t=%lld", i > 0 ? ", " : "", near[i].name,
                      (unsigned long long)near[i].left, (long long)near[i].left_s);
    }
    fg_buf_putc(&policy, '\0');
    fg_buf_putc(&state, '\0');
    fg_http_add_header(req, "RateLimit-Policy", (const char *)policy.ptr);
    fg_http_add_header(req, "RateLimit", (const char *)state.ptr);
    fg_buf_done(&policy);
    fg_buf_done(&state);
}

void fg_limit_retry_add(struct fg_http_request *req, int64_t left_s)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%lld",
                   (long long)FG_MAX(FG_MIN(left_s, (int64_t)RETRY_MAX_S), INT64_C(1)));
    fg_http_add_header(req, "Retry-After", text);
}
