/*
 * A layer: a crown, a tree, or the sum of several, as a list of nodes in canonical order
 * (common/model/function_tree.h). Layers add up in one pass over their lists, without a hash table,
 * and layers of one function tree without looking at names.
 *
 * Two lists in canonical order are one if the deeper of two nodes comes first, and of two at the
 * same depth the one whose name is less: at the same depth both are below the same node, and a
 * deeper one is in a subtree that the other list does not have.
 *
 * A layer never changes, and nothing of it is borrowed.
 * Thread: any, for several layers at a time. Memory: fg_crown_layer_bytes().
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_CROWN_LAYER_H
#define FG_COMMON_STORAGE_ROLLUP_CROWN_LAYER_H

#include "common/storage/rollup/crown.h"

/* Names of functions, ascending, each once; shared by the layers of one function tree. */
struct fg_crown_names;

/* Copies the names of a function tree. */
struct fg_crown_names *fg_crown_names_create(const struct fg_function_tree *functions);
/* Returns how many there are, and their memory in bytes. */
uint32_t fg_crown_names_count(const struct fg_crown_names *names);
size_t fg_crown_names_bytes(const struct fg_crown_names *names);
/* Returns names that have those of both: `a` if it has all, else `b` if it has all. Sets *ret_a and
 * *ret_b to the new numbers of each, to be released with free(); NULL: they are the same. */
struct fg_crown_names *fg_crown_names_unite(struct fg_crown_names *a, struct fg_crown_names *b,
                                            uint32_t **ret_a, uint32_t **ret_b);
/* Returns the names, ascending. They live as long as a reference. */
const struct fg_slice *fg_crown_names_items(const struct fg_crown_names *names);
/* Count references. Accept NULL. */
struct fg_crown_names *fg_crown_names_ref(struct fg_crown_names *names);
void fg_crown_names_unref(struct fg_crown_names *names);

struct fg_crown_node {
    uint32_t depth; /* 0: an outermost node */
    uint32_t name;
    int64_t self;
};

/* What crowns have cut near a node. */
struct fg_crown_known {
    int64_t rest;   /* cut below it, or below one of its children in another crown */
    uint64_t slack; /* how much of the total of a child may be in rest */
    uint64_t seen;  /* sum of cut_max of the crowns that have it */
};

struct fg_crown_layer {
    struct fg_crown_names *names;
    struct fg_crown_node *nodes;
    struct fg_crown_known *known; /* [n_nodes]; NULL: nothing was cut */
    uint32_t n_nodes;
    int64_t root_self, root_rest;
    uint64_t root_slack;
    uint64_t cut; /* sum of cut_max of all crowns */
};

/* Makes a layer of a crown. names: those of the function tree. */
struct fg_crown_layer *fg_crown_layer_of_crown(const struct fg_function_tree *functions,
                                               struct fg_crown_names *names,
                                               const struct fg_crown *crown);

/* Makes a layer of sums of stacks: those of the nodes that `functions` was made from, and that of
 * the empty stack. Nodes without a value of their own or below them are left out. */
struct fg_crown_layer *fg_crown_layer_of_sums(const struct fg_function_tree *functions,
                                              struct fg_crown_names *names, const uint64_t *sums,
                                              uint64_t no_stack);

/* Makes a layer of a function tree of full data. */
struct fg_crown_layer *fg_crown_layer_of_tree(const struct fg_tree *tree);

/* Makes a layer of the sum of two. */
struct fg_crown_layer *fg_crown_layer_add(const struct fg_crown_layer *a,
                                          const struct fg_crown_layer *b);

/* Makes a copy, with the same names. */
struct fg_crown_layer *fg_crown_layer_copy(const struct fg_crown_layer *layer);

/* Drops names that no node has, of which sums of many layers have most. */
void fg_crown_layer_pack(struct fg_crown_layer *layer);

/* Frees the layer. Accepts NULL. */
void fg_crown_layer_destroy(struct fg_crown_layer *layer);

/* Returns the memory of the layer in bytes, with that of its names. */
size_t fg_crown_layer_bytes(const struct fg_crown_layer *layer);

#endif
