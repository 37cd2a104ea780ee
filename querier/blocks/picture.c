/*
 * Sums into crowns: of what a part adds up to, what is too light for any picture is left out before
 * anything is looked for by name. With the tree of names of a part in the cache nothing is hashed
 * but the nodes that are kept, and those only where they do not come as in the part before.
 */
#include "querier/blocks/fetch.h"
#include "querier/blocks/select.h"

struct crowning {
    const struct blocks *blocks;
    uint32_t max_nodes; /* of a part */
    struct fg_crown_sum *into;
};

/*
 * Values below zero, of which a crown says little, and sums that go around 64 bits, which it does
 * not know: such parts are added as a whole.
 */
static bool is_plain(const struct part *part)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < part->entry->n_stacks; i++)
        if (part->sums[i] > INT64_MAX || (all += part->sums[i]) > INT64_MAX)
            return false;
    return true;
}

static void add_crown(const struct crowning *crowning, const struct fg_name_tree *names,
                      const int64_t *sums)
{
    struct fg_name_values values;
    struct fg_crown_adding adding;
    struct fg_crown crown;

    fg_name_values_init(&values, names);
    fg_name_values_set(&values, names, sums);
    fg_crown_make(names, &values, crowning->max_nodes, &crown);
    fg_crown_adding_init(&adding, crowning->into, names);
    fg_crown_add(&adding, &crown);
    fg_tree_add(&crowning->into->tree, FG_TREE_ROOT, values.nameless);
    fg_crown_adding_done(&adding);
    fg_crown_done(&crown);
    fg_name_values_done(&values);
}

/* Which nodes have a value, of their own or below, whatever it adds up to. */
static bool *find_live(const struct fg_name_tree *names, const uint64_t *sums)
{
    bool *live = fg_calloc(FG_MAX((size_t)names->n_nodes, 1), sizeof *live);

    for (uint32_t i = 0; i < names->n_from; i++)
        if (sums[i] != 0 && names->nodes[i] != FG_TREE_ROOT)
            live[names->nodes[i]] = true;
    for (uint32_t i = names->n_nodes; i-- > 0;)
        if (live[i] && names->parents[i] != FG_TREE_ROOT)
            live[names->parents[i]] = true;
    return live;
}

static void add_whole(const struct crowning *crowning, const struct fg_name_tree *names,
                      const uint64_t *sums)
{
    uint32_t *placed = fg_malloc(FG_MAX((size_t)names->n_nodes, 1) * sizeof *placed);
    bool *live = find_live(names, sums);
    struct fg_tree tree;

    fg_tree_init(&tree);
    for (uint32_t i = 0; i < names->n_nodes; i++) {
        uint32_t above = names->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above];

        if (live[i])
            placed[i] = fg_tree_child(
                &tree, parent,
                fg_symbols_name_location(&tree.symbols, names->names[names->name_numbers[i]]));
    }
    for (uint32_t i = 0; i < names->n_from; i++)
        if (sums[i] != 0)
            fg_tree_add(&tree,
                        names->nodes[i] == FG_TREE_ROOT ? FG_TREE_ROOT : placed[names->nodes[i]],
                        (int64_t)sums[i]);
    fg_crown_sum_take_tree(crowning->into, &tree);
    fg_tree_done(&tree);
    free(live);
    free(placed);
}

static enum fg_code add_part(void *arg, const struct part *part, struct fg_arena *arena,
                             struct fg_err *err)
{
    const struct crowning *crowning = arg;
    const struct fg_name_tree *names = names_of(part->tree_entry);

    (void)arena;
    if (is_plain(part))
        add_crown(crowning, names, (const int64_t *)part->sums);
    else
        add_whole(crowning, names, part->sums);
    if (fg_crown_sum_bytes(crowning->into) > crowning->blocks->memory_max_bytes)
        return blocks_too_large(err);
    return FG_OK;
}

enum fg_code blocks_picture(struct question *question, const struct selection *selection,
                            const struct stacks *stacks, bool full, struct fg_crown_sum *into,
                            uint64_t *sample_bytes, struct fg_err *err)
{
    const struct blocks *blocks = question->querier->blocks;
    struct crowning crowning = {.into = into};
    struct select_taker taker = {&thing_names, add_part, &crowning};

    fg_assert(stacks->n_call_site == 0);
    if (question->snapshot == NULL)
        return FG_OK;
    crowning.blocks = blocks;
    crowning.max_nodes = full ? UINT32_MAX : blocks->crown_nodes;
    return select_sums(question, selection, stacks, &taker, sample_bytes, err);
}
