/*
 * Truncation: nodes with a small total are summed into a child "other" of their parent, so that a
 * flame graph stays readable and its totals exact. Private to the flame graph's files.
 */
#ifndef FG_COMMON_MODEL_FLAME_CUT_H
#define FG_COMMON_MODEL_FLAME_CUT_H

#include "common/model/tree.h"

/* The rank-th largest of values, rank from 1 to count. In time linear in count whatever the values.
 */
int64_t fg_flame_nth_largest(const int64_t *values, size_t count, size_t rank);

/* What a tree weighs. Borrowed. */
struct fg_flame_weights {
    const int64_t *totals; /* of nodes */
    /* Below node i, but in none of its children: part of totals, goes to its "other". NULL: none.
     */
    const int64_t *rests;
    int64_t root_rest;
};

/* Into an empty tree the nodes of `tree` whose total is at least `least`, with all above them, and
 * the others. */
void fg_flame_cut(const struct fg_tree *tree, const struct fg_flame_weights *weights, int64_t least,
                  struct fg_tree *into);

#endif
