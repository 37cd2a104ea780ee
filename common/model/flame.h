/*
 * Makes flame graphs from function trees: truncation, and the levels of
 * querier/API.md#flame-graphs.
 */
#ifndef FG_COMMON_MODEL_FLAME_H
#define FG_COMMON_MODEL_FLAME_H

#include "common/model/tree.h"

enum { FG_FLAME_NODES_DEFAULT = 8192, FG_FLAME_NODES_MAX = 1048576 };

/*
 * Bars level by level. A bar is four numbers: offset (from the end of the bar before), total, self,
 * name. names[0] is "total". Owned; names point into `text`.
 */
struct fg_flame {
    struct fg_slice *names;
    size_t n_names;
    int64_t *values;    /* all levels one after another */
    size_t *level_ends; /* of level i in values, in numbers, not bars */
    size_t n_levels;
    int64_t total, max_self;
    struct fg_buf text;
};

/*
 * Makes the flame graph of a function tree (fg_tree_names()). Siblings are in ascending byte order
 * of names, "other" last. Nodes whose total is less than the max_nodes-th largest are summed into
 * one bar "other" per parent, so totals stay exact. max_nodes 0: no limit.
 *
 * It differs from Pyroscope in two ways: it truncates once, at the end, and not also each part
 * before; and a function whose name is "other" keeps its callees.
 */
void fg_flame_make(const struct fg_tree *tree, size_t max_nodes, struct fg_flame *ret_flame);
/* Frees the flame graph. */
void fg_flame_done(struct fg_flame *flame);

/*
 * Truncates a tree, for the TREE format and for pprof: sums nodes below the threshold into a child
 * "other" of their parent. into is empty before.
 */
void fg_tree_truncate(const struct fg_tree *tree, size_t max_nodes, struct fg_tree *into);

/*
 * Writes tree bytes (querier/API.md#tree-bytes): a root without name or value, and all nodes in
 * pre-order, last sibling first, each as varint length and name, varint self, varint children.
 * Writes nothing for an empty tree.
 */
void fg_flame_write_tree(const struct fg_tree *tree, size_t max_nodes, struct fg_buf *out);

/* Writes collapsed stacks, one line "main;work;hash 30" each, sorted by bytes. A line end in a name
 * becomes a blank and a ';' becomes ':', so that the text can be read back. */
void fg_flame_write_folded(const struct fg_tree *tree, struct fg_buf *out);

/* A function: recursion counts once in total. */
struct fg_top_row {
    struct fg_slice name; /* borrowed from the tree */
    int64_t self, total;
};
/* Returns all functions sorted by total, then name, to be released with free(). */
struct fg_top_row *fg_flame_top(const struct fg_tree *tree, size_t *ret_rows);

#endif
