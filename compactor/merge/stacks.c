#include "compactor/merge/stacks.h"

enum { NOT_NEEDED = FG_MAP_NONE };

void cmp_merge_stacks_init(struct cmp_merge_stacks *stacks, size_t max_bytes)
{
    *stacks = (struct cmp_merge_stacks){.max_bytes = max_bytes};
    fg_tree_init(&stacks->tree);
}

void cmp_merge_stacks_done(struct cmp_merge_stacks *stacks)
{
    fg_tree_done(&stacks->tree);
    free(stacks->uses);
}

void cmp_merge_stacks_seal(struct cmp_merge_stacks *stacks)
{
    fg_tree_seal(&stacks->tree);
}

uint64_t cmp_merge_stacks_all_uses(const struct cmp_merge_stacks *stacks)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i <= stacks->tree.n_nodes; i++)
        all += stacks->uses[i];
    return all;
}

void cmp_merge_stacks_drop_uses(struct cmp_merge_stacks *stacks)
{
    free(stacks->uses);
    stacks->uses = NULL;
    stacks->cap = 0;
}

/* ---- uses, by rank ---- */

static enum fg_code count_page(const struct cmp_merge_part *part,
                               const struct cmp_merge_choice *choice, uint32_t page,
                               struct fg_block_samples *samples, uint32_t *uses, struct fg_err *err)
{
    const struct fg_block_page *said = &part->index.pages[FG_BLOCK_SMP].pages[page];
    struct fg_block_sample_set set;

    if (fg_block_samples_open(samples, &part->index, page,
                              cmp_merge_part_page(part, FG_BLOCK_SMP, page), err) != FG_OK)
        return err->code;
    for (uint32_t i = said->first; i < said->first + said->items; i++) {
        if (!cmp_merge_chosen(choice, i))
            continue;
        if (fg_block_samples_read(samples, i, &set, err) != FG_OK)
            return err->code;
        for (uint32_t k = 0; k < set.count; k++)
            uses[set.ranks[k]]++;
    }
    return FG_OK;
}

/* ---- nodes ---- */

/* nodes: those that were marked become their numbers in the union. */
static void add_nodes(struct fg_tree *into, const struct fg_tree *from, uint32_t *nodes)
{
    struct fg_symbols_import import;

    fg_symbols_import_init(&import, &into->symbols, &from->symbols);
    /* Parents come before their children in a stack tree, so a parent has its new number
     * already. */
    for (uint32_t i = 0; i < from->n_nodes; i++) {
        uint32_t parent = from->parents[i];

        if (nodes[i] != NOT_NEEDED)
            nodes[i] = fg_tree_child(into, parent == FG_TREE_ROOT ? FG_TREE_ROOT : nodes[parent],
                                     fg_symbols_import_location(&import, from->locations[i]));
    }
    fg_symbols_import_done(&import);
}

static void grow_uses(struct cmp_merge_stacks *stacks)
{
    uint32_t needed = stacks->tree.n_nodes + 1;

    /* One more than nodes: uses[0] is that of the empty stack. */
    if (needed <= stacks->cap)
        return;
    stacks->uses = fg_realloc(stacks->uses, (size_t)needed * 2 * sizeof *stacks->uses);
    memset(stacks->uses + stacks->cap, 0,
           ((size_t)needed * 2 - stacks->cap) * sizeof *stacks->uses);
    stacks->cap = needed * 2;
}

static enum fg_code add_part(struct cmp_merge_stacks *stacks, const struct cmp_merge_part *part,
                             const uint32_t *uses, struct fg_arena *scratch, uint32_t *map,
                             struct fg_err *err)
{
    struct fg_block_range range = fg_block_part_range(part->part, FG_BLOCK_WANT_TREE);
    struct fg_block_tree tree;
    uint32_t *nodes;

    if (fg_block_tree_parse(&part->index, cmp_merge_part_range(part, range), scratch, &tree, err) !=
        FG_OK)
        return err->code;
    nodes = fg_arena_alloc(scratch, (size_t)tree.tree.n_nodes * sizeof *nodes);
    if (nodes == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u nodes", tree.tree.n_nodes);
    for (uint32_t i = 0; i < tree.tree.n_nodes; i++)
        nodes[i] = NOT_NEEDED;
    /* Marks the nodes that stacks with a use need. */
    for (uint32_t r = 0; r < tree.n_stacks; r++)
        if (uses[r] > 0 && tree.nodes[r] > 0)
            nodes[tree.nodes[r] - 1] = 0;
    for (uint32_t i = tree.tree.n_nodes; i-- > 0;) /* parents come before their children */
        if (nodes[i] != NOT_NEEDED && tree.tree.parents[i] != FG_TREE_ROOT)
            nodes[tree.tree.parents[i]] = 0;
    add_nodes(&stacks->tree, &tree.tree, nodes);
    grow_uses(stacks);
    for (uint32_t r = 0; r < tree.n_stacks; r++) {
        map[r] = FG_MAP_NONE;
        if (uses[r] == 0)
            continue;
        map[r] = tree.nodes[r] == 0 ? 0 : nodes[tree.nodes[r] - 1] + 1;
        stacks->uses[map[r]] += uses[r];
    }
    if (fg_tree_bytes(&stacks->tree) > stacks->max_bytes)
        return fg_fail(err, FG_E_LIMIT, "stacks of more than %zu bytes", stacks->max_bytes);
    return FG_OK;
}

enum fg_code cmp_merge_stacks_add(struct cmp_merge_stacks *stacks,
                                  const struct cmp_merge_part *part,
                                  const struct cmp_merge_choice *choice,
                                  struct fg_block_samples *samples, struct fg_arena *arena,
                                  struct fg_arena *scratch, uint32_t **ret_map, struct fg_err *err)
{
    const struct fg_block_pages *pages = &part->index.pages[FG_BLOCK_SMP];
    uint32_t *map = fg_arena_new(arena, uint32_t, (size_t)part->part->n_stacks + 1);
    uint32_t *uses;

    fg_arena_reset(scratch);
    uses = fg_arena_new(scratch, uint32_t, (size_t)part->part->n_stacks + 1);
    if (map == NULL || uses == NULL) {
        (void)fg_fail(err, FG_E_LIMIT, "no room for %u stacks", part->part->n_stacks);
        return cmp_merge_part_wrap(part, err);
    }
    for (uint32_t i = 0; i < pages->count; i++)
        if (cmp_merge_chosen_any(choice, pages->pages[i].first, pages->pages[i].items) &&
            count_page(part, choice, i, samples, uses, err) != FG_OK)
            return cmp_merge_part_wrap(part, err);
    if (add_part(stacks, part, uses, scratch, map, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    *ret_map = map;
    return FG_OK;
}
