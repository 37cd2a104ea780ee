/*
 * The sum of crowns, with the bounds of what it does not know. Where nothing was cut it is simply
 * the sum of trees: what was read in full is added to the same sum.
 *
 * A node that some crown has not kept may have been worth at most that crown's cut_max there, and
 * at most the rest of the nearest node above it that was kept. So each node of the sum has an error
 * bound; its total is too small by that much at most, never too large (for values that are not
 * negative).
 *
 * Crowns of one block share a function tree: what a node of it is in the sum is found once, and
 * then costs an array look-up. Crowns of different blocks are alike: after a node there mostly
 * comes the one that came after it in the crown before, and only where it does not is it looked for
 * by hash.
 *
 * Thread: one at a time. Memory: 70 bytes a node of the sum.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_CROWN_SUM_H
#define FG_COMMON_STORAGE_ROLLUP_CROWN_SUM_H

#include "common/storage/rollup/crown.h"

/* Of a node of the sum. */
struct fg_crown_known {
    int64_t rest;              /* cut below it, or below one of its children somewhere */
    uint64_t slack;            /* how much of a child may be hidden in rest */
    uint64_t seen;             /* cut_max of the crowns that have it */
    uint32_t next;             /* the node that came after it in the crown added last */
    uint32_t parent, location; /* as in the tree, but beside what else is looked at */
};

/* Of a string of the symbols. */
struct fg_crown_name {
    uint32_t location; /* or FG_MAP_NONE */
    uint32_t next;     /* the string that came after it in the crown added last */
};

struct fg_crown_sum {
    struct fg_tree tree;           /* of names; its values are self values */
    struct fg_crown_known *known;  /* [cap], by node */
    struct fg_crown_name *strings; /* [n_strings] */
    uint32_t cap, n_strings;
    int64_t root_rest;
    uint64_t root_slack;
    uint64_t cut; /* cut_max of all crowns */
};

void fg_crown_sum_init(struct fg_crown_sum *sum);
void fg_crown_sum_done(struct fg_crown_sum *sum);
size_t fg_crown_sum_bytes(const struct fg_crown_sum *sum);

/* Crowns over one function tree, on their way into a sum. */
struct fg_crown_adding {
    struct fg_crown_sum *sum;
    const struct fg_function_tree *names;
    uint32_t *nodes;      /* of names' nodes: the node in the sum, or FG_MAP_NONE */
    uint32_t *locations;  /* of names: the location in the sum's tree, or FG_MAP_NONE */
    uint32_t last;        /* node in the sum of what was placed last, or FG_TREE_ROOT */
    uint32_t last_string; /* of the name that was met last */
};

/* Both stay where they are until fg_crown_adding_done(). */
void fg_crown_adding_init(struct fg_crown_adding *adding, struct fg_crown_sum *sum,
                          const struct fg_function_tree *names);
void fg_crown_adding_done(struct fg_crown_adding *adding);
void fg_crown_add(struct fg_crown_adding *adding, const struct fg_crown *crown);

/* Adds what was read in full: a function tree. */
void fg_crown_sum_add_tree(struct fg_crown_sum *sum, const struct fg_tree *tree);

/* The same; the tree becomes that of a sum which is still empty. Of it only fg_tree_done() is of
 * use afterwards. */
void fg_crown_sum_take_tree(struct fg_crown_sum *sum, struct fg_tree *tree);

/* Is there anything below a function of this name, or could there be? */
bool fg_crown_sum_has_below(const struct fg_crown_sum *sum, struct fg_slice name);

/* Adds the sum to another, what is below a function of this name becoming its own value. */
void fg_crown_sum_fold(const struct fg_crown_sum *sum, struct fg_slice name,
                       struct fg_crown_sum *into);

/* What is known of the sum's nodes, in arrays by node. Owned: fg_crown_judged_done(). */
struct fg_crown_judged {
    int64_t *rests, *totals;
    uint64_t *errors;    /* its total is too small by at most that */
    uint64_t *below;     /* what a node below it that is in no crown weighs at most */
    uint64_t root_below; /* the same beside the outermost nodes */
    uint64_t unseen;     /* the same anywhere */
    int64_t all;
};
void fg_crown_sum_judge(const struct fg_crown_sum *sum, struct fg_crown_judged *ret_judged);
void fg_crown_judged_done(struct fg_crown_judged *judged);

/* What can be said of a picture. */
struct fg_crown_verdict {
    bool exact; /* it is what the full merge would give, to the last number */
    /* Else: no bar that is shown is too small by more than this, and no node weighs more than this
     * beyond what it is known to, shown or not. */
    uint64_t bound;
    int64_t total; /* of the whole, always exact */
};

/*
 * The tree to be drawn: what fg_tree_truncate() makes of the sum, a rest being part of its node's
 * "other". max_nodes 0: no limit. into is empty before.
 */
void fg_crown_sum_truncate(const struct fg_crown_sum *sum, size_t max_nodes, struct fg_tree *into,
                           struct fg_crown_verdict *ret_verdict);

#endif
