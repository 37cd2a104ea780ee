/* What canary.c, sender.c and asker.c share. */
#ifndef FG_DEPLOY_CANARY_IMPL_H
#define FG_DEPLOY_CANARY_IMPL_H

#include "deploy/canary/canary.h"
#include "deploy/canary/content.h"
#include "deploy/canary/verdict.h"

#include <pthread.h>
#include <stdatomic.h>

/* clang-format off */
#define CANARY_METRICS(M)                                                                                                          \
    M(COUNTER,   CANARY_PUSHED,       "flamegrid_canary_profiles_pushed_total", "Profiles sent for the first time")                 \
    M(COUNTER,   CANARY_ACKNOWLEDGED, "flamegrid_canary_profiles_acknowledged_total", "Profiles acknowledged with 2xx") \
    M(COUNTER,   CANARY_SKIPPED,      "flamegrid_canary_profiles_skipped_total", "Profiles not sent because too many were pending") \
    M(GAUGE,     CANARY_PENDING,      "flamegrid_canary_profiles_pending", "Profiles that wait for their acknowledgement") \
    M(COUNTER,   CANARY_REFUSED,      "flamegrid_canary_push_failures_total{reason=\"refused\"}", "Pushes that failed and were retried, by reason") \
    M(COUNTER,   CANARY_UNANSWERED,   "flamegrid_canary_push_failures_total{reason=\"unanswered\"}", "Pushes that failed and were retried, by reason") \
    M(HISTOGRAM, CANARY_PUSH_SECONDS, "flamegrid_canary_push_duration_seconds", "Duration from a push to its 2xx response") \
    M(COUNTER,   CANARY_READS,        "flamegrid_canary_reads_total", "Successful queries")        \
    M(COUNTER,   CANARY_UNAVAILABLE,  "flamegrid_canary_reads_unavailable_total", "Queries without a response") \
    M(COUNTER,   CANARY_INCOMPLETE,   "flamegrid_canary_reads_incomplete_total", "Query responses marked incomplete; they are not checked") \
    M(COUNTER,   CANARY_WRONG,        "flamegrid_canary_reads_wrong_total", "Query responses with missing or surplus data") \
    M(HISTOGRAM, CANARY_READ_SECONDS, "flamegrid_canary_read_duration_seconds", "Duration of queries") \
    M(HISTOGRAM, CANARY_VISIBLE_SECONDS, "flamegrid_canary_visible_seconds", "Duration from the acknowledgement of a profile to the first query response that contains it") \
    M(COUNTER,   CANARY_LOST,         "flamegrid_canary_profiles_lost_total", "Acknowledged profiles missing from a query response") \
    M(COUNTER,   CANARY_DOUBLE,       "flamegrid_canary_profiles_double_total", "Profiles counted twice in a query response") \
    M(COUNTER,   CANARY_FOREIGN,      "flamegrid_canary_profiles_foreign_total", "Query responses with data that was never sent")
/* clang-format on */
FG_METRICS_ENUM(canary_metric, CANARY_METRICS)

enum { CANARY_REPORTED_MAX = 4096 }; /* wrong profiles that are remembered, to count each once */

struct canary_reported {
    uint64_t number;
    enum canary_verdict_kind kind;
};

/* Limits the log of a failure that may happen a hundred times a second to one line a second, and to
 * one line a minute if the server does not let the canary in, which a person has to change; the
 * rest is counted. */
struct canary_complaint {
    _Atomic int64_t next_mono_ns;
    _Atomic uint64_t left_out;
};

struct canary {
    struct canary_config config;
    struct canary_complaint not_acknowledged, no_answer;
    struct fg_metrics *metrics;
    char run[CONTENT_RUN_MAX_BYTES]; /* tells this canary's profiles from all others' */
    int64_t start_mono_ns;           /* when number 0 was due */
    pthread_t *threads;
    unsigned n_threads;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t woken; /* a flag was set, or a profile settled */
    struct canary_journal *journal;
    bool held, stopped;
    struct canary_reported reported[CANARY_REPORTED_MAX];
    uint32_t n_reported;
    uint64_t n_askers; /* threads that have drawn their seed */
};

static inline int64_t canary_now_ns(void)
{
    return fg_mono_ns(fg_clock_real());
}

/* Returns true if the failure is to be logged, and how many were not logged since the last line.
 * code: that it is not let in is logged more rarely than other failures. Any thread. */
bool canary_may_complain(struct canary_complaint *complaint, enum fg_code code,
                         uint64_t *ret_left_out);

/* Adds to the message of FG_E_DENIED which scopes a token needs. Leaves other errors. */
void canary_explain_denied(struct fg_err *err);

/* Waits until woken, or until that time. Under the lock. */
void canary_wait(struct canary *canary, int64_t until_mono_ns);

void *canary_send_loop(void *arg); /* struct canary * */
void *canary_ask_loop(void *arg);

/* Sends one query and judges its answer. Counts and logs a failure to answer, and all that is wrong
 * with an answer. timeline: the sum over time instead of the flame graph; the range has whole
 * seconds. *ret_is_open, if FG_OK: nothing is wrong, but the answer lacks profiles that it need not
 * have yet. Under the lock, which is released meanwhile. */
enum fg_code canary_ask(struct canary *canary, struct cli_client *client,
                        const struct canary_journal_range *range, bool timeline, bool *ret_is_open,
                        struct fg_err *err);

/* Returns true if there are few enough profiles for an exact sum over time. Under the lock. */
bool canary_may_sum(const struct canary *canary);

/* Returns the whole range: since the beginning, or the window; in whole seconds. Under the lock. */
struct canary_journal_range canary_whole_range(const struct canary *canary, uint32_t service);

#endif
