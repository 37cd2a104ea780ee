/*
 * One query under way, and what all queries of a process share (struct querier).
 *
 * A query is created on the loop of its connection (http.h), or by a caller of this process
 * (export.h). A worker answers it. Its fields are the hand-over between the parts of the querier:
 * what the client asked for, the ring and the snapshot it is answered from, and what the response
 * says about itself.
 *
 * Thread: one thread at a time, first the loop, then the worker, then the loop again. Helpers of
 * the worker only read it, except for functions that say so.
 * Memory: everything made for a query is in its arena, its buffers, or released by
 * qry_fanout_end(). The arena and the body are bounded by querier.answer_max_bytes each.
 */
#ifndef FG_QUERIER_QUERY_H
#define FG_QUERIER_QUERY_H

#include "common/access/audit/audit.h"
#include "common/base/arena.h"
#include "common/base/time.h"
#include "common/model/deletion.h"
#include "common/model/tenant_id.h"
#include "common/model/tenant_limits.h"
#include "common/net/connect.h"
#include "common/net/http.h"
#include "common/net/rpc/peers.h"
#include "common/runtime/metrics.h"
#include "common/runtime/work.h"
#include "querier/replicas/calls.h"
#include "querier/together_part.h"

#include <stdatomic.h>

struct fg_ring_view;
struct fg_ring_watch;
struct qry_blocks;
struct qry_blocks_snapshot;
struct qry_http_binding;
struct qry_lost;
struct qry_progress;
struct qry_query;
struct qry_quota;
struct qry_rule_evaluator;
struct qry_rules;
struct qry_together;
struct qry_usage_counts;

enum {
    RENDER_GROUPS_MAX = 16,   /* labels to group by; further ones are ignored */
    CALL_SITE_MAX = 512,      /* functions of a call site; more are an error */
    QUERY_SIDES_MAX = 2,      /* of a comparison */
    MISSING_MAX_BYTES = 1024, /* of the text in the header X-Flamegrid-Missing */
};

/* What all queries of a process share. Read-only after qry_start(), except for stopping,
 * round_robin, pending and adhoc_memory, which any thread may use. */
struct querier {
    struct fg_ring_watch *ring; /* of the ingesters, with peers; or one ingester; or neither */
    struct fg_peers *peers;
    struct fg_peer *ingester;
    int64_t hedge_after_ns;
    atomic_bool stopping;             /* qry_stop() was called */
    atomic_uint round_robin;          /* which of several replicas to ask: another each time */
    struct qry_calls_pending pending; /* calls to ingesters */
    struct fg_work *work;
    struct fg_tenants *tenants;
    struct fg_clock *clock;
    struct fg_audit *audit; /* NULL: none */
    struct fg_metrics *metrics, *replicas_metrics;
    struct qry_http_binding *bindings;         /* of the routes; http.c */
    struct qry_together *together;             /* queries that ask the same */
    struct qry_blocks *blocks;                 /* NULL: there is no bucket */
    struct qry_rules *rules;                   /* values of recording rules */
    struct qry_rule_evaluator *rule_evaluator; /* evaluates them each minute; NULL: scrapes do */
    int64_t rules_delay_ns;         /* so long ago has a minute ended before they are evaluated */
    struct qry_usage_counts *usage; /* what queries take; NULL: not counted */
    struct fg_quotas *quotas;       /* bytes that they read in an hour; NULL: not counted */
    struct qry_quota *quota;        /* tells the other queriers; NULL: nobody does */
    int64_t timeout_ns;
    uint64_t answer_max_bytes, refine_max_bytes;
    uint64_t adhoc_upload_max_bytes, adhoc_decode_max_bytes;
    struct fg_budget *uploads;     /* for bodies with ad hoc profiles; NULL: the server's */
    struct fg_budget adhoc_memory; /* of all ad hoc profiles that are read and decoded */
    const char *instance_labels;   /* of comparisons, separated by commas */
    const char *embed_origins;     /* of pages that may show /embed; "": none */
};

/* Parameters of the plain routes, read on the loop. ptr NULL: not given. */
struct qry_render_params {
    struct fg_slice query, from, until, max_nodes, format;
    struct fg_slice left_query, left_from, left_until, right_query, right_from, right_until;
    struct fg_slice label, limit, page, function, regex, sort, prefix, growth, counts, name, type;
    struct fg_slice by, instance, min_share, q, show; /* of comparisons */
    struct fg_slice path;                             /* of the request, decoded */
    struct fg_slice body;                             /* as received */
    enum fg_http_method method;
    struct fg_slice group_by[RENDER_GROUPS_MAX];
    size_t n_group_by;
    const struct fg_slice *call_site; /* in the request's arena */
    size_t n_call_site;               /* as many as the client gave, of which call_site has no
                                         more than CALL_SITE_MAX */
};

/* A route and what answers it. */
struct qry_endpoint {
    const char *path, *name;                /* a path that ends with '/': all paths below it */
    const ProtobufCMessageDescriptor *type; /* of the request; NULL: a plain route */
    /* Fills query->body. Runs on a worker. `in` is of `type`. */
    enum fg_code (*answer)(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err);
    unsigned changes; /* it changes something, for callers with this scope (enum fg_scope); 0: it
                         reads */
    /* It is about all of a tenant, so callers that may see some series only do not get it. Without,
     * every answer comes from a selection, which is restricted to those series. */
    bool whole;
};

struct qry_query {
    struct fg_job job;
    struct qry_query *parent; /* whose job it is a part of, like a rule's; NULL: it has its own */
    struct qry_together_part together; /* with queries that ask the same */
    struct querier *querier;
    struct fg_http_request *req;   /* NULL: export.c asks, or another querier: */
    struct fg_rpc_request *caller; /* its call; NULL: none */
    const struct qry_endpoint *endpoint;
    size_t request_max_bytes;        /* of the body */
    struct fg_connect_call call;     /* of Connect's routes */
    struct qry_render_params params; /* of the others */
    struct fg_slice accept;          /* the header */
    struct fg_tenant_ids tenants;
    const char
        *restriction; /* a selector that all series match which the caller may see; NULL: none */
    int64_t length_max_ns, lookback_ns; /* the least of the tenants' limits; 0: no limit */
    uint64_t bytes_max;                 /* the same */
    struct fg_quota_limit quota;        /* bytes of an hour of the first tenant; 0: no limit */
    struct fg_quota_use quota_use;      /* when the query came */
    struct fg_flow flow; /* of the first tenant, whose queries share a lane, the cache, and requests
                            to the bucket */
    int64_t retention_ns[FG_TENANT_IDS_MAX]; /* of each tenant, the longest that profiles or rollups
                                                are kept; 0: forever */
    int64_t start_mono_ns, deadline_mono_ns;
    struct fg_arena *arena;
    struct fg_buf body;       /* of the response */
    const char *content_type; /* of plain responses; NULL: application/json */
    const char *file_name;    /* under which browsers save the response; NULL: they show it */

    /* What the response was made from. */
    char *unit; /* of its values; NULL: it has none */
    uint64_t profiles, bytes, series;
    uint64_t planned_bytes; /* to be read, from caches as well: what the query costs its tenant */
    uint64_t objects, requests, cache_hits, disk_hits; /* read in the bucket */
    int64_t cpu_ns;   /* of the worker and of helpers of snapshots that have ended */
    uint64_t rollups; /* that took the place of profiles */

    /* For the audit (audited.h): what it is, and what it asks for. */
    struct {
        enum fg_audit_kind kind; /* READ, or that of a change */
        uint64_t op;             /* of a change that has begun; 0: none has */
        struct fg_slice detail;
        int64_t from_ms, to_ms;
    } audited;
    bool exported; /* the answer is a file with profiles */
    bool empty;    /* the answer is a flame graph without a stack, whatever its form looks like */

    bool scraped;   /* by a program, at an interval */
    bool refine;    /* the client wants exact flame graphs, whatever they cost */
    bool inexact;   /* some flame graph may differ from that of a full merge, */
    uint64_t bound; /* by at most so much */
    bool saturated; /* some sum did not fit into 64 bits */

    /* Time ranges that were answered although less was asked for. */
    struct fg_time_span wide[QUERY_SIDES_MAX];
    unsigned n_wide;

    struct qry_progress *progress; /* NULL: the client does not want to know (progress.h) */
    bool statistics; /* the client wants them in the body, not only in headers (reply.h) */

    bool partial;          /* the client accepts an incomplete response */
    bool incomplete;       /* something may be missing */
    struct fg_buf missing; /* why: "NAME: reason; NAME: reason" */

    struct fg_ring_view *ring;            /* replicas/; NULL: not taken yet, or there is none */
    struct qry_blocks_snapshot *snapshot; /* blocks/; NULL: not taken yet, or there is no bucket */
    struct qry_lost *lost;                /* blocks/, what it skips; NULL: nothing so far */
    bool fresh;                           /* the snapshot was to be read from the bucket */
    bool stale; /* the bucket could not be read, so the snapshot is older; what is still needed from
                   the bucket may take until: */
    int64_t stale_until_mono_ns;
    struct fg_deletions *deletions; /* [tenants.n], as of the snapshot; NULL: not known yet */
};

/* Returns FG_E_LIMIT: the query needs more memory than one query may use. */
enum fg_code qry_query_too_large(struct fg_err *err);

/* Marks the response incomplete and adds the reason to its header, once. Reasons beyond
 * MISSING_MAX_BYTES are dropped. */
void qry_query_lacks(struct qry_query *query, struct fg_slice why);

/* How many profiles and series a query has counted. */
struct qry_counted {
    uint64_t profiles, series;
};

/* Returns what the query has counted so far; sets it back, after a second question about the same
 * profiles, so that they count once. */
struct qry_counted qry_query_counted(const struct qry_query *query);
void qry_query_count_back(struct qry_query *query, struct qry_counted counted);

/* Looks at a sum that the response has, or that its values add up to. If it did not fit into 64
 * bits, which is where sums stop (common/base/value.h), the response is inexact and says so. */
void qry_query_look_at_sum(struct qry_query *query, int64_t sum);
void qry_query_look_at_values(struct qry_query *query, const int64_t *values, size_t n);

/* Marks the response incomplete because it is made from an older copy: adds "WHAT of 12 s ago:
 * WHY". */
void qry_query_lacks_since(struct qry_query *query, const char *what, int64_t age_ns,
                           const struct fg_err *why);

/* Returns how long the query waits for the bucket if it has an older copy of what it asks for. */
int64_t qry_query_patience_mono_ns(const struct qry_query *query);

/* What a client can do if some data is unreadable. */
#define QRY_ADVISE_PARTIAL "set partial=true to get a response without the unreadable data"

/* Returns whether its client may ask for a response that is not complete. Values of a recording
 * rule are of complete data only. */
static inline bool qry_query_may_be_partial(const struct qry_query *query)
{
    return query->parent == NULL;
}

/* Returns the job that the query is done by: its own or its parent's. */
static inline struct fg_job *qry_query_job(struct qry_query *query)
{
    return query->parent != NULL ? &query->parent->job : &query->job;
}

/* Returns whether the client of the query has disconnected, or the other querier that asks has
 * canceled its call. A query without a client never is. Any thread. */
bool qry_query_is_gone(const struct qry_query *query);

/* Checks that the response is still wanted. FG_E_CANCELED: the client has disconnected, or there is
 * none, as of the evaluation of a rule, and the querier stops; FG_E_DEADLINE. Any thread. */
enum fg_code qry_query_check(struct qry_query *query, struct fg_err *err) fg_must_check;

/*
 * Charges the query's tenant for bytes that are about to be read, or have been read by an ingester:
 * they decide when its next query gets a worker. From the query's thread. FG_E_LIMIT: the query
 * exceeds max_query_bytes.
 */
enum fg_code qry_query_charge(struct qry_query *query, uint64_t bytes,
                              struct fg_err *err) fg_must_check;

/* Returns the oldest time that any tenant of the query still keeps, wall clock; INT64_MIN: some
 * tenant keeps everything. */
int64_t qry_query_oldest_ns(const struct qry_query *query);

#endif
