/*
 * The canary: sends profiles of known values at a steady rate, asks for them all the time, and says
 * which answers are wrong.
 *
 *   senders: next number that is due, or one that is to be sent again --> POST /ingest --> ledger
 *   askers:  a drawn range, what the ledger expects of it --> flame graph or sum over time -->
 * verdict
 *
 * Threads: senders and askers block on their requests; the ledger is under one lock, which is held
 * for looking and counting only. The caller's thread waits.
 */
#ifndef FG_DEPLOY_CANARY_CANARY_H
#define FG_DEPLOY_CANARY_CANARY_H

#include "common/runtime/metrics.h"
#include "deploy/canary/ledger.h"
#include "deploy/cli/client.h"

struct canary_config {
    struct cli_client_config push, query;
    uint32_t services, pods;
    int64_t interval_ms;      /* between two profiles */
    int64_t read_interval_ns; /* between two questions of one asker */
    int64_t window_ns;        /* how far back is asked; 0: to the beginning */
    unsigned senders, askers;
    struct fg_registry *registry; /* borrowed */
};

/* What there was in all. Requests are more than profiles: those without a 2xx are sent again. */
struct canary_sums {
    uint64_t pushed, acknowledged, pending, skipped; /* profiles */
    uint64_t refused, unanswered;                    /* requests */
    uint64_t reads, unavailable, wrong;              /* questions */
    uint64_t lost, twice, foreign;                   /* profiles */
};

struct canary;

/* FG_E_INVALID: a URL that is none. The run begins now. Destroy accepts NULL. */
enum fg_code canary_start(const struct canary_config *config, struct canary **ret_canary,
                          struct fg_err *err) fg_must_check;

/* Nothing new is sent from now on; what is pending still is, and asking goes on. */
void canary_hold(struct canary *canary);

/* Waits until nothing is pending; false: something still is at that time. */
bool canary_settle(struct canary *canary, int64_t deadline_mono_ns) fg_must_check;

/* Ends all threads. What they wait for ends first: seconds. */
void canary_stop(struct canary *canary);

/* Asks for everything once more, service by service, after canary_stop(); FG_E_UNAVAILABLE when
 * there was no answer by then. */
enum fg_code canary_last_check(struct canary *canary, int64_t deadline_mono_ns,
                               struct fg_err *err) fg_must_check;

struct canary_sums canary_sums(struct canary *canary);
const char *canary_run_name(const struct canary *canary);
void canary_destroy(struct canary *canary);

#endif
