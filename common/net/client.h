/*
 * HTTP client for services: HTTP/1.1, with TLS for https, on libcurl's multi interface and a loop.
 * Many requests run at a time, connections are kept and used again, and nothing here waits: names
 * are looked up on threads of libcurl's.
 *
 * What it does not do, on purpose: follow redirects (a target must not be able to send us
 * elsewhere), take proxies from the environment, undo content codings.
 *
 * Thread: the loop's, for every function but create and destroy.
 * Memory: bounded by running_max and what each request allows its answer (body_max_bytes), and for
 * all together by the budget.
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
    unsigned running_max; /* requests, and so connections, at a time */
    unsigned waiting_max; /* requests beyond them wait their turn; beyond these they are refused */
    struct fg_budget *budget; /* of the answers' bodies; NULL: none */
};

/* Files in PEM; NULL: the system's CAs, no certificate of our own. */
struct fg_client_tls {
    const char *ca_file, *cert_file, *key_file;
    bool insecure; /* take whatever certificate the server shows */
};

struct fg_client_request {
    /* Set by the caller, who keeps all that is named here until the end; the rest is zeroed. */
    const char *method;         /* NULL: GET */
    const char *url;            /* http or https */
    const char *const *headers; /* "Name: value", without line ends; ends with NULL; may be NULL */
    struct fg_slice body;       /* sent when ptr is not NULL */
    const struct fg_client_tls *tls; /* NULL: as one with nothing in it */
    const char *token_file; /* small and local; what it holds is sent as bearer token; read again
                             * for every request. NULL: none */
    int64_t connect_timeout_ns; /* name, connection, TLS */
    int64_t timeout_ns;         /* from its turn to its end; 0: none */
    size_t body_max_bytes;      /* of the answer */
    /* Goes over a new connection: on a kept one that turns out to be dead libcurl sends a request
     * again by itself, unseen, and not every request may be carried out twice. */
    bool once;
    /*
     * Takes the body of a 2xx piece by piece instead of collecting it, however long it is; what is
     * refused has its body in `answer` all the same. false: the request ends, FG_E_CANCELED.
     * NULL: the body is collected. It calls nothing of the client's.
     */
    bool (*on_chunk)(struct fg_client_request *request, struct fg_slice chunk);
    /* The end, whatever it is; never before fg_client_send() has returned. It may send. */
    void (*done)(struct fg_client_request *request);

    /*
     * The result. FG_OK: there was a complete answer, with whatever status. FG_E_UNAVAILABLE: no
     * answer; FG_E_DEADLINE; FG_E_TOO_LARGE: more than body_max_bytes; FG_E_LIMIT: out of turns or
     * budget; FG_E_INVALID: not a URL, or a file that cannot be read. The sentence begins with the
     * URL, without user and password.
     */
    enum fg_code code;
    struct fg_err err;
    unsigned status;
    bool sent;          /* some of it has left: without an answer nobody knows what became of it */
    struct fg_buf head; /* status line and headers, each with its line end */
    struct fg_buf answer; /* the body */

    /* The client's own. */
    struct fg_client_request *before, *after;
    struct fg_client *client;
    struct fg_client_slot *slot; /* while it runs */
    uint64_t budgeted_bytes;
    unsigned state;
};

/* config is copied, what it names is borrowed. Before the loop is started, or on it. */
struct fg_client *fg_client_create(const struct fg_client_config *config);

/* Begins; done() comes in any case but that of fg_client_cancel(). */
void fg_client_send(struct fg_client *client, struct fg_client_request *request);

/* Ends a request that was sent: it is the caller's again, with `sent` set, and done() is not
 * called. Nothing happens to one that is not under way. Not from on_chunk(). */
void fg_client_cancel(struct fg_client_request *request);

/* First header of that name, any case; ptr NULL: there is none. */
struct fg_slice fg_client_header(const struct fg_client_request *request, const char *name);

/* Frees what the result holds. On a zeroed request too. */
void fg_client_clear(struct fg_client_request *request);

/* Closes the connections; no request is under way any more. Not from done(). */
void fg_client_close(struct fg_client *client);

/* After the loop was stopped. NULL is fine. */
void fg_client_destroy(struct fg_client *client);

/* The URL without user and password, cut to what fits: for logs and pages. */
void fg_client_show_url(const char *url, struct fg_buf *out);

#endif
