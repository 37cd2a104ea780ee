/*
 * Compares two flame graphs: one tree with the values of both sides, as bars of seven numbers
 * (querier/API.md#flame-graphs).
 *
 * A pure function. Thread: any.
 */
#ifndef FG_QUERIER_DIFF_H
#define FG_QUERIER_DIFF_H

#include "common/base/map.h"
#include "common/model/tree.h"
#include "common/storage/rollup/crown_sum.h"

struct qry_diff {
    struct fg_slice *names; /* of functions; [0] is "total". They are in the tree below */
    size_t n_names, cap_names;
    int64_t *values; /* bars, level by level */
    size_t n_values, cap_values;
    size_t *level_ends; /* of level i in values */
    size_t n_levels, cap_levels;
    int64_t left_ticks, right_ticks, max_self;
    struct fg_tree tree; /* nodes of both sides */
    struct fg_map name_map;
};

/* Compares two sums of function names and keeps max_nodes of them. *ret_verdict: how far it may be
 * off, for both sides together. */
void qry_diff_make(const struct fg_crown_sum *left, const struct fg_crown_sum *right,
                   size_t max_nodes, struct qry_diff *ret_diff,
                   struct fg_crown_verdict *ret_verdict);

/* Frees what the comparison owns. A zeroed one is fine. */
void qry_diff_done(struct qry_diff *diff);

#endif
