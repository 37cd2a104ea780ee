/*
 * /api/compare: which functions changed between two selections, by how much, with what confidence,
 * and what could not have been seen (querier/API.md#what-changed).
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_COMPARE_COMPARE_H
#define FG_QUERIER_COMPARE_COMPARE_H

#include "querier/query.h"

extern const struct qry_endpoint qry_change_endpoints[];
extern const size_t qry_n_change_endpoints;

#endif
