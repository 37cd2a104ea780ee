#include "common/net/rpc/record.h"

#include "common/base/time.h"

#include <stdio.h>

/* clang-format off */
#define RECORD_METRICS(M)                                                                                     \
    M(COUNTER,   RECORD_CALLS,       "flamegrid_rpc_calls_total{peer=\"%s\"}", "Completed calls to another service") \
    M(COUNTER,   RECORD_UNAVAILABLE, RECORD_FAILURES("unavailable"), RECORD_FAILURES_HELP)                     \
    M(COUNTER,   RECORD_DEADLINE,    RECORD_FAILURES("deadline_exceeded"), RECORD_FAILURES_HELP)               \
    M(COUNTER,   RECORD_LIMIT,       RECORD_FAILURES("resource_exhausted"), RECORD_FAILURES_HELP)              \
    M(COUNTER,   RECORD_OTHER,       RECORD_FAILURES("other"), RECORD_FAILURES_HELP)                           \
    M(HISTOGRAM, RECORD_DURATION,    "flamegrid_rpc_call_duration_seconds{peer=\"%s\"}", "Duration of calls to another service, until the end of the response") \
    M(COUNTER,   RECORD_SENT,        "flamegrid_rpc_sent_bytes_total{peer=\"%s\"}", "Request bytes sent to another service") \
    M(COUNTER,   RECORD_RECEIVED,    "flamegrid_rpc_received_bytes_total{peer=\"%s\"}", "Response bytes received from another service") \
    M(COUNTER,   RECORD_KEEPALIVE_CLOSES,    "flamegrid_rpc_keepalive_failures_total{peer=\"%s\"}", "Connections to another service closed by the keep-alive because it did not respond") \
    M(GAUGE,     RECORD_UNDER_WAY,   "flamegrid_rpc_calls_under_way{peer=\"%s\"}", "Calls to another service in progress") \
    M(GAUGE,     RECORD_CONNECTED,   "flamegrid_rpc_peer_connected{peer=\"%s\"}", "1 if a connection to another service exists") \
    M(GAUGE,     RECORD_SINCE,       "flamegrid_rpc_peer_connected_since_timestamp_seconds{peer=\"%s\"}", "Start of the connection to another service, in seconds since the epoch; 0 without a connection")
/* clang-format on */
#define RECORD_FAILURES(code) "flamegrid_rpc_call_failures_total{code=\"" code "\",peer=\"%s\"}"
#define RECORD_FAILURES_HELP  "Failed calls to another service, by error code"
FG_METRICS_ENUM(record_metric, RECORD_METRICS)
FG_METRICS_TABLE(templates, RECORD_METRICS)

enum { LABEL_MAX_BYTES = 256, NAME_MAX_BYTES = LABEL_MAX_BYTES + 100 };

struct fg_peer_record {
    struct fg_registry *registry;
    struct fg_metrics *metrics;
    struct fg_metric_def defs[record_metric_count];
    char names[record_metric_count][NAME_MAX_BYTES];
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

struct fg_peer_record *fg_record_create(struct fg_registry *registry, const char *label)
{
    struct fg_peer_record *record = fg_new(struct fg_peer_record);
    char clean[LABEL_MAX_BYTES];

    clean_label(label, clean);
    for (size_t i = 0; i < record_metric_count; i++) {
        size_t at = fg_slice_search(fg_cstr(templates[i].name), "%s");

        (void)snprintf(record->names[i], NAME_MAX_BYTES, "%.*s%s%s", (int)at, templates[i].name,
                       clean, templates[i].name + at + 2);
        record->defs[i] = templates[i];
        record->defs[i].name = record->names[i];
    }
    record->registry = registry;
    record->metrics = fg_metrics_register(registry, record->defs, record_metric_count);
    return record;
}

void fg_record_destroy(struct fg_peer_record *record)
{
    if (record == NULL)
        return;
    fg_metrics_unregister(record->registry, record->metrics);
    free(record);
}

static enum record_metric failure_of(enum fg_code code)
{
    switch (code) {
    case FG_E_UNAVAILABLE:
        return RECORD_UNAVAILABLE;
    case FG_E_DEADLINE:
        return RECORD_DEADLINE;
    case FG_E_LIMIT:
        return RECORD_LIMIT;
    default:
        return RECORD_OTHER;
    }
}

void fg_record_call(struct fg_peer_record *record, enum fg_code code, int64_t duration_ns)
{
    if (record == NULL)
        return;
    fg_metric_add(record->metrics, RECORD_CALLS, 1);
    fg_metric_observe_ns(record->metrics, RECORD_DURATION, duration_ns);
    if (code != FG_OK)
        fg_metric_add(record->metrics, failure_of(code), 1);
}

void fg_record_sent(struct fg_peer_record *record, size_t bytes)
{
    if (record != NULL)
        fg_metric_add(record->metrics, RECORD_SENT, bytes);
}

void fg_record_received(struct fg_peer_record *record, size_t bytes)
{
    if (record != NULL)
        fg_metric_add(record->metrics, RECORD_RECEIVED, bytes);
}

void fg_record_keepalive_close(struct fg_peer_record *record)
{
    if (record != NULL)
        fg_metric_add(record->metrics, RECORD_KEEPALIVE_CLOSES, 1);
}

void fg_record_scrape(struct fg_peer_record *record, const struct fg_peer *peer)
{
    struct fg_peer_health health;

    fg_peer_health(peer, &health);
    fg_metric_set(record->metrics, RECORD_UNDER_WAY, health.calls);
    fg_metric_set(record->metrics, RECORD_CONNECTED, health.connected);
    fg_metric_set(record->metrics, RECORD_SINCE, health.connected_wall_ns / FG_SECOND_NS);
}
