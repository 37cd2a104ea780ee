/*
 * The plain GET routes /api/profiles and /api/profiles/ID: single profiles, listed and one by one
 * (querier/API.md#single-profiles).
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_PROFILE_LIST_H
#define FG_QUERIER_PROFILE_LIST_H

#include "querier/query.h"

extern const struct qry_endpoint qry_profile_endpoints[];
extern const size_t qry_n_profile_endpoints;

#endif
