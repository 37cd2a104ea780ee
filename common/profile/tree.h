/*
 * A stack tree: each node is a location under a parent, so a path from the root is a stack. Nodes are
 * numbered from 0, parents before children; the root is not a node (parent FG_TREE_ROOT). Beside it one
 * column of self values.
 *
 * This is what a merge of profiles is, on its way from the heads and blocks to flame graphs and pprof:
 * exact, with names or with full locations.
 *
 * Encoded (an answer of an ingester or of a block): symbols as in symbols.h since FG_SYMBOLS_START, then
 * varint n, nodes: varint (number - parent) with 0 for the root, varint location, zigzag self.
 */
#ifndef FG_COMMON_PROFILE_TREE_H
#define FG_COMMON_PROFILE_TREE_H

#include "common/profile/symbols.h"

enum { FG_TREE_ROOT = UINT32_MAX };

struct fg_tree {
    struct fg_symbols symbols;
    uint32_t *parents;   /* of node i, less than i, or FG_TREE_ROOT */
    uint32_t *locations; /* of node i, into symbols */
    int64_t *self;       /* value of the stack that ends in node i */
    uint32_t n_nodes, cap_nodes;
    struct fg_map map; /* (parent, location) -> node */
};

void fg_tree_init(struct fg_tree *tree);
void fg_tree_done(struct fg_tree *tree);
size_t fg_tree_bytes(const struct fg_tree *tree);

/* Find or add the node of location under parent. */
uint32_t fg_tree_child(struct fg_tree *tree, uint32_t parent, uint32_t location);

/* Sums of the nodes' own and all nodes below: totals[n_nodes], and returns the total of the whole tree. */
int64_t fg_tree_totals(const struct fg_tree *tree, int64_t *totals);

/* Adds all of `from`, symbols included. */
void fg_tree_merge(struct fg_tree *tree, const struct fg_tree *from);

/*
 * The same stacks with nothing but function names: a location gives a node for each of its lines, the
 * outermost first; a location without lines gives none (its value goes to what called it). Nodes without
 * any value below are left out. into is empty before.
 */
void fg_tree_names(const struct fg_tree *tree, struct fg_tree *into);

void fg_tree_encode(const struct fg_tree *tree, struct fg_buf *out);

/* Into an empty tree. FG_E_CORRUPT when anything is out of range. */
enum fg_code fg_tree_decode(struct fg_tree *tree, struct fg_slice in,
                            struct fg_err *err) fg_must_check;

/* Names of node's function: the first line's; "" when there is none. For trees of names. */
struct fg_slice fg_tree_name(const struct fg_tree *tree, uint32_t node);

#endif
