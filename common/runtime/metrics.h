/*
 * Metrics in tables, exposed as Prometheus text. A module declares what it counts as an X-macro
 * list and gets an enum; a registry holds the values of all modules of a process.
 *
 *     #define INGESTER_METRICS(M)                                                              \
 *         M(COUNTER,   INGESTER_COMMITTED, "flamegrid_ingester_profiles_committed_total", "…") \
 *         M(GAUGE,     INGESTER_HEAD_BYTES, "flamegrid_ingester_head_bytes", "…")              \
 *         M(HISTOGRAM, INGESTER_COMMIT_SECONDS, "flamegrid_ingester_commit_duration_seconds", "…")
 *     FG_METRICS_ENUM(ingester_metric, INGESTER_METRICS)
 *     static const struct fg_metric_def ingester_metrics[] = FG_METRICS_DEFS(INGESTER_METRICS);
 *     struct fg_metrics *m =
 *         fg_metrics_register(registry, ingester_metrics, FG_COUNT(ingester_metrics));
 *     fg_metric_add(m, INGESTER_COMMITTED, 1);
 *
 * A name may carry fixed labels: "flamegrid_http_requests_total{route=\"ingest\"}"; of a histogram,
 * le is added to them. HELP and TYPE are written once a family, with the first help given; all of
 * one family have one kind. The same name in two tables is one series: their sum. A histogram
 * without observations is not written: it would be twenty lines of zeros.
 *
 * A table may also be built while the program runs (a row for each route and status, say): its
 * array and strings belong to the caller and live as long as it is registered.
 *
 * Thread: any. Counting is cheap: relaxed atomics on stripes, one of which a thread uses always,
 * summed when scraped.
 */
#ifndef FG_COMMON_RUNTIME_METRICS_H
#define FG_COMMON_RUNTIME_METRICS_H

#include "common/base/buf.h"

enum fg_metric_kind { FG_METRIC_COUNTER, FG_METRIC_GAUGE, FG_METRIC_HISTOGRAM };

struct fg_metric_def {
    enum fg_metric_kind kind;
    const char *name, *help;
};

#define FG_METRICS_ENUM_ONE(kind, id, name, help) id,
#define FG_METRICS_ENUM(type, LIST)               enum type { LIST(FG_METRICS_ENUM_ONE) type##_count };
#define FG_METRICS_DEF_ONE(kind, id, name, help)  {FG_METRIC_##kind, name, help},
#define FG_METRICS_DEFS(LIST)                                                                      \
    {                                                                                              \
        LIST(FG_METRICS_DEF_ONE)                                                                   \
    }

struct fg_registry;
struct fg_metrics; /* the values of one table */

struct fg_registry *fg_registry_create(void);
void fg_registry_destroy(struct fg_registry *registry); /* and all its tables; NULL is fine */

/*
 * defs and its strings have to live as long as the registry, or until the table is unregistered.
 * Registering the same table (the same address) twice gives the same values.
 */
struct fg_metrics *fg_metrics_register(struct fg_registry *registry,
                                       const struct fg_metric_def *defs, size_t count);

/* The table leaves, with what it counted; its array and strings are the caller's again. For things
 * that come and go. */
void fg_metrics_unregister(struct fg_registry *registry, struct fg_metrics *metrics);

/*
 * Registers a hook that is called on the scraping thread before the text is written, to set gauges
 * whose values are read then (queue depths, memory). One hook runs at a time, without any lock of
 * the registry. It must not wait: it takes no lock that a thread may hold during disk or network
 * I/O.
 */
void fg_registry_on_scrape(struct fg_registry *registry, void (*on_scrape)(void *arg), void *arg);

void fg_metric_add(struct fg_metrics *metrics, unsigned id, uint64_t by);   /* COUNTER */
void fg_metric_set(struct fg_metrics *metrics, unsigned id, int64_t value); /* GAUGE */
/* HISTOGRAM of seconds, buckets .0005 .001 .0025 .005 .01 .025 .05 .1 .25 .5 1 2.5 5 10 25 50 100.
 */
void fg_metric_observe_ns(struct fg_metrics *metrics, unsigned id, int64_t duration_ns);

/* The sum of a counter, the value of a gauge (cast to int64_t), the count of a histogram. */
uint64_t fg_metric_get(const struct fg_metrics *metrics, unsigned id);

/* Writes Prometheus text format 0.0.4 (text/plain; version=0.0.4), sorted by name. Any thread
 * except a loop's, because it takes milliseconds. */
void fg_registry_write(struct fg_registry *registry, struct fg_buf *out);

#endif
