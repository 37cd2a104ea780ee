/*
 * Flame graphs of merged stacks, and comparisons of two.
 *
 * They are made from crowns first (common/storage/rollup/crown.h: the heaviest nodes of a tree, and
 * a bound for the rest), which is many times cheaper and mostly exact. If the result may be
 * inexact, all samples are read, provided that they are few enough (querier.refine_max_bytes) and
 * there is time. Otherwise query->inexact and query->bound say how far it may be off. Totals are
 * always exact.
 *
 * Thread and errors: as of collect.h.
 */
#ifndef FG_QUERIER_FLAMEGRAPH_H
#define FG_QUERIER_FLAMEGRAPH_H

#include "common/model/tree.h"
#include "querier/diff.h"
#include "querier/selection.h"

/* Makes a tree of function names, truncated to max_nodes, in an empty tree; drawing it with the
 * same max_nodes truncates it once more. fold: as flame graphs have it (flamegraph_cut.h). */
enum fg_code qry_flamegraph_make(struct qry_query *query, const struct qry_selection *selection,
                                 const struct qry_stack_filter *stacks, size_t max_nodes, bool fold,
                                 struct fg_tree *into, struct fg_err *err) fg_must_check;

/* A side of a comparison. */
struct qry_side {
    struct qry_selection selection;
    const struct qry_stack_filter *stacks; /* NULL: the side is empty */
};

/* Compares two selections. *ret_diff needs qry_diff_done(), after a failure too. */
enum fg_code qry_flamegraph_diff(struct qry_query *query, const struct qry_side *left,
                                 const struct qry_side *right, size_t max_nodes,
                                 struct qry_diff *ret_diff, struct fg_err *err) fg_must_check;

#endif
