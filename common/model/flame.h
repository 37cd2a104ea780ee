/*
 * Flame graphs from function trees: truncation and the levels of querier/API.md#flame-graphs.
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
 * tree is a function tree (fg_tree_names). Siblings are in ascending byte order of names, "other"
 * last; nodes whose total is below that of the max_nodes-th largest are summed into one bar "other"
 * per parent; totals stay exact. max_nodes 0: no limit.
 *
 * Two differences from Pyroscope: truncation happens once, on the whole, instead of also in each
 * part before it; and a function that really is called "other" keeps what is below it.
 */
void fg_flame_make(const struct fg_tree *tree, size_t max_nodes, struct fg_flame *ret_flame);
void fg_flame_done(struct fg_flame *flame);

/*
 * The tree that truncation leaves, for the TREE format and for pprof: nodes below the threshold
 * folded into a child "other" of their parent. into is empty before.
 */
void fg_tree_truncate(const struct fg_tree *tree, size_t max_nodes, struct fg_tree *into);

/*
 * Tree bytes (querier/API.md#tree-bytes): in pre-order, last sibling first, varint length and name,
 * varint self, varint children; a root without name or value around it all. Nothing for an empty
 * tree.
 */
void fg_flame_write_tree(const struct fg_tree *tree, size_t max_nodes, struct fg_buf *out);

/* Collapsed stacks, "main;work;hash 30" a line, sorted by bytes; a line end in a name becomes a
 * blank. */
void fg_flame_write_folded(const struct fg_tree *tree, struct fg_buf *out);

/* Self and total by function, recursion counted once; sorted by total, then name. Owned, free(). */
struct fg_top_row {
    struct fg_slice name; /* borrowed from the tree */
    int64_t self, total;
};
struct fg_top_row *fg_flame_top(const struct fg_tree *tree, size_t *ret_rows);

#endif
