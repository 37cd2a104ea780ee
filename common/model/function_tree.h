/*
 * A tree of function names in canonical order, for sums that are taken over it again and again:
 * nodes depth first, siblings by name, names as numbers in the order of their bytes. Which node has
 * which number follows from the stacks alone, however the tree it was made of is numbered.
 *
 * Pre-merged nodes of blocks are made over it: many sums (groups, spans, types) over one tree.
 *
 * Thread: constant once made. Memory: 13 bytes a node, 24 a name; made of stacks also 4 bytes a
 * node of theirs, and the text of the names.
 */
#ifndef FG_COMMON_MODEL_FUNCTION_TREE_H
#define FG_COMMON_MODEL_FUNCTION_TREE_H

#include "common/base/arena.h"
#include "common/model/tree.h"

struct fg_function_tree {
    uint32_t *parents;      /* of node i, less than i, or FG_TREE_ROOT */
    uint32_t *functions;    /* of node i, into names */
    bool *outermost;        /* no node above it has its name */
    struct fg_slice *names; /* ascending by bytes, each once */
    uint32_t *nodes;        /* of a node of the tree it was made of: the node here */
    uint32_t no_stack;      /* node of the empty stack; FG_TREE_ROOT: nobody asked for it */
    uint32_t n_nodes, n_names, n_from;
    struct fg_symbols symbols; /* the names' text, where they are not borrowed */
};

/* Of a function tree (fg_tree_names()); the names are borrowed from it. */
void fg_function_tree_init(struct fg_function_tree *names, const struct fg_tree *tree);

/* Of a tree of locations, nodes with and without value. no_stack: with a node for the empty stack,
 * too. */
void fg_function_tree_init_stacks(struct fg_function_tree *names, const struct fg_tree *tree,
                                  bool no_stack);
void fg_function_tree_done(struct fg_function_tree *names);

/* For who has parents and functions, depth first, from elsewhere: sets outermost[n_nodes]. The
 * arena is as it was afterwards; false: it has no room. */
bool fg_function_tree_find_outermost(struct fg_function_tree *names,
                                     struct fg_arena *arena) fg_must_check;
size_t fg_function_tree_bytes(const struct fg_function_tree *names); /* its memory, about */

/* One set of values over a function tree. */
struct fg_function_values {
    int64_t *self, *totals;                   /* [n_nodes] */
    int64_t *function_self, *function_totals; /* [n_names]; recursion counts once in totals */
    int64_t all;                              /* total of the tree */
};

void fg_function_values_init(struct fg_function_values *values,
                             const struct fg_function_tree *names);
void fg_function_values_done(struct fg_function_values *values);

/* self: values of the nodes of the tree that names were made of. */
void fg_function_values_set(struct fg_function_values *values, const struct fg_function_tree *names,
                            const int64_t *self);

/* The same for who has summed by nodes of names already: self[n_nodes]. */
void fg_function_values_set_nodes(struct fg_function_values *values,
                                  const struct fg_function_tree *names, const int64_t *self);

#endif
