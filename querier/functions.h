/*
 * The plain GET routes about functions, over all data and never from a picture that was cut: a
 * table of all of them, /api/functions, and one with its callers and callees, /api/sandwich
 * (querier/API.md#functions).
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_FUNCTIONS_H
#define FG_QUERIER_FUNCTIONS_H

#include "querier/query.h"

extern const struct qry_endpoint qry_function_endpoints[];
extern const size_t qry_n_function_endpoints;

#endif
