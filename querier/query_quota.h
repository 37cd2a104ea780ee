/*
 * Makes limits.query_bytes_per_hour hold for all queriers together: the shell of
 * common/cluster/shares. Every two seconds a thread tells the ingesters at which queriers meet what
 * queries of each tenant have read here in this hour, and hears what they have read everywhere. It
 * shows in metrics who is near the limit.
 *
 * Queriers meet at the owners of shard 0, as distributors do (distributor/shares.h). One that
 * reaches none counts on alone. No query waits for any of this.
 *
 * Thread: create and destroy from the owner's; the other functions from any.
 */
#ifndef FG_QUERIER_QUERY_QUOTA_H
#define FG_QUERIER_QUERY_QUOTA_H

#include "querier/query.h"

struct qry_quota;

/* Creates it and starts its thread. The querier and the registry are borrowed. FG_E_LIMIT: no more
 * threads. */
enum fg_code qry_quota_create(struct querier *querier, struct fg_registry *registry,
                              struct qry_quota **ret_quota, struct fg_err *err) fg_must_check;
/* Tells a last time what was read, and frees it. Waits for a second at most. Accepts NULL. */
void qry_quota_destroy(struct qry_quota *quota);

/*
 * Checks whether a tenant of the query has reached its limit; the first one is charged for what it
 * reads. FG_E_LIMIT: it has; the error names tenant, limit, setting and the end of the hour. Sets
 * query->quota and query->quota_use; what it reads is counted as it is charged for
 * (qry_query_charge()).
 */
enum fg_code qry_quota_check(struct qry_query *query, size_t tenant, const struct fg_limits *limits,
                             struct fg_err *err) fg_must_check;

/* Adds header fields if the tenant is near its limit, and Retry-After if it has reached it. */
void qry_quota_headers(const struct qry_query *query);

#endif
