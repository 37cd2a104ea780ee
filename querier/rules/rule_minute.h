/*
 * The rules of a tenant in a minute: evaluates all of them, within the tenant's budget, and keeps
 * their values in a cache, so that the minute is computed once for all who ask.
 *
 * A rule is a question about a minute that is over, so each querier can answer it, and all get the
 * same integers. A querier that dies loses nothing.
 *
 * Thread: workers. Memory: see CACHE_MAX_BYTES.
 */
#ifndef FG_QUERIER_RULES_RULE_MINUTE_H
#define FG_QUERIER_RULES_RULE_MINUTE_H

#include "querier/query.h"
#include "querier/rules/rule_store.h"

struct qry_rules;

/* Creates what the rules of all tenants share. Destroy accepts NULL. */
struct qry_rules *qry_rules_create(struct fg_registry *registry);
void qry_rules_destroy(struct qry_rules *rules);

/* The rules of the query's tenant. */
struct qry_tenant_rules {
    struct qry_rule_store store;
    size_t series_max;
};

/* FG_E_INVALID: the query is about several tenants. */
enum fg_code qry_rules_of_tenant(const struct qry_query *query, struct qry_tenant_rules *ret_rules,
                                 struct fg_err *err) fg_must_check;

/*
 * Evaluates the rules of the query's tenant in the minute that begins at minute_ns, except for
 * those with values in the cache. text: appends the metrics to query->body. A rule that fails has
 * no values: the query lacks it (qry_query_lacks()). ret_unavailable: some rule failed since
 * ingesters or the bucket did not answer in time, which another querier, or a later try, may get.
 * Errors of queries.
 */
enum fg_code qry_rules_evaluate(struct qry_query *query, int64_t minute_ns, bool text,
                                bool *ret_unavailable, struct fg_err *err) fg_must_check;

#endif
