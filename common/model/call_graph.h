/*
 * The call graph of a function tree: a node for each function, an edge for each pair of caller and
 * callee. A stack counts once for each function and edge on it, however often it has them.
 *
 * The graph is the one that `go tool pprof` draws: what it keeps, its order and its edges across
 * functions that were left out are those of pprof (github.com/google/pprof, internal/graph).
 *
 * Pure values. Thread: one at a time.
 */
#ifndef FG_COMMON_MODEL_CALL_GRAPH_H
#define FG_COMMON_MODEL_CALL_GRAPH_H

#include "common/model/tree.h"

struct fg_call_node {
    struct fg_slice name; /* borrowed from the tree */
    int64_t flat, cum;    /* of stacks that end in it; of stacks that have it */
};

struct fg_call_edge {
    uint32_t from, to; /* nodes */
    int64_t weight;
    bool residual; /* functions between the two were left out */
};

struct fg_call_graph {
    struct fg_call_node *nodes; /* the most telling first */
    struct fg_call_edge *edges; /* by descending weight, then by names */
    uint32_t n_nodes, n_edges;
    uint32_t n_functions; /* with those that were left out */
    int64_t total;        /* of all stacks */
};

/*
 * Makes the graph of a function tree (fg_tree_names()), with the max_nodes functions that tell
 * most: those of much time that many paths meet in (pprof's entropy score). Edges that are residual
 * and whose callee can be reached on another way are left out.
 */
void fg_call_graph_make(const struct fg_tree *tree, uint32_t max_nodes,
                        struct fg_call_graph *ret_graph);
/* Frees the graph. */
void fg_call_graph_done(struct fg_call_graph *graph);

#endif
