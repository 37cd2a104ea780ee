/*
 * A function tree is a call tree by function names in canonical order: nodes depth first, siblings
 * by name, names numbered in the order of their bytes. The number of a node depends on the stacks
 * only, not on the numbers in the tree that it was made from.
 *
 * Rollups are made over function trees, since one tree serves many sums: of groups, spans, types.
 *
 * Thread: read-only once made. Memory: 13 bytes per node and 24 per name; a tree made from stacks
 * also has 4 bytes per node of theirs, and the text of the names.
 */
#ifndef FG_COMMON_MODEL_FUNCTION_TREE_H
#define FG_COMMON_MODEL_FUNCTION_TREE_H

#include "common/base/arena.h"
#include "common/model/tree.h"

struct fg_function_tree {
    uint32_t *parents;      /* of node i, less than i, or FG_TREE_ROOT */
    uint32_t *functions;    /* of node i: index into names */
    bool *outermost;        /* no ancestor has the same name */
    struct fg_slice *names; /* ascending by bytes, each once */
    uint32_t *nodes;        /* [n_from]: the node here for each node of the original tree */
    uint32_t no_stack;      /* node of the empty stack; FG_TREE_ROOT: not included */
    uint32_t n_nodes, n_names, n_from;
    uint8_t *text; /* of the names, if it is not borrowed */
    size_t text_bytes;
};

/* Makes it from the output of fg_tree_names(), from which the names are borrowed. */
void fg_function_tree_init(struct fg_function_tree *names, const struct fg_tree *tree);

/* Makes it from a tree of locations, of all nodes whether or not they have a value. no_stack:
 * includes a node for the empty stack. */
void fg_function_tree_init_stacks(struct fg_function_tree *names, const struct fg_tree *tree,
                                  bool no_stack);
/* Frees the tree. */
void fg_function_tree_done(struct fg_function_tree *names);

/* Frees the names of a tree that was made from stacks, whose caller has them elsewhere. It may set
 * names and n_names to these, and to NULL before the tree is freed. */
void fg_function_tree_drop_names(struct fg_function_tree *names);

/* Sets outermost[n_nodes] of a tree whose parents and functions were read from a block. Uses the
 * arena for a while only. Returns false if the arena has no room. */
bool fg_function_tree_find_outermost(struct fg_function_tree *names,
                                     struct fg_arena *arena) fg_must_check;
/* Returns the approximate memory of the tree in bytes. */
size_t fg_function_tree_bytes(const struct fg_function_tree *names);

/* One set of values over a function tree. */
struct fg_function_values {
    int64_t *self, *totals;                   /* [n_nodes] */
    int64_t *function_self, *function_totals; /* [n_names]; recursion counts once in totals */
    int64_t all;                              /* total of the tree */
};

/* Allocates values for a tree. */
void fg_function_values_init(struct fg_function_values *values,
                             const struct fg_function_tree *names);
/* Frees the values. */
void fg_function_values_done(struct fg_function_values *values);

/* Computes all values from self values of the nodes of the original tree. */
void fg_function_values_set(struct fg_function_values *values, const struct fg_function_tree *names,
                            const int64_t *self);

/* Computes all values from self values of the nodes of the function tree: self[n_nodes]. */
void fg_function_values_set_nodes(struct fg_function_values *values,
                                  const struct fg_function_tree *names, const int64_t *self);

#endif
