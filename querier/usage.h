/*
 * GET /api/usage: what the tenants of the request used, for bills. A day is the sum of its newest
 * document (common/cluster/usage) and of what the tenant's ledger has beyond it
 * (common/cluster/manifest/ledger.h). The manifest is read first and names the newest version that
 * counts, so nothing is added twice or missing.
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_USAGE_H
#define FG_QUERIER_USAGE_H

#include "querier/query.h"

extern const struct qry_endpoint qry_usage_endpoints[];
extern const size_t qry_n_usage_endpoints;

#endif
