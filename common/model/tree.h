/*
 * A stack tree: each node is a location under a parent, so a path from the root is a stack. Nodes
 * are numbered from 0, parents before children; the root is not a node (parent FG_TREE_ROOT).
 * Beside it one column of self values, and apart from it the value of the empty stack. Sums of them
 * saturate (common/base/value.h).
 *
 * This is what a merge of profiles is, on its way from the heads and blocks to flame graphs and
 * pprof: exact, with names or with full locations.
 *
 * Encoded (an answer of an ingester or of a block): symbols as in symbols.h since FG_SYMBOLS_START,
 * then zigzag root self, varint n, nodes: varint (number - parent) with 0 for the root, varint
 * location, zigzag self.
 */
#ifndef FG_COMMON_MODEL_TREE_H
#define FG_COMMON_MODEL_TREE_H

#include "common/base/value.h"
#include "common/model/frame_name.h"
#include "common/model/symbols.h"

enum { FG_TREE_ROOT = UINT32_MAX };

struct fg_tree {
    struct fg_symbols symbols;
    uint32_t *parents;   /* of node i, less than i, or FG_TREE_ROOT */
    uint32_t *locations; /* of node i, into symbols */
    int64_t *self;       /* value of the stack that ends in node i */
    int64_t root_self;   /* value of the empty stack; 0 in a function tree */
    uint32_t n_nodes, cap_nodes;
    struct fg_map map; /* (parent, location) -> node */
};

/*
 * Thread: one at a time. If symbols.outgrown is set, other threads may read all arrays except the
 * maps through an older copy of the struct, with values of their own, while one thread adds nodes.
 */

void fg_tree_init(struct fg_tree *tree);
void fg_tree_done(struct fg_tree *tree);
size_t fg_tree_bytes(const struct fg_tree *tree);

/* Makes room for count nodes in all, where somebody knows. */
void fg_tree_reserve(struct fg_tree *tree, uint32_t count);

/* All nodes are there, and only they are of interest: gives back what finding them and values take.
 * From here on the tree can be read and be done with. */
void fg_tree_seal(struct fg_tree *tree);

/* Find or add the node of location under parent. */
uint32_t fg_tree_child(struct fg_tree *tree, uint32_t parent, uint32_t location);

/* Adds to the value of the stack that ends in node; FG_TREE_ROOT is the empty stack. */
static inline void fg_tree_add(struct fg_tree *tree, uint32_t node, int64_t value)
{
    int64_t *self = node == FG_TREE_ROOT ? &tree->root_self : &tree->self[node];

    fg_assert(node == FG_TREE_ROOT || node < tree->n_nodes);
    *self = fg_value_add(*self, value);
}

/*
 * Sums of the nodes' own values and those of all nodes below: totals[n_nodes], and returns the
 * total of the whole tree (without root_self). fg_tree_sums() takes other values than the tree's
 * own.
 */
int64_t fg_tree_sums(const struct fg_tree *tree, const int64_t *self, int64_t *totals);

/* The same for any nodes of which parents come first. totals may be self. */
int64_t fg_parents_sums(const uint32_t *parents, uint32_t n_nodes, const int64_t *self,
                        int64_t *totals);

static inline int64_t fg_tree_totals(const struct fg_tree *tree, int64_t *totals)
{
    return fg_tree_sums(tree, tree->self, totals);
}

/* Adds all of `from`, symbols included. */
void fg_tree_merge(struct fg_tree *tree, const struct fg_tree *from);

/* The same without nodes that have no value, of their own or below: of a tree that knows many more
 * stacks than it has values. */
void fg_tree_merge_used(struct fg_tree *tree, const struct fg_tree *from);

/* Leaves only the values of stacks that begin with frames of these names, the outermost first; the
 * others become 0. n_names > 0. */
void fg_tree_keep_site(struct fg_tree *tree, const char *const *names, size_t n_names);

/*
 * Adds the stacks of a tree to `into`, a function tree: one whose locations are nothing but the
 * names of frames (frame_name.h). A location gives a node for each of its lines, the outermost
 * first, and one node if it has none; the empty stack is a node of its own, FG_FRAME_NO_STACK. So
 * the total of a function tree is the sum of all values. Nodes without any value below are left
 * out.
 */
void fg_tree_names(const struct fg_tree *tree, struct fg_tree *into);

/*
 * Adds the nodes of a tree, with and without value, to a function tree, and none of the values.
 * nodes[tree->n_nodes]: where the stack of each node ends in `into`. *ret_no_stack, unless it is
 * NULL: where the empty stack does; without it `into` has no node for that.
 */
void fg_tree_name_all(const struct fg_tree *tree, struct fg_tree *into, uint32_t *nodes,
                      uint32_t *ret_no_stack);

/* Does the same, quicker, for an empty `into` that is only looked at afterwards: fg_tree_child()
 * does not find its nodes. */
void fg_tree_name_new(const struct fg_tree *tree, struct fg_tree *into, uint32_t *nodes,
                      uint32_t *ret_no_stack);

void fg_tree_encode(const struct fg_tree *tree, struct fg_buf *out);

/*
 * Into an empty tree. FG_E_CORRUPT when anything is out of range or said twice; of the tree only
 * fg_tree_done() is of use then.
 */
enum fg_code fg_tree_decode(struct fg_tree *tree, struct fg_slice in,
                            struct fg_err *err) fg_must_check;

/* Returns the name of a node of a function tree. */
struct fg_slice fg_tree_name(const struct fg_tree *tree, uint32_t node);

/* Returns that of a location of a function tree. */
struct fg_slice fg_tree_location_name(const struct fg_tree *tree, uint32_t number);

#endif
