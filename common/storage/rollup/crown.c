#include "common/storage/rollup/crown.h"

#include "common/model/flame_cut.h"

/* INT64_MIN counts as one less: such totals do not occur, and cut_max has to be comparable. */
static int64_t magnitude(int64_t value)
{
    return value >= 0 ? value : value == INT64_MIN ? INT64_MAX : -value;
}

/* Sets the weights of all nodes, and returns how many have one. A node weighs at least as much
 * as its heaviest child, so that a crown never has a node without its parent. */
static uint32_t weigh(const struct fg_function_tree *names, const int64_t *totals, int64_t *weights)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < names->n_nodes; i++)
        weights[i] = magnitude(totals[i]);
    for (uint32_t i = names->n_nodes; i-- > 0;) {
        uint32_t parent = names->parents[i];

        live += weights[i] != 0;
        if (parent != FG_TREE_ROOT)
            weights[parent] = FG_MAX(weights[parent], weights[i]);
    }
    return live;
}

static bool any_negative(const struct fg_function_tree *names,
                         const struct fg_function_values *values)
{
    for (uint32_t i = 0; i < names->n_nodes; i++)
        if (values->self[i] < 0)
            return true;
    return false;
}

/* Takes nodes in order: all above least, and of least itself as many as are left. */
static void keep_heaviest(const struct fg_function_tree *names, const int64_t *weights,
                          int64_t least, uint32_t equal, struct fg_crown *crown)
{
    for (uint32_t i = 0; i < names->n_nodes; i++) {
        bool taken = weights[i] > least;

        if (weights[i] == least && least > 0 && equal > 0) {
            taken = true;
            equal--;
        }
        if (taken)
            crown->nodes[crown->n_nodes++] = i;
        else
            crown->cut_max = FG_MAX(crown->cut_max, (uint64_t)weights[i]);
    }
}

/* rest = total - self - totals of children that were taken. places: scratch by node of the tree. */
static void sum_rests(const struct fg_function_tree *names, const struct fg_function_values *values,
                      uint32_t *places, struct fg_crown *crown)
{
    crown->root_rest = values->all;
    for (uint32_t k = 0; k < crown->n_nodes; k++) {
        uint32_t node = crown->nodes[k], parent = names->parents[node];
        int64_t *above = parent == FG_TREE_ROOT ? &crown->root_rest : &crown->rest[places[parent]];

        places[node] = k;
        crown->self[k] = values->self[node];
        crown->rest[k] = fg_value_sub(values->totals[node], values->self[node]);
        *above = fg_value_sub(*above, values->totals[node]);
    }
    if (crown->has_negatives)
        return;
    /* Children may add up to more than a total that is saturated: then nothing is left. */
    crown->root_rest = FG_MAX(crown->root_rest, 0);
    for (uint32_t k = 0; k < crown->n_nodes; k++)
        crown->rest[k] = FG_MAX(crown->rest[k], 0);
}

void fg_crown_make(const struct fg_function_tree *names, const struct fg_function_values *values,
                   uint32_t max_nodes, struct fg_crown *ret_crown)
{
    int64_t *weights = fg_malloc(FG_MAX((size_t)names->n_nodes, 1) * sizeof *weights);
    uint32_t live = weigh(names, values->totals, weights), room = FG_MIN(live, max_nodes);
    struct fg_crown crown = {.has_negatives = any_negative(names, values)};
    uint32_t equal = room;
    int64_t least = 0;

    crown.nodes = fg_malloc(FG_MAX((size_t)room, 1) * sizeof *crown.nodes);
    crown.self = fg_malloc(FG_MAX((size_t)room, 1) * sizeof *crown.self);
    crown.rest = fg_malloc(FG_MAX((size_t)room, 1) * sizeof *crown.rest);
    if (live > max_nodes) {
        least =
            max_nodes == 0 ? INT64_MAX : fg_flame_nth_largest(weights, names->n_nodes, max_nodes);

        /* Nodes that weigh as much as the lightest that is kept share the room that heavier ones
         * leave. */
        uint32_t above = 0;

        for (uint32_t i = 0; i < names->n_nodes; i++)
            above += weights[i] > least;
        equal = room - above;
    }
    keep_heaviest(names, weights, least, equal, &crown);
    /* The weights are of no use any more: their room will do. */
    sum_rests(names, values, (uint32_t *)weights, &crown);
    free(weights);
    *ret_crown = crown;
}

void fg_crown_done(struct fg_crown *crown)
{
    free(crown->nodes);
    free(crown->self);
    free(crown->rest);
    *crown = (struct fg_crown){0};
}
