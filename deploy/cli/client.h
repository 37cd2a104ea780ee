/*
 * The HTTP client of the commands: one server, one request at a time, with libcurl. Connections are
 * reused.
 *
 * Thread: one. Every call blocks.
 */
#ifndef FG_DEPLOY_CLI_CLIENT_H
#define FG_DEPLOY_CLI_CLIENT_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "deploy/cli/args.h"

#include <protobuf-c/protobuf-c.h>

/* What a client shows of who it is. */
enum cli_client_shows {
    CLIENT_SHOWS_ALL,
    CLIENT_SHOWS_CERTIFICATE, /* neither tenant nor token */
    CLIENT_SHOWS_GIVEN,       /* what the config names, and nothing of the environment or a log-in:
                                 a second server, for which those were not made. Messages about it
                                 do not name --url and its kin, but --source-tenant and so on */
    CLIENT_SHOWS_NOTHING,     /* it is another's server, such as an identity provider */
};

struct cli_client_config {
    const char *url;        /* NULL: FLAMEGRID_URL, else http://127.0.0.1:4040 */
    const char *url_option; /* that names it, for messages, without --; NULL: url */
    /* PEM file with authorities that are trusted besides those of the system; NULL:
     * FLAMEGRID_CA_FILE, else none */
    const char *ca_file;
    /* PEM files with the certificate that the client presents and its key, which may be in the
     * file of the certificate; NULL: FLAMEGRID_CERT_FILE and FLAMEGRID_KEY_FILE, else none */
    const char *cert_file, *key_file;
    const char *tenant; /* X-Scope-OrgID; NULL: FLAMEGRID_TENANT, else none */
    /* Authorization: Bearer; NULL: FLAMEGRID_TOKEN, else that of `flamegrid login`, else none */
    const char *token;
    const char *basic;  /* Authorization: Basic, as USER:PASSWORD; NULL: none. Not with a token */
    const char *accept; /* the header Accept; NULL: any type */
    unsigned timeout_s; /* of a request; 0: minutes, because large queries take long */
    enum cli_client_shows shows;
    bool partial; /* take answers that are not complete, where the server has such */
};

/* Lines of an options table that fill a struct cli_client_config. CLIENT_TLS_OPTIONS has the
 * certificates. The others add the address of the server, then the token, and then the tenant for
 * commands about the profiles of one tenant. */
/* clang-format off */
#define CLIENT_TLS_OPTIONS(config)                                                         \
    {"ca-file", 0, ARGS_TEXT, &(config).ca_file, "FILE", "trust the authorities in this PEM file, too; " \
                                                         "else FLAMEGRID_CA_FILE", 0, 0}, \
    {"cert-file", 0, ARGS_TEXT, &(config).cert_file, "FILE", "present the certificate in this PEM file; " \
                                                             "else FLAMEGRID_CERT_FILE", 0, 0}, \
    {"key-file", 0, ARGS_TEXT, &(config).key_file, "FILE", "its key, if in another file; " \
                                                           "else FLAMEGRID_KEY_FILE", 0, 0}
#define CLIENT_TOKEN_OPTION(config)                                                        \
    {"token",  0, ARGS_TEXT, &(config).token,  "TOKEN",  "send this access token; else FLAMEGRID_TOKEN", 0, 0}
#define CLIENT_TENANT_OPTION(config)                                                       \
    {"tenant", 0, ARGS_TEXT, &(config).tenant, "TENANT", "act for this tenant; else FLAMEGRID_TENANT", 0, 0}
#define CLIENT_SERVER_OPTIONS(config)                                                      \
    {"url",     0, ARGS_TEXT, &(config).url,     "URL",  "URL of the server; else FLAMEGRID_URL, "   \
                                                         "else http://127.0.0.1:4040", 0, 0}, \
    CLIENT_TLS_OPTIONS(config)
#define CLIENT_ADMIN_OPTIONS(config)                                                       \
    CLIENT_SERVER_OPTIONS(config),                                                         \
    CLIENT_TOKEN_OPTION(config)
#define CLIENT_OPTIONS(config)                                                             \
    CLIENT_ADMIN_OPTIONS(config),                                                          \
    CLIENT_TENANT_OPTION(config)

/* The line of commands that query. */
#define CLIENT_PARTIAL_OPTION(config)                                                      \
    {"partial", 0, ARGS_FLAG, &(config).partial, NULL, "take an answer that is not complete, and say what it lacks", 0, 0}
/* clang-format on */

struct cli_client;

/* Creates a client from the options and the environment. FG_E_INVALID: a value that cannot be sent,
 * or a key without a certificate. FG_E_DENIED: the log-in has expired. Destroy accepts NULL. */
enum fg_code cli_client_create(const struct cli_client_config *config,
                               struct cli_client **ret_client, struct fg_err *err) fg_must_check;
/* Returns the URL of the server. */
const char *cli_client_url(const struct cli_client *client);

void cli_client_destroy(struct cli_client *client);
FG_AUTO(cli_client, cli_client_destroy)

/* A reply. Free it with cli_client_reply_done(), which accepts a zeroed one. */
struct cli_client_reply {
    unsigned status;        /* HTTP */
    uint64_t retry_after_s; /* 0: the server did not say */
    uint64_t expired;       /* profiles that are too old to be kept (X-Flamegrid-Expired) */
    bool challenged;        /* the server asks for credentials (WWW-Authenticate) */
    bool empty;             /* a flame graph without a stack (X-Flamegrid-Empty) */
    bool is_proto;          /* its Content-Type is application/proto: an answer of Connect */
    bool second;            /* of a client with CLIENT_SHOWS_GIVEN: hints have its options */
    struct fg_buf body;     /* without its content coding */
};
void cli_client_reply_done(struct cli_client_reply *reply);

/*
 * Send a request. path begins with '/' and may have a query. Any status is FG_OK;
 * FG_E_UNAVAILABLE: there was no answer.
 */
enum fg_code cli_client_get(struct cli_client *client, const char *path,
                            struct cli_client_reply *ret_reply, struct fg_err *err) fg_must_check;
enum fg_code cli_client_post(struct cli_client *client, const char *path, const char *content_type,
                             struct fg_slice body, struct cli_client_reply *ret_reply,
                             struct fg_err *err) fg_must_check;

/* Posts under an Idempotency-Key (distributor/API.md#what-an-answer-means). */
enum fg_code cli_client_post_once(struct cli_client *client, const char *path,
                                  const char *content_type, const char *key, struct fg_slice body,
                                  struct cli_client_reply *ret_reply,
                                  struct fg_err *err) fg_must_check;

/* Puts a JSON document at the path. */
enum fg_code cli_client_put(struct cli_client *client, const char *path, struct fg_slice json,
                            struct cli_client_reply *ret_reply, struct fg_err *err) fg_must_check;

/* Deletes what is at the path, with the header that such requests need. */
enum fg_code cli_client_delete(struct cli_client *client, const char *path,
                               struct cli_client_reply *ret_reply,
                               struct fg_err *err) fg_must_check;

/* Posts nothing to the path, with the header that actions of operators need. */
enum fg_code cli_client_act(struct cli_client *client, const char *path,
                            struct cli_client_reply *ret_reply, struct fg_err *err) fg_must_check;

/* Sends the request of a Connect call with a protobuf body. Any status is FG_OK. Errors as above.
 */
enum fg_code cli_client_send(struct cli_client *client, const char *method,
                             const ProtobufCMessage *request, struct cli_client_reply *ret_reply,
                             struct fg_err *err) fg_must_check;

/*
 * Makes a Connect call with protobuf bodies: "querier.v1.QuerierService/Series". The reply's body
 * is the message of the answer. A status other than 200 is a failure with the server's message.
 */
enum fg_code cli_client_call(struct cli_client *client, const char *method,
                             const ProtobufCMessage *request, struct cli_client_reply *ret_reply,
                             struct fg_err *err) fg_must_check;

/* Returns the Content-Type of the last response, for a terminal; "": it had none. Valid until the
 * next request. */
const char *cli_client_type(const struct cli_client *client);

/* Returns what the last response lacks, in the server's words; NULL: it is complete. Valid until
 * the next request. */
const char *cli_client_missing(const struct cli_client *client);

/* Prints to standard error what the first of all responses that was not complete lacks, if there
 * was one. client may be NULL. */
void cli_client_warn_missing(const struct cli_client *client);

/* Returns FG_OK for status 200, else a failure with the server's message. FG_E_DENIED: 403, or 401
 * with WWW-Authenticate, which asks for credentials. FG_E_NO_TENANT: 401 without it, which asks for
 * a tenant. */
enum fg_code cli_client_check(const struct cli_client_reply *reply,
                              struct fg_err *err) fg_must_check;

/*
 * Appends the error message of an answer: "message" of our error JSON, else the first line of a
 * text, without control characters, because it goes to a terminal. Where it tells what to put into
 * a request, the option of our commands that does it follows.
 */
void cli_client_message(struct fg_slice body, struct fg_buf *out);

/* Returns what follows such a message of a server or querier: "; --partial does that". "": nothing.
 */
const char *cli_client_hint(struct fg_slice message);

#endif
