#include "querier/pprof.h"

#include "common/model/flame.h"
#include "common/model/pgo.h"
#include "common/model/pprof_write.h"

enum fg_code qry_pprof_max_nodes(int64_t asked_nodes, size_t *ret_max_nodes, struct fg_err *err)
{
    size_t max_nodes;

    if (qry_selection_max_nodes(FG_MIN(asked_nodes, FG_FLAME_NODES_MAX), &max_nodes, err) != FG_OK)
        return err->code;
    *ret_max_nodes = asked_nodes > 0 ? max_nodes : 0;
    return FG_OK;
}

void qry_pprof_write(const struct fg_tree *tree, const struct qry_selection *selection,
                     const struct qry_go_pgo *pgo, size_t max_nodes, struct fg_buf *out)
{
    /* A range before everything that is kept ends at INT64_MIN: then without a time. */
    struct fg_pprof_head head = {.type = selection->type, .time_ns = FG_MAX(selection->end_ns, 0)};
    struct fg_tree calls, small;

    fg_tree_init(&calls);
    fg_tree_init(&small);
    if (pgo != NULL) {
        fg_tree_pgo(tree, pgo->keep_locations, pgo->aggregate_callees, &calls);
        tree = &calls;
    }
    if (max_nodes > 0)
        fg_tree_truncate(tree, max_nodes, &small);
    fg_pprof_write(max_nodes > 0 ? &small : tree, &head, out);
    fg_tree_done(&small);
    fg_tree_done(&calls);
}
