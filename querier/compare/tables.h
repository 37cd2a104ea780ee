/*
 * Functions of both sides of a comparison: their figures in all and by unit, and which calls which.
 *
 * Pure. Thread: any. Memory: bounded by the groups, except rows and edges, which are in the arena.
 */
#ifndef FG_QUERIER_COMPARE_TABLES_H
#define FG_QUERIER_COMPARE_TABLES_H

#include "common/model/function_tree.h"
#include "querier/compare/sides.h"
#include "querier/compare/thin.h"

/* A function's self value or its total. If both are the same, it has only the former. */
struct qry_change_row {
    uint32_t function;
    bool of_total;
    int64_t values[QRY_CHANGE_SIDES];
    size_t n_units[QRY_CHANGE_SIDES]; /* that have it */
    struct qry_change change;
};

struct qry_change_tables {
    struct fg_function_tree functions;
    struct fg_function_values values[QRY_CHANGE_SIDES];
    struct qry_change_row *rows;
    size_t n_rows;
    int64_t quantum; /* the greatest common divisor of all values of stacks; 0: there are none */
};

/* Makes the tables of both sides together, with a row for each figure of at least min_share of
 * either side's total, and their values by unit. Needs qry_change_tables_done(), after a failure
 * too. FG_E_LIMIT: the arena is full. */
enum fg_code qry_change_tables_make(const struct qry_change_sides *sides, double min_share,
                                    struct fg_arena *arena, struct qry_change_tables *ret_tables,
                                    struct fg_err *err) fg_must_check;
void qry_change_tables_done(struct qry_change_tables *tables);

/*
 * Lists calls from and to functions that are marked. scales: what a side's values are multiplied by
 * to be figures. Recursion counts once, as in totals: what a function calls is below the outermost
 * of its frames, or below frames that it called itself from there.
 */
enum fg_code qry_change_edges(const struct qry_change_tables *tables, const bool *marked,
                              const double scales[QRY_CHANGE_SIDES], struct fg_arena *arena,
                              struct qry_thin_edge **ret_edges, size_t *ret_n,
                              struct fg_err *err) fg_must_check;

/* Sets firsts[n_names] to the first node of each function: callers come before what they call. */
void qry_change_firsts(const struct fg_function_tree *functions, uint32_t *firsts);

#endif
