/*
 * Asks the ingesters at which distributors meet (common/cluster/shares) what a tenant uses of its
 * limits, for the page of its limits.
 *
 * Thread: a worker; may wait for two seconds.
 */
#ifndef FG_QUERIER_LIMIT_USE_H
#define FG_QUERIER_LIMIT_USE_H

#include "common/access/admin/admin_api.h"

/* querier: the struct querier. For struct fg_admin_api. */
void qry_limit_use(void *querier, struct fg_slice tenant, struct fg_admin_limit_use *use);

#endif
