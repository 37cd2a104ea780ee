/* Sums by group as an ingester answers with. What was taken is in the tree and within the limits.
 */
#include "querier/groups.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX_GROUPS = 50, MAX_BYTES = 1 << 20 };
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct qry_groups groups;
    struct fg_tree tree;
    struct fg_err err;

    fg_tree_init(&tree);
    qry_groups_init(&groups, &tree, arena, MAX_GROUPS, MAX_BYTES);
    if (qry_groups_take(&groups, fg_bytes(data, size), &err) != FG_OK)
        fg_assert(err.code == FG_E_CORRUPT || err.code == FG_E_LIMIT || err.code == FG_E_INVALID);
    fg_assert(groups.n <= MAX_GROUPS);
    for (size_t i = 0; i < groups.n; i++)
        for (size_t k = 0; k < groups.items[i].n; k++)
            fg_assert(groups.items[i].items[k].node < tree.n_nodes);
    qry_groups_done(&groups);
    fg_tree_done(&tree);
    return 0;
}
