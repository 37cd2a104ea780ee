/*
 * How much each tenant may send: a token bucket for everyone who has a rate, which fills up with
 * the rate and holds no more than the burst.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_COMMON_TENANT_RATE_H
#define FG_COMMON_TENANT_RATE_H

#include "common/base/err.h"
#include "common/tenant/limits.h"

struct fg_rates;

struct fg_rates *fg_rates_create(void);
void fg_rates_destroy(struct fg_rates *rates); /* NULL is fine */

/*
 * Takes so many bytes of the tenant's, at this time. FG_E_LIMIT when there are not so many, and
 * nothing is taken: with the limit, the bytes and the setting.
 */
enum fg_code fg_rates_take(struct fg_rates *rates, struct fg_slice tenant,
                           const struct fg_limit_settings *limits, uint64_t bytes,
                           int64_t now_mono_ns, struct fg_err *err) fg_must_check;

#endif
