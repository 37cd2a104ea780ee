#include "common/storage/bucket/meter.h"

/* clang-format off */
#define EACH_OP(M, kind, id, name, help)                 \
    M(kind, id##_GET,    name "{op=\"get\"}",    help)   \
    M(kind, id##_HEAD,   name "{op=\"head\"}",   help)   \
    M(kind, id##_PUT,    name "{op=\"put\"}",    help)   \
    M(kind, id##_DELETE, name "{op=\"delete\"}", help)   \
    M(kind, id##_LIST,   name "{op=\"list\"}",   help)   \
    M(kind, id##_CLEAN_UP,   name "{op=\"clean_up\"}",   help)

#define EACH_CLASS(M, kind, id, name, help)              \
    M(kind, id##_A,    name "{class=\"A\"}",    help)    \
    M(kind, id##_B,    name "{class=\"B\"}",    help)    \
    M(kind, id##_FREE, name "{class=\"free\"}", help)

/* In the order of enum fg_bucket_verb and enum fg_bucket_class. */
#define BUCKET_METRICS(M)                                                                           \
    EACH_OP(M, COUNTER, REQUESTS, "flamegrid_bucket_requests_total",                                \
            "Requests to the bucket, without retries")                                             \
    EACH_OP(M, COUNTER, ERRORS, "flamegrid_bucket_errors_total",                                    \
            "Requests to the bucket that failed after all retries, except missing objects and failed conditions") \
    EACH_OP(M, HISTOGRAM, SECONDS, "flamegrid_bucket_request_duration_seconds",                     \
            "Duration of requests to the bucket, including queueing and retries")                  \
    EACH_CLASS(M, COUNTER, CALLS, "flamegrid_bucket_store_requests_total",                          \
            "Attempts of requests to the object store by billing class: A writes and lists, B reads, deletes are free") \
    M(COUNTER, RETRIES, "flamegrid_bucket_retries_total", "Retries of bucket requests")            \
    M(COUNTER, BYTES_READ, "flamegrid_bucket_read_bytes_total", "Object bytes read from the bucket") \
    M(COUNTER, BYTES_WRITTEN, "flamegrid_bucket_written_bytes_total", "Object bytes written to the bucket")
/* clang-format on */
FG_METRICS_ENUM(bucket_metric, BUCKET_METRICS)
FG_METRICS_TABLE(bucket_metrics, BUCKET_METRICS)

void fg_bucket_meter_init(struct fg_bucket_meter *meter, struct fg_registry *registry)
{
    meter->metrics = registry == NULL
                         ? NULL
                         : fg_metrics_register(registry, bucket_metrics, FG_COUNT(bucket_metrics));
}

void fg_bucket_meter_request(const struct fg_bucket_meter *meter,
                             const struct fg_bucket_request *request)
{
    unsigned verb = (unsigned)request->verb;

    if (meter->metrics == NULL)
        return;
    fg_metric_add(meter->metrics, REQUESTS_GET + verb, 1);
    /* Errors count if the store is at fault: an answer of "no" is none. */
    if (request->code != FG_OK && request->code != FG_E_NOT_FOUND &&
        request->code != FG_E_PRECONDITION && request->code != FG_E_CANCELED)
        fg_metric_add(meter->metrics, ERRORS_GET + verb, 1);
    fg_metric_observe_ns(meter->metrics, SECONDS_GET + verb,
                         fg_mono_ns(fg_clock_real()) - request->begun_mono_ns);
    if (request->code == FG_OK && request->verb == FG_BUCKET_GET)
        fg_metric_add(meter->metrics, BYTES_READ, request->body.len);
    if (request->code == FG_OK && request->verb == FG_BUCKET_PUT)
        fg_metric_add(meter->metrics, BYTES_WRITTEN, request->size_bytes);
}

void fg_bucket_meter_call(const struct fg_bucket_meter *meter, enum fg_bucket_class class)
{
    if (meter->metrics != NULL)
        fg_metric_add(meter->metrics, CALLS_A + (unsigned)class, 1);
}

void fg_bucket_meter_retry(const struct fg_bucket_meter *meter)
{
    if (meter->metrics != NULL)
        fg_metric_add(meter->metrics, RETRIES, 1);
}

enum fg_bucket_class fg_bucket_class_of(enum fg_bucket_verb verb)
{
    switch (verb) {
    case FG_BUCKET_GET:
    case FG_BUCKET_HEAD:
        return FG_BUCKET_CLASS_B;
    case FG_BUCKET_DELETE:
        return FG_BUCKET_CLASS_FREE;
    default:
        return FG_BUCKET_CLASS_A;
    }
}
