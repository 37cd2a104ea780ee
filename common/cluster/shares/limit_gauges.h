/*
 * Shows in metrics which tenants are near their limits, before they reach them: a gauge for each of
 * the GAUGES_MAX that have used most of one, of those that have used at least half. All processes
 * of a kind show the same numbers, of all of them together, so dashboards take their maximum.
 *
 * Thread: one at a time; scrapes may come meanwhile.
 */
#ifndef FG_COMMON_CLUSTER_SHARES_LIMIT_GAUGES_H
#define FG_COMMON_CLUSTER_SHARES_LIMIT_GAUGES_H

#include "common/base/time.h"
#include "common/model/tenant_quota.h"
#include "common/runtime/metrics.h"

struct fg_limit_gauges;

/* Creates it. registry is borrowed. Never fails. */
struct fg_limit_gauges *fg_limit_gauges_create(struct fg_registry *registry);
/* Removes the gauges. Accepts NULL. */
void fg_limit_gauges_destroy(struct fg_limit_gauges *gauges);

/* Adds what a tenant has used of a limit, 1 is all of it. limit: the name of the setting, which
 * lives longer. */
void fg_limit_gauges_add(struct fg_limit_gauges *gauges, const char *tenant, const char *limit,
                         double used);

/* Adds all tenants of the quotas. */
void fg_limit_gauges_add_quotas(struct fg_limit_gauges *gauges, struct fg_quotas *quotas,
                                int64_t now_wall_ns);

/* Shows what was added since the last call, and nothing else. */
void fg_limit_gauges_show(struct fg_limit_gauges *gauges);

#endif
