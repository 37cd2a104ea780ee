#include "common/model/batch_tree.h"

enum { UNKNOWN = UINT32_MAX, NO_STACK = UINT32_MAX - 1 };

/* What is known of a batch's tables in the tree. */
struct planting {
    const struct fg_batch *batch;
    struct fg_tree *tree;
    uint32_t *locations; /* by location of the batch: its number in the tree, or UNKNOWN */
    uint32_t *nodes;     /* by stack: its last node, NO_STACK or UNKNOWN */
};

/* 0xff in all bytes is UNKNOWN. */
static uint32_t *new_numbers(uint32_t count)
{
    uint32_t *numbers = fg_calloc(FG_MAX(count, 1), sizeof *numbers);

    memset(numbers, 0xff, count * sizeof *numbers);
    return numbers;
}

static uint32_t plant(struct planting *planting, const struct fg_stack *stack)
{
    struct fg_tree *tree = planting->tree;
    uint32_t node = FG_TREE_ROOT;

    if (stack->depth == 0)
        return NO_STACK;
    /* Stacks are leaf first, trees grow from the root. */
    for (uint32_t i = stack->depth; i-- > 0;) {
        uint32_t number = planting->batch->stack_locations[stack->first + i];

        if (planting->locations[number] == UNKNOWN)
            planting->locations[number] =
                fg_batch_define_location(planting->batch, number, &tree->symbols);
        node = fg_tree_child(tree, node, planting->locations[number]);
    }
    return node;
}

static enum fg_code add_profile(struct planting *planting, const struct fg_profile *profile,
                                uint32_t type, size_t max_bytes, struct fg_err *err)
{
    const int64_t *values = profile->values + (size_t)type * profile->n_samples;

    for (uint32_t i = 0; i < profile->n_samples; i++) {
        uint32_t *node = &planting->nodes[profile->stacks[i]];

        if (values[i] == 0)
            continue;
        /* Only a new stack makes the tree grow, so the size is looked at once for each. */
        if (*node == UNKNOWN) {
            *node = plant(planting, &planting->batch->stacks[profile->stacks[i]]);
            if (fg_tree_bytes(planting->tree) > max_bytes)
                return fg_fail(err, FG_E_TOO_LARGE,
                               "the stacks of the profile need more than %zu bytes", max_bytes);
        }
        fg_tree_add(planting->tree, *node == NO_STACK ? FG_TREE_ROOT : *node, values[i]);
    }
    return FG_OK;
}

enum fg_code fg_batch_tree_add(const struct fg_batch *batch, uint32_t type, size_t max_bytes,
                               struct fg_tree *tree, struct fg_err *err)
{
    struct planting planting = {batch, tree, new_numbers(batch->n_locations),
                                new_numbers(batch->n_stacks)};
    enum fg_code code = FG_OK;

    fg_assert(type < batch->n_types);
    for (uint32_t i = 0; code == FG_OK && i < batch->n_profiles; i++)
        code = add_profile(&planting, &batch->profiles[i], type, max_bytes, err);
    free(planting.locations);
    free(planting.nodes);
    return code;
}
