#include "common/net/rpc/peer_metrics.h"

#include "common/base/time.h"

#include <stdio.h>

/* clang-format off */
#define PEER_METRICS(M)                                                                                     \
    M(COUNTER,   PEER_CALLS,       "flamegrid_rpc_calls_total{peer=\"%s\"}", "Completed calls to another service") \
    M(COUNTER,   PEER_UNAVAILABLE, PEER_FAILURES("unavailable"), PEER_FAILURES_HELP)                     \
    M(COUNTER,   PEER_DEADLINE,    PEER_FAILURES("deadline_exceeded"), PEER_FAILURES_HELP)               \
    M(COUNTER,   PEER_LIMIT,       PEER_FAILURES("resource_exhausted"), PEER_FAILURES_HELP)              \
    M(COUNTER,   PEER_OTHER,       PEER_FAILURES("other"), PEER_FAILURES_HELP)                           \
    M(HISTOGRAM, PEER_DURATION,    "flamegrid_rpc_call_duration_seconds{peer=\"%s\"}", "Duration of calls to another service, until the end of the response") \
    M(COUNTER,   PEER_SENT,        "flamegrid_rpc_sent_bytes_total{peer=\"%s\"}", "Request bytes sent to another service") \
    M(COUNTER,   PEER_RECEIVED,    "flamegrid_rpc_received_bytes_total{peer=\"%s\"}", "Response bytes received from another service") \
    M(COUNTER,   PEER_KEEPALIVE_CLOSES,    "flamegrid_rpc_keepalive_failures_total{peer=\"%s\"}", "Connections to another service closed by the keep-alive because it did not respond") \
    M(GAUGE,     PEER_UNDER_WAY,   "flamegrid_rpc_calls_under_way{peer=\"%s\"}", "Calls to another service in progress") \
    M(GAUGE,     PEER_CONNECTED,   "flamegrid_rpc_peer_connected{peer=\"%s\"}", "1 if a connection to another service exists") \
    M(GAUGE,     PEER_SINCE,       "flamegrid_rpc_peer_connected_since_timestamp_seconds{peer=\"%s\"}", "Start of the connection to another service, in seconds since the epoch; 0 without a connection")
/* clang-format on */
#define PEER_FAILURES(code) "flamegrid_rpc_call_failures_total{code=\"" code "\",peer=\"%s\"}"
#define PEER_FAILURES_HELP  "Failed calls to another service, by error code"
FG_METRICS_ENUM(peer_metric, PEER_METRICS)
FG_METRICS_TABLE(templates, PEER_METRICS)

enum { LABEL_MAX_BYTES = 256, NAME_MAX_BYTES = LABEL_MAX_BYTES + 100 };

struct fg_peer_metrics {
    struct fg_registry *registry;
    struct fg_metrics *metrics;
    struct fg_metric_def defs[peer_metric_count];
    char names[peer_metric_count][NAME_MAX_BYTES];
};

/* Replaces characters that a label's value must not have. Addresses (host:port) have none of
 * them. */
static void clean_label(const char *label, char out[LABEL_MAX_BYTES])
{
    (void)snprintf(out, LABEL_MAX_BYTES, "%s", label);
    for (; *out != '\0'; out++)
        if (*out <= ' ' || *out > '~' || *out == '"' || *out == '\\')
            *out = '_';
}

struct fg_peer_metrics *fg_peer_metrics_create(struct fg_registry *registry, const char *label)
{
    struct fg_peer_metrics *metrics = fg_new(struct fg_peer_metrics);
    char clean[LABEL_MAX_BYTES];

    clean_label(label, clean);
    for (size_t i = 0; i < peer_metric_count; i++) {
        size_t at = fg_slice_search(fg_cstr(templates[i].name), "%s");

        (void)snprintf(metrics->names[i], NAME_MAX_BYTES, "%.*s%s%s", (int)at, templates[i].name,
                       clean, templates[i].name + at + 2);
        metrics->defs[i] = templates[i];
        metrics->defs[i].name = metrics->names[i];
    }
    metrics->registry = registry;
    metrics->metrics = fg_metrics_register(registry, metrics->defs, peer_metric_count);
    return metrics;
}

void fg_peer_metrics_destroy(struct fg_peer_metrics *metrics)
{
    if (metrics == NULL)
        return;
    fg_metrics_unregister(metrics->registry, metrics->metrics);
    free(metrics);
}

static enum peer_metric failure_of(enum fg_code code)
{
    switch (code) {
    case FG_E_UNAVAILABLE:
        return PEER_UNAVAILABLE;
    case FG_E_DEADLINE:
        return PEER_DEADLINE;
    case FG_E_LIMIT:
        return PEER_LIMIT;
    default:
        return PEER_OTHER;
    }
}

void fg_peer_metrics_call(struct fg_peer_metrics *metrics, enum fg_code code, int64_t duration_ns)
{
    if (metrics == NULL)
        return;
    fg_metric_add(metrics->metrics, PEER_CALLS, 1);
    fg_metric_observe_ns(metrics->metrics, PEER_DURATION, duration_ns);
    if (code != FG_OK)
        fg_metric_add(metrics->metrics, failure_of(code), 1);
}

void fg_peer_metrics_sent(struct fg_peer_metrics *metrics, size_t bytes)
{
    if (metrics != NULL)
        fg_metric_add(metrics->metrics, PEER_SENT, bytes);
}

void fg_peer_metrics_received(struct fg_peer_metrics *metrics, size_t bytes)
{
    if (metrics != NULL)
        fg_metric_add(metrics->metrics, PEER_RECEIVED, bytes);
}

void fg_peer_metrics_keepalive_close(struct fg_peer_metrics *metrics)
{
    if (metrics != NULL)
        fg_metric_add(metrics->metrics, PEER_KEEPALIVE_CLOSES, 1);
}

void fg_peer_metrics_scrape(struct fg_peer_metrics *metrics, const struct fg_peer *peer)
{
    struct fg_peer_health health;

    fg_peer_health(peer, &health);
    fg_metric_set(metrics->metrics, PEER_UNDER_WAY, health.calls);
    fg_metric_set(metrics->metrics, PEER_CONNECTED, health.connected);
    fg_metric_set(metrics->metrics, PEER_SINCE, health.connected_wall_ns / FG_SECOND_NS);
}
