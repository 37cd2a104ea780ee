/*
 * HTTP client for services: HTTP/1.1, with TLS for https, with libcurl's multi interface on a loop.
 * It runs many requests at a time, reuses connections, and never waits: libcurl resolves names on
 * threads of its own.
 *
 * On purpose it does not follow redirects (a target must not send us elsewhere), use proxies of the
 * environment, or undo content codings.
 *
 * Thread: the loop's, for every function except create and destroy.
 * Memory: at most body_max_bytes for each of running_max requests, and the budget for all together.
 */
#ifndef FG_COMMON_NET_CLIENT_H
#define FG_COMMON_NET_CLIENT_H

#include "common/base/budget.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/loop.h"

struct fg_client;

struct fg_client_config {
    struct fg_loop *loop;
    unsigned running_max;     /* requests, and so connections, at a time */
    unsigned waiting_max;     /* requests that wait for one of them; further ones are refused */
    struct fg_budget *budget; /* for bodies of answers; NULL: unlimited */
    /* An older connection takes no further request, so that one that is always busy follows when
     * its name gets another address; 0: ten minutes */
    unsigned connection_max_s;
};

/* Files in PEM; NULL: the system's CAs, no certificate of our own. */
struct fg_client_tls {
    const char *ca_file, *cert_file, *key_file;
    bool insecure; /* accept any certificate of the server */
};

struct fg_client_request {
    /* Set by the caller, who keeps everything named here until done(); the rest starts zeroed. */
    const char *method;         /* NULL: GET */
    const char *url;            /* http or https */
    const char *const *headers; /* "Name: value", without line ends; ends with NULL; may be NULL */
    struct fg_slice body;       /* sent when ptr is not NULL */
    const struct fg_client_tls *tls; /* NULL: as one with nothing in it */
    const char *token_file; /* local file with a bearer token, read for every request; NULL: none */
    int64_t connect_timeout_ns; /* name, connection, TLS */
    int64_t timeout_ns;         /* from the start of the transfer to its end; 0: none */
    size_t body_max_bytes;      /* of the answer */
    /* Use a new connection. If a reused connection turns out to be dead, libcurl repeats the
     * request unseen, and not every request may be executed twice. */
    bool once;
    /*
     * Takes the body of a 2xx piece by piece, of any length; other statuses have their body in
     * `answer`. Returns false to end the request with FG_E_CANCELED. Must not call the client.
     * NULL: the body is collected.
     */
    bool (*on_chunk)(struct fg_client_request *request, struct fg_slice chunk);
    /* Called at the end, never before fg_client_send() has returned. May send. */
    void (*done)(struct fg_client_request *request);

    /*
     * The result. FG_OK: a complete answer with any status. FG_E_UNAVAILABLE: no answer;
     * FG_E_DEADLINE; FG_E_TOO_LARGE: more than body_max_bytes; FG_E_LIMIT: too many requests, or no
     * memory in the budget; FG_E_INVALID: no URL, or a file cannot be read. The message begins with
     * the URL, without user and password.
     */
    enum fg_code code;
    struct fg_err err;
    unsigned status;
    bool sent;            /* a part was sent, so without an answer the outcome is unknown */
    struct fg_buf head;   /* status line and headers, with line ends */
    struct fg_buf answer; /* the body */

    /* Internal. */
    struct fg_client_request *before, *after;
    struct fg_client *client;
    struct fg_client_slot *slot; /* while it runs */
    uint64_t budgeted_bytes;
    unsigned state;
};

/* Creates a client. config is copied, what it names is borrowed. Before the loop is started, or on
 * it. */
struct fg_client *fg_client_create(const struct fg_client_config *config);

/* Sends a request. done() is called in any case, except after fg_client_cancel(). */
void fg_client_send(struct fg_client *client, struct fg_client_request *request);

/* Cancels a request: it is the caller's again, with `sent` set, and done() is not called. Does
 * nothing if the request is not in progress. Not from on_chunk(). */
void fg_client_cancel(struct fg_client_request *request);

/* Returns the first header of that name, in any case; ptr NULL: none. */
struct fg_slice fg_client_header(const struct fg_client_request *request, const char *name);

/* Frees the result. A zeroed request is fine. */
void fg_client_clear(struct fg_client_request *request);

/* Closes the connections, when no request is in progress. Not from done(). */
void fg_client_close(struct fg_client *client);

/* Frees it, after the loop was stopped. NULL is fine. */
void fg_client_destroy(struct fg_client *client);

/* Appends the URL without user and password, truncated to what fits: for logs and pages. */
void fg_client_show_url(const char *url, struct fg_buf *out);

#endif
