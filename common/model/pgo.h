/*
 * Reduces a tree of locations to what Go's compiler reads for profile-guided optimisation: calls
 * near the leaf (querier/API.md#selectors, go_pgo).
 */
#ifndef FG_COMMON_MODEL_PGO_H
#define FG_COMMON_MODEL_PGO_H

#include "common/model/tree.h"

/*
 * Adds the stacks of a tree to an empty tree, each cut to its last keep_locations locations, leaf
 * included; 0: whole. aggregate_callees: clears the line number of the leaf, which of inlined
 * functions is that of the innermost one, so that stacks that differ in this only are one.
 */
void fg_tree_pgo(const struct fg_tree *tree, uint32_t keep_locations, bool aggregate_callees,
                 struct fg_tree *into);

#endif
