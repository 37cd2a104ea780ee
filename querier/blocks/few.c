/*
 * Names of those stacks of a part that have a value. A question that wants an hour of a day, or one
 * of many instances, has a value for a few of millions of stacks: to find names for all of them
 * would take most of its time, though the next question could have them from the cache. What the
 * cache has here is the tree of stacks as it is stored.
 */
#include "querier/blocks/fetch.h"
#include "querier/blocks/select.h"

/* What is left of a tree. */
struct used {
    struct fg_tree tree; /* symbols are borrowed; the rest is the arena's */
    uint32_t *places;    /* of a node of the whole tree, if it is used */
};

/* Marks what has a value of its own or below with 1. */
static uint32_t mark(const struct fg_block_tree *tree, const uint64_t *sums, uint32_t *marks)
{
    const uint32_t *parents = tree->tree.parents;
    uint32_t count = 0;

    for (uint32_t r = 0; r < tree->n_stacks; r++)
        if (sums[r] != 0 && tree->nodes[r] != 0)
            marks[tree->nodes[r] - 1] = 1;
    for (uint32_t i = tree->tree.n_nodes; i-- > 0;) {
        count += marks[i];
        if (marks[i] != 0 && parents[i] != FG_TREE_ROOT)
            marks[parents[i]] = 1;
    }
    return count;
}

/* Marks become places, in the same order: a parent has its place before its children. */
static void take_marked(const struct fg_tree *from, struct used *used)
{
    struct fg_tree *tree = &used->tree;

    for (uint32_t i = 0; i < from->n_nodes; i++) {
        uint32_t parent = from->parents[i];

        if (used->places[i] == 0)
            continue;
        tree->parents[tree->n_nodes] = parent == FG_TREE_ROOT ? FG_TREE_ROOT : used->places[parent];
        tree->locations[tree->n_nodes] = from->locations[i];
        used->places[i] = tree->n_nodes++;
    }
}

static enum fg_code use_tree(const struct fg_block_tree *tree, const uint64_t *sums,
                             struct fg_arena *arena, struct used *used, struct fg_err *err)
{
    uint32_t count;

    *used = (struct used){.tree.symbols = tree->tree.symbols,
                          .places = fg_arena_new(arena, uint32_t, tree->tree.n_nodes)};
    if (used->places == NULL)
        return blocks_too_large(err);
    count = mark(tree, sums, used->places);
    used->tree.parents = fg_arena_new(arena, uint32_t, count);
    used->tree.locations = fg_arena_new(arena, uint32_t, count);
    if (used->tree.parents == NULL || used->tree.locations == NULL)
        return blocks_too_large(err);
    take_marked(&tree->tree, used);
    return FG_OK;
}

/* By node; behind them the value of the empty stack. */
static uint64_t *sum_nodes(const struct fg_block_tree *tree, const uint64_t *sums,
                           const struct used *used, struct fg_arena *arena)
{
    uint64_t *to = fg_arena_new(arena, uint64_t, (size_t)used->tree.n_nodes + 1);

    for (uint32_t r = 0; to != NULL && r < tree->n_stacks; r++)
        if (sums[r] != 0)
            to[tree->nodes[r] == 0 ? used->tree.n_nodes : used->places[tree->nodes[r] - 1]] +=
                sums[r];
    return to;
}

enum fg_code few_names(const struct fg_block_tree *tree, const uint64_t *sums,
                       struct fg_arena *arena, struct fg_name_tree *ret_names, uint64_t **ret_sums,
                       struct fg_err *err)
{
    struct used used;
    uint64_t *values;

    if (use_tree(tree, sums, arena, &used, err) != FG_OK)
        return err->code;
    values = sum_nodes(tree, sums, &used, arena);
    if (values == NULL)
        return blocks_too_large(err);
    fg_name_tree_init_stacks(ret_names, &used.tree);
    ret_names->nodes =
        fg_realloc(ret_names->nodes, ((size_t)used.tree.n_nodes + 1) * sizeof *ret_names->nodes);
    ret_names->nodes[ret_names->n_from++] = FG_TREE_ROOT;
    *ret_sums = values;
    return FG_OK;
}
