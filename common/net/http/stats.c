/*
 * What the server counts.
 *
 * pyroscope_request_duration_seconds{method,route,status_code,ws} has a series for each combination
 * that was seen; the combinations are bounded (routes × methods × statuses below), so that no
 * client can make more of them. Their places are laid out before the loops start and filled when
 * first used.
 */
#include "common/net/http/impl.h"

/* clang-format off */
#define HTTP_METRICS(M)                                                                             \
    M(GAUGE, HTTP_CONNECTIONS, "pyroscope_tcp_connections", "Open client connections")              \
    M(GAUGE, HTTP_INFLIGHT, "pyroscope_inflight_requests", "Requests that handlers are processing") \
    M(COUNTER, HTTP_ANSWERS_1, "flamegrid_http_answers_total{version=\"1.1\"}", ANSWERS_HELP)         \
    M(COUNTER, HTTP_ANSWERS_2, "flamegrid_http_answers_total{version=\"2\"}", ANSWERS_HELP)           \
    M(COUNTER, HTTP_EVENT_FIRST, "flamegrid_http2_streams_refused_total", "HTTP/2 requests reset before they were read because the connection had too many or memory was exhausted") \
    M(COUNTER, HTTP_EVENT_FLOOD, "flamegrid_http2_closed_total{reason=\"flood\"}", CLOSED_HELP)       \
    M(COUNTER, HTTP_EVENT_BROKEN, "flamegrid_http2_closed_total{reason=\"protocol_error\"}", CLOSED_HELP) \
    M(COUNTER, HTTP_EVENT_NO_MEMORY, "flamegrid_http_answers_refused_total", "Responses replaced by 503, or by an event of an error, because answer_memory_max_bytes was exhausted") \
    M(COUNTER, HTTP_EVENT_SLOW, "flamegrid_http_slow_readers_total{reason=\"slow\"}", SLOW_HELP)      \
    M(COUNTER, HTTP_EVENT_STALLED, "flamegrid_http_slow_readers_total{reason=\"stalled\"}", SLOW_HELP) \
    M(COUNTER, HTTP_EVENT_ROOM, "flamegrid_http_idle_closed_total{reason=\"room\"}", IDLE_HELP)       \
    M(COUNTER, HTTP_EVENT_SILENT, "flamegrid_http_idle_closed_total{reason=\"no_request\"}", IDLE_HELP) \
    M(COUNTER, HTTP_REFUSED_NOT_FOUND, REFUSED("not_found"), REFUSED_HELP)                          \
    M(COUNTER, HTTP_REFUSED_BAD_METHOD, REFUSED("bad_method"), REFUSED_HELP)                        \
    M(COUNTER, HTTP_REFUSED_MALFORMED, REFUSED("malformed"), REFUSED_HELP)                          \
    M(COUNTER, HTTP_REFUSED_HEAD_TOO_LARGE, REFUSED("head_too_large"), REFUSED_HELP)                \
    M(COUNTER, HTTP_REFUSED_BODY_TOO_LARGE, REFUSED("body_too_large"), REFUSED_HELP)                \
    M(COUNTER, HTTP_REFUSED_NO_BUDGET, REFUSED("no_budget"), REFUSED_HELP)                          \
    M(COUNTER, HTTP_REFUSED_TOO_SLOW, REFUSED("too_slow"), REFUSED_HELP)                            \
    M(COUNTER, HTTP_REFUSED_BAD_EXPECTATION, REFUSED("bad_expectation"), REFUSED_HELP)              \
    M(COUNTER, HTTP_REFUSED_BAD_TRANSFER_CODING, REFUSED("bad_transfer_coding"), REFUSED_HELP)      \
    M(COUNTER, HTTP_REFUSED_BAD_VERSION, REFUSED("bad_version"), REFUSED_HELP)                      \
    M(COUNTER, HTTP_REFUSED_CLEARTEXT, REFUSED("cleartext"), REFUSED_HELP)                          \
    M(COUNTER, HTTP_REFUSED_AMBIGUOUS, REFUSED("ambiguous"), REFUSED_HELP)                          \
    M(COUNTER, HTTP_REFUSED_NO_CERTIFICATE, REFUSED("no_client_certificate"), REFUSED_HELP)         \
    M(COUNTER, HTTP_REFUSED_HOST, REFUSED("host"), REFUSED_HELP)                                    \
    M(COUNTER, HTTP_REFUSED_CROSS_SITE, REFUSED("cross_site"), REFUSED_HELP)                        \
    M(COUNTER, HTTP_REFUSED_NO_ACTION, REFUSED("no_action_header"), REFUSED_HELP)                   \
    M(COUNTER, HTTP_REFUSED_DENIED, REFUSED("denied"), REFUSED_HELP)                                \
    M(COUNTER, HTTP_REFUSED_CONNECTIONS, REFUSED("too_many_connections"), REFUSED_HELP)             \
    M(COUNTER, HTTP_REFUSED_OF_ADDRESS, REFUSED("too_many_of_address"), REFUSED_HELP)
/* clang-format on */
#define REFUSED(reason) "flamegrid_http_refused_total{reason=\"" reason "\"}"
#define ANSWERS_HELP    "Responses by HTTP version"
#define CLOSED_HELP     "HTTP/2 connections closed because the peer violated the protocol or its limits"
#define SLOW_HELP                                                                                  \
    "Clients disconnected because they read a response too slowly (slow: over 30 seconds; "        \
    "stalled: nothing for a second while answer_memory_max_bytes was exhausted)"
#define IDLE_HELP                                                                                  \
    "Idle connections closed early (room: to make room for new ones; no_request: they never sent " \
    "a request)"
#define REFUSED_HELP "Requests refused before they reached a handler, by reason"

/* Pyroscope's name and labels. */
#define SERIES_NAME                                                                                \
    "pyroscope_request_duration_seconds{method=\"%s\",route=\"%s\",status_code=\"%s\","            \
    "ws=\"false\"}"
#define SERIES_METRICS(M)                                                                          \
    M(HISTOGRAM, SERIES_SECONDS, SERIES_NAME,                                                      \
      "Duration of requests, from the first byte of the request to the response")
FG_METRICS_TABLE(series_templates, SERIES_METRICS)

FG_METRICS_ENUM(http_metric, HTTP_METRICS)
FG_METRICS_TABLE(http_metrics, HTTP_METRICS)

/* The refusals are counted in the order of enum fg_http_refusal. */
_Static_assert((int)http_metric_count - (int)HTTP_REFUSED_NOT_FOUND ==
                   (int)HTTP_REFUSALS - (int)HTTP_NOT_FOUND,
               "each refusal has its counter");
/* Events have their counters in the order of enum fg_http_event. */
_Static_assert((int)HTTP_REFUSED_NOT_FOUND - (int)HTTP_EVENT_FIRST == (int)HTTP_EVENTS,
               "each event has its counter");

/* Statuses that have a series of their own; all others share the last one. */
static const unsigned statuses[] = {200, 204, 206, 304, 400, 401, 403, 404, 405, 408, 409, 413,
                                    415, 421, 422, 429, 431, 499, 500, 501, 503, 504, 0};
static const enum fg_http_method methods[] = {
    FG_HTTP_GET, FG_HTTP_HEAD, FG_HTTP_POST, FG_HTTP_PUT, FG_HTTP_DELETE, FG_HTTP_OTHER,
};

struct http_series {
    struct fg_metric_def def;
    _Atomic(struct fg_metrics *) metrics; /* NULL: not seen yet */
};

struct fg_http_stats {
    struct fg_http_stats *next;
    struct fg_registry *registry;
    struct fg_metrics *metrics;
    _Atomic int connections, inflight;
    pthread_mutex_t lock; /* over making a series */
    char **routes;        /* labels; the last one is "other" */
    size_t n_routes;
    struct http_series *series; /* [route][method][status] */
};

/* Keeps all of them reachable: a registry, whose end we do not learn of, has names of theirs. */
static struct fg_http_stats *all_stats;
/* Of the list: servers begin and end while a scrape walks it. */
static pthread_mutex_t all_stats_lock = PTHREAD_MUTEX_INITIALIZER;

/* A program may have several servers with one registry: its gauges are their sums. */
static void on_scrape(void *arg)
{
    struct fg_http_stats *stats = arg;
    int connections = 0, inflight = 0;

    pthread_mutex_lock(&all_stats_lock);
    for (struct fg_http_stats *each = all_stats; each != NULL; each = each->next)
        if (each->registry == stats->registry) {
            connections += atomic_load(&each->connections);
            inflight += atomic_load(&each->inflight);
        }
    pthread_mutex_unlock(&all_stats_lock);
    fg_metric_set(stats->metrics, HTTP_CONNECTIONS, connections);
    fg_metric_set(stats->metrics, HTTP_INFLIGHT, inflight);
}

/* "/push.v1.PusherService/Push" gives "push_v1_pusherservice_push" (operations: metric labels). */
static char *route_label(const char *path)
{
    char *label = fg_malloc(strlen(path) + 1);
    size_t len = 0;

    for (const char *c = path; *c != '\0'; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';

        if (upper || (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9'))
            label[len++] = (char)(upper ? *c - 'A' + 'a' : *c);
        else if (len > 0 && label[len - 1] != '_')
            label[len++] = '_';
    }
    while (len > 0 && label[len - 1] == '_')
        len--;
    label[len] = '\0';
    return label;
}

static char *series_name(const struct fg_http_stats *stats, size_t at)
{
    size_t status = at % FG_COUNT(statuses), rest = at / FG_COUNT(statuses);
    const char *route = stats->routes[rest / FG_COUNT(methods)];
    char code[12] = "other";
    struct fg_buf name;

    if (statuses[status] != 0)
        (void)snprintf(code, sizeof code, "%u", statuses[status]);
    fg_buf_init(&name, 4096);
    fg_buf_printf(&name, SERIES_NAME, fg_http_method_name(methods[rest % FG_COUNT(methods)]), route,
                  code);
    fg_buf_putc(&name, '\0');
    fg_assert(!name.full);
    return (char *)name.ptr;
}

static struct fg_metrics *series_metrics(struct fg_http_stats *stats, size_t at)
{
    struct http_series *series = &stats->series[at];
    struct fg_metrics *metrics = atomic_load_explicit(&series->metrics, memory_order_acquire);

    if (metrics != NULL)
        return metrics;
    /* Once in the life of a series: the lock and the registry's are free nearly always. */
    pthread_mutex_lock(&stats->lock);
    if (series->def.name == NULL) {
        series->def = series_templates[0];
        series->def.name = series_name(stats, at);
    }
    metrics = fg_metrics_register(stats->registry, &series->def, 1);
    atomic_store_explicit(&series->metrics, metrics, memory_order_release);
    pthread_mutex_unlock(&stats->lock);
    return metrics;
}

struct fg_http_stats *fg_http_stats_create(struct fg_registry *registry,
                                           const struct fg_http_route *routes, size_t n_routes)
{
    struct fg_http_stats *stats;

    if (registry == NULL)
        return NULL;
    stats = fg_new(struct fg_http_stats);
    stats->registry = registry;
    stats->metrics = fg_metrics_register(registry, http_metrics, FG_COUNT(http_metrics));
    pthread_mutex_init(&stats->lock, NULL);
    stats->n_routes = n_routes + 1;
    stats->routes = fg_calloc(stats->n_routes, sizeof *stats->routes);
    stats->series =
        fg_calloc(stats->n_routes * FG_COUNT(methods) * FG_COUNT(statuses), sizeof *stats->series);
    stats->routes[n_routes] = route_label("other");
    for (size_t i = 0; i < n_routes; i++)
        stats->routes[i] = route_label(routes[i].name == NULL ? routes[i].path : routes[i].name);
    fg_registry_on_scrape(registry, on_scrape, stats);
    pthread_mutex_lock(&all_stats_lock);
    stats->next = all_stats;
    all_stats = stats;
    pthread_mutex_unlock(&all_stats_lock);
    return stats;
}

unsigned fg_http_stats_of(const struct fg_http_stats *stats, size_t route,
                          enum fg_http_method method)
{
    size_t m = 0;

    if (stats == NULL)
        return 0;
    route = FG_MIN(route, stats->n_routes - 1);
    while (m < FG_COUNT(methods) - 1 && methods[m] != method)
        m++;
    return (unsigned)((route * FG_COUNT(methods) + m) * FG_COUNT(statuses));
}

void fg_http_stats_answered(struct fg_http_stats *stats, enum fg_http_version version, unsigned at,
                            unsigned status, int64_t duration_ns)
{
    if (stats == NULL)
        return;
    fg_metric_add(stats->metrics, version == HTTP_2 ? HTTP_ANSWERS_2 : HTTP_ANSWERS_1, 1);

    size_t i = 0;

    while (statuses[i] != status && statuses[i] != 0)
        i++;
    fg_metric_observe_ns(series_metrics(stats, at + i), 0, duration_ns);
}

void fg_http_stats_event(struct fg_http_stats *stats, enum fg_http_event event)
{
    if (stats != NULL)
        fg_metric_add(stats->metrics, (unsigned)HTTP_EVENT_FIRST + (unsigned)event, 1);
}

void fg_http_stats_refused(struct fg_http_stats *stats, enum fg_http_refusal why)
{
    if (stats != NULL)
        fg_metric_add(stats->metrics,
                      (unsigned)HTTP_REFUSED_NOT_FOUND + (unsigned)why - (unsigned)HTTP_NOT_FOUND,
                      1);
}

void fg_http_stats_connections(struct fg_http_stats *stats, int by)
{
    if (stats != NULL)
        atomic_fetch_add_explicit(&stats->connections, by, memory_order_relaxed);
}

void fg_http_stats_inflight(struct fg_http_stats *stats, int by)
{
    if (stats != NULL)
        atomic_fetch_add_explicit(&stats->inflight, by, memory_order_relaxed);
}
