/*
 * Calls between services, over nng's request/reply protocol: transport inproc inside a process, TCP
 * between machines, in the clear or with TLS.
 *
 * A peer is the callers' side, and one of the four interfaces between our logic and the world.
 * There are fg_peer_dial() (the real one), fg_peer_direct() (calls a server's handlers without a
 * socket), and tests/lib/peer_faulty.h, which drops, delays and fails calls. peers.h keeps peers by
 * address.
 *
 * Requests are idempotent: a caller that does not know whether a request arrived sends it again.
 * nng's own resending is off. Every request carries its deadline, at most FG_RPC_DEADLINE_MAX_MS
 * away, and a server does not start a request after its deadline.
 *
 * A message: "FGR1", u8 method (request) or fg code as gRPC number (reply), u8 0, u16 0,
 *   request: u64 cluster, u64 milliseconds left to the deadline,
 *   reply:   u64 key of the rest, u64 bytes of the rest,
 *   u32 head length, head, payload; little-endian.
 * The head is a protobuf message of proto/inner.proto, the payload bytes of the method's own form.
 * In a failed reply the head is the error's text. The cluster is XXH3-64 of its name, 0 for none.
 *
 * Chunked replies: a reply has at most FG_RPC_PART_BYTES of payload. If there is more, the server
 * keeps the rest under a key, and the caller fetches it part by part: method MORE, head: u64 key,
 * u64 offset in the payload; reply: the part, and how much is left. Offset 2^64-1 drops the rest.
 * The rest belongs to its connection. The server frees it when its end was sent, when the
 * connection ends, at the call's deadline, and when no part was fetched for 30 s; a later request
 * for it gets FG_E_UNAVAILABLE.
 *
 * Large requests: a request of more than FG_RPC_WHOLE_MAX_BYTES is sent in parts, one after another
 * on one connection: method PART, head: u64 key that the caller chooses, u64 offset, u64 total
 * bytes, payload: FG_RPC_PART_BYTES of the request's frame, or the rest. The frame's cluster and
 * deadline are 0: those of the parts apply. The replies to parts are empty, except the last, which
 * is the reply to the request. FG_E_UNAVAILABLE: no memory now, or the server has dropped earlier
 * parts.
 *
 * Versions: every message carries its version, so there is no greeting, which a reconnect to
 * another process would invalidate anyway. Methods and fields of heads are only added: an unknown
 * method is FG_E_UNIMPLEMENTED, an unknown field is ignored. Other changes need a new number after
 * "FGR", or one of the zero bytes: a server answers both with FG_E_UNIMPLEMENTED, as FGR1. A later
 * release also speaks FGR1 for one minor version, replies in the version of the request, and
 * repeats a request in FGR1 after UNIMPLEMENTED. A request that does not begin with "FGR" is
 * FG_E_INVALID. A reply that is not FGR1 ends its call with FG_E_UNAVAILABLE.
 *
 * Authentication: TLS authenticates both sides before the first message, by certificates that name
 * a service or by a secret that all services share (secure.h, secret.h). Messages carry no proof of
 * their own, and recorded ones cannot be replayed. A server without TLS must listen on loopback,
 * unless rpc.insecure is set.
 *
 * Clusters: a request for another cluster than the server's is FG_E_UNAVAILABLE: the intended
 * server is not at this address at the moment.
 */
#ifndef FG_COMMON_NET_RPC_RPC_H
#define FG_COMMON_NET_RPC_RPC_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/config.h"
#include "common/runtime/loop.h"
#include "common/runtime/metrics.h"

#include <stdatomic.h>

enum fg_rpc_method {
    FG_RPC_PING = 1,       /* every server answers it, empty */
    FG_RPC_PUSH = 2,       /* distributor -> ingester */
    FG_RPC_SELECT = 3,     /* querier -> ingester: merged tree */
    FG_RPC_SERIES = 4,     /* querier -> ingester: label sets */
    FG_RPC_POINTS = 5,     /* querier -> ingester: values over time */
    FG_RPC_STATS = 6,      /* querier -> ingester: what a tenant has */
    FG_RPC_MORE = 7,       /* the next part of a large answer; asked and answered by this module */
    FG_RPC_GROUPS = 8,     /* ingester -> ingester: sums of what is in no segment */
    FG_RPC_FETCH = 9,      /* ingester -> ingester: profiles of a group */
    FG_RPC_READ = 10,      /* querier -> querier: bytes of a segment or block */
    FG_RPC_PART = 11,      /* a part of a large request; made and answered by this module */
    FG_RPC_ROWS = 12,      /* querier -> ingester: single profiles */
    FG_RPC_CANCEL = 13,    /* ends a request of the same connection; answered by this module */
    FG_RPC_USE = 14,       /* distributor, querier -> ingester: what tenants use of their limits */
    FG_RPC_QUERY_USE = 15, /* querier -> ingester: likewise, of those of queries */
    FG_RPC_SETTINGS = 16,  /* querier -> ingester: its settings in force, for admins */
    FG_RPC_RULES = 17,     /* querier -> querier: metrics of recording rules */
    FG_RPC_METHODS
};

enum {
    FG_RPC_MESSAGE_MAX_BYTES = 256 * 1024 * 1024, /* a frame, in one message or in parts */
    FG_RPC_WHOLE_MAX_BYTES = 2 * 1024 * 1024, /* a request in one message; nng buffers no more */
    FG_RPC_PART_BYTES = 1024 * 1024, /* 2.5 GB/s with one under way; pushes wait for no more */
    FG_RPC_REPLY_MAX_BYTES = 256 * 1024 * 1024, /* of payload, unless the caller says otherwise */
    FG_RPC_DEADLINE_MAX_MS = 5 * 60 * 1000,     /* no server works longer for a caller */
};

/* --- what the calls of a process have in common --- */

struct fg_rpc_settings {
    char *cluster;
    char *tls_cert_file, *tls_key_file, *tls_ca_file, *tls_server_name, *tls_role_domain;
    char *secret_file; /* instead of certificates */
    bool insecure;     /* a server without TLS may listen on any address */
    uint64_t threads;
    uint64_t answers_max_bytes, requests_max_bytes;
    uint64_t connections_max, connections_per_address_max;
    int64_t ping_after_ns, ping_timeout_ns; /* keepalive.h; ping_after_ns 0: no keep-alive */
};

/* The section "rpc". */
extern const struct fg_conf_field fg_rpc_fields[];
extern const size_t fg_rpc_n_fields;

/* Replaces zeros of requests_max_bytes and connections_max by shares of the process's memory and
 * open files.
 * Before fg_rpc_create(). */
void fg_rpc_share(struct fg_rpc_settings *settings, uint64_t memory_max_bytes);

/* What all calls of a process share. Functions accept NULL: no cluster name, default settings. */
struct fg_rpc;

/*
 * Creates it, before anything else of this module. settings and registry are borrowed; registry
 * NULL: no metrics. The registry is not scraped after this was destroyed. FG_E_INVALID: the files
 * of certificates or of the secret are unusable, with the setting, the file and the reason.
 */
enum fg_code fg_rpc_create(const struct fg_rpc_settings *settings, struct fg_registry *registry,
                           struct fg_rpc **ret_rpc, struct fg_err *err) fg_must_check;
void fg_rpc_destroy(struct fg_rpc *rpc); /* after its peers and servers; NULL is fine */

/* Checks the certificate files now instead of within seconds. Returns true if they had changed and
 * are used for new connections. May block. */
bool fg_rpc_tls_reload(struct fg_rpc *rpc);

/* Sets nng's thread counts, for programs without a struct fg_rpc; once, before anything else. */
void fg_rpc_init(unsigned threads);

/* --- callers --- */

/* The implementation sets `ops`; all other fields start at zero. */
struct fg_peer {
    const struct fg_peer_ops *ops;
    /* Internal: counts and times of calls. */
    atomic_uint calls, failures, connections;
    _Atomic int64_t success_mono_ns, failure_mono_ns, late_mono_ns, connected_wall_ns;
    struct fg_peer_metrics *metrics; /* metrics; NULL: none */
    struct fg_peer *next_counted;
};

/*
 * One call. The caller fills the upper part and keeps the struct until done() was called; the
 * reply's slices live until fg_call_done(). done() runs on the loop `home`, or if home is NULL on
 * the thread on which the reply arrives, and must not block.
 */
struct fg_call {
    enum fg_rpc_method method;
    struct fg_slice head, payload; /* copied by send */
    int64_t deadline_mono_ns;
    uint64_t reply_max_bytes; /* larger payloads end in FG_E_LIMIT; 0: FG_RPC_REPLY_MAX_BYTES */
    /* Takes the parts of the payload, in order; reply_payload is empty then. Runs on a thread of
     * the transport and must not block. Returns false to end the call with FG_E_CANCELED. NULL: the
     * payload is assembled. */
    bool (*on_part)(struct fg_call *call, struct fg_slice part);
    struct fg_loop *home;
    void (*done)(struct fg_call *call);

    enum fg_code code; /* FG_OK, or that of err; FG_E_UNAVAILABLE also if a reply is malformed */
    struct fg_err err;
    struct fg_slice reply_head, reply_payload;

    /* Internal. */
    struct fg_peer *peer;
    void *transport; /* owns the bytes of the reply */
    struct fg_reply_fetch *fetch;
    struct fg_split *split;
    uint64_t rest_key, rest_bytes; /* of the payload beyond the first reply */
    bool single;                   /* the caller fetches the rest itself */
    int64_t begun_mono_ns;
    atomic_bool
        unwanted; /* the caller gave the call up: it needs no rest, and its end is no failure */
    struct fg_msg msg;
};

struct fg_peer_ops {
    void (*send)(struct fg_peer *peer,
                 struct fg_call *call);    /* never fails: done() gets the error */
    void (*release)(struct fg_call *call); /* frees call->transport */
    void (*destroy)(struct fg_peer *peer); /* no call is in flight */
};

/* Sends a call. done() is called in any case, perhaps before this returns. */
void fg_peer_send(struct fg_peer *peer, struct fg_call *call);

/* Frees the reply. Call it once per sent call, after done(). */
void fg_call_done(struct fg_peer *peer, struct fg_call *call);

static inline void fg_peer_destroy(struct fg_peer *peer)
{
    if (peer != NULL)
        peer->ops->destroy(peer);
}

/* Sends and waits on the calling thread (a worker, never a loop). Returns call->code. home and done
 * are set by this function. */
enum fg_code fg_peer_call(struct fg_peer *peer, struct fg_call *call);

/* Sends n calls, calls[i] to peers[i], and waits for all of them on the calling thread: a peer that
 * does not answer takes no time from the others. Each ends as of fg_peer_call(). */
void fg_peer_call_all(struct fg_peer *const *peers, struct fg_call *calls, unsigned n);

/* Waits on the calling thread until the peer answers a PING; FG_E_DEADLINE after timeout_ns. */
enum fg_code fg_peer_wait(struct fg_peer *peer, int64_t timeout_ns,
                          struct fg_err *err) fg_must_check;

/*
 * The health of a peer, from the calls that were made to it. A failure is an unreachable peer, a
 * missing answer, one that cannot be read, or one that says FG_E_UNAVAILABLE or FG_E_DEADLINE. An
 * answer that is another error is not a failure.
 */
struct fg_peer_health {
    unsigned calls;            /* sent, and fg_call_done() not yet called */
    unsigned failures;         /* since the last answer */
    int64_t success_mono_ns;   /* time of the last answer; 0: none */
    int64_t failure_mono_ns;   /* time of the last failure; 0: none */
    bool connected;            /* now; false for peers without connections */
    int64_t connected_wall_ns; /* since when; 0: not connected */
};
void fg_peer_health(const struct fg_peer *peer, struct fg_peer_health *ret_health);

/*
 * Notes that a call in flight takes longer than the caller expects. If the peer has answered no
 * call since this one was sent, it is bad from now on. Any thread.
 */
void fg_call_is_late(const struct fg_call *call);

/*
 * Returns true if callers that have a choice should ask this peer last: in the last 10 s it did not
 * answer three calls in a row, or a call to it was late. An answer ends that, and so do 10 s
 * without calls.
 */
bool fg_peer_is_bad(const struct fg_peer *peer, int64_t now_mono_ns);

/*
 * Creates a peer. url: "inproc://name", "tcp://host:port", or, exactly if certificates or a secret
 * are set, "tls+tcp://host:port". calls_max: calls in flight; further ones fail with FG_E_LIMIT.
 * Connects in the background: a call without a connection waits 250 ms for one and then fails with
 * FG_E_UNAVAILABLE. If the connection breaks, calls in flight fail with FG_E_UNAVAILABLE at once. A
 * connection without responses is closed and opened again (keepalive.h). Destroying waits for
 * callbacks: do not do it from a done() without a home.
 */
enum fg_code fg_peer_dial(struct fg_rpc *rpc, const char *url, unsigned calls_max,
                          struct fg_peer **ret_peer, struct fg_err *err) fg_must_check;

/* --- servers --- */

struct fg_rpc_server;
struct fg_rpc_request;

/* Handles a request, on a thread of the transport: passes it to a worker and returns. */
typedef void (*fg_rpc_handler)(struct fg_rpc_request *req, void *arg);

/*
 * Creates a server. requests_max: requests that are handled at a time, at least 4. A connection of
 * another process has two thirds of them at most, and an address four fifths; less if others want
 * them, too (connections.h). Further ones are refused with FG_E_UNAVAILABLE. Set the handlers
 * before start. Never fails.
 */
struct fg_rpc_server *fg_rpc_server_create(struct fg_rpc *rpc, unsigned requests_max);
void fg_rpc_server_handle(struct fg_rpc_server *server, enum fg_rpc_method method,
                          fg_rpc_handler handler, void *arg);
/* Starts to listen. url: as in fg_peer_dial(); with "tls+tcp" callers must show a certificate or
 * know the secret. FG_E_INVALID: "tcp" on an address that is not loopback, without rpc.insecure. */
enum fg_code fg_rpc_server_start(struct fg_rpc_server *server, const char *url,
                                 struct fg_err *err) fg_must_check;

/*
 * Stops taking requests and waits until those in work are answered. Of a chunked reply only the
 * first part is sent; fetching the next one fails with FG_E_UNAVAILABLE. Not from a handler. A
 * server is started and stopped once.
 */
void fg_rpc_server_stop(struct fg_rpc_server *server);
void fg_rpc_server_destroy(struct fg_rpc_server *server);

/* Return parts of the request; slices live until the reply. */
enum fg_rpc_method fg_rpc_method(const struct fg_rpc_request *req);
struct fg_slice fg_rpc_head(const struct fg_rpc_request *req);
struct fg_slice fg_rpc_payload(const struct fg_rpc_request *req);
int64_t fg_rpc_deadline_mono_ns(const struct fg_rpc_request *req);

/* Returns true once the request's connection has ended, or its caller has canceled it. The reply
 * will reach nobody, but the handler must still make it. Long-running handlers check this now and
 * then. Any thread. */
bool fg_rpc_is_abandoned(const struct fg_rpc_request *req);

/*
 * Lets the caller cancel the request under a key that it chose, which is in the request's head;
 * 0: it chose none. The caller sends FG_RPC_CANCEL over the same connection, with the key as a head
 * of 8 bytes, little-endian (fg_rpc_put_cancel()). The request may have been canceled before. Not
 * after the reply.
 */
void fg_rpc_let_cancel(struct fg_rpc_request *req, uint64_t key);

/* Writes the head of a call FG_RPC_CANCEL. */
enum { FG_RPC_CANCEL_BYTES = 8 };
void fg_rpc_put_cancel(uint64_t key, uint8_t out[FG_RPC_CANCEL_BYTES]);

/*
 * Any thread, exactly one of them once; copied. The request is gone afterwards. A payload may be as
 * large as the settings let answers be that wait for their callers (rpc.answers_max_bytes, of all
 * of them together); beyond it the caller gets FG_E_LIMIT.
 */
void fg_rpc_reply(struct fg_rpc_request *req, struct fg_slice head, struct fg_slice payload);
/* The same, and the payload's memory is taken over: *payload is empty then. */
void fg_rpc_reply_take(struct fg_rpc_request *req, struct fg_slice head, struct fg_buf *payload);
/* FG_E_CANCELED arrives as FG_E_UNAVAILABLE: the caller did not cancel, or it would not see the
 * reply. */
void fg_rpc_reply_error(struct fg_rpc_request *req, const struct fg_err *err);

/* --- without a socket: for tests, and for a process that calls itself --- */

/* As if of the server's own cluster; handlers run on the caller's thread. */
struct fg_peer *fg_peer_direct(struct fg_rpc_server *server);

#endif
