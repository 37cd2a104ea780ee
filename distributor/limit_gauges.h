/*
 * Shows in metrics which tenants are near their limits, before they reach them: a gauge for each of
 * the GAUGES_MAX that have used most of one, of those that have used at least half. All
 * distributors show the same numbers, of all of them together, so dashboards take their maximum.
 *
 * Thread: one at a time; scrapes may come meanwhile.
 */
#ifndef FG_DISTRIBUTOR_LIMIT_GAUGES_H
#define FG_DISTRIBUTOR_LIMIT_GAUGES_H

#include "common/base/time.h"
#include "common/model/tenant_quota.h"
#include "common/model/tenant_rate.h"
#include "common/runtime/metrics.h"

struct dist_limit_gauges;

/* Creates it. registry, quotas and clock are borrowed. Never fails. */
struct dist_limit_gauges *dist_limit_gauges_create(struct fg_registry *registry,
                                                   struct fg_quotas *quotas,
                                                   struct fg_clock *clock);
/* Removes the gauges. Accepts NULL. */
void dist_limit_gauges_destroy(struct dist_limit_gauges *gauges);

/* Shows how many distributors there are, and the tenants of these rates and of the quotas. */
void dist_limit_gauges_set(struct dist_limit_gauges *gauges, uint32_t processes,
                           const struct fg_rate_demand *demands, uint32_t n);

#endif
