/*
 * Reads what a Pyroscope answers to an import. The bytes come from outside: whatever they are, the
 * functions end with FG_OK, FG_E_DECODE or FG_E_LIMIT (the arena is full). Pure.
 *
 * Results are in the arena, and borrow from the bytes where it says so.
 */
#ifndef FG_DEPLOY_CLI_IMPORT_ANSWER_H
#define FG_DEPLOY_CLI_IMPORT_ANSWER_H

#include "deploy/cli/import_plan.h"

/* Reads the label sets of Series. */
enum fg_code cli_import_read_series(struct fg_slice in, struct fg_arena *arena,
                                    struct fg_labels **ret_sets, size_t *ret_n,
                                    struct fg_err *err) fg_must_check;

/* Reads the points of SelectSeries without groups: one series, or none. */
enum fg_code cli_import_read_points(struct fg_slice in, struct fg_arena *arena,
                                    struct cli_import_point **ret_points, size_t *ret_n,
                                    struct fg_err *err) fg_must_check;

/* Reads the times of GetProfileStats; 0: the source has no profiles, or does not know. */
enum fg_code cli_import_read_oldest(struct fg_slice in, struct fg_arena *arena,
                                    int64_t *ret_oldest_ms, struct fg_err *err) fg_must_check;

/* Reads the pprof of SelectMergeProfile and sums its values. An empty message is a sum of 0.
 * FG_E_DECODE also: it is of another type, or refers to what it does not have, as one does that was
 * cut. */
enum fg_code cli_import_read_profile(struct fg_slice in, const struct cli_import_series *series,
                                     struct fg_arena *arena, double *ret_sum,
                                     struct fg_err *err) fg_must_check;

/* Appends such a pprof with another time, and without a duration: the source gives a merge the end
 * of the range. */
void cli_import_write_profile(struct fg_slice in, int64_t time_ms, struct fg_buf *out);

#endif
