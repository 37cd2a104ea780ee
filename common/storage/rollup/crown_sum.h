/*
 * The sum of crowns, with error bounds. Trees that were read in full are added to the same sum. If
 * no crown was cut, it is the exact sum.
 *
 * If a crown lacks a node, the total of the node there was at most the cut_max of the crown, and at
 * most the rest of the nearest ancestor that was kept. So each node of the sum has an error bound:
 * its total is too small by at most that much, and never too large (if no value is negative).
 *
 * Crowns and trees are layers (crown_layer.h), which are added up two by two, so that the sum of n
 * of them costs log2(n) passes over lists. fg_crown_sum_finish() makes the tree that is read.
 *
 * Thread: one at a time. Memory: 72 bytes per node of the sum, and up to twice 40 meanwhile.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_CROWN_SUM_H
#define FG_COMMON_STORAGE_ROLLUP_CROWN_SUM_H

#include "common/storage/rollup/crown_layer.h"

enum { FG_CROWN_SUM_LAYERS_MAX = 64 };

struct fg_crown_sum {
    struct fg_crown_layer *layers[FG_CROWN_SUM_LAYERS_MAX]; /* [i]: of 2^i that were put; or NULL */

    /* Set by fg_crown_sum_finish(). */
    struct fg_tree tree; /* a function tree with self values, in canonical order, to be read only */
    struct fg_crown_known *known; /* [tree.n_nodes] */
    int64_t root_rest;
    uint64_t root_slack;
    uint64_t cut; /* sum of cut_max of all crowns */
};

/* Makes an empty sum. */
void fg_crown_sum_init(struct fg_crown_sum *sum);
/* Frees the sum. */
void fg_crown_sum_done(struct fg_crown_sum *sum);
/* Returns the memory of the sum in bytes. */
size_t fg_crown_sum_bytes(const struct fg_crown_sum *sum);

/* Adds a layer, which is taken over. */
void fg_crown_sum_put(struct fg_crown_sum *sum, struct fg_crown_layer *layer);

/* Takes the sum of all that was added, which the caller destroys; the sum is empty then. NULL:
 * nothing was added. */
struct fg_crown_layer *fg_crown_sum_take(struct fg_crown_sum *sum);

/* Adds a crown of a function tree. */
void fg_crown_sum_add_crown(struct fg_crown_sum *sum, const struct fg_function_tree *functions,
                            const struct fg_crown *crown);

/* Adds a function tree of full data. */
void fg_crown_sum_add_tree(struct fg_crown_sum *sum, const struct fg_tree *tree);

/* Makes the tree. Nothing can be added afterwards; what follows reads finished sums. */
void fg_crown_sum_finish(struct fg_crown_sum *sum);

/* Returns whether a function of this name has descendants, or may have some that were cut. */
bool fg_crown_sum_has_below(const struct fg_crown_sum *sum, struct fg_slice name);

/* Makes a finished sum of the empty `into` in which the totals of functions of this name are their
 * self values, and they have no descendants. */
void fg_crown_sum_fold(const struct fg_crown_sum *sum, struct fg_slice name,
                       struct fg_crown_sum *into);

/* Values and error bounds of the nodes of a sum, by node. */
struct fg_crown_judged {
    int64_t *rests, *totals;
    uint64_t *errors;    /* its total is too small by at most this */
    uint64_t *below;     /* maximum weight of a descendant that is in no crown */
    uint64_t root_below; /* maximum weight of an outermost node that is in no crown */
    uint64_t unseen;     /* maximum weight of any node that is in no crown */
    int64_t all;
};
/* Computes values and bounds. */
void fg_crown_sum_judge(const struct fg_crown_sum *sum, struct fg_crown_judged *ret_judged);
/* Frees them. */
void fg_crown_judged_done(struct fg_crown_judged *judged);

/* The accuracy of a flame graph. */
struct fg_crown_verdict {
    bool exact; /* every number is that of the full merge */
    /* If not exact: no bar is too small by more than this, and no node, shown or not, weighs more
     * than this beyond its known weight. */
    uint64_t bound;
    int64_t total; /* of the whole tree, always exact */
};

/*
 * Truncates the sum as fg_tree_truncate() does. The rest of a node is part of its "other".
 * max_nodes 0: no limit. into is empty before.
 */
void fg_crown_sum_truncate(const struct fg_crown_sum *sum, size_t max_nodes, struct fg_tree *into,
                           struct fg_crown_verdict *ret_verdict);

#endif
