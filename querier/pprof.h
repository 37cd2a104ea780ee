/*
 * Merged stacks as pprof, for the methods and for /pyroscope/render (querier/API.md#pprof).
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_PPROF_H
#define FG_QUERIER_PPROF_H

#include "common/model/tree.h"
#include "querier/selection.h"

/* How stacks are reduced for Go's compiler (common/model/pgo.h). */
struct qry_go_pgo {
    uint32_t keep_locations; /* 0: all */
    bool aggregate_callees;
};

/*
 * Reads how many nodes a pprof has. *ret_max_nodes 0: all of them, unless the client asked for
 * fewer. A request for more than a flame graph may have is no mistake here, since a pprof without a
 * limit has all. FG_E_INVALID: asked_nodes is negative.
 */
enum fg_code qry_pprof_max_nodes(int64_t asked_nodes, size_t *ret_max_nodes,
                                 struct fg_err *err) fg_must_check;

/* Appends the pprof of a tree of locations. pgo NULL: stacks as they are; max_nodes 0: all nodes.
 * out->full: it did not fit. */
void qry_pprof_write(const struct fg_tree *tree, const struct qry_selection *selection,
                     const struct qry_go_pgo *pgo, size_t max_nodes, struct fg_buf *out);

#endif
