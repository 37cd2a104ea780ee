/*
 * Limits how many bytes each tenant may send, or its queries read, in an hour, a day, a week or a
 * month of UTC, over all processes together (limits.ingestion_limit, limits.query_bytes_per_hour).
 *
 * A process counts what it has acknowledged or read, tells the others (fg_quotas_report()), and
 * hears how much all have counted together (fg_quotas_apply()). What it does not know, it takes for
 * nothing: a tenant may get a little more than its limit, never less.
 *
 * Memory: bounded by FG_QUOTA_TENANTS_MAX; of further tenants nothing is counted.
 *
 * Thread: any; it has a lock.
 */
#ifndef FG_COMMON_MODEL_TENANT_QUOTA_H
#define FG_COMMON_MODEL_TENANT_QUOTA_H

#include "common/base/err.h"
#include "common/model/tenant_id.h"

enum { FG_QUOTA_TENANTS_MAX = 65536 }; /* with a limit; a few hundred bytes each */

enum fg_quota_period { FG_QUOTA_HOUR, FG_QUOTA_DAY, FG_QUOTA_WEEK, FG_QUOTA_MONTH };
/* Their names, in this order, as settings have them. */
#define FG_QUOTA_PERIODS "hour|day|week|month"

/* The limit of a tenant. */
struct fg_quota_limit {
    uint64_t bytes; /* 0: none */
    enum fg_quota_period period;
};

/* [start, end) in seconds since 1970. Weeks begin on Monday. */
struct fg_quota_span {
    int64_t start_s, end_s;
};

/* Returns the period that has this second; times before 1970 count as 1970. */
struct fg_quota_span fg_quota_span(enum fg_quota_period period, int64_t wall_s);

/* Reads a setting, "" or a map: {period_type: day, period_limit_mb: 1000}. FG_E_INVALID. */
enum fg_code fg_quota_parse(struct fg_slice yaml, const char *name,
                            struct fg_quota_limit *ret_limit, struct fg_err *err) fg_must_check;

struct fg_quotas;

/* Creates it without counts. setting: the name of the limit, without "limits."; lives longer. Never
 * fails. */
struct fg_quotas *fg_quotas_create(const char *setting);
/* Frees it. Accepts NULL. */
void fg_quotas_destroy(struct fg_quotas *quotas);

/* Returns the setting. */
const char *fg_quotas_setting(const struct fg_quotas *quotas);

/* What a tenant has used of its limit. */
struct fg_quota_use {
    uint64_t bytes; /* of all processes, by what this one has heard */
    struct fg_quota_span span;
};

/*
 * Checks whether a tenant has reached its limit, whose bytes are not 0. FG_E_LIMIT: it has; the
 * error names tenant, limit, setting and the end of the period. *ret_use is set in any case.
 */
enum fg_code fg_quotas_check(struct fg_quotas *quotas, struct fg_slice tenant,
                             const struct fg_quota_limit *limit, int64_t now_wall_ns,
                             struct fg_quota_use *ret_use, struct fg_err *err) fg_must_check;

/* Counts what was acknowledged or read. */
void fg_quotas_add(struct fg_quotas *quotas, struct fg_slice tenant,
                   const struct fg_quota_limit *limit, uint64_t bytes, int64_t now_wall_ns);

/* Calls each() with the share of its limit that each tenant has used. It must not wait, nor call
 * functions of this module. */
void fg_quotas_each(struct fg_quotas *quotas, int64_t now_wall_ns,
                    void (*each)(void *arg, const char *tenant, double used), void *arg);

/* The bytes that a tenant has used in a period. */
struct fg_quota_count {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    struct fg_quota_span span;
    uint64_t own; /* by this process */
    uint64_t all; /* by all processes, this one's own included; for fg_quotas_apply() */
};

/* Writes the counts of at most `max` tenants that were checked since the others were asked about
 * them, in turn, and returns how many. */
uint32_t fg_quotas_report(struct fg_quotas *quotas, struct fg_quota_count *counts, uint32_t max);

/* Takes in what all have counted: the answer to what fg_quotas_report() wrote. */
void fg_quotas_apply(struct fg_quotas *quotas, const struct fg_quota_count *counts, uint32_t n);

#endif
