#include "common/model/flame_cut.h"

#include "common/model/flame_order.h"

/* ---- the threshold ---- */

/* Order of unsigned numbers is the order of the signed ones when the sign bit is flipped. */
static uint64_t sort_key(int64_t value)
{
    return (uint64_t)value ^ UINT64_C(1) << 63;
}

/*
 * A byte of the answer at a time, from the highest: count how the values that agree with the answer
 * so far go on. Eight passes; quickselect would need about three, but a client could choose values
 * for which it needs as many as there are values.
 */
int64_t fg_flame_nth_largest(const int64_t *values, size_t count, size_t rank)
{
    uint64_t known = 0, mask = 0;

    fg_assert(rank > 0 && rank <= count);
    for (unsigned shift = 56;; shift -= 8) {
        size_t counts[256] = {0};
        unsigned byte = 255;

        for (size_t i = 0; i < count; i++)
            if ((sort_key(values[i]) & mask) == known)
                counts[sort_key(values[i]) >> shift & 255]++;
        for (; rank > counts[byte]; byte--)
            rank -= counts[byte];
        known |= (uint64_t)byte << shift;
        mask |= UINT64_C(255) << shift;
        if (shift == 0)
            return (int64_t)(known ^ UINT64_C(1) << 63);
    }
}

/* ---- the cut ---- */

enum { LEFT_OUT = FG_TREE_ROOT - 1 }; /* where a node is that is part of an "other" */

struct cutting {
    const struct fg_tree *tree;
    const struct fg_flame_weights *weights;
    struct fg_tree *into;
    uint32_t *nodes; /* of tree's nodes: node in into, or LEFT_OUT */
    uint32_t other;  /* location "other" in into */
};

static void leave_out(struct cutting *cutting, uint32_t node, uint32_t parent)
{
    cutting->nodes[node] = LEFT_OUT;
    fg_tree_add(cutting->into, fg_tree_child(cutting->into, parent, cutting->other),
                cutting->weights->totals[node]);
}

/* Adds the value below a node that none of its children has. */
static void add_rest(struct cutting *cutting, uint32_t node, int64_t rest)
{
    if (rest != 0)
        fg_tree_add(cutting->into, fg_tree_child(cutting->into, node, cutting->other), rest);
}

static void cut_nodes(struct cutting *cutting, struct fg_symbols_import *import, int64_t least)
{
    const struct fg_tree *tree = cutting->tree;
    const int64_t *rests = cutting->weights->rests;

    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t above = tree->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : cutting->nodes[above];

        if (parent == LEFT_OUT) {
            cutting->nodes[i] = LEFT_OUT; /* its value is in the total of what was left out above */
        } else if (cutting->weights->totals[i] < least) {
            leave_out(cutting, i, parent);
        } else {
            cutting->nodes[i] = fg_tree_child(
                cutting->into, parent, fg_symbols_import_location(import, tree->locations[i]));
            fg_tree_add(cutting->into, cutting->nodes[i], tree->self[i]);
            add_rest(cutting, cutting->nodes[i], rests == NULL ? 0 : rests[i]);
        }
    }
}

void fg_flame_cut(const struct fg_tree *tree, const struct fg_flame_weights *weights, int64_t least,
                  struct fg_tree *into)
{
    struct cutting cutting = {.tree = tree, .weights = weights, .into = into};
    struct fg_symbols_import import;

    cutting.nodes = fg_malloc(FG_MAX((size_t)tree->n_nodes, 1) * sizeof *cutting.nodes);
    cutting.other = fg_symbols_name_location(&into->symbols, FG_LIT(FG_FLAME_OTHER));
    fg_symbols_import_init(&import, &into->symbols, &tree->symbols);
    cut_nodes(&cutting, &import, least);
    add_rest(&cutting, FG_TREE_ROOT, weights->root_rest);
    fg_tree_add(into, FG_TREE_ROOT, tree->root_self);
    fg_symbols_import_done(&import);
    free(cutting.nodes);
}
