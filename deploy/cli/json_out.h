/*
 * Results as JSON: what --json prints. One document per command, with keys in snake_case whose
 * units are in their names; times are text in RFC 3339, UTC. deploy/README.md lists the keys: they
 * do not change, others may be added.
 */
#ifndef FG_DEPLOY_CLI_JSON_OUT_H
#define FG_DEPLOY_CLI_JSON_OUT_H

#include "common/base/err.h"
#include "common/base/slice.h"
#include "deploy/cli/client.h"

#include <jansson.h>
#include <stdio.h>

/* Returns a JSON string. Bytes of text that is not UTF-8, which paths may be, become '?'. */
json_t *cli_json_text(struct fg_slice text);

/* Returns a JSON integer. Numbers above INT64_MAX become INT64_MAX. */
json_t *cli_json_u64(uint64_t number);

/* Returns a time, in nanoseconds since 1970, as "2024-01-31T12:00:00.250Z". */
json_t *cli_json_time(int64_t wall_ns);

/* Reads the document of a reply, which the caller frees, and frees the reply. A status other than
 * 200 is a failure with the server's message. FG_E_DECODE: it is not JSON. */
enum fg_code cli_json_reply(struct cli_client_reply *reply, json_t **ret_document,
                            struct fg_err *err) fg_must_check;

/* Lines of text that a command writes, and that become an array of a document with --json. */
struct cli_json_report {
    FILE *out; /* where to write them */
    char *text;
    size_t len;
};

/* Opens report->out. FG_E_…: there is no memory for it. */
enum fg_code cli_json_report_begin(struct cli_json_report *report,
                                   struct fg_err *err) fg_must_check;

/*
 * Prints {"ok", "applied", "report", "error"}: the lines, and how the command ended, which are code
 * and err. Returns the code, or that of an error while printing.
 */
enum fg_code cli_json_report_end(struct cli_json_report *report, enum fg_code code, bool applied,
                                 struct fg_err *err) fg_must_check;

/* Prints the document and a newline, and frees it. FG_E_…: what the system says of `out`. */
enum fg_code cli_json_print(json_t *document, FILE *out, struct fg_err *err) fg_must_check;

#endif
