/*
 * Rows of /api/labels: names or values of labels with the numbers of their series, for the command
 * labels.
 *
 * Thread: one; calls wait for the server.
 */
#ifndef FG_DEPLOY_CLI_LABEL_ROWS_H
#define FG_DEPLOY_CLI_LABEL_ROWS_H

#include "deploy/cli/client.h"
#include "deploy/cli/selection.h"

/* What is asked for; texts may be NULL. */
struct cli_label_rows {
    const char *label;     /* whose values; NULL: names */
    struct fg_slice query; /* TYPE{selector}, {selector}, or empty */
    struct cli_selection_range range;
    const char *prefix, *regex, *sort;
    bool growth;
    bool numbers;   /* print them; else only the names or values */
    uint64_t limit; /* rows; 0: all */
};

/*
 * Asks for the rows, page by page, and appends them: lines of a table, or with json an array of the
 * server's objects (without numbers: of texts). *ret_truncated: what the server left out for lack
 * of memory, a text to be freed with free(); NULL: nothing. Fails with the error of the client or
 * the server.
 */
enum fg_code cli_label_rows_print(struct cli_client *client, const struct cli_label_rows *rows,
                                  bool json, struct fg_buf *out, char **ret_truncated,
                                  struct fg_err *err) fg_must_check;

#endif
