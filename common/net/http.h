/*
 * HTTP server. Handlers are the same for HTTP/1.1 and HTTP/2. A client selects HTTP/2 by its first
 * bytes ("prior knowledge"), by "Upgrade: h2c", or under TLS by ALPN. With a certificate the port
 * speaks TLS only; HTTP in cleartext gets a 400 that says so.
 *
 * A request reaches its handler complete, with its body, on the loop thread of its connection. The
 * handler answers with fg_http_respond() on the same thread, at once or later; long work goes to
 * the workers in between. While requests are handled, the connection reads further ones within the
 * limits. In HTTP/1.1 answers leave in the order of the requests (pipelining), and
 * reading stops when too many are unanswered; in HTTP/2 they leave in the order given, large ones
 * interleaved, and the client's window for a body opens when the body is admitted.
 *
 * Memory: heads, bodies and answers have a budget each, so that a client that does not read its
 * answers cannot keep others from sending.
 *
 *   heads     A request takes a fixed part, and more for a large head. The first request of a
 *             connection is always taken; later ones wait (HTTP/1.1) or are refused (HTTP/2,
 *             REFUSED_STREAM) while the budget has no room. A head that does not fit gets 429.
 *   bodies    A body is admitted before it is read and given back when its request is answered. A
 *             body that does not fit gets 429 with Retry-After. A route may have a budget of its
 *             own, so that its bodies keep no others out.
 *   answers   An answer counts from fg_http_respond() until its last byte was given to the system.
 *             An answer of more than 4 KiB that does not fit becomes 503 with Retry-After; smaller
 *             ones are part of their request. In HTTP/1.1 the next request of a connection does not
 *             begin while 64 KiB of answers are unread. Pieces of a streamed answer are part of
 *             their request; its last one counts as an answer.
 *
 * A peer that reads an answer more slowly than answer_min_per_s over write_timeout_ns is cut off;
 * while answers are being refused, a second of that is enough.
 *
 * Connections: when a loop has connections_max, a new connection replaces the one that has been
 * idle longest; when an address has connections_per_address_max, the longest idle one of that
 * address. If none is idle, the new connection gets 503. A connection that has not sent the head of
 * its first request within head_timeout_ns is closed.
 *
 * The server itself refuses these requests, and no handler sees them: 404 and 405 (unknown path,
 * wrong method), 403 and 421 (the client may not call the route, see enum fg_http_kind), what the
 * guard refuses (401, 403, 429, 503), 413 (over
 * the route's limit), 429 (over the budget), 431 (head too large), 408 (too slow), 417 (unknown
 * expectation), 501 (transfer coding other than chunked), 505 (version), 400 (two headers
 * X-Scope-OrgID or Authorization, and all malformed requests: if two parsers read a request
 * differently, an attacker can hide another one in it). In HTTP/2 the connection goes on after each
 * of these; malformed requests are reset instead (PROTOCOL_ERROR), as are those beyond streams_max
 * (REFUSED_STREAM), and a client that keeps us busy for nothing loses its connection
 * (ENHANCE_YOUR_CALM).
 *
 * Thread: one listener per loop (SO_REUSEPORT); connections never move. start and stop from the
 * owner's thread, everything else on the request's loop.
 */
#ifndef FG_COMMON_NET_HTTP_H
#define FG_COMMON_NET_HTTP_H

#include "common/base/arena.h"
#include "common/base/budget.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/net/guard.h"
#include "common/runtime/loop.h"
#include "common/runtime/metrics.h"
#include "common/runtime/work.h"

enum fg_http_method {
    FG_HTTP_GET = 1,
    FG_HTTP_HEAD = 2,
    FG_HTTP_POST = 4,
    FG_HTTP_PUT = 8,
    FG_HTTP_DELETE = 16,
    FG_HTTP_OPTIONS = 32,
    FG_HTTP_OTHER = 64,
};

/*
 * What a route does. It decides who may call it, in one place for all routes (http/doors.c):
 *
 *             client certificate,  Host must be  request from another  header
 *             if required          allowed       site's web page       X-Flamegrid-Action
 *   PROBE     not needed           no            allowed               not needed
 *   READS     needed               yes           allowed               not needed
 *   CHANGES   needed               yes           refused               not needed
 *   OPERATES  needed               yes           refused               needed
 *
 * GET, HEAD and OPTIONS follow the rules of READS even on a route that changes something. Another
 * site's page may send requests that read, but its browser does not show it the answers, because no
 * route sends CORS headers.
 *
 * Besides, each route demands a scope of its caller (common/net/guard.h). Probes demand none.
 */
enum fg_http_kind {
    FG_HTTP_PROBE = 1, /* tells whether the process is healthy, and nothing else */
    FG_HTTP_READS,
    FG_HTTP_CHANGES,  /* stores what clients send */
    FG_HTTP_OPERATES, /* acts for an operator: flush, delete */
};

struct fg_http_request;

typedef void (*fg_http_handler)(struct fg_http_request *req, void *arg);

/*
 * A route: methods and an exact path, or with `prefix` all paths below it ("/assets/"). The longest
 * match wins. body_max_bytes: larger bodies get 413 (as received, before decompression).
 */
struct fg_http_route {
    unsigned methods; /* bits of enum fg_http_method; GET answers HEAD as well */
    const char *path;
    bool prefix;
    uint64_t body_max_bytes;
    fg_http_handler handler;
    void *arg;
    /* Metrics label `route` (deploy/operations/http.md#prometheus); NULL: made from the path. */
    const char *name;
    enum fg_http_kind kind; /* required */
    unsigned
        scopes; /* the caller has one of these (enum fg_scope); required, unless it is a PROBE */
    /* Counts the bodies of its requests. Borrowed as what a server is lent; NULL: the server's. */
    struct fg_budget *bodies;
};

struct fg_tls_context; /* common/net/tls.h */

struct fg_http_config {
    uint64_t head_max_bytes;   /* request line and headers */
    int64_t head_timeout_ns;   /* from the first byte of a request to the end of its headers */
    int64_t body_timeout_ns;   /* for the whole body */
    int64_t idle_timeout_ns;   /* keep-alive */
    int64_t write_timeout_ns;  /* window in which an answer must be read at answer_min_per_s */
    uint64_t body_min_per_s;   /* slower bodies are cut off after a grace of 5 s; 0: any speed */
    uint64_t answer_min_per_s; /* bytes; 0: any progress is enough */
    unsigned connections_max;  /* per loop */
    unsigned connections_per_address_max; /* per loop; IPv6: per /64; 0: half of connections_max */
    unsigned pipeline_max;                /* requests of one connection handled at a time, */
    unsigned streams_max;                 /* ... and in HTTP/2 streams open at a time */
    int64_t handshake_timeout_ns;         /* of TLS */
    struct fg_tls_context *tls;           /* borrowed; NULL: cleartext. With it, TLS only */
    bool cleartext_on_loopback;           /* no TLS if the server listens on a loopback address */
    /*
     * Names that Host may have, separated by commas; "*": any. Borrowed; NULL: none. A server on a
     * loopback address allows these, and localhost and loopback addresses. A server on another
     * address allows any name if there are none; else these, localhost and IP addresses.
     */
    const char *allowed_hosts;
    /* Origins ("https://host:port") of web pages that may call CHANGES and OPERATES; the same form.
     */
    const char *allowed_origins;
    bool h2c_upgrade; /* obey "Upgrade: h2c"; false: ignore it */
    int64_t drain_ns; /* how long stop waits for answers in progress */
};

/* clang-format off */
#define FG_HTTP_CONFIG_DEFAULT                                                                     \
    {.head_max_bytes = UINT64_C(32) << 10, .head_timeout_ns = 10 * FG_SECOND_NS,                            \
     .body_timeout_ns = 60 * FG_SECOND_NS, .idle_timeout_ns = 120 * FG_SECOND_NS,                  \
     .write_timeout_ns = 30 * FG_SECOND_NS, .body_min_per_s = 1024, .answer_min_per_s = 8192,      \
     .connections_max = 4096, .pipeline_max = 16, .streams_max = 128,                              \
     .handshake_timeout_ns = 10 * FG_SECOND_NS, .drain_ns = 30 * FG_SECOND_NS}
/* clang-format on */

struct fg_http_server;

/* What a server borrows. Everything outlives it. */
struct fg_http_lent {
    struct fg_budget *heads;           /* requests in progress, without bodies; NULL: unlimited */
    struct fg_budget *bodies;          /* of requests; NULL: unlimited */
    struct fg_budget *answers;         /* not read yet; NULL: unlimited */
    struct fg_work *work;              /* its QUERY lane compresses answers; NULL: none does */
    struct fg_registry *registry;      /* NULL: no metrics */
    const struct fg_http_guard *guard; /* NULL: everybody may use all routes */
};

/* Creates a server without routes; routes may be added until start. config and lent are copied,
 * what they point to is borrowed. Never fails. */
struct fg_http_server *fg_http_server_create(const struct fg_http_config *config,
                                             const struct fg_http_lent *lent);

/* Frees it, after stop or if it was never started. NULL is fine. */
void fg_http_server_destroy(struct fg_http_server *server);

/* Adds a route, before start. The route is copied; path and name are borrowed. */
void fg_http_server_route(struct fg_http_server *server, const struct fg_http_route *route);

/* Returns all of them, in the order in which they were added. Any thread, after start. */
const struct fg_http_route *fg_http_server_routes(const struct fg_http_server *server,
                                                  size_t *ret_n);

/* Checks that an address to listen on is HOST:PORT and that the host has an address, which may take
 * a request to a name server. The message names the setting. Fails with FG_E_INVALID. */
enum fg_code fg_http_check_listen(const char *setting, const char *listen,
                                  struct fg_err *err) fg_must_check;

/*
 * Starts to listen on "HOST:PORT" ("[::1]:4040", ":4040" for all addresses, port 0 for any) with
 * one socket per loop; the loops have been started. FG_E_UNAVAILABLE: the address is in use;
 * FG_E_DENIED: it is forbidden.
 */
enum fg_code fg_http_server_start(struct fg_http_server *server, const char *listen,
                                  struct fg_loop *const *loops, size_t n_loops,
                                  struct fg_err *err) fg_must_check;
/* Returns the port it listens on. */
unsigned fg_http_server_port(const struct fg_http_server *server);

/*
 * Closes the listeners, answers requests that were received or are being received ("Connection:
 * close"), and returns when all connections are closed; after drain_ns it cuts those that are left.
 * Blocks; not from a loop.
 *
 * A handler that has not answered by then still must: its request outlives the connection and the
 * server, but not the loop and what the server borrows.
 */
void fg_http_server_stop(struct fg_http_server *server);

/* --- in a handler (slices live until the answer is given) --- */

enum fg_http_method fg_http_method(const struct fg_http_request *req);
/* Returns "GET", or "other". */
const char *fg_http_method_name(enum fg_http_method method);
struct fg_slice fg_http_path(const struct fg_http_request *req); /* decoded, without the query */
struct fg_slice
fg_http_route_path(const struct fg_http_request *req); /* as the route has it; empty: none */
struct fg_slice fg_http_query(const struct fg_http_request *req); /* behind '?', as received */
struct fg_slice
fg_http_body(const struct fg_http_request *req); /* as received, transfer coding undone */

/* Returns whether the client accepts gzip, for handlers that have a compressed answer ready (and
 * call fg_http_no_coding()). */
bool fg_http_takes_gzip(const struct fg_http_request *req);

/* Returns the first header of that name, in any case; ptr NULL: none. */
struct fg_slice fg_http_header(const struct fg_http_request *req, const char *name);

/* Returns the weight that the header Accept gives a media type by its name, in thousandths; 0: it
 * does not name the type, or does not want it. Ranges like "*" do not count. */
unsigned fg_http_accept_weight(const struct fg_http_request *req, const char *type);

/* Appends all cookies, as one header Cookie would have them. */
void fg_http_put_cookies(const struct fg_http_request *req, struct fg_buf *out);

/* Returns the value of the first cookie of that name, in any of the headers Cookie: HTTP/2 may have
 * one for each (RFC 9113, 8.2.3). ptr NULL: none. */
struct fg_slice fg_http_cookie(const struct fg_http_request *req, const char *name);

/* Returns the first parameter of that name in the query string, percent-decoded into the request's
 * arena; ptr NULL: none. */
struct fg_slice fg_http_param(struct fg_http_request *req, const char *name);
/* Returns how many parameters have that name, and writes the first max of their values to `values`,
 * decoded in the same way. */
size_t fg_http_params(struct fg_http_request *req, const char *name, struct fg_slice *values,
                      size_t max) fg_must_check;

struct fg_arena *fg_http_arena(struct fg_http_request *req); /* 1 MiB, dies with the answer */
struct fg_loop *fg_http_loop(struct fg_http_request *req);
struct fg_slice fg_http_peer(const struct fg_http_request *req); /* "127.0.0.1" */

/* Returns whether the client has shown a certificate, which TLS has verified. */
bool fg_http_has_certificate(const struct fg_http_request *req);

/* Attaches what the guard found out about the caller; once, in its admit(). */
void fg_http_set_grant(struct fg_http_request *req, void *grant);
/* Returns it; NULL: there is none. Valid until the request is answered. */
const void *fg_http_grant(const struct fg_http_request *req);

/* Returns true once the client has disconnected: work for it may stop, but the handler must still
 * answer. Any thread. */
bool fg_http_gone(const struct fg_http_request *req);

/* Lets the guard answer a request for a page if a person has to log in first. Returns true if it
 * has: the request is gone. For handlers of pages whose route is open, before anything else. */
bool fg_http_log_in(struct fg_http_request *req) fg_must_check;

/* --- the answer --- */

/* Adds a response header, before fg_http_respond(). Copied; line ends in it become spaces. */
void fg_http_add_header(struct fg_http_request *req, const char *name, const char *value);

/*
 * Adds a field that follows the body, like gRPC's status, before fg_http_respond(). Copied like a
 * header. Sent in HTTP/2, and in HTTP/1.1 if the client sent "TE: trailers". With an empty body
 * only the trailers follow the headers.
 */
void fg_http_add_trailer(struct fg_http_request *req, const char *name, const char *value);

/* Turns compression of the answer off: the body is compressed already, or must not be. */
void fg_http_no_coding(struct fg_http_request *req);

/* Says that the answer gets no Retry-After but one that the handler adds: asking again cannot help,
 * or another server has decided about it. */
void fg_http_no_retry(struct fg_http_request *req);

/* Says whose the answer is: if the server compresses it, that job is one of the flow (work.h), like
 * those of the same id only. Without it, or 0, the job has no flow. */
void fg_http_set_flow(struct fg_http_request *req, uint64_t flow);

/*
 * Compresses the body that fg_http_respond() will be called with, status 200, if the client accepts
 * that and the body gets smaller. For handlers that make large answers on a worker, whose job
 * thereby includes the compression. Returns whether it was tried. On the worker; not together with
 * fg_http_no_coding().
 */
bool fg_http_encode(struct fg_http_request *req, struct fg_buf *body);

/* Returns the coding that fg_http_encode() has given the body; 0: none. After it, on the worker. */
unsigned fg_http_coding(const struct fg_http_request *req);

/* Says that the body that fg_http_respond() will be called with has this coding, since
 * fg_http_encode() has given it to the same body for a request with the same method and
 * Accept-Encoding. 0: it has none, and may still get one. Before the answer, on the loop. */
void fg_http_set_coding(struct fg_http_request *req, unsigned coding);

/*
 * Answers the request, once, on its loop, and frees it. content_type may be NULL if the body is
 * empty. Takes over the body's memory and leaves the buffer empty; body NULL: none. Adds
 * "Retry-After: 1" to 429 and 503 unless the handler added one, or called fg_http_no_retry().
 * Compresses bodies of at least 1,400 bytes on a worker (zstd or gzip according to
 * Accept-Encoding), unless fg_http_encode() did.
 */
void fg_http_respond(struct fg_http_request *req, unsigned status, const char *content_type,
                     struct fg_buf *body);

/*
 * A streamed answer: its head and small pieces leave before it is complete.
 *
 *     fg_http_stream_begin() --> fg_http_stream_put(), any number of times --> fg_http_stream_end()
 *
 * At most a few kilobytes wait to be sent. Further pieces are refused, so a peer that does not
 * read costs neither memory nor time. All on the request's loop; after begin the
 * other functions of answers may not be called. If the client takes gzip or zstd, the answer is in
 * that coding: pieces as they are, so that they can be read at once, and a last one of at least
 * 1,400 bytes compressed on a worker, unless fg_http_encode_last() did.
 */

/* Returns whether an answer may be streamed: not in HTTP/1.0, nor of HEAD. */
bool fg_http_can_stream(const struct fg_http_request *req);

/* Begins an answer 200 with the headers added so far. Returns false if it cannot be streamed,
 * or the peer is gone: answer with fg_http_respond(). */
bool fg_http_stream_begin(struct fg_http_request *req, const char *content_type) fg_must_check;

/* Sends a piece, all of it or nothing. Returns false if it was not taken: the peer has not read
 * enough of those before, or is gone. */
bool fg_http_stream_put(struct fg_http_request *req, struct fg_slice piece);

/*
 * Compresses the piece that fg_http_stream_end() will be called with, as fg_http_encode() does for
 * an answer that is not streamed. Returns whether it did. On the worker, after the stream has begun
 * and while the loop neither puts a piece nor ends it; the caller provides for that.
 */
bool fg_http_encode_last(struct fg_http_request *req, struct fg_buf *last);

/* Ends the answer with the last piece, of any size, and frees the request. Takes the piece over as
 * fg_http_respond() does. Returns false if there is no memory for it in the budget of answers:
 * nothing has happened then, and another piece may be the last. A piece of at most 4 KiB always
 * fits. */
bool fg_http_stream_end(struct fg_http_request *req, struct fg_buf *last) fg_must_check;

/* Ends an answer of server-sent events with the event `error`: status, code and message in JSON,
 * since the status of the answer has been sent (querier/API.md#progress). */
void fg_http_stream_fail(struct fg_http_request *req, const struct fg_err *err);

/* Answers {"code":"…","message":"…"} with the status of the code: the form of errors of all routes.
 */
void fg_http_respond_error(struct fg_http_request *req, const struct fg_err *err);

#endif
