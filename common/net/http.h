/*
 * HTTP server. What a handler sees does not depend on the version spoken: HTTP/1.1, or HTTP/2, to
 * which a client comes by its first bytes ("prior knowledge"), by "Upgrade: h2c", or under TLS by
 * ALPN. With a certificate the port speaks TLS only; HTTP in cleartext gets a 400 that says so.
 *
 * A request reaches its handler complete, body included, on the loop thread of its connection. The
 * handler answers with fg_http_respond() on the same thread, now or later; what takes time goes to
 * the workers in between. The connection reads on while a request is answered only as far as the
 * limits say. In HTTP/1.1 answers leave in the order of the requests (pipelining), and no more is
 * read than can be held; in HTTP/2 they leave as they are given, large ones in turns, and the
 * client's window for a body opens as the body is admitted.
 *
 * Memory: heads, bodies and answers have a budget each, so that a client that does not read its
 * answers cannot keep others from sending.
 *
 *   heads     A request takes a fixed part, and more for a large head. The first request of a
 *             connection is always taken; later ones wait (HTTP/1.1) or are refused (HTTP/2,
 *             REFUSED_STREAM) while the budget has no room. A head that does not fit gets 429.
 *   bodies    A body is admitted before it is read and given back when its request is answered. A
 *             body that does not fit gets 429 with Retry-After.
 *   answers   An answer counts from fg_http_respond() until its last byte was given to the system.
 *             An answer of more than 4 KiB that does not fit becomes 503 with Retry-After; smaller
 *             ones are part of their request. In HTTP/1.1 the next request of a connection does not
 *             begin while 64 KiB of answers are unread.
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
 * wrong method), 403 and 421 (the client may not call the route, see enum fg_http_kind), 413 (over
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
 * A route: methods and an exact path, or a prefix ending in '/' followed by nothing when `prefix`
 * is set
 * ("/assets/"). The longest match wins. body_max_bytes: larger bodies are 413 (as received, before
 * any decompression).
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
    unsigned pipeline_max;        /* requests of one connection being worked on at a time, */
    unsigned streams_max;         /* ... the same in HTTP/2: streams open at a time */
    int64_t handshake_timeout_ns; /* of TLS */
    struct fg_tls_context *tls;   /* borrowed; NULL: cleartext. With it, TLS only */
    bool cleartext_on_loopback;   /* no TLS if the server listens on a loopback address */
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
    int64_t drain_ns; /* how long stop waits for answers that are under way */
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

/* What a server borrows. Everything outlives the server. */
struct fg_http_lent {
    struct fg_budget *heads;      /* requests under way, without their bodies; NULL: unlimited */
    struct fg_budget *bodies;     /* of requests; NULL: unlimited */
    struct fg_budget *answers;    /* not read yet; NULL: unlimited */
    struct fg_work *work;         /* its QUERY lane compresses answers; NULL: none does */
    struct fg_registry *registry; /* NULL: nothing is counted */
};

/* Creates a server without routes; routes may be added until start. config and lent are copied,
 * what they point to is borrowed. Never fails. */
struct fg_http_server *fg_http_server_create(const struct fg_http_config *config,
                                             const struct fg_http_lent *lent);

/* After stop, or never started. NULL is fine. */
void fg_http_server_destroy(struct fg_http_server *server);

/* The route is copied; path and name are borrowed. */
void fg_http_server_route(struct fg_http_server *server, const struct fg_http_route *route);

/*
 * Listens on "HOST:PORT" ("[::1]:4040", ":4040" for all, port 0 for any) with one socket per loop;
 * the loops are started already. FG_E_UNAVAILABLE or FG_E_DENIED when the address is taken or
 * forbidden.
 */
enum fg_code fg_http_server_start(struct fg_http_server *server, const char *listen,
                                  struct fg_loop *const *loops, size_t n_loops,
                                  struct fg_err *err) fg_must_check;
unsigned fg_http_server_port(const struct fg_http_server *server);

/*
 * Closes the listeners, answers what was received or is being received ("Connection: close"), and
 * returns when all connections are closed; those left after drain_ns are cut. Blocks; not from a
 * loop.
 *
 * A handler that has not answered by then still has to: its request outlives the connection and
 * even the server, but neither the loop nor what the server was lent.
 */
void fg_http_server_stop(struct fg_http_server *server);

/* --- in a handler (slices live until the answer is given) --- */

enum fg_http_method fg_http_method(const struct fg_http_request *req);
struct fg_slice fg_http_path(const struct fg_http_request *req);  /* decoded, without the query */
struct fg_slice fg_http_query(const struct fg_http_request *req); /* behind '?', as received */
struct fg_slice
fg_http_body(const struct fg_http_request *req); /* as received, transfer coding undone */

/* Returns whether the client accepts gzip, for handlers that have a compressed answer ready (and
 * call fg_http_no_coding()). */
bool fg_http_takes_gzip(const struct fg_http_request *req);

/* First header of that name (any case), or an empty slice whose ptr is NULL. */
struct fg_slice fg_http_header(const struct fg_http_request *req, const char *name);

/* First parameter of that name in the query string, percent-decoded into the request's arena;
 * ptr NULL: not there. */
struct fg_slice fg_http_param(struct fg_http_request *req, const char *name);
/* The n-th of that name. */
struct fg_slice fg_http_param_at(struct fg_http_request *req, const char *name, size_t n);

struct fg_arena *fg_http_arena(struct fg_http_request *req); /* 1 MiB, dies with the answer */
struct fg_loop *fg_http_loop(struct fg_http_request *req);
struct fg_slice fg_http_peer(const struct fg_http_request *req); /* "127.0.0.1" */

/* true once the client has left: work for it may stop. Any thread. The handler still has to answer.
 */
bool fg_http_gone(const struct fg_http_request *req);

/* --- the answer --- */

/* More response headers, before fg_http_respond(). Copied; line ends in them become spaces. */
void fg_http_add_header(struct fg_http_request *req, const char *name, const char *value);

/*
 * Fields that follow the body, before fg_http_respond(); as gRPC's status. Copied as headers are.
 * They are sent in HTTP/2, and in HTTP/1.1 to who asked for them ("TE: trailers"); others get the
 * answer without. With an empty body they are all that follows the headers.
 */
void fg_http_add_trailer(struct fg_http_request *req, const char *name, const char *value);

/* Say that the body is compressed already or must not be: no content coding is added. */
void fg_http_no_coding(struct fg_http_request *req);

/*
 * Answers, once, on the request's loop. content_type may be NULL when the body is empty. The body's
 * memory is taken over (the buffer is empty afterwards; body NULL: none). 429 and 503 get
 * "Retry-After: 1" unless one was added. Bodies of 1,400 bytes and more are compressed (zstd or
 * gzip as Accept-Encoding says) on a worker. The request is gone afterwards.
 */
void fg_http_respond(struct fg_http_request *req, unsigned status, const char *content_type,
                     struct fg_buf *body);

/* {"code":"…","message":"…"} with the status of the code; the form all our routes use for errors.
 */
void fg_http_respond_error(struct fg_http_request *req, const struct fg_err *err);

#endif
