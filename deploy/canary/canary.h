/*
 * The canary sends profiles of known values at a steady rate, queries them all the time, and
 * reports wrong answers.
 *
 *   senders   a profile that is due, or due again --> POST /ingest --> journal
 *   askers    a random range --> query --> verdict: the answer against the journal
 *
 * Threads: senders and askers block on their requests. One lock protects the journal; no thread
 * waits for a request while it holds it. The caller's thread waits for the end.
 */
#ifndef FG_DEPLOY_CANARY_CANARY_H
#define FG_DEPLOY_CANARY_CANARY_H

#include "common/runtime/metrics.h"
#include "deploy/canary/journal.h"
#include "deploy/cli/client.h"

struct canary_config {
    struct cli_client_config push, query;
    uint32_t services, pods;
    int64_t interval_ms;      /* between two profiles */
    int64_t read_interval_ns; /* between two queries of one asker */
    int64_t window_ns;        /* queries go back so far; 0: to the beginning */
    int64_t lag_ns; /* answers may lack what was acknowledged since so long; 0: they may not */
    unsigned senders, askers;
    struct fg_registry *registry; /* borrowed */
};

/* Counts since the start. Requests outnumber profiles: those without a 2xx are repeated. */
struct canary_sums {
    uint64_t pushed, acknowledged, pending, skipped; /* profiles */
    uint64_t refused, unanswered;                    /* requests */
    uint64_t reads, unavailable, wrong;              /* queries */
    uint64_t lost, twice, foreign;                   /* profiles */
};

struct canary;

/*
 * Asks both servers once, with requests that store nothing, whether they let the canary in.
 * FG_E_DENIED: one of them answers 401 or 403; the message says which scopes are needed. FG_OK also
 * if there is no answer: the server may still be starting.
 */
enum fg_code canary_check_scopes(const struct canary_config *config,
                                 struct fg_err *err) fg_must_check;

/* Starts a run: its senders and askers. FG_E_INVALID: a URL is malformed. Destroy accepts NULL. */
enum fg_code canary_start(const struct canary_config *config, struct canary **ret_canary,
                          struct fg_err *err) fg_must_check;

/* Stops sending new profiles. Pending ones are still sent, and queries go on. */
void canary_hold(struct canary *canary);

/* Waits until all profiles are acknowledged. Returns false at the deadline. */
bool canary_settle(struct canary *canary, int64_t deadline_mono_ns) fg_must_check;

/* Stops all threads. Takes as long as the requests in flight: seconds. */
void canary_stop(struct canary *canary);

/* Queries everything once more, service by service, after canary_stop(), until answers have all
 * that may be on its way or its lag is over. FG_E_UNAVAILABLE: there was no answer before the
 * deadline. */
enum fg_code canary_last_check(struct canary *canary, int64_t deadline_mono_ns,
                               struct fg_err *err) fg_must_check;

/* Returns true if any request got an answer since the start. */
bool canary_was_answered(const struct canary *canary);
/* Returns the counts so far. */
struct canary_sums canary_sums(struct canary *canary);
/* Returns the value of the label canary_run, which only this run has. */
const char *canary_run_name(const struct canary *canary);
void canary_destroy(struct canary *canary);

#endif
