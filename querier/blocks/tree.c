/* Sums into a tree of stacks. */
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/samples.h"

struct growing {
    const struct qry_blocks *blocks;
    const struct qry_stack_filter *stacks;
    bool names_only;
    struct fg_tree *into;
};

/* Runs on any thread of the task group; add_view() runs on the query's, part by part. */
static enum fg_code make_view(void *arg, const struct qry_part *part, struct fg_arena *arena,
                              void **ret_made, struct fg_err *err)
{
    const struct growing *growing = arg;
    const struct qry_stack_filter *stacks = growing->stacks;
    struct fg_tree *view = fg_arena_new(arena, struct fg_tree, 1);

    if (view == NULL)
        return qry_query_too_large(err);
    if (fg_block_tree_values(qry_tree_of(part->tree_entry), part->sums, arena, view, err) != FG_OK)
        return err->code;
    if (stacks->n_call_site > 0)
        fg_tree_keep_site(view, stacks->call_site, stacks->n_call_site);
    *ret_made = view;
    return FG_OK;
}

static enum fg_code add_view(void *arg, uint32_t number, void *made, struct fg_err *err)
{
    const struct growing *growing = arg;

    (void)number;
    /* Lines and addresses are merged away, which keeps the sum small. */
    if (growing->names_only)
        fg_tree_names(made, growing->into);
    else
        fg_tree_merge_used(growing->into, made);
    /* After each part: names differ by service, so the size of the result is known only now. */
    if (fg_tree_bytes(growing->into) > growing->blocks->memory_max_bytes)
        return qry_query_too_large(err);
    return FG_OK;
}

enum fg_code qry_blocks_tree(struct qry_query *query, const struct qry_selection *selection,
                             const struct qry_stack_filter *stacks, bool names_only,
                             struct fg_tree *into, struct fg_err *err)
{
    struct growing growing = {query->querier->blocks, stacks, names_only, into};
    struct qry_samples_taker taker = {.max_sample_bytes = UINT64_MAX,
                                      .stacks = &qry_cached_tree,
                                      .make = make_view,
                                      .take = add_view,
                                      .arg = &growing};
    uint64_t sample_bytes = 0;

    if (query->snapshot == NULL)
        return FG_OK;
    return qry_samples_sum(query, selection, stacks, &taker, &sample_bytes, err);
}
