/*
 * A function with all that calls it and all that it calls, over a whole function tree.
 *
 * Several functions may be meant (a pattern): they count as one. A stack that has them more than
 * once counts once, at the outermost of them.
 *
 * Pure. Thread: any.
 */
#ifndef FG_COMMON_MODEL_SANDWICH_H
#define FG_COMMON_MODEL_SANDWICH_H

#include "common/model/tree.h"

struct fg_sandwich {
    struct fg_tree callers; /* stacks from the functions outwards: the function, its caller, ... */
    struct fg_tree callees; /* stacks that begin with the functions */
    int64_t self;           /* of stacks that end in one of the functions */
    int64_t total;          /* of stacks that have one of them */
    int64_t all;            /* of all stacks */
};

/* Says whether a function is meant. */
typedef bool (*fg_sandwich_matches)(const void *arg, struct fg_slice name);

/* Makes the sandwich of a function tree (fg_tree_names()). */
void fg_sandwich_make(const struct fg_tree *tree, fg_sandwich_matches matches, const void *arg,
                      struct fg_sandwich *ret_sandwich);
/* Frees the trees. */
void fg_sandwich_done(struct fg_sandwich *sandwich);

#endif
