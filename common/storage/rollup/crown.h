/*
 * The crown of a function tree: its heaviest nodes, and exactly what each is worth. What was cut
 * below a node is its rest, so that totals stay exact: total = self + rest + totals of the children
 * that were kept.
 *
 * A crown of 32,768 nodes serves flame graphs of 8,192 whatever was merged in it: its size does not
 * grow with time or instances. It is always made of full data, never of other crowns; crowns are
 * added up with fg_crown_sum.
 *
 * What a node weighs is the greatest total, by magnitude, of itself and all below it: for values
 * that are not negative that is its total, and always at least that of what is below it. So a
 * node's parent is kept with it. Nodes of equal weight are kept in the tree's order.
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
    int64_t root_rest;  /* what was cut beside the outermost nodes */
    uint64_t cut_max;   /* the greatest weight that was cut; 0: the crown is the whole tree */
    bool has_negatives; /* values below zero: a rest says little about what is in it */
};

/* Owned: fg_crown_done(). Memory on the way: 8 bytes a node of the tree. */
void fg_crown_make(const struct fg_function_tree *names, const struct fg_function_values *values,
                   uint32_t max_nodes, struct fg_crown *ret_crown);
void fg_crown_done(struct fg_crown *crown);

#endif
