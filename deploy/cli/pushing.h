/*
 * Sends a file as a profile and retries while the server is busy: by POST /ingest, or by
 * push.v1.PusherService/Push if all labels of the series are known.
 */
#ifndef FG_DEPLOY_CLI_PUSHING_H
#define FG_DEPLOY_CLI_PUSHING_H

#include "common/model/labels.h"
#include "deploy/cli/client.h"

/* How files are sent. Not given: name, format and spy_name NULL, times 0. */
struct cli_pushing {
    const char *name, *format, *spy_name;
    int64_t from_ns, until_ns;
    const struct fg_labels *series; /* instead of a name; NULL: use /ingest */
    uint64_t sample_rate;           /* 0: the server's default */
    struct cli_client *client;
};

/* What was sent. */
struct cli_pushed {
    size_t bytes;
    const char *format;
    int64_t time_ns; /* of the profile; 0: the time of arrival */
};

/* Sends a file. The message of err does not name the file. */
enum fg_code cli_push_file(const struct cli_pushing *pushing, const char *file,
                           struct cli_pushed *ret_pushed, struct fg_err *err) fg_must_check;

#endif
