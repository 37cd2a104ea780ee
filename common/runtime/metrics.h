/*
 * Metrics, exposed as Prometheus text. A module declares its metrics as an X-macro list and gets an
 * enum; a registry holds the values of all modules of a process.
 *
 *     #define INGESTER_METRICS(M)                                                              \
 *         M(COUNTER,   INGESTER_COMMITTED, "flamegrid_ingester_profiles_committed_total", "…") \
 *         M(GAUGE,     INGESTER_HEAD_BYTES, "flamegrid_ingester_head_bytes", "…")              \
 *         M(HISTOGRAM, INGESTER_COMMIT_SECONDS, "flamegrid_ingester_commit_duration_seconds", "…")
 *     FG_METRICS_ENUM(ingester_metric, INGESTER_METRICS)
 *     FG_METRICS_TABLE(ingester_metrics, INGESTER_METRICS)
 *     struct fg_metrics *m =
 *         fg_metrics_register(registry, ingester_metrics, FG_COUNT(ingester_metrics));
 *     fg_metric_add(m, INGESTER_COMMITTED, 1);
 *
 * A name may have fixed labels: "flamegrid_http_requests_total{route=\"ingest\"}"; histograms get
 * an additional label le. HELP and TYPE are written once per family, with the help of its first
 * metric; all metrics of a family have the same kind. The same name in two tables is one series
 * with the sum of both. A histogram without observations is not written, as it would be twenty
 * lines of zeros.
 *
 * A table may also be built at runtime, for example with a row for each route and status. Its array
 * and strings belong to the caller and have to live until it is unregistered. Such rows are copies
 * of a template, which FG_METRICS_TABLE() defines: "%s" stands for the value of a label there.
 *
 * FG_METRICS_TABLE() also lists the table for fg_metrics_write_docs(), so that no metric is left
 * out of deploy/operations/metrics.md.
 *
 * Units: a name ends in its base unit, _bytes, _seconds or _ratio, if it has one; a counter ends in
 * _total after that, a gauge and a histogram do not; a point in time is _timestamp_seconds, since
 * 1970. The lint `metrics` checks the names.
 *
 * Thread: any. Counting is cheap: each counter has several cells, a thread adds to its own cell by
 * a relaxed atomic, and a scrape sums the cells.
 */
#ifndef FG_COMMON_RUNTIME_METRICS_H
#define FG_COMMON_RUNTIME_METRICS_H

#include "common/base/buf.h"

enum fg_metric_kind {
    FG_METRIC_COUNTER,
    FG_METRIC_GAUGE,
    FG_METRIC_FRACTION, /* a gauge that is set in billionths of its unit, for example nanoseconds */
    FG_METRIC_FRACTION_TOTAL, /* a counter that is set in billionths of its unit */
    FG_METRIC_HISTOGRAM,
};

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

struct fg_metric_table {
    const struct fg_metric_def *defs;
    size_t count;
};

/*
 * Defines a table of a list and lists it for the docs. The linker collects the pointers of a
 * program in one section: a program documents the tables of the modules that it is made of.
 */
#define FG_METRICS_TABLE(table, LIST)                                                              \
    static const struct fg_metric_def table[] = FG_METRICS_DEFS(LIST);                             \
    static const struct fg_metric_table table##_table = {table, FG_COUNT(table)};                  \
    static const struct fg_metric_table *const table##_listed                                      \
        __attribute__((used, section("fg_metric_tables"))) = &table##_table;

struct fg_registry;
struct fg_metrics; /* the values of one table */

/* Creates an empty registry. */
struct fg_registry *fg_registry_create(void);
/* Frees the registry and all its tables. Accepts NULL. */
void fg_registry_destroy(struct fg_registry *registry);

/*
 * Registers a table and returns its values. defs and its strings have to live until the table is
 * unregistered or the registry is destroyed. Registering the same table (the same address) again
 * returns the same values.
 */
struct fg_metrics *fg_metrics_register(struct fg_registry *registry,
                                       const struct fg_metric_def *defs, size_t count);

/* Removes a table and its values. The caller may free its array and strings then. */
void fg_metrics_unregister(struct fg_registry *registry, struct fg_metrics *metrics);

/*
 * Registers a hook that is called on the scraping thread before the text is written, to set gauges
 * whose values are read then (queue depths, memory). One hook runs at a time, without any lock of
 * the registry. It must not wait: it takes no lock that a thread may hold during disk or network
 * I/O.
 */
void fg_registry_on_scrape(struct fg_registry *registry, void (*on_scrape)(void *arg), void *arg);

/* Removes the hooks with this arg, and waits for a scrape under way: then nothing uses arg any
 * more. Does nothing if there are none. A module calls it before it is destroyed, if scrapes may
 * still come. Not from a hook. */
void fg_registry_off_scrape(struct fg_registry *registry, const void *arg);

/* Adds to a COUNTER. */
void fg_metric_add(struct fg_metrics *metrics, unsigned id, uint64_t by);
/* Sets a COUNTER to a total that its module counts elsewhere and that never shrinks. Such a counter
 * is not added to. */
void fg_metric_set_total(struct fg_metrics *metrics, unsigned id, uint64_t total);
/* Sets a GAUGE. */
void fg_metric_set(struct fg_metrics *metrics, unsigned id, int64_t value);
/* Sets a FRACTION, or a FRACTION_TOTAL to a total that never shrinks. billionths: nanoseconds of a
 * metric in seconds. */
void fg_metric_set_fraction(struct fg_metrics *metrics, unsigned id, int64_t billionths);
/* Adds an observation to a HISTOGRAM of seconds. Its buckets are .0005 .001 .0025 .005 .01 .025 .05
 * .1 .25 .5 1 2.5 5 10 25 50 100. */
void fg_metric_observe_ns(struct fg_metrics *metrics, unsigned id, int64_t duration_ns);

/* Returns the sum of a counter, the value of a gauge (cast it to int64_t), the billionths of a
 * fraction, or the count of a histogram. */
uint64_t fg_metric_get(const struct fg_metrics *metrics, unsigned id);

/* Writes Prometheus text format 0.0.4 (text/plain; version=0.0.4), sorted by name. Any thread
 * except a loop's, because it takes milliseconds. */
void fg_registry_write(struct fg_registry *registry, struct fg_buf *out);

/*
 * Writes a Markdown table of all metrics that FG_METRICS_TABLE() lists in this program, sorted by
 * name: a row for each family with its type, its labels with their fixed values, and its help.
 */
void fg_metrics_write_docs(struct fg_buf *out);

#endif
