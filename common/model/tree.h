/*
 * A stack tree: each node is a location under a parent, so a path from the root is a stack. Nodes
 * are numbered from 0, parents before children; the root is not a node (parent FG_TREE_ROOT). The
 * tree has one column of self values and the value of the empty stack. Sums of values saturate
 * (common/base/value.h).
 *
 * It is the exact result of merging profiles, from heads and blocks to flame graphs and pprof. Its
 * locations are full locations, or names of functions only (a function tree).
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

/* Makes an empty tree. */
void fg_tree_init(struct fg_tree *tree);
/* Frees the tree. */
void fg_tree_done(struct fg_tree *tree);
/* Returns the memory of the tree in bytes. */
size_t fg_tree_bytes(const struct fg_tree *tree);

/* Makes room for count nodes in total. */
void fg_tree_reserve(struct fg_tree *tree, uint32_t count);

/* Frees the memory that only adding nodes and values needs. After that the tree can only be read
 * and freed. */
void fg_tree_seal(struct fg_tree *tree);

/* Finds or adds the node of a location under a parent, and returns its number. */
uint32_t fg_tree_child(struct fg_tree *tree, uint32_t parent, uint32_t location);

/* Adds a node that is not there, for a tree that is only read and freed afterwards: faster than
 * fg_tree_child(), which does not find it. */
uint32_t fg_tree_append(struct fg_tree *tree, uint32_t parent, uint32_t location);

/* Makes fg_tree_child() find nodes that were appended to a tree without others. */
void fg_tree_index(struct fg_tree *tree);

/* Adds to the value of the stack that ends in node; FG_TREE_ROOT is the empty stack. */
static inline void fg_tree_add(struct fg_tree *tree, uint32_t node, int64_t value)
{
    int64_t *self = node == FG_TREE_ROOT ? &tree->root_self : &tree->self[node];

    fg_assert(node == FG_TREE_ROOT || node < tree->n_nodes);
    *self = fg_value_add(*self, value);
}

/*
 * Sets totals[n_nodes] to the sums of the given self values of each node and all its descendants.
 * Returns the total of the whole tree without root_self.
 */
int64_t fg_tree_sums(const struct fg_tree *tree, const int64_t *self, int64_t *totals);

/* Does the same for nodes in any array in which parents come first. totals may be self. */
int64_t fg_parents_sums(const uint32_t *parents, uint32_t n_nodes, const int64_t *self,
                        int64_t *totals);

/* Does the same for the self values of the tree. */
static inline int64_t fg_tree_totals(const struct fg_tree *tree, int64_t *totals)
{
    return fg_tree_sums(tree, tree->self, totals);
}

/* Adds all nodes and values of `from`, with their symbols. */
void fg_tree_merge(struct fg_tree *tree, const struct fg_tree *from);

/* Does the same without nodes whose subtree has no value, for trees in which most stacks have none.
 */
void fg_tree_merge_used(struct fg_tree *tree, const struct fg_tree *from);

/* Sets the values of all stacks to 0 that do not begin with frames of these names, the outermost
 * first. n_names > 0. */
void fg_tree_keep_site(struct fg_tree *tree, const char *const *names, size_t n_names);

/*
 * Adds the stacks of a tree to `into`, a function tree, whose locations are names of frames only
 * (frame_name.h). A location gives a node for each of its lines, the outermost first, and one node
 * if it has no lines. The empty stack becomes a node, FG_FRAME_NO_STACK, so the total of a function
 * tree is the sum of all values. Nodes whose subtree has no value are left out.
 */
void fg_tree_names(const struct fg_tree *tree, struct fg_tree *into);

/*
 * Adds all nodes of a tree, but no values, to a function tree. Sets nodes[tree->n_nodes]: the node
 * of `into` in which the stack of each node ends. If ret_no_stack is not NULL, adds a node for the
 * empty stack as well and returns it there.
 */
void fg_tree_name_all(const struct fg_tree *tree, struct fg_tree *into, uint32_t *nodes,
                      uint32_t *ret_no_stack);

/* Does fg_tree_name_all() faster for an empty `into` that is only read afterwards: fg_tree_child()
 * does not find its nodes. */
void fg_tree_name_new(const struct fg_tree *tree, struct fg_tree *into, uint32_t *nodes,
                      uint32_t *ret_no_stack);

/* Appends the encoded tree. */
void fg_tree_encode(const struct fg_tree *tree, struct fg_buf *out);

/*
 * Decodes into an empty tree. FG_E_CORRUPT: a number is out of range, or an entry occurs twice.
 * Only fg_tree_done() may be called on the tree then.
 */
enum fg_code fg_tree_decode(struct fg_tree *tree, struct fg_slice in,
                            struct fg_err *err) fg_must_check;

/* Returns the name of a node of a function tree. */
struct fg_slice fg_tree_name(const struct fg_tree *tree, uint32_t node);

/* Returns the name of a location of a function tree. */
struct fg_slice fg_tree_location_name(const struct fg_tree *tree, uint32_t number);

#endif
