/*
 * Limits how much each tenant may send, over all processes together: each has one token bucket per
 * tenant, which fills with its share of the tenant's rate and holds at most the same share of the
 * burst.
 *
 * Shares follow demand. Each process tells the others how much of each tenant it is offered, in
 * bytes per second, refused ones included (fg_rates_report()), and hears how much all are offered
 * together (fg_rates_apply()). As long as that is below the rate, each process has what it needs
 * and an equal part of the rest; above it, the rate is divided by demand. A process that hears
 * nothing about a tenant has an equal part of its rate.
 *
 * A full bucket of a tenant with little demand is equivalent to none, so it is removed when another
 * tenant needs its place. Memory is bounded by the number of tenants that send at the same time.
 *
 * Thread: any; it has a lock.
 */
#ifndef FG_COMMON_MODEL_TENANT_RATE_H
#define FG_COMMON_MODEL_TENANT_RATE_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/model/tenant_limits.h"

struct fg_rates;

/* A rate that tenants have, and the setting that it comes from, for errors. */
struct fg_rate_limit {
    double rate_mb, burst_mb; /* MiB per second, MiB at once; rate_mb 0: no limit */
    const char *setting;      /* of the rate, in the section limits */
};

/* Return the rate of what agents push, and of what other servers forward. */
struct fg_rate_limit fg_rate_limit_of_pushes(const struct fg_limit_settings *limits);
struct fg_rate_limit fg_rate_limit_of_forwards(const struct fg_limit_settings *limits);

/* Creates it without buckets. tenants_max: buckets at a time; 0: any number. Never fails. */
struct fg_rates *fg_rates_create(uint32_t tenants_max);
/* Frees it. Accepts NULL. */
void fg_rates_destroy(struct fg_rates *rates);

/* Returns the number of buckets. */
uint32_t fg_rates_count(struct fg_rates *rates);

/*
 * Takes bytes from the bucket of the tenant. FG_E_LIMIT: it has fewer (the error names the limit,
 * the bytes and the setting), or too many other tenants send; nothing is taken then. In any case
 * *ret_used is how much of its rate the tenant has been offered in the last seconds, by all
 * processes together: 1 is all of it; 0 if it has no rate.
 */
enum fg_code fg_rates_take(struct fg_rates *rates, struct fg_slice tenant,
                           const struct fg_rate_limit *limit, uint64_t bytes, int64_t now_mono_ns,
                           double *ret_used, struct fg_err *err) fg_must_check;

/*
 * Takes bytes that were worked on in vain, of an upload that is refused: they leave the bucket in
 * debt, down to its burst, and until that is paid fg_rates_in_debt() says so.
 */
void fg_rates_charge(struct fg_rates *rates, struct fg_slice tenant,
                     const struct fg_rate_limit *limit, uint64_t bytes, int64_t now_mono_ns);

/* Checks whether the bucket of the tenant is in debt, before anything is done for an upload of so
 * many bytes. FG_E_LIMIT: it is, for another *ret_ns. */
enum fg_code fg_rates_in_debt(struct fg_rates *rates, struct fg_slice tenant,
                              const struct fg_rate_limit *limit, uint64_t bytes,
                              int64_t now_mono_ns, int64_t *ret_ns,
                              struct fg_err *err) fg_must_check;

/* What one process, or all, are offered of a tenant. */
struct fg_rate_demand {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    double bytes_per_s;
    double used;        /* of the rate; from fg_rates_report() */
    uint32_t processes; /* that are offered some; for fg_rates_apply() */
};

/*
 * Brings the demand up to date: call it every few seconds. Writes that of at most `max` tenants,
 * those that use most of their rate first, and returns how many. Tenants of which this process is
 * offered next to nothing are left out.
 */
uint32_t fg_rates_report(struct fg_rates *rates, int64_t now_mono_ns,
                         struct fg_rate_demand *demands, uint32_t max);

/* Takes in how many processes divide the rates of the tenants, at least 1, and what all of them are
 * offered of these ones. */
void fg_rates_apply(struct fg_rates *rates, uint32_t processes,
                    const struct fg_rate_demand *demands, uint32_t n, int64_t now_mono_ns);

/*
 * Returns the share of a rate for a process that is offered `own` of the `all` bytes per second
 * that `processes` processes are offered together. own <= all; rate, all > 0.
 */
double fg_rate_share(double rate, double own, double all, uint32_t processes);

/* The time in which the average of demand follows 63 % of a change. */
#define FG_RATE_AVERAGE_NS (5 * FG_SECOND_NS)
/* How long a process goes by what it heard of a tenant. */
#define FG_RATE_HEARD_NS (15 * FG_SECOND_NS)

#endif
