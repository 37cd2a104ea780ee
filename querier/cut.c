/*
 * Which part of a tree is drawn. Clients have come to know two habits of the servers before us, and
 * answers of ours are compared with theirs:
 *
 *   - in flame graphs a function named "other" counts as a remainder: what it calls is part of it;
 *   - truncation runs twice, since a part was truncated before it was merged; the remainders of the
 * first pass are nodes of the second and take room from others.
 *
 * Sums are exact with or without. Only pictures are cut so; data that is asked for as pprof is not.
 */
#include "querier/question.h"

static bool is_other(const struct fg_tree *tree, uint32_t node)
{
    return node != FG_TREE_ROOT && fg_slice_is(fg_tree_name(tree, node), "other");
}

static bool has_folds(const struct fg_tree *tree)
{
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        if (is_other(tree, tree->parents[i]))
            return true;
    return false;
}

/* Copies the tree, what is below an "other" becoming its own value. */
static void fold_others(const struct fg_tree *tree, struct fg_tree *into)
{
    uint32_t *placed = fg_calloc((size_t)tree->n_nodes + 1, sizeof *placed);

    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t above = tree->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above];

        if (is_other(into, parent))
            placed[i] = parent;
        else
            placed[i] = fg_tree_child(
                into, parent, fg_symbols_name_location(&into->symbols, fg_tree_name(tree, i)));
        into->self[placed[i]] += tree->self[i];
    }
    free(placed);
}

const struct fg_tree *cut_make(struct cut *cut, const struct fg_tree *tree, size_t max_nodes,
                               bool fold)
{
    fg_tree_init(&cut->folded);
    fg_tree_init(&cut->truncated);
    if (fold && has_folds(tree)) {
        fold_others(tree, &cut->folded);
        tree = &cut->folded;
    }
    if (tree->n_nodes <= max_nodes)
        return tree;
    fg_tree_truncate(tree, max_nodes, &cut->truncated);
    return &cut->truncated;
}

void cut_done(struct cut *cut)
{
    fg_tree_done(&cut->folded);
    fg_tree_done(&cut->truncated);
}
