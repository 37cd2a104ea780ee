/*
 * Parameters of a comparison: of the URL, or members of a JSON object in the body of a POST
 * (querier/API.md#what-changed).
 *
 * Thread: the query's worker. Memory: the query's arena.
 */
#ifndef FG_QUERIER_COMPARE_CHANGE_PARAMS_H
#define FG_QUERIER_COMPARE_CHANGE_PARAMS_H

#include "querier/compare/changes.h"
#include "querier/selection.h"

enum {
    QRY_CHANGE_LABELS_MAX = 8,
};

enum qry_change_sort {
    QRY_CHANGE_BY_DELTA,
    QRY_CHANGE_BY_CHANGE,
    QRY_CHANGE_BY_P,
    QRY_CHANGE_BY_NAME
};

struct qry_change_params {
    struct qry_selection sides[QRY_CHANGE_SIDES];
    bool rate;                                 /* by value per covered second; false: by share */
    const char *labels[QRY_CHANGE_LABELS_MAX]; /* that may name instances, the preferred first */
    size_t n_labels;
    double min_share, q;
    enum qry_change_sort sort;
    bool show_all; /* not only what changed */
    size_t limit, page;
};

/* Reads the parameters. Needs qry_change_params_done(), after a failure too. FG_E_INVALID names
 * the parameter. */
enum fg_code qry_change_params_read(struct qry_query *query, struct qry_change_params *ret_params,
                                    struct fg_err *err) fg_must_check;
void qry_change_params_done(struct qry_change_params *params);

#endif
