/*
 * Limits how much each tenant may send: one token bucket per tenant with a rate. It fills with the
 * rate and holds at most the burst.
 *
 * A full bucket is equivalent to none, so it is removed when another tenant needs its place. Memory
 * is bounded by the number of tenants that send at the same time.
 *
 * Thread: any; it has a lock.
 */
#ifndef FG_COMMON_MODEL_TENANT_RATE_H
#define FG_COMMON_MODEL_TENANT_RATE_H

#include "common/base/err.h"
#include "common/model/tenant_limits.h"

struct fg_rates;

/* Creates it without buckets. tenants_max: buckets at a time; 0: any number. Never fails. */
struct fg_rates *fg_rates_create(uint32_t tenants_max);
/* Frees it. Accepts NULL. */
void fg_rates_destroy(struct fg_rates *rates);

/* Returns the number of buckets. */
uint32_t fg_rates_count(struct fg_rates *rates);

/*
 * Takes bytes from the bucket of the tenant. FG_E_LIMIT: it has fewer (the error names the limit,
 * the bytes and the setting), or too many other tenants send; nothing is taken then.
 */
enum fg_code fg_rates_take(struct fg_rates *rates, struct fg_slice tenant,
                           const struct fg_limit_settings *limits, uint64_t bytes,
                           int64_t now_mono_ns, struct fg_err *err) fg_must_check;

#endif
