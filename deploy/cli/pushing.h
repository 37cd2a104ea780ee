/*
 * Sending a file as a profile, with patience for servers that are busy: POST /ingest, or, where all
 * labels of the series are known, push.v1.PusherService/Push.
 */
#ifndef FG_DEPLOY_CLI_PUSHING_H
#define FG_DEPLOY_CLI_PUSHING_H

#include "common/model/labels.h"
#include "deploy/cli/client.h"

/* How files are sent. Of name, format and spy_name NULL: not said; so are times of 0. */
struct cli_pushing {
    const char *name, *format, *spy_name;
    int64_t from_ns, until_ns;
    const struct fg_labels *series; /* in the place of a name; NULL: by /ingest */
    uint64_t sample_rate;           /* 0: the server's default */
    struct cli_client *client;
};

/* What went over the wire. */
struct cli_pushed {
    size_t bytes;
    const char *format;
    int64_t time_ns; /* of the profile; 0: that of its arrival */
};

/* The err begins with what is wrong, not with the file's name. */
enum fg_code cli_push_file(const struct cli_pushing *pushing, const char *file,
                           struct cli_pushed *ret_pushed, struct fg_err *err) fg_must_check;

#endif
