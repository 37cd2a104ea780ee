/*
 * Truncates trees: sums nodes with a small total into a child "other" of their parent, so that a
 * flame graph stays readable and its totals exact. Private to the files of flame graphs.
 */
#ifndef FG_COMMON_MODEL_FLAME_CUT_H
#define FG_COMMON_MODEL_FLAME_CUT_H

#include "common/model/tree.h"

/* Returns the rank-th largest value, rank from 1 to count, in time linear in count for all inputs.
 */
int64_t fg_flame_nth_largest(const int64_t *values, size_t count, size_t rank);

/* The weights of the nodes of a tree, borrowed. */
struct fg_flame_weights {
    const int64_t *totals; /* of nodes */
    /* Below node i, but in none of its children: part of totals, goes to its "other". NULL: none.
     */
    const int64_t *rests;
    int64_t root_rest;
};

/* Copies the nodes whose total is at least `least`, and their ancestors, to the empty tree `into`,
 * and adds the nodes "other". Afterwards `into` can only be read and freed (fg_tree_append()). */
void fg_flame_cut(const struct fg_tree *tree, const struct fg_flame_weights *weights, int64_t least,
                  struct fg_tree *into);

#endif
