#include "common/model/flame_cut.h"

#include "common/model/flame_order.h"

/* ---- the threshold ---- */

/* Keeps the keys that have this byte; returns how many. */
static size_t keep_keys(uint64_t *keys, size_t count, unsigned shift, unsigned byte)
{
    size_t n = 0;

    /* Each is written, kept or not: a branch would be mispredicted for many. */
    for (size_t i = 0; i < count; i++) {
        uint64_t key = keys[i];

        keys[n] = key;
        n += (key >> shift & 255) == byte;
    }
    return n;
}

/*
 * A byte of the answer at a time, from the highest: count how the keys that agree with the answer
 * so far go on, and keep those that agree with it further. Eight passes at most, over fewer and
 * fewer keys; quickselect would need about three, but a client could choose values for which it
 * needs as many as there are values.
 */
int64_t fg_flame_nth_largest(const int64_t *values, size_t count, size_t rank)
{
    uint64_t *keys = fg_malloc(count * sizeof *keys), known = 0;

    fg_assert(rank > 0 && rank <= count);
    /* Order of unsigned numbers is the order of the signed ones when the sign bit is flipped. */
    for (size_t i = 0; i < count; i++)
        keys[i] = (uint64_t)values[i] ^ UINT64_C(1) << 63;
    for (unsigned shift = 64; shift > 0;) {
        size_t counts[256] = {0};
        unsigned byte = 255;

        shift -= 8;
        for (size_t i = 0; i < count; i++)
            counts[keys[i] >> shift & 255]++;
        /* Ends: of the keys that agree with the answer so far there are at least `rank`. */
        for (; rank > counts[byte]; byte--)
            rank -= counts[byte];
        known |= (uint64_t)byte << shift;
        if (counts[byte] < count)
            count = keep_keys(keys, count, shift, byte);
    }
    free(keys);
    return (int64_t)(known ^ UINT64_C(1) << 63);
}

/* ---- the cut ---- */

enum { LEFT_OUT = FG_TREE_ROOT - 1, NO_OTHER = FG_TREE_ROOT };

/* Nodes are appended without a look-up: those of a tree are distinct, and so are the "other" nodes,
 * of which `others` has the one of each parent. */
struct cutting {
    const struct fg_tree *tree;
    const struct fg_flame_weights *weights;
    struct fg_tree *into;
    uint32_t *nodes;     /* of tree's nodes: node in into, or LEFT_OUT */
    uint32_t *others;    /* of tree's nodes: their "other" in into, or NO_OTHER */
    uint32_t root_other; /* the same of the root */
    uint32_t other;      /* location "other" in into */
};

/* Returns the "other" below a node of the tree that was kept. */
static uint32_t other_of(struct cutting *cutting, uint32_t node)
{
    bool root = node == FG_TREE_ROOT;
    uint32_t *other = root ? &cutting->root_other : &cutting->others[node];

    if (*other == NO_OTHER)
        *other = fg_tree_append(cutting->into, root ? FG_TREE_ROOT : cutting->nodes[node],
                                cutting->other);
    return *other;
}

/* Adds the value below a node that none of its children has. */
static void add_rest(struct cutting *cutting, uint32_t node, int64_t rest)
{
    if (rest != 0)
        fg_tree_add(cutting->into, other_of(cutting, node), rest);
}

static void keep(struct cutting *cutting, struct fg_symbols_import *import, uint32_t node)
{
    const struct fg_tree *tree = cutting->tree;
    const int64_t *rests = cutting->weights->rests;
    uint32_t above = tree->parents[node];
    uint32_t location = fg_symbols_import_location(import, tree->locations[node]);

    if (location == cutting->other)
        cutting->nodes[node] = other_of(cutting, above); /* which may be there already */
    else
        cutting->nodes[node] = fg_tree_append(
            cutting->into, above == FG_TREE_ROOT ? FG_TREE_ROOT : cutting->nodes[above], location);
    fg_tree_add(cutting->into, cutting->nodes[node], tree->self[node]);
    add_rest(cutting, node, rests == NULL ? 0 : rests[node]);
}

static void cut_nodes(struct cutting *cutting, struct fg_symbols_import *import, int64_t least)
{
    const struct fg_tree *tree = cutting->tree;

    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t above = tree->parents[i];

        cutting->others[i] = NO_OTHER;
        if (above != FG_TREE_ROOT && cutting->nodes[above] == LEFT_OUT) {
            cutting->nodes[i] = LEFT_OUT; /* its value is in the total of what was left out above */
        } else if (cutting->weights->totals[i] < least) {
            cutting->nodes[i] = LEFT_OUT;
            fg_tree_add(cutting->into, other_of(cutting, above), cutting->weights->totals[i]);
        } else {
            keep(cutting, import, i);
        }
    }
}

void fg_flame_cut(const struct fg_tree *tree, const struct fg_flame_weights *weights, int64_t least,
                  struct fg_tree *into)
{
    struct cutting cutting = {
        .tree = tree, .weights = weights, .into = into, .root_other = NO_OTHER};
    struct fg_symbols_import import;

    fg_assert(into->n_nodes == 0);
    cutting.nodes = fg_malloc(FG_MAX((size_t)tree->n_nodes, 1) * sizeof *cutting.nodes);
    cutting.others = fg_malloc(FG_MAX((size_t)tree->n_nodes, 1) * sizeof *cutting.others);
    fg_symbols_import_init_new(&import, &into->symbols, &tree->symbols);
    cutting.other = fg_symbols_import_name_location(&import, FG_LIT(FG_FLAME_OTHER));
    cut_nodes(&cutting, &import, least);
    add_rest(&cutting, FG_TREE_ROOT, weights->root_rest);
    fg_tree_add(into, FG_TREE_ROOT, tree->root_self);
    fg_symbols_import_done(&import);
    free(cutting.others);
    free(cutting.nodes);
}
