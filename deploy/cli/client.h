/*
 * The HTTP client of the commands: one server, one request at a time, on libcurl. Connections are
 * kept from one request to the next.
 *
 * Thread: one. Every call blocks.
 */
#ifndef FG_DEPLOY_CLI_CLIENT_H
#define FG_DEPLOY_CLI_CLIENT_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "deploy/cli/args.h"

#include <protobuf-c/protobuf-c.h>

struct cli_client_config {
    const char *url;    /* NULL: FLAMEGRID_URL, else http://127.0.0.1:4040 */
    const char *tenant; /* X-Scope-OrgID; NULL: FLAMEGRID_TENANT, else none */
    const char *token;  /* Authorization: Bearer; NULL: FLAMEGRID_TOKEN, else none */
    unsigned timeout_s; /* of a request; 0: minutes, since large queries take long */
};

/* The lines of an options table that fill a client_config. */
/* clang-format off */
#define CLIENT_OPTIONS(config)                                                             \
    {"url",    0, ARGS_TEXT, &(config).url,    "URL",    "server; else FLAMEGRID_URL, "    \
                                                         "else http://127.0.0.1:4040", 0, 0}, \
    {"tenant", 0, ARGS_TEXT, &(config).tenant, "TENANT", "tenant; else FLAMEGRID_TENANT", 0, 0}, \
    {"token",  0, ARGS_TEXT, &(config).token,  "TOKEN",  "access token; else FLAMEGRID_TOKEN", 0, 0}
/* clang-format on */

struct cli_client;

/* Reads the environment. FG_E_INVALID for a URL that is none. Destroy accepts NULL. */
enum fg_code cli_client_create(const struct cli_client_config *config,
                               struct cli_client **ret_client, struct fg_err *err) fg_must_check;
/* The server's address, as it is used. */
const char *cli_client_url(const struct cli_client *client);

void cli_client_destroy(struct cli_client *client);
FG_AUTO(cli_client, cli_client_destroy)

/* body's memory is ours to free: cli_client_reply_done(), on a zeroed reply too. */
struct cli_client_reply {
    unsigned status;        /* HTTP */
    uint64_t retry_after_s; /* 0: the server did not say */
    struct fg_buf body;     /* without its content coding */
};
void cli_client_reply_done(struct cli_client_reply *reply);

/*
 * Any status is FG_OK; FG_E_UNAVAILABLE: there was no answer. path begins with '/' and may have a
 * query.
 */
enum fg_code cli_client_get(struct cli_client *client, const char *path,
                            struct cli_client_reply *ret_reply, struct fg_err *err) fg_must_check;
enum fg_code cli_client_post(struct cli_client *client, const char *path, const char *content_type,
                             struct fg_slice body, struct cli_client_reply *ret_reply,
                             struct fg_err *err) fg_must_check;

/*
 * A Connect call with protobuf bodies: "querier.v1.QuerierService/Series". The reply's body is the
 * answer's message. Any other status than 200 is a failure with the server's own words.
 */
enum fg_code cli_client_call(struct cli_client *client, const char *method,
                             const ProtobufCMessage *request, struct cli_client_reply *ret_reply,
                             struct fg_err *err) fg_must_check;

/* Returns what the last answer lacks, as the server says it; NULL: it is complete. Valid until the
 * next request. */
const char *cli_client_missing(const struct cli_client *client);

/* Says on stderr what the last answer lacks, if anything. client NULL: nothing. */
void cli_client_warn_missing(const struct cli_client *client);

/* FG_OK for status 200, else a failure with the server's own words. */
enum fg_code cli_client_check(const struct cli_client_reply *reply,
                              struct fg_err *err) fg_must_check;

/*
 * What an answer says went wrong: "message" of our error JSON, else the first line of a text. In
 * one line, without control characters, since it goes to a terminal.
 */
void cli_client_message(struct fg_slice body, struct fg_buf *out);

#endif
