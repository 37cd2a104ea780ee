/*
 * No node is compared with another: there are far fewer names than nodes, so the names are sorted
 * and the nodes distributed twice by counting, first by the rank of their name, then by their
 * parent. The second distribution keeps the order of the first.
 */
#include "common/model/flame_order.h"

struct named {
    struct fg_slice name;
    uint32_t location;
    bool last;
};

static int compare_named(const void *left, const void *right)
{
    const struct named *a = left, *b = right;

    if (a->last != b->last)
        return a->last ? 1 : -1;
    return fg_slice_cmp(a->name, b->name);
}

/* The locations in use, with their names; order->ranks tells which were seen. */
static struct named *collect_names(struct fg_flame_order *order, const struct fg_tree *tree,
                                   bool other_last, uint32_t *ret_count)
{
    struct named *named = fg_malloc(FG_MAX((size_t)tree->symbols.n_locations, 1) * sizeof *named);
    uint32_t count = 0;

    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t location = tree->locations[i];
        struct fg_slice name;

        if (order->ranks[location] == 0)
            continue;
        name = fg_tree_location_name(tree, location);
        named[count++] =
            (struct named){name, location, other_last && fg_slice_is(name, FG_FLAME_OTHER)};
        order->ranks[location] = 0;
    }
    *ret_count = count;
    return named;
}

static void rank_names(struct fg_flame_order *order, const struct fg_tree *tree, bool other_last)
{
    size_t bytes = tree->symbols.n_locations * sizeof *order->ranks;
    struct named *named;
    uint32_t count;

    order->ranks = fg_malloc(FG_MAX(bytes, 1));
    memset(order->ranks, 0xff, bytes);
    named = collect_names(order, tree, other_last, &count);
    qsort(named, count, sizeof *named, compare_named);
    order->names = fg_malloc(FG_MAX((size_t)count, 1) * sizeof *order->names);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || !fg_slice_eq(named[i].name, named[i - 1].name))
            order->names[order->n_names++] = named[i].name;
        order->ranks[named[i].location] = order->n_names - 1;
    }
    free(named);
}

/* Counts per key become the position where each key begins. */
static void counts_to_starts(uint32_t *counts, size_t n_keys)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < n_keys; i++) {
        uint32_t count = counts[i];

        counts[i] = sum;
        sum += count;
    }
}

static uint32_t *nodes_by_rank(const struct fg_flame_order *order, const struct fg_tree *tree)
{
    uint32_t *starts = fg_calloc((size_t)order->n_names + 1, sizeof *starts);
    uint32_t *nodes = fg_malloc(FG_MAX((size_t)tree->n_nodes, 1) * sizeof *nodes);

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        starts[order->ranks[tree->locations[i]]]++;
    counts_to_starts(starts, order->n_names);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        nodes[starts[order->ranks[tree->locations[i]]]++] = i;
    free(starts);
    return nodes;
}

/* FG_TREE_ROOT + 1 is 0: the root's slot is before those of the nodes. */
static uint32_t parent_slot(const struct fg_tree *tree, uint32_t node)
{
    return tree->parents[node] + 1;
}

static void distribute(struct fg_flame_order *order, const struct fg_tree *tree,
                       const uint32_t *nodes)
{
    /* Filling a slot moves its start to its end, which is the next one's start: hence one place
     * more, and the slots are counted one too far right. */
    uint32_t *starts = fg_calloc((size_t)tree->n_nodes + 3, sizeof *starts);

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        starts[parent_slot(tree, i) + 1]++;
    counts_to_starts(starts + 1, (size_t)tree->n_nodes + 2);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        order->children[starts[parent_slot(tree, nodes[i]) + 1]++] = nodes[i];
    order->firsts = starts;
}

void fg_flame_order_init(struct fg_flame_order *order, const struct fg_tree *tree, bool other_last)
{
    uint32_t *nodes;

    *order = (struct fg_flame_order){0};
    rank_names(order, tree, other_last);
    nodes = nodes_by_rank(order, tree);
    order->children = fg_malloc(FG_MAX((size_t)tree->n_nodes, 1) * sizeof *order->children);
    distribute(order, tree, nodes);
    free(nodes);
}

void fg_flame_order_done(struct fg_flame_order *order)
{
    free(order->firsts);
    free(order->children);
    free(order->ranks);
    free(order->names);
    *order = (struct fg_flame_order){0};
}
