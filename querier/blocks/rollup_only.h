/*
 * Rollups whose profiles retention has deleted: what they can answer, apart from flame graphs,
 * which use them as any other rollup (rollups.h).
 *
 *   range    They cover whole weeks and their days (compactor/plan_core.h), or longer spans as a
 *            whole. A flame graph that begins or ends inside one is widened to its ends and says
 *            so.
 *   points   Totals of the shortest spans, spread evenly over their time, so that sums stay the
 *            same for any step.
 *   series   The labels that groups know.
 *
 * Queries that need more are refused with the time from which on there are profiles.
 *
 * Thread: the query's. Errors: those of blocks.h; FG_E_INVALID: rollups cannot answer it.
 */
#ifndef FG_QUERIER_BLOCKS_ROLLUP_ONLY_H
#define FG_QUERIER_BLOCKS_ROLLUP_ONLY_H

#include "querier/blocks/reader.h"

/* Receives one value of a grid. labels: with those made from the type; gone after the call. */
typedef enum fg_code (*qry_rollup_only_point)(void *arg, const struct fg_labels *labels,
                                              uint64_t step, uint64_t sum, uint64_t count,
                                              struct fg_err *err);
struct qry_rollup_only_grid {
    int64_t start_ns, step_ns;
    uint64_t last_step;
    const char *const *group_by;
    size_t n_group_by;
    qry_rollup_only_point each;
    void *arg;
};

/* Spreads the totals of the selected rollups over a grid. */
enum fg_code qry_rollup_only_points(struct qry_query *query, const struct qry_selection *selection,
                                    const struct qry_rollup_only_grid *grid,
                                    struct fg_err *err) fg_must_check;

/* Receives a label set. labels: with those made from the type; gone after the call. */
typedef enum fg_code (*qry_rollup_only_labels)(void *arg, const struct fg_labels *labels,
                                               struct fg_err *err);

/* Lists the label sets of the selected groups, once for each profile type: what is left of
 * series. */
enum fg_code qry_rollup_only_series(struct qry_query *query, const struct qry_selection *selection,
                                    qry_rollup_only_labels each, void *arg,
                                    struct fg_err *err) fg_must_check;

#endif
