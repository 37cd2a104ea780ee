/*
 * The crown of a function tree: its heaviest nodes with their exact values. The rest of a node is
 * the sum of its descendants that were cut, so totals stay exact: total = self + rest + totals of
 * the children that were kept.
 *
 * A crown of 32,768 nodes suffices for flame graphs of 8,192 nodes, and its size does not grow with
 * time or instances. It is always made of full data, never of other crowns; fg_crown_sum adds
 * crowns.
 *
 * The weight of a node is the greatest total, by magnitude, of itself and its descendants. If no
 * value is negative, that is its total. It is never less than the weight of a descendant, so the
 * parent of a kept node is kept as well. Among nodes of equal weight the order of the tree decides.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_CROWN_H
#define FG_COMMON_STORAGE_ROLLUP_CROWN_H

#include "common/model/function_tree.h"

enum { FG_CROWN_NODES = 32768 };

struct fg_crown {
    uint32_t *nodes; /* of the function tree, ascending */
    int64_t *self;   /* [n_nodes] */
    int64_t *rest;   /* [n_nodes] */
    uint32_t n_nodes;
    int64_t root_rest;  /* sum of the outermost nodes that were cut */
    uint64_t cut_max;   /* the greatest weight that was cut; 0: the crown is the whole tree */
    bool has_negatives; /* there are negative values: a rest does not bound its parts */
};

/* Makes a crown of at most max_nodes nodes. Meanwhile it needs 8 bytes per node of the tree. */
void fg_crown_make(const struct fg_function_tree *names, const struct fg_function_values *values,
                   uint32_t max_nodes, struct fg_crown *ret_crown);
/* Frees the crown. */
void fg_crown_done(struct fg_crown *crown);

#endif
