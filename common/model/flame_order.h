/*
 * Orders the nodes of a tree as flame graphs show them: children by parent, siblings by
 * name. Private to the files that write trees out.
 */
#ifndef FG_COMMON_MODEL_FLAME_ORDER_H
#define FG_COMMON_MODEL_FLAME_ORDER_H

#include "common/model/tree.h"

/* The name of the node that sums what truncation removed. */
#define FG_FLAME_OTHER "other"

struct fg_flame_order {
    uint32_t *firsts; /* children of node i: children[firsts[i + 1]..firsts[i + 2]); root: i = -1 */
    uint32_t *children;     /* [n_nodes] */
    uint32_t *ranks;        /* of a location: that of its name among all names in use */
    struct fg_slice *names; /* by rank; borrowed from the tree */
    uint32_t n_names;
};

struct fg_flame_children {
    const uint32_t *nodes;
    uint32_t count;
};

/* Orders the nodes; borrows the tree. other_last: puts siblings named "other" last. */
void fg_flame_order_init(struct fg_flame_order *order, const struct fg_tree *tree, bool other_last);
/* Frees the order. */
void fg_flame_order_done(struct fg_flame_order *order);

/* Returns the children of a node, or of FG_TREE_ROOT. */
static inline struct fg_flame_children fg_flame_children(const struct fg_flame_order *order,
                                                         uint32_t node)
{
    uint32_t slot = node == FG_TREE_ROOT ? 0 : node + 1;
    uint32_t first = order->firsts[slot];

    return (struct fg_flame_children){order->children + first, order->firsts[slot + 1] - first};
}

#endif
