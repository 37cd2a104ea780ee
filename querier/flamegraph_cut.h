/*
 * Cuts a sum of crowns down to the nodes that a flame graph shows. Clients rely on two habits of
 * earlier servers, and our responses are compared with theirs:
 *
 *   - in flame graphs a function named "other" counts as a remainder: what it calls is part of it;
 *   - truncation runs twice, since each part was truncated before it was merged; the remainders of
 *     the first pass are nodes of the second and take room from others.
 *
 * Totals are exact either way. Only flame graphs of Pyroscope's interfaces fold; tables, sandwiches
 * and exports have such a function and what it calls as they are.
 *
 * A pure function. Thread: any.
 */
#ifndef FG_QUERIER_FLAMEGRAPH_CUT_H
#define FG_QUERIER_FLAMEGRAPH_CUT_H

#include "common/model/tree.h"
#include "common/storage/rollup/crown_sum.h"

/* Cuts the sum to max_nodes, into an empty tree. fold: functions named "other" are remainders. */
void qry_flamegraph_cut(const struct fg_crown_sum *sum, size_t max_nodes, bool fold,
                        struct fg_tree *into, struct fg_crown_verdict *ret_verdict);

#endif
