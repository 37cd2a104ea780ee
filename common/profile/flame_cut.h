/*
 * Truncation: nodes with a small total are summed into a child "other" of their parent, so that a
 * flame graph stays readable and its totals exact. Private to the flame graph's files.
 */
#ifndef FG_COMMON_PROFILE_FLAME_CUT_H
#define FG_COMMON_PROFILE_FLAME_CUT_H

#include "common/profile/tree.h"

/* The rank-th largest of values, rank from 1 to count. In time linear in count whatever the values.
 */
int64_t fg_flame_nth_largest(const int64_t *values, size_t count, size_t rank);

/*
 * Column by column: a tree has one column of self values and one of totals, two trees that are
 * compared have two of each over the same nodes.
 */
struct fg_flame_columns {
    size_t count; /* 1 or 2 */
    int64_t *self[2], *totals[2];
    int64_t all[2]; /* total of the root */
    /* Below node i, but in none of its children: part of totals, goes to its "other". NULL: none.
     */
    const int64_t *rest[2];
    int64_t root_rest[2];
};

/*
 * Into an empty tree the nodes of `tree` whose weight is at least `least`, with all above them, and
 * the others. Into->self is the first column; with a second one *ret_second is its self values,
 * owned.
 */
void fg_flame_cut(const struct fg_tree *tree, const struct fg_flame_columns *columns,
                  const int64_t *weights, int64_t least, struct fg_tree *into,
                  int64_t **ret_second);

#endif
