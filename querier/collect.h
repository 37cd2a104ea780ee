/*
 * Collects the data of a query from ingesters and from blocks, and merges it: stacks, series,
 * points over time, counts, rows of profiles, whole profiles. flamegraph.h merges for flame graphs.
 *
 * Thread: the query's worker; calls wait for peers and for the bucket. Errors: those of
 * qry_fanout_run().
 */
#ifndef FG_QUERIER_COLLECT_H
#define FG_QUERIER_COLLECT_H

#include "common/model/profile_rows.h"
#include "common/model/tree.h"
#include "querier/blocks/blocks.h"
#include "querier/merge.h"
#include "querier/selection.h"
#include "querier/value_totals.h"

/* Merges the selected stacks, with function names only or with full locations, into an empty
 * tree. */
enum fg_code qry_collect_tree(struct qry_query *query, const struct qry_selection *selection,
                              const struct qry_stack_filter *stacks, bool names_only,
                              struct fg_tree *into, struct fg_err *err) fg_must_check;

/* Merges the selected stacks by function names into empty groups, one for each value of a label.
 * FG_E_INVALID: only rollups are left of some of the time, or there are too many groups. */
enum fg_code qry_collect_groups(struct qry_query *query, const struct qry_selection *selection,
                                const char *label, struct qry_groups *into,
                                struct fg_err *err) fg_must_check;

/*
 * Counts in how many of the selected profiles each function appears, on a stack that has a value:
 * an empty tree gets a node at the root for each function, whose value is that number. The value of
 * the empty stack is the number of profiles that have any value. FG_E_INVALID: only rollups are
 * left of some of the time.
 */
enum fg_code qry_collect_function_counts(struct qry_query *query,
                                         const struct qry_selection *selection,
                                         struct fg_tree *into, struct fg_err *err) fg_must_check;

/* Merges the label sets of the selected series into an initialised `into`, sorted. names: keeps
 * only these labels; none: all. */
enum fg_code qry_collect_series(struct qry_query *query, const struct qry_selection *selection,
                                const char *const *names, size_t n_names,
                                struct qry_label_sets *into, struct fg_err *err) fg_must_check;

/* Adds the selected series to a cardinality, in its current range. */
enum fg_code qry_collect_labels(struct qry_query *query, const struct qry_selection *selection,
                                struct qry_cardinality *into, struct fg_err *err) fg_must_check;

/*
 * Sums the values of the selected profiles on a grid of step_ns, a series for each combination of
 * the labels in group_by. In no order, in the query's arena. The grid is that of the start that the
 * client asked for; if the tenants' limits cut the range, points before the cut are missing.
 */
enum fg_code qry_collect_points(struct qry_query *query, const struct qry_selection *selection,
                                int64_t step_ns, char *const *group_by, size_t n_group_by,
                                struct qry_points **ret_series, size_t *ret_n,
                                struct fg_err *err) fg_must_check;

/* Does the same for the whole range, both ends included: a series has one point. FG_E_INVALID: the
 * range exceeds 64 bits. */
enum fg_code qry_collect_totals(struct qry_query *query, const struct qry_selection *selection,
                                char *const *group_by, size_t n_group_by,
                                struct qry_points **ret_series, size_t *ret_n,
                                struct fg_err *err) fg_must_check;

/* Adds up the same by the values of a label, into cleared totals. A million values cost a tenth of
 * what as many label sets do. */
enum fg_code qry_collect_value_totals(struct qry_query *query,
                                      const struct qry_selection *selection, const char *label,
                                      struct qry_value_totals *into,
                                      struct fg_err *err) fg_must_check;

/* Does the same as qry_collect_points(), with covered_ns, if query->statistics asks for more than
 * sums. The integers are the same. */
enum fg_code qry_collect_rates(struct qry_query *query, const struct qry_selection *selection,
                               int64_t step_ns, char *const *group_by, size_t n_group_by,
                               struct qry_points **ret_series, size_t *ret_n,
                               struct fg_err *err) fg_must_check;

/*
 * Adds the selected profiles of one type, or their spans, to an empty list, as its configuration
 * says, and finishes it. start_ns and last_step of the configuration are set here; steps are those
 * of the grid that the client asked for. Time of which only rollups are left has no rows.
 */
enum fg_code qry_collect_rows(struct qry_query *query, const struct qry_selection *selection,
                              struct fg_profile_rows *into, struct fg_err *err) fg_must_check;

/* Counts the profiles of the query's tenants. */
enum fg_code qry_collect_stats(struct qry_query *query, struct qry_tenant_stats *ret_stats,
                               struct fg_err *err) fg_must_check;

/*
 * Visits the selected profiles one by one, in no order, except those without values. selection's
 * type_text NULL: with all their sample types, else with those that match. If the snapshot turns
 * out to be too old it begins again, so a profile may come twice. The querier must have no
 * ingesters. Time of which only rollups are left has no profiles (qry_blocks_need_profiles()).
 */
enum fg_code qry_collect_profiles(struct qry_query *query, const struct qry_selection *selection,
                                  qry_profile_visit visit, void *arg,
                                  struct fg_err *err) fg_must_check;

#endif
