/*
 * A query's place in the QUERY lane: the limits of its tenants, the flow that it belongs to, and
 * what its tenant pays for it. For queries of clients (http.h) and for those that the querier asks
 * itself (rules/rule_evaluator.h).
 *
 * Thread: any; nothing here blocks.
 */
#ifndef FG_QUERIER_QUERY_FLOW_H
#define FG_QUERIER_QUERY_FLOW_H

#include "querier/query.h"

/* Sets the limits and the flow of the query from its tenants. FG_E_LIMIT: a tenant has reached its
 * quota; the limits of all are set even so. */
enum fg_code qry_flow_limit(struct qry_query *query, struct fg_err *err) fg_must_check;

/* Puts the query's job into the QUERY lane, as one of its flow. */
enum fg_submit qry_flow_submit(struct qry_query *query) fg_must_check;

/* Counts for the tenant's bill what a query took that got a worker, or the answer of another one,
 * for which it took nothing. One of several tenants counts as one of the first. Once, at its end.
 */
void qry_flow_bill(const struct qry_query *query);

#endif
