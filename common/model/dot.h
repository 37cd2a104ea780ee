/*
 * Draws a call graph in Graphviz's DOT language, as `go tool pprof -dot` does: its labels, sizes,
 * colours and numbers (github.com/google/pprof, internal/graph and internal/measurement).
 *
 * Pure. Thread: any.
 */
#ifndef FG_COMMON_MODEL_DOT_H
#define FG_COMMON_MODEL_DOT_H

#include "common/model/labels.h"
#include "common/model/tree.h"

enum {
    FG_DOT_NODES_DEFAULT = 100,
    FG_DOT_NODES_MAX = 4096, /* no program can lay out more, and time grows with the square */
};

/*
 * Writes the graph of a function tree (fg_tree_names()) with at most max_nodes functions, at most
 * FG_DOT_NODES_MAX; 0: the default. type: names and unit of the values. time_ns: of the heading.
 * Writes nothing for an empty tree.
 */
void fg_dot_write(const struct fg_tree *tree, const struct fg_profile_type *type, int64_t time_ns,
                  size_t max_nodes, struct fg_buf *out);

#endif
