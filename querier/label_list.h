/*
 * The plain GET routes about labels: the names that a selection has, /api/labels, and the values of
 * one of them, /api/labels/NAME, with the numbers of their series (querier/API.md#labels).
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_LABEL_LIST_H
#define FG_QUERIER_LABEL_LIST_H

#include "querier/query.h"

extern const struct qry_endpoint qry_label_endpoints[];
extern const size_t qry_n_label_endpoints;

#endif
