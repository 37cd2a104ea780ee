/*
 * Parameters of our own plain GET routes, below /api/. Unlike in Pyroscope's routes a malformed one
 * is an error.
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_PARAMS_H
#define FG_QUERIER_PARAMS_H

#include "querier/selection.h"

/* Reads `query`, `from` and `until` into a selection; the last hour if no time is given.
 * FG_E_INVALID names the parameter. */
enum fg_code qry_params_selection(struct qry_query *query, struct qry_selection *selection,
                                  struct fg_err *err) fg_must_check;

/* Does the same, but the profile type, or all of `query`, may be missing. Series are selected by it
 * then, of any type. With a type, the selector says so as well. */
enum fg_code qry_params_series(struct qry_query *query, struct qry_selection *selection,
                               struct fg_err *err) fg_must_check;

/* Reads "true" or "false"; an empty text is false. FG_E_INVALID names the parameter. */
enum fg_code qry_params_flag(struct fg_slice text, const char *name, bool *ret_flag,
                             struct fg_err *err) fg_must_check;

/* Reads a time; an empty text is otherwise_ns. FG_E_INVALID names the parameter. */
enum fg_code qry_params_time(const struct qry_query *query, struct fg_slice text, const char *name,
                             int64_t otherwise_ns, int64_t *ret_ms,
                             struct fg_err *err) fg_must_check;

/* Reads a number from min to max; an empty text is `otherwise`. FG_E_INVALID names the parameter.
 */
enum fg_code qry_params_number(struct fg_slice text, const char *name, int64_t otherwise,
                               int64_t min, int64_t max, size_t *ret_number,
                               struct fg_err *err) fg_must_check;

#endif
