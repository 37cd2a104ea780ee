/*
 * Scrapes one kind of profile of one target periodically, and stores the profiles like uploads. Its
 * hash says at which offset in the interval it runs, so that the load is even and a restart does
 * not change it. scrape_loop.c has the drawing.
 *
 * Thread: the loop's; decoding is a job on the INGEST lane, as for any upload.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_SCRAPE_LOOP_H
#define FG_DISTRIBUTOR_SCRAPE_SCRAPE_LOOP_H

#include "common/net/client.h"
#include "distributor/distributor.h"
#include "distributor/scrape/delta.h"
#include "distributor/scrape/scrape_slots.h"
#include "distributor/scrape/target.h"

/* clang-format off */
#define SCRAPE_METRICS(M)                                                                                      \
    M(COUNTER, SCRAPE_OK, "flamegrid_scrape_scrapes_total{result=\"ok\"}", "Scrapes by result")    \
    M(COUNTER, SCRAPE_UNREACHABLE, "flamegrid_scrape_scrapes_total{result=\"unreachable\"}", "Scrapes by result") \
    M(COUNTER, SCRAPE_TIMEOUT, "flamegrid_scrape_scrapes_total{result=\"timeout\"}", "Scrapes by result") \
    M(COUNTER, SCRAPE_STATUS, "flamegrid_scrape_scrapes_total{result=\"status\"}", "Scrapes by result") \
    M(COUNTER, SCRAPE_INVALID, "flamegrid_scrape_scrapes_total{result=\"invalid\"}", "Scrapes by result") \
    M(COUNTER, SCRAPE_NO_MEMORY, "flamegrid_scrape_scrapes_total{result=\"no_memory\"}", "Scrapes by result") \
    M(COUNTER, SCRAPE_NOT_STORED, "flamegrid_scrape_scrapes_total{result=\"not_stored\"}", "Scrapes by result") \
    M(COUNTER, SCRAPE_MISSED, "flamegrid_scrape_missed_total", "Scrapes skipped because the previous one was not finished or scrape.running_max was reached") \
    M(COUNTER, SCRAPE_RETRIES, "flamegrid_scrape_retries_total", "Retries of pushing a scraped profile") \
    M(COUNTER, SCRAPE_RESETS, "flamegrid_scrape_resets_total", "Counter resets of targets")        \
    M(COUNTER, SCRAPE_FORGOTTEN, "flamegrid_scrape_delta_drops_total", "Scrapes whose cumulative values were not kept because scrape.delta_max_bytes was exhausted") \
    M(COUNTER, SCRAPE_BYTES, "flamegrid_scrape_received_bytes_total", "Profile bytes as received from targets") \
    M(GAUGE, SCRAPE_RUNNING, "flamegrid_scrape_running", "Scrapes in progress")                    \
    M(GAUGE, SCRAPE_WAITING, "flamegrid_scrape_waiting", "Scrapes that are due and wait for a free slot") \
    M(GAUGE, SCRAPE_DELTA_BYTES, "flamegrid_scrape_delta_bytes", "Memory of the cumulative values of the last scrapes") \
    M(GAUGE, SCRAPE_TARGETS, "flamegrid_scrape_targets", "Targets that this distributor scrapes")  \
    M(GAUGE, SCRAPE_DROPPED, "flamegrid_scrape_dropped_targets", "Discovered targets that cannot be scraped") \
    M(GAUGE, SCRAPE_ELSEWHERE, "flamegrid_scrape_elsewhere_targets", "Targets that other distributors scrape") \
    M(COUNTER, SCRAPE_FILE_READS, "flamegrid_scrape_file_reads_total{result=\"success\"}", "Reads of target files by result") \
    M(COUNTER, SCRAPE_FILE_FAILURES, "flamegrid_scrape_file_reads_total{result=\"failure\"}", "Reads of target files by result") \
    M(COUNTER, SCRAPE_LISTS, "flamegrid_scrape_kubernetes_lists_total", "Complete pod lists received from the Kubernetes API") \
    M(COUNTER, SCRAPE_EVENTS, "flamegrid_scrape_kubernetes_events_total", "Pod watch events received from the Kubernetes API") \
    M(COUNTER, SCRAPE_K8S_FAILURES, "flamegrid_scrape_kubernetes_failures_total", "Failed requests to the Kubernetes API") \
    M(HISTOGRAM, SCRAPE_SECONDS, "flamegrid_scrape_duration_seconds", "Duration of a scrape, including the time that the target records")
/* clang-format on */
FG_METRICS_ENUM(scrape_metric, SCRAPE_METRICS)

/* What all scrape loops share; outlives them. */
struct dist_scrape_context {
    struct distributor *distributor;
    struct fg_loop *loop;
    struct fg_client *client;
    struct fg_clock *clock;
    struct fg_metrics *metrics;
    struct fg_slice tenant;
    struct fg_client_tls tls, tls_for_all; /* with our client certificate, and without */
    const char *token_file;                /* NULL: none */
    int64_t connect_timeout_ns;
    int64_t pause_ns; /* before the first retry of a push; doubles with each */
    size_t body_max_bytes;
    struct fg_budget deltas;
    struct dist_scrape_slots slots;
    unsigned n_scrapes;                                   /* that are not freed yet */
    void (*on_gone)(struct dist_scrape_context *context); /* called when the last one is freed */
};

struct dist_scrape_loop;

/* Starts a scrape loop, which keeps a reference to the target. trusted: the target gets our token
 * and certificate. */
struct dist_scrape_loop *dist_scrape_loop_start(struct dist_scrape_context *context,
                                                struct dist_target *target,
                                                const struct dist_endpoint *endpoint, bool trusted);

/* Stops it. It frees itself when the scrape in progress has ended, and counts context->n_scrapes
 * down. */
void dist_scrape_loop_stop(struct dist_scrape_loop *scrape);

enum dist_scrape_health { SCRAPE_HEALTH_UNKNOWN, SCRAPE_HEALTH_UP, SCRAPE_HEALTH_DOWN };

/* The state of a scrape loop. error: borrowed until the loop continues; NULL: the last scrape
 * succeeded. */
struct dist_scrape_loop_state {
    const struct dist_endpoint *endpoint;
    enum dist_scrape_health health;
    int64_t last_wall_ns, last_duration_ns; /* when it began; 0: never */
    uint64_t last_bytes;
    const char *error;
};
struct dist_scrape_loop_state dist_scrape_loop_state(const struct dist_scrape_loop *scrape);

/* Returns the time from wall_ns until the next scrape of a target with this hash. */
int64_t dist_scrape_loop_first_ns(uint64_t hash, int64_t interval_ns, int64_t wall_ns);

#endif
