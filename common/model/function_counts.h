/*
 * Counts in how many profiles each function appears: on a stack that has a value, once for each
 * profile, however many of its stacks have the function.
 *
 * A profile costs as many steps as its stacks have different nodes: a walk from a stack to the root
 * ends at a node that this profile has passed before.
 *
 * Thread: one at a time; the tree may be read by others. Memory: the arena's.
 */
#ifndef FG_COMMON_MODEL_FUNCTION_COUNTS_H
#define FG_COMMON_MODEL_FUNCTION_COUNTS_H

#include "common/base/arena.h"
#include "common/model/function_tree.h"
#include "common/model/tree.h"

struct fg_function_counts {
    struct fg_arena *arena;
    const uint32_t *parents; /* of nodes */
    const uint32_t *places;  /* of nodes: locations, or functions */
    uint32_t n_nodes, n_places;
    uint32_t profile;                 /* number of the one at hand, from 1 on, */
    uint32_t last;                    /* ... and of the last one that had a value */
    uint32_t *node_seen, *place_seen; /* in which profile last */

    /* Of a tree of locations: the functions of each location, found when it is first seen. */
    const struct fg_symbols *symbols; /* NULL: places are functions */
    uint32_t *first_frame;            /* of a location: in `frames`; FG_MAP_NONE: not known yet */
    uint32_t *frames;                 /* functions, those of a location one after another */
    struct fg_slice *names;
    uint32_t *function_seen;
    struct fg_map by_name;
    struct fg_buf scratch;
    uint32_t n_frames, cap_frames, n_functions, cap_names, cap_seen, cap_counts;

    uint32_t *counts;    /* by function: in how many profiles it appears */
    uint32_t no_stack;   /* profiles with the empty stack, of a tree of locations */
    uint64_t n_profiles; /* that have any value */
};

/* Begins to count in a tree of locations, or in a function tree. Borrows tree and arena. Returns
 * false if the arena is full; end it all the same. */
bool fg_function_counts_init(struct fg_function_counts *counts, const struct fg_tree *tree,
                             struct fg_arena *arena) fg_must_check;
bool fg_function_counts_init_functions(struct fg_function_counts *counts,
                                       const struct fg_function_tree *tree,
                                       struct fg_arena *arena) fg_must_check;

/* Frees what is not in the arena. Accepts a zeroed one. */
void fg_function_counts_done(struct fg_function_counts *counts);

/* Begins the next profile. At most UINT32_MAX - 1 of them. */
void fg_function_counts_profile(struct fg_function_counts *counts);

/* Adds a stack of the profile that has a value, by its node; FG_TREE_ROOT: the empty stack, of a
 * tree of locations. Returns false if the arena is full. */
bool fg_function_counts_stack(struct fg_function_counts *counts, uint32_t node) fg_must_check;

/* Adds the counts to a function tree: a node at the root for each function, whose value is its
 * count, and the number of profiles as the value of the empty stack. */
void fg_function_counts_write(const struct fg_function_counts *counts, struct fg_tree *into);

/* Adds one function with its count to such a tree. */
void fg_function_counts_put(struct fg_tree *into, struct fg_slice name, int64_t count);

#endif
