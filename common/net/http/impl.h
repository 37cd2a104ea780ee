/*
 * What the files of the HTTP server share. Nothing outside this folder includes it, except the
 * fuzz targets that drive a connection from memory. README.md says which file does what.
 */
#ifndef FG_COMMON_NET_HTTP_IMPL_H
#define FG_COMMON_NET_HTTP_IMPL_H

#include "common/base/cursor.h"
#include "common/base/str.h"
#include "common/net/http.h"

#include <llhttp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_CONN_MAGIC = 0x68747463,
    HTTP_REQUEST_MAGIC = 0x68747471,
    HTTP_HEADERS_MAX = 100,                 /* agents send about ten */
    HTTP2_STREAM_WINDOW_BYTES = 256 * 1024, /* what a stream may send unasked */
    HTTP_ARENA_MAX_BYTES = 1024 * 1024,     /* see fg_http_arena() */
    HTTP_READ_BYTES = 64 * 1024,            /* one read; shared by all connections of a loop */
    HTTP_RECORD_BYTES = 16 * 1024,       /* the most that one record of TLS has (RFC 8446, 5.1) */
    HTTP_SKIP_MAX_BYTES = 256 * 1024,    /* of a refused body: cheaper to read than to reconnect */
    HTTP_LINGER_MAX_BYTES = 1024 * 1024, /* thrown away after a last answer */
    HTTP_CODING_MIN_BYTES = 1400,        /* less fits one packet anyhow */
    HTTP_SPARE_REQUESTS = 64,            /* kept per loop for the next connection's */
    HTTP_SMALL_BYTES = 4 * 1024,    /* a head or an answer up to this is part of REQUEST_BYTES */
    HTTP_REQUEST_BYTES = 16 * 1024, /* a request: its struct, arena, small head and small answer */
    HTTP_WRITE_BUFS = 32,           /* at most, in one write */
    HTTP_STREAM_BYTES = HTTP_SMALL_BYTES, /* of pieces of a streamed answer that have not left */
};

struct fg_http_loop;
struct fg_http_peer;
struct fg_http_peers;

/* --- requests --- */

/* Why a request never reaches a handler. Status, reason label, code and sentence: response.c. */
enum fg_http_refusal {
    HTTP_ACCEPTED,
    HTTP_NOT_FOUND,
    HTTP_BAD_METHOD,
    HTTP_MALFORMED,
    HTTP_HEAD_TOO_LARGE,
    HTTP_BODY_TOO_LARGE,
    HTTP_NO_BUDGET,
    HTTP_TOO_SLOW,
    HTTP_BAD_EXPECTATION,
    HTTP_BAD_TRANSFER_CODING,
    HTTP_BAD_VERSION,
    HTTP_CLEARTEXT, /* where TLS is spoken */
    HTTP_AMBIGUOUS, /* two headers X-Scope-OrgID or Authorization */
    HTTP_NO_CERTIFICATE,
    HTTP_FORBIDDEN_HOST,
    HTTP_CROSS_SITE,
    HTTP_NO_ACTION,
    HTTP_DENIED, /* by the guard; req->denial has status and sentence */
    HTTP_TOO_MANY_CONNECTIONS,
    HTTP_TOO_MANY_OF_ADDRESS,
    HTTP_REFUSALS,
};

/*
 *  RECEIVING --> WORKING --> CODING --> READY --> (written, freed)
 *      \            \---------------->/           CODING: a worker compresses the answer, or
 *                                                        the last piece of a streamed one
 *       \--(refused)----------------->/
 */
enum fg_http_request_state {
    HTTP_RECEIVING,
    HTTP_WORKING, /* the handler has it */
    HTTP_CODING,
    HTTP_READY, /* answered; waits for those before it, or is being written */
};

enum fg_http_coding { HTTP_IDENTITY, HTTP_GZIP, HTTP_ZSTD };

/* What a streamed answer in a content coding has had so far. */
struct fg_http_coded {
    bool begun;          /* the head of the coding */
    uint32_t crc, bytes; /* of all pieces, as gzip's trailer has them */
};

/* A window of time in which the bytes that a peer reads are counted. All zero: none has begun. */
struct fg_http_pace {
    int64_t since_mono_ns; /* begin of the window */
    uint64_t taken_bytes;  /* read by then, since the connection or answer began */
};

/*
 * How fast a peer reads. A peer that is too slow over the long window is cut off. The short window
 * counts only while answers are refused because memory is used up: then stalled peers go first.
 */
struct fg_http_reader {
    struct fg_http_pace pace, moment; /* the long and the short window */
    bool stalled;                     /* too slow over the last short window */
};

/* Positions in the request's head buffer, which may move while it grows. */
struct fg_http_span {
    uint32_t at, len;
};
struct fg_http_header {
    struct fg_http_span name, value;
};

/* What HTTP/2 adds to a request. */
struct fg_http_stream {
    int32_t stream_id;                     /* 0: the stream is closed */
    bool has_head, in_body, complete;      /* how far it has come; see http2_in.c */
    bool sent;                             /* the answer, to its end */
    struct fg_http_request *prev;          /* in the connection's list */
    struct fg_http_request *next_complete; /* among those to be handed over */
    int64_t body_mono_ns;                  /* begin of the body */
    uint64_t body_bytes;                   /* what came of it */
    size_t sent_bytes;                     /* of the answer's body: given to the socket */
    unsigned borrowed;                     /* pieces of it that the socket still has */
    int64_t sent_mono_ns;                  /* when the answer was sent to its end */
    struct fg_http_reader reader;          /* while the peer keeps a window shut */
};

struct fg_http_request {
    uint32_t magic;
    enum fg_http_request_state state;
    struct fg_http_conn *conn;
    struct fg_http_request *next; /* in the connection's list, or among the spare ones */

    enum fg_http_method method;
    enum fg_http_refusal refusal;
    bool http10, keep_alive, want_continue, no_coding, skip_body;
    bool chunked;   /* the answer, in HTTP/1.1: it has trailers, or is streamed */
    bool streaming; /* the answer, see stream.c */
    _Atomic bool gone;
    int64_t start_mono_ns;
    struct fg_buf head; /* URL and headers, one after another */
    struct fg_http_span url;
    struct fg_http_header headers[HTTP_HEADERS_MAX];
    unsigned n_headers;
    struct fg_slice path, query;
    struct fg_slice authority;         /* host and port that the client asked; ptr NULL: none */
    const struct fg_http_route *route; /* NULL: none; not valid once the server is stopped */
    unsigned allow;                    /* methods of the path, for 405 */
    unsigned stats_at;                 /* see fg_http_stats_of() */
    uint64_t body_max_bytes, admitted_bytes;
    struct fg_budget *bodies; /* admitted_bytes are taken from it; NULL: from none */
    uint64_t request_bytes;   /* taken from the budget of heads */
    uint64_t answer_bytes;    /* memory of its answer; part of the connection's held_bytes */
    bool answer_paid;         /* answer_bytes were taken from the budget of answers */
    struct fg_buf body;
    struct fg_arena *arena;

    void *grant;                 /* of the guard; NULL: none */
    const struct fg_err *denial; /* why the guard refuses it, in the arena */

    unsigned status;
    uint64_t flow; /* of the job that compresses; 0: it has none */
    enum fg_http_coding coding;
    bool encoded; /* the handler did it (fg_http_encode(), _encode_last()), so `coding` is final */
    struct fg_http_coded coded;
    bool retry_after;    /* the handler said when, or that it cannot help */
    struct fg_buf extra; /* header lines of the answer that are known early */
    struct fg_buf out_head;
    struct fg_buf out;      /* the answer's body, */
    uint64_t content_bytes; /* and its length: that of HEAD is said and not sent */
    struct fg_buf trailers; /* lines as in `extra`, after the body */
    struct fg_buf stream; /* of a streamed answer: what has not left, in memory that stays where it
                             is; */
    size_t stream_given;  /* so much of it was given to the socket */
    struct fg_job job;    /* compresses it */
    struct fg_http_stream h2;
};

struct fg_http_request *fg_http_request_new(struct fg_http_conn *conn);
void fg_http_request_free(struct fg_http_request *req); /* to the loop's spare ones */
void fg_http_request_destroy(struct fg_http_request *req);
void fg_http_request_drop_body(struct fg_http_request *req);

static inline struct fg_slice fg_http_span(const struct fg_http_request *req,
                                           struct fg_http_span span)
{
    return fg_bytes(req->head.ptr + span.at, span.len);
}

/* Appends one piece of a URL, name or value; pieces of the same span come one after the other.
 * Returns HTTP_HEAD_TOO_LARGE, or HTTP_NO_BUDGET if there is no memory for it. */
enum fg_http_refusal fg_http_request_add_piece(struct fg_http_request *req,
                                               struct fg_http_span *span, struct fg_slice piece);

/* Counts headers of that name (any case). */
unsigned fg_http_header_count(const struct fg_http_request *req, const char *name);

/* Is the token in the list that the header is ("Connection: close, TE")? */
bool fg_http_header_has(const struct fg_http_request *req, const char *name, const char *token);

/* Splits the URL; false when it is not one that we could serve. */
bool fg_http_request_url(struct fg_http_request *req);

/* --- what a request has to pass, in the order of arrival --- */

#define HTTP_LENGTH_UNKNOWN UINT64_MAX

/*
 * The head is complete: is there such a route, and may a body of this length come? A body of known
 * length has its memory from here on.
 */
enum fg_http_refusal fg_http_request_admit(struct fg_http_request *req, uint64_t body_len);

/* Room for len more bytes of the body: the budget is asked before the memory is. */
enum fg_http_refusal fg_http_request_grow(struct fg_http_request *req, size_t len);

/* Hands it to its handler, which may answer at once. */
void fg_http_request_work(struct fg_http_request *req);

/* Has a body that began at since_mono_ns, of which so many bytes came, come too slowly? */
bool fg_http_body_too_slow(const struct fg_http_conn *conn, int64_t since_mono_ns, uint64_t bytes);

/* --- who may call a route: doors.c --- */

/* Returns why the request may not call a route of this kind, or HTTP_ACCEPTED. */
enum fg_http_refusal fg_http_doors_check(const struct fg_http_request *req, enum fg_http_kind kind);

/* Returns whether it is a loopback address. */
bool fg_http_is_loopback(const struct sockaddr *addr);
/* Returns whether "host" or "host:port" is localhost, a name below it, or a loopback address. */
bool fg_http_is_loopback_host(struct fg_slice authority);

/* --- memory: hold.c --- */

/* Takes HTTP_REQUEST_BYTES from the budget of heads, even beyond its limit. */
void fg_http_request_pay(struct fg_http_request *req);
/* Takes what a head of so many bytes needs beyond that. false: it does not fit. */
bool fg_http_request_pay_head(struct fg_http_request *req, size_t head_bytes);
/* Gives back everything that these two took. */
void fg_http_request_repay(struct fg_http_request *req);

/* Returns whether a connection with n_requests under way may begin another one. The first one
 * always may; others only while the budget of heads has room. */
bool fg_http_request_fits(const struct fg_http_conn *conn, unsigned n_requests);

/* Counts the memory of req->out until fg_http_answer_release(). false: it does not fit the budget
 * of answers, which is logged and counted, and nothing is held. */
bool fg_http_answer_hold(struct fg_http_request *req);
/* Gives back what req->out does not need any more, after it was compressed or dropped. */
void fg_http_answer_shrink(struct fg_http_request *req);
void fg_http_answer_release(
    struct fg_http_request *req); /* accepts an answer that was never held */

/*
 * Updates a peer that has unread data and has read taken_bytes so far. Called at every tick. true:
 * the peer is too slow and must be cut off; the reason is counted in the metrics.
 */
bool fg_http_reader_too_slow(struct fg_http_reader *reader, struct fg_http_loop *owner,
                             uint64_t taken_bytes, int64_t now_mono_ns);

/* --- a connection --- */

/* What a connection does to the world: socket.c over TCP, a stub in the fuzz targets. */
struct fg_http_io {
    /* true: all of it is gone; false: fg_http_conn_written() will be called. One at a time. */
    bool (*write)(struct fg_http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs);
    void (*read)(struct fg_http_conn *conn, bool on);
    void (*shutdown)(struct fg_http_conn *conn); /* no more writes */
    void (*close)(struct fg_http_conn *conn);    /* fg_http_conn_closed() will be called */
    void (*release)(struct fg_http_conn *conn);  /* frees the memory */
};

/* HTTP/1.0 counts as 1.1. */
enum fg_http_version { HTTP_1, HTTP_2 };

/*
 * What a version of HTTP makes of a connection's events. After begin() and until end(), only while
 * the connection is open; respond() at any time.
 */
struct fg_http_protocol {
    enum fg_http_version version;
    void (*begin)(struct fg_http_conn *conn);
    /* Bytes arrived; they are used or copied before this returns. */
    void (*input)(struct fg_http_conn *conn, struct fg_slice bytes);
    /* Where the next bytes of a body of known length can be read to directly; len 0: not now. */
    uv_buf_t (*body_room)(struct fg_http_conn *conn);
    void (*eof)(struct fg_http_conn *conn);     /* the peer sends no more, and may still read */
    void (*written)(struct fg_http_conn *conn); /* all that io->write() was given has left */
    void (*tick)(struct fg_http_conn *conn);    /* time has passed */
    /* Makes all progress that is possible: parse, hand over, write, close. Call it after any
     * change. */
    void (*pump)(struct fg_http_conn *conn);
    /* The answer of a request is complete: it leaves when its turn comes. */
    void (*respond)(struct fg_http_request *req);
    /* Of an answer that is streamed: it begins; there is a piece, which `put` writes to req->stream
     * if it fits. The peer is not gone. */
    void (*stream_begin)(struct fg_http_request *req);
    bool (*stream_put)(struct fg_http_request *req, struct fg_slice piece);
    /* The connection is closed, or will speak something else: requests that no handler or worker
     * has are freed. */
    void (*end)(struct fg_http_conn *conn);
};

extern const struct fg_http_protocol fg_http1_protocol, fg_http2_protocol;

/*
 *  OPEN --> LINGER      the peer may not have read our last answer yet, see fg_http_conn_leave()
 *     \       |
 *      `-> CLOSING -> CLOSED
 */
enum fg_http_conn_state {
    HTTP_CONN_OPEN,
    HTTP_CONN_LINGER,
    HTTP_CONN_CLOSING,
    HTTP_CONN_CLOSED,
};

/*
 *  HEAD <--> BODY         HEAD also while idle, between requests
 *    |   \    |
 *    |    `-> LAST        nothing more is read; answers are still to leave
 *    `-> UPGRADED         what follows is HTTP/2
 */
enum fg_http1_state { HTTP1_HEAD, HTTP1_BODY, HTTP1_LAST, HTTP1_UPGRADED };

/* What HTTP/1.1 knows of a connection. */
struct fg_http1 {
    enum fg_http1_state state;
    bool pumping;
    bool fresh;    /* no head of a request has been complete yet */
    bool complete; /* set by the parser's callback */
    bool upgrade;  /* another protocol is asked for */
    /* Of the request line: a byte has arrived; its end has; the last byte so far is a blank. */
    bool line_begun, line_over, line_blank;
    enum fg_http_refusal stopped; /* why a callback ended the parsing */
    llhttp_t parser;
    struct fg_slice in;              /* received, not parsed */
    struct fg_buf pending;           /* its memory when it had to wait, */
    uint64_t pending_bytes;          /* ... taken from the budget of heads */
    uint64_t raw_bytes;              /* of the current head or body, as on the wire */
    int64_t since_mono_ns;           /* begin of the head or body, or of idling */
    struct fg_http_request *current; /* being received; in the queue once its head is complete */
    struct fg_http_request *first;   /* queue: requests in the order received */
    struct fg_http_request **last;   /* where the next one is linked */
    unsigned n_queued, n_writing;
};

struct fg_http_conn {
    uint32_t magic;
    enum fg_http_conn_state state;
    const struct fg_http_protocol *protocol;
    struct fg_http_loop *owner;
    const struct fg_http_io *io;
    struct fg_http_conn *prev, *next; /* of the same loop */
    unsigned refs;                    /* the transport, and each request */
    struct fg_http_peer *peer_of;     /* its address; NULL: it does not come from a socket */
    bool idle;                        /* in the lists of idle connections, see peers.c: */
    struct fg_http_conn *idle_prev, *idle_next;       /* those of the loop, */
    struct fg_http_conn *sibling_prev, *sibling_next; /* and those of the address */
    uint64_t held_bytes;                              /* memory of its answers */
    bool writing, reading, eof;                       /* eof: the peer has ended its side */
    bool unread;                                      /* the peer sent what we will not read */
    uint64_t discarded_bytes;                         /* of that */
    int64_t linger_mono_ns;                           /* begin of LINGER */
    int64_t now_mono_ns;                              /* of the last event */
    bool opening;                                     /* the handshake of TLS is under way */
    bool choosing;        /* the version is not known yet, see choose() */
    unsigned preface_len; /* of HTTP/2's first bytes: came and were held back */
    bool secure;          /* under TLS */
    bool uncertified;     /* has not shown a certificate although it must */
    bool certified;       /* has shown a valid one */
    struct fg_http1 http1;
    struct fg_http2 *http2; /* NULL: HTTP/1.1 */
    char peer[INET6_ADDRSTRLEN];
};

void fg_http_conn_init(struct fg_http_conn *conn, struct fg_http_loop *owner,
                       const struct fg_http_io *io, int64_t now_mono_ns);
void fg_http_conn_unref(struct fg_http_conn *conn);

/* Events, from the transport. */
void fg_http_conn_input(struct fg_http_conn *conn, struct fg_slice bytes, int64_t now_mono_ns);
uv_buf_t fg_http_conn_room(struct fg_http_conn *conn); /* read to here; len 0: anywhere */
void fg_http_conn_eof(struct fg_http_conn *conn);
void fg_http_conn_written(struct fg_http_conn *conn);
void fg_http_conn_closed(struct fg_http_conn *conn); /* ends the transport's reference */
void fg_http_conn_tick(struct fg_http_conn *conn, int64_t now_mono_ns);

/* Refuses a connection instead of reading from it. */
void fg_http_conn_refuse(struct fg_http_conn *conn, enum fg_http_refusal why, int64_t now_mono_ns);
void fg_http_conn_cut(struct fg_http_conn *conn); /* closes at once */

/* What a protocol does with it. */
bool fg_http_conn_write(struct fg_http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs);
void fg_http_conn_read(struct fg_http_conn *conn, bool want);
void fg_http_conn_discard(struct fg_http_conn *conn,
                          size_t len);              /* has read what it will not use */
void fg_http_conn_leave(struct fg_http_conn *conn); /* the last answer has left */
/* From here on the connection speaks this; what it spoke before is over. */
void fg_http_conn_speak(struct fg_http_conn *conn, const struct fg_http_protocol *protocol);

/* --- HTTP/1.1, among its files --- */

void fg_http1_parser_init(struct fg_http_conn *conn);
void fg_http1_queue_push(struct fg_http_conn *conn, struct fg_http_request *req);
/* Writes status line and headers, and what frames the body. */
void fg_http1_put_answer(struct fg_http_request *req);
/* The same of an answer that is streamed, to req->stream: its head; a piece, if it fits. */
void fg_http1_put_stream_head(struct fg_http_request *req);
bool fg_http1_put_stream(struct fg_http_request *req, struct fg_slice piece);
enum { HTTP1_ANSWER_BUFS = 3 }; /* head, body, what follows the body */
/* What to write of it; returns how many. */
unsigned fg_http1_answer_bufs(const struct fg_http_request *req, uv_buf_t *bufs);
/* true when the answer has to say "Connection: close"; nothing is read after it then. */
bool fg_http1_closes_after(struct fg_http_request *req);
/* Answers without reading on: the connection ends with this answer. */
void fg_http1_refuse(struct fg_http_conn *conn, enum fg_http_refusal why);

/* --- from HTTP/1.1 to HTTP/2 --- */

/* Does the complete request ask for it, and may it? */
bool fg_http2_upgrade_wanted(const struct fg_http_request *req);
/*
 * The connection says so and speaks HTTP/2; the request is its first, and rest what was received
 * after it.
 */
void fg_http2_upgrade(struct fg_http_request *req, struct fg_slice rest);

/* --- answers --- */

void fg_http_refuse(struct fg_http_request *req); /* says req->refusal */
/* Adds the headers that all answers have, once their status is known. */
void fg_http_put_headers(struct fg_http_request *req, const char *content_type);
/* Counts an answer in the metrics. */
void fg_http_count_answer(struct fg_http_request *req);
void fg_http_finish(struct fg_http_request *req); /* the body is as it will be sent */

bool fg_http_status_has_body(unsigned status);
const char *fg_http_status_phrase(unsigned status);
const char *fg_http_date(struct fg_http_loop *owner); /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* accept.c: reads the weight among parameters, "charset=utf-8;q=0.5", in thousandths; 1000: there
 * is none, 0: it cannot be read. */
unsigned fg_http_weight(struct fg_slice params) fg_must_check;

/* The best coding that the client takes and that the body is worth. */
enum fg_http_coding fg_http_coding_for(const struct fg_http_request *req);
/* Compresses an answer, or the last piece of a streamed one, on a worker. false: no worker has
 * time, send it as it is. */
bool fg_http_coding_start(struct fg_http_request *req);
/* Says that other clients may get another coding. */
void fg_http_coding_vary(struct fg_http_request *req);
/* Chooses the coding of a streamed answer, before its head is made. */
void fg_http_coding_stream(struct fg_http_request *req);
/* Writes a piece of a streamed answer as it is, framed as its coding wants it; `last`: with the end
 * of the coding. */
void fg_http_coding_store(enum fg_http_coding coding, struct fg_http_coded *coded,
                          struct fg_slice piece, bool last, struct fg_buf *out);
/* Frames the last piece in the same way, in place. */
void fg_http_coding_store_last(const struct fg_http_request *req, struct fg_buf *last);

/* Makes room for a streamed answer: for its head, and for HTTP_STREAM_BYTES of pieces. */
void fg_http_stream_init(struct fg_http_request *req, struct fg_slice head);
/* All that was given to the socket has left. */
void fg_http_stream_left(struct fg_http_request *req);

/* --- what is counted --- */

struct fg_http_stats;

enum fg_http_event {
    HTTP2_STREAM_REFUSED,  /* too many requests on its connection, or no memory for another */
    HTTP2_FLOOD,           /* a connection ended: too many cheap frames, or a huge header list */
    HTTP2_BROKEN,          /* a connection ended: a rule of the protocol broken */
    HTTP_ANSWER_NO_MEMORY, /* an answer became a 503, or the event of one */
    HTTP_READER_SLOW,      /* a peer was cut off: too slow over the long window */
    HTTP_READER_STALLED,   /* a peer was cut off: too slow over the short one, memory used up */
    HTTP_CLOSED_FOR_ROOM,  /* an idle connection was closed for a new one */
    HTTP_CLOSED_SILENT,    /* a connection was closed that never sent a request */
    HTTP_EVENTS,
};

/* Creates the counters. They are never freed, because the registry may be scraped after the server
 * has ended. Returns NULL if registry is NULL. */
struct fg_http_stats *fg_http_stats_create(struct fg_registry *registry,
                                           const struct fg_http_route *routes, size_t n_routes);
/* Returns the index of the counters for a route and method; route SIZE_MAX: no known route. */
unsigned fg_http_stats_of(const struct fg_http_stats *stats, size_t route,
                          enum fg_http_method method);
/* All accept NULL. */
void fg_http_stats_answered(struct fg_http_stats *stats, enum fg_http_version version, unsigned at,
                            unsigned status, int64_t duration_ns);
void fg_http_stats_refused(struct fg_http_stats *stats, enum fg_http_refusal why);
void fg_http_stats_event(struct fg_http_stats *stats, enum fg_http_event event);
void fg_http_stats_connections(struct fg_http_stats *stats, int by);
void fg_http_stats_inflight(struct fg_http_stats *stats, int by);

/* --- a loop's part of the server --- */

struct fg_http_loop {
    struct fg_http_server *server; /* not valid once the server is stopped */
    struct fg_loop *loop;
    _Atomic unsigned refs; /* the server, and each connection */
    struct fg_http_config config;
    struct fg_http_lent lent;
    struct fg_http_stats *stats;
    struct fg_clock *clock;
    uv_tcp_t listener;
    uv_timer_t tick;
    bool loopback; /* listens on a loopback address */
    bool draining;
    bool pressed;           /* the budget of answers refused some since the last tick */
    uint64_t seen_refusals; /* of that budget, at the last tick */
    struct fg_http_conn *conns;
    unsigned n_conns;
    struct fg_http_peers *peers;
    struct fg_http_request *spare;
    unsigned n_spare;
    int64_t date_s; /* what `date` says */
    char date[32];
    uint8_t read_buf[HTTP_READ_BYTES];
    uint8_t plain_buf[HTTP_RECORD_BYTES];  /* a record of TLS that was received, ... */
    uint8_t record_buf[HTTP_RECORD_BYTES]; /* ... and one that is put together */
};

void fg_http_loop_add(struct fg_http_loop *owner, struct fg_http_conn *conn);
void fg_http_loop_remove(struct fg_http_loop *owner, struct fg_http_conn *conn);
struct fg_http_loop *fg_http_loop_create(struct fg_http_server *server, struct fg_loop *loop);
void fg_http_loop_unref(struct fg_http_loop *owner);
void fg_http_loop_listen(struct fg_http_loop *owner, int fd, int *ret_status); /* on the loop */
void fg_http_loop_drain(struct fg_http_loop *owner);                           /* on the loop */
void fg_http_loop_cut(struct fg_http_loop *owner);                             /* on the loop */

/* --- connections by address: peers.c; on the loop --- */

struct fg_http_peers *fg_http_peers_create(void);
void fg_http_peers_destroy(struct fg_http_peers *peers); /* after the last connection has left */

/* Counts the connection with its address, conn->peer, until fg_http_peers_leave(). */
void fg_http_peers_enter(struct fg_http_loop *owner, struct fg_http_conn *conn);
void fg_http_peers_leave(struct fg_http_loop *owner, struct fg_http_conn *conn);
/* Returns the number of connections of its address, itself included. */
unsigned fg_http_peers_count(const struct fg_http_conn *conn);

/* Notes whether a request is under way on the connection. Does nothing if that is known already. */
void fg_http_conn_idle(struct fg_http_conn *conn, bool idle);
/* Closes the connection that has been idle longest, of conn's address or of any. false: none is
 * idle. */
bool fg_http_peers_make_room(struct fg_http_loop *owner, const struct fg_http_conn *conn,
                             bool of_address);

/* --- TCP --- */

/* Takes a connection from the listener; NULL: it is gone already. */
struct fg_http_conn *fg_http_socket_accept(struct fg_http_loop *owner);
/* Cuts who makes no progress with what we write, or with the handshake of TLS. */
void fg_http_socket_watch(struct fg_http_conn *conn, int64_t now_mono_ns);

struct fg_http_server {
    struct fg_http_config config;
    struct fg_http_lent lent;
    struct fg_http_stats *stats;
    struct fg_http_route *routes;
    size_t n_routes;
    struct fg_http_loop **loops;
    size_t n_loops;
    unsigned port;
    bool loopback;         /* listens on a loopback address */
    pthread_mutex_t lock;  /* of open_handles, which loops count and the owner waits for */
    pthread_cond_t closed; /* open_handles has become 0 */
    unsigned open_handles; /* listeners, timers and connections of all loops */
};

void fg_http_server_handles(struct fg_http_server *server, int by);
/* Finds route, allow and stats_at of a request whose path and method are known. */
enum fg_http_refusal fg_http_server_match(const struct fg_http_server *server,
                                          struct fg_http_request *req);

#endif
