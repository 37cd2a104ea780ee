/* What the outputs of the command query share. Each output has a file; cli_query.c chooses. */
#ifndef FG_DEPLOY_CLI_QUERY_H
#define FG_DEPLOY_CLI_QUERY_H

#include "deploy/cli/ask.h"

struct cli_query {
    struct cli_client_config server;
    const char *selector, *type, *from, *until, *output, *file, *sort;
    const char *diff, *diff_from, *diff_until; /* what to compare with; NULL: the same */
    uint64_t max_nodes, limit, step_s;         /* step_s 0: by the range */
    const char *call_site, *function, *regex;  /* a part of the flame graph; NULL: all */
    bool json, series;

    struct cli_selection selection, base;
    struct cli_selection_range range, base_range;
    struct fg_slice type_id; /* in full */
    struct fg_arena *arena;
    struct cli_client *client;
};

/* Returns FG_E_NOT_FOUND with the times at which there are profiles. */
enum fg_code cli_query_fail_empty(const struct cli_query *query, struct fg_err *err);

/* Writes an output, to the file or standard output. */
enum fg_code cli_query_write(const struct cli_query *query, const struct fg_buf *out,
                             struct fg_err *err) fg_must_check;

/* Prints --series: the total over time, a line per step that has profiles. */
enum fg_code cli_query_series(const struct cli_query *query, struct fg_err *err) fg_must_check;

/* Prints --diff: functions by the difference of their shares. */
enum fg_code cli_query_diff(const struct cli_query *query, struct fg_err *err) fg_must_check;

#endif
