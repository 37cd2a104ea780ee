/*
 * How much each tenant may send: a token bucket for everyone who has a rate, which fills up with
 * the rate and holds no more than the burst.
 *
 * A bucket that is full again says no more than that there is none, so it is forgotten when others
 * need its place: memory is bounded by how many tenants send at the same time.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_COMMON_MODEL_TENANT_RATE_H
#define FG_COMMON_MODEL_TENANT_RATE_H

#include "common/base/err.h"
#include "common/model/tenant_limits.h"

struct fg_rates;

/* Never fails. tenants_max: buckets at a time; 0: any number. */
struct fg_rates *fg_rates_create(uint32_t tenants_max);
void fg_rates_destroy(struct fg_rates *rates); /* NULL is fine */

/* Returns how many buckets there are. */
uint32_t fg_rates_count(struct fg_rates *rates);

/*
 * Takes so many bytes of the tenant's, at this time. FG_E_LIMIT when there are not so many, and
 * nothing is taken: with the limit, the bytes and the setting; or if too many other tenants send.
 */
enum fg_code fg_rates_take(struct fg_rates *rates, struct fg_slice tenant,
                           const struct fg_limit_settings *limits, uint64_t bytes,
                           int64_t now_mono_ns, struct fg_err *err) fg_must_check;

#endif
