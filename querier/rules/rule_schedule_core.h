/*
 * Decides which tenants' recording rules a querier evaluates next
 * (querier/README.md#recording-rules): those that it owns, of which somebody scraped the metrics
 * lately, once for each minute.
 *
 * Time is wall clock, which decides what a minute is. A minute is named by its begin. Only the
 * newest minute that is over is evaluated: nobody scrapes an earlier one, and those that are wanted
 * later are computed when they are asked for. If a tenant's evaluation takes so long that minutes
 * pass meanwhile, they are skipped and counted. The tenant whose last minute is the oldest comes
 * first, so that all fall behind alike if there is more to do than fits into a minute.
 *
 * Shell: querier/rules/rule_evaluator.h. Thread: one at a time.
 */
#ifndef FG_QUERIER_RULES_RULE_SCHEDULE_CORE_H
#define FG_QUERIER_RULES_RULE_SCHEDULE_CORE_H

#include "common/base/slice.h"
#include "common/base/time.h"
#include "common/model/tenant_id.h"

enum { RULE_TENANTS_MAX = 10000 }; /* 2 MB; the rules of others are evaluated by scrapes only */

/* So long after its last scrape a tenant's rules are evaluated: longer than a Prometheus is away
 * for an update. */
#define RULE_SCRAPED_NS FG_HOUR_NS
/* A scrape is recorded if the one on record is older: often enough never to lapse, and rare enough
 * to cost next to nothing. */
#define RULE_RENEW_NS (RULE_SCRAPED_NS / 4)
/* An evaluation that failed is tried again after so long, while its minute is the newest. */
#define RULE_RETRY_NS (15 * FG_SECOND_NS)

struct qry_rule_tenant {
    char name[FG_TENANT_MAX_BYTES + 1];
    int64_t scraped_ns;  /* last scrape of this querier; 0: none */
    int64_t recorded_ns; /* last scrape on record, of any querier; 0: none */
    int64_t minute_ns;   /* last one that was begun; 0: none */
    int64_t retry_ns;    /* when it may be begun again; 0: it has succeeded, or runs */
    bool running;
};

/* Zeroed at first. */
struct qry_rule_schedule {
    struct qry_rule_tenant *items; /* sorted by name; the heap */
    size_t n, capacity;
};

/* Frees the schedule. */
void qry_rule_schedule_done(struct qry_rule_schedule *schedule);

/* Returns the last minute that was over at end_ns, which is at least one minute after 1970. */
static inline int64_t qry_rule_minute(int64_t end_ns)
{
    return end_ns - end_ns % FG_MINUTE_NS - FG_MINUTE_NS;
}

/* Notes a scrape of a tenant's metrics, by this querier, or on record. Returns false if there are
 * RULE_TENANTS_MAX others. */
bool qry_rule_schedule_scraped(struct qry_rule_schedule *schedule, struct fg_slice tenant,
                               int64_t now_ns);
bool qry_rule_schedule_recorded(struct qry_rule_schedule *schedule, struct fg_slice tenant,
                                int64_t scraped_ns);

/* Returns whether a tenant's scrape is to be recorded. */
static inline bool qry_rule_tenant_to_record(const struct qry_rule_tenant *tenant)
{
    return tenant->scraped_ns > 0 && tenant->scraped_ns - tenant->recorded_ns >= RULE_RENEW_NS;
}

/* Removes tenants without a scrape in the last RULE_SCRAPED_NS, unless they run. */
void qry_rule_schedule_expire(struct qry_rule_schedule *schedule, int64_t now_ns);

/* One evaluation to begin. */
struct qry_rule_turn {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    int64_t minute_ns;
    uint64_t skipped; /* minutes since the one before */
};

/*
 * Begins the next evaluation. Returns false if there is none. newest_ns: the newest minute. owns:
 * whether a tenant is this querier's; the minutes of one that it is not are another's to count.
 */
bool qry_rule_schedule_next(struct qry_rule_schedule *schedule, int64_t newest_ns, int64_t now_ns,
                            bool (*owns)(void *arg, struct fg_slice tenant), void *arg,
                            struct qry_rule_turn *ret_turn);

/* Ends an evaluation. again: it failed in a way that may pass. */
void qry_rule_schedule_ended(struct qry_rule_schedule *schedule, struct fg_slice tenant, bool again,
                             int64_t now_ns);

#endif
