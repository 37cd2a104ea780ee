/*
 * The plain GET route /api/status: what a tenant has and may, and how the cluster is that answers
 * it (querier/API.md#status). It says nothing about other tenants, and no addresses.
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_STATUS_H
#define FG_QUERIER_STATUS_H

#include "querier/query.h"

extern const struct qry_endpoint qry_status_endpoints[];
extern const size_t qry_n_status_endpoints;

#endif
