/*
 * The sum of crowns, with error bounds. Trees that were read in full are added to the same sum. If
 * no crown was cut, it is the exact sum.
 *
 * If a crown lacks a node, the total of the node there was at most the cut_max of the crown, and at
 * most the rest of the nearest ancestor that was kept. So each node of the sum has an error bound:
 * its total is too small by at most that much, and never too large (if no value is negative).
 *
 * Crowns of one block share a function tree: the node of the sum is looked up once per node of the
 * tree, and later by an array index. Crowns of different blocks are similar: a node is mostly
 * followed by the same node as in the previous crown, and only otherwise looked up by hash.
 *
 * Thread: one at a time. Memory: 70 bytes per node of the sum.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_CROWN_SUM_H
#define FG_COMMON_STORAGE_ROLLUP_CROWN_SUM_H

#include "common/storage/rollup/crown.h"

/* Data of a node of the sum. */
struct fg_crown_known {
    int64_t rest;              /* cut below it, or below one of its children in another crown */
    uint64_t slack;            /* how much of the total of a child may be in rest */
    uint64_t seen;             /* sum of cut_max of the crowns that have it */
    uint32_t next;             /* the node that followed it in the last crown */
    uint32_t parent, location; /* copies of those of the tree, in the same cache line */
};

/* Data of a string of the symbols. */
struct fg_crown_name {
    uint32_t location; /* or FG_MAP_NONE */
    uint32_t next;     /* the string that followed it in the last crown */
};

struct fg_crown_sum {
    struct fg_tree tree;           /* a function tree with self values */
    struct fg_crown_known *known;  /* [cap], by node */
    struct fg_crown_name *strings; /* [n_strings] */
    uint32_t cap, n_strings;
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

/* Adds crowns of one function tree to a sum. */
struct fg_crown_adding {
    struct fg_crown_sum *sum;
    const struct fg_function_tree *names;
    uint32_t *nodes;      /* by node of names: the node in the sum, or FG_MAP_NONE */
    uint32_t *locations;  /* by function of names: the location in the sum, or FG_MAP_NONE */
    uint32_t last;        /* the last node in the sum, or FG_TREE_ROOT */
    uint32_t last_string; /* of the last function */
};

/* Begins. Both are borrowed until fg_crown_adding_done(). */
void fg_crown_adding_init(struct fg_crown_adding *adding, struct fg_crown_sum *sum,
                          const struct fg_function_tree *names);
/* Frees it; the sum stays. */
void fg_crown_adding_done(struct fg_crown_adding *adding);
/* Adds a crown. */
void fg_crown_add(struct fg_crown_adding *adding, const struct fg_crown *crown);

/* Adds a function tree of full data. */
void fg_crown_sum_add_tree(struct fg_crown_sum *sum, const struct fg_tree *tree);

/* Does the same; an empty sum takes the tree over. Only fg_tree_done() may be called on the tree
 * afterwards. */
void fg_crown_sum_take_tree(struct fg_crown_sum *sum, struct fg_tree *tree);

/* Returns whether a function of this name has descendants, or may have some that were cut. */
bool fg_crown_sum_has_below(const struct fg_crown_sum *sum, struct fg_slice name);

/* Adds the sum to another. The totals of functions of this name become their self values, without
 * descendants. */
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
