/*
 * The querier answers queries about profiles: querier.v1.QuerierService over Connect (JSON and
 * protobuf), /pyroscope/render and its relatives, and the page at /. It holds no data: a query
 * reads from ingesters what they have not committed yet, and from segments and blocks in the bucket
 * what they have, and merges both exactly. Flame graphs are cut only after that.
 *
 * Thread: handlers run on the loops of the HTTP server and hand over at once. A query is
 * straight-line code on the QUERY lane of the worker pool and may wait there for peers and for the
 * bucket. The querier itself is read-only after qry_start(), so it needs no lock
 * (the exceptions are atomic).
 * Memory: a query has an arena and trees that end with it; a response is at most answer_max_bytes.
 */
#ifndef FG_QUERIER_QUERIER_H
#define FG_QUERIER_QUERIER_H

#include "common/access/audit/audit.h"
#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "common/model/tenant_limits.h"
#include "common/net/http.h"
#include "common/net/rpc/peers.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"
#include "common/runtime/work.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/disk_cache.h"

/* What agents and collectors call an instance of a service, the most exact first. */
#define QRY_INSTANCE_LABELS_DEFAULT "pod,instance,hostname,service_instance_id"

/* Settings, section "querier". */
struct qry_settings {
    int64_t timeout_ns;
    uint64_t answer_max_bytes;
    uint64_t cache_max_bytes, fetch_max_bytes, refine_max_bytes;
    int64_t manifest_age_ns, rules_delay_ns;
    char *instance_labels, *embed_origins;
    int64_t usage_interval_ns;
    char *usage_spool; /* folder; "": the program's own choice */
    char *disk_cache;  /* folder; "": see qry_open_disk_cache() */
    uint64_t disk_cache_max_bytes;
    uint64_t adhoc_upload_max_bytes, adhoc_decode_max_bytes, adhoc_memory_max_bytes;
};
extern const struct fg_conf_field qry_fields[];
extern const size_t qry_n_fields;

/* Gives the cache, if it has no size of its own, a third of the memory of the process, and at least
 * 256 MiB. Before the settings are used. */
void qry_share(struct qry_settings *settings, uint64_t memory_max_bytes);

/* Settings, section "querier.ingesters", of a querier that finds ingesters in a ring. */
struct qry_ingester_settings {
    uint64_t calls_max;
    int64_t hedge_after_ns;
};
extern const struct fg_conf_field qry_ingester_fields[];
extern const size_t qry_n_ingester_fields;

/* Everything named is borrowed and outlives the querier. */
struct qry_config {
    /* Ingesters: those of a ring, with their peers by address; or one that has everything; or none,
     * and there is only what they have committed. */
    struct fg_ring_watch *ring;
    struct fg_peers *peers;
    int64_t hedge_after_ns; /* an ingester without an answer for so long is late: failover replicas
                               are asked */
    struct fg_peer *ingester;
    struct fg_work *work;   /* its QUERY lane */
    struct fg_audit *audit; /* NULL: none */
    struct fg_tenants *tenants;
    struct fg_registry *registry;     /* of metrics */
    struct fg_conditions *conditions; /* reports an unavailable bucket; NULL: not reported */
    struct fg_clock *clock;           /* "now" in requests, and deadlines */
    int64_t timeout_ns;               /* of a query without an earlier deadline; 0: 60 s */
    uint64_t answer_max_bytes;        /* of a response; 0: 256 MiB */
    struct fg_bucket *bucket;         /* segments and blocks; NULL: there are none */
    uint64_t cache_max_bytes;         /* of segment and block data in memory */
    uint64_t fetch_max_bytes;         /* under way for one query */
    uint64_t refine_max_bytes;        /* of samples, read if a flame graph of crowns is inexact */
    int64_t manifest_age_ns;          /* older manifests are read again */
    int64_t rules_delay_ns;           /* so late is a minute evaluated by recording rules */
    /* Of ad hoc profiles: of a file, 0: there are none; to decode it; and of all together. */
    uint64_t adhoc_upload_max_bytes, adhoc_decode_max_bytes, adhoc_memory_max_bytes;
    struct fg_budget *uploads;   /* for bodies with ad hoc profiles; NULL: the server's */
    const char *instance_labels; /* of comparisons, separated by commas; NULL: the default */
    const char *embed_origins;  /* of pages that may show /embed, separated by spaces; NULL: none */
    struct fg_disk_cache *disk; /* of segment and block data; NULL: none */
    /* What queries take is written to the bucket so often; 0: not at all. */
    int64_t usage_interval_ns;
    const char *usage_spool; /* folder where it waits for the bucket; NULL: in memory */
};

struct fg_program;

/*
 * Opens the disk cache of the settings and creates its folder. If the settings name no folder it is
 * `otherwise`. FG_OK with NULL: there is no disk cache, since `otherwise` is NULL,
 * disk_cache_max_bytes is 0, or the disk is full.
 */
enum fg_code qry_open_disk_cache(const struct qry_settings *settings, const char *otherwise,
                                 struct fg_program *program, struct fg_disk_cache **ret_disk,
                                 struct fg_err *err) fg_must_check;

struct querier;

/* Creates a querier; never fails. Destroy accepts NULL; the server and the pool have stopped
 * before. It waits until abandoned calls to ingesters have ended. */
struct querier *qry_create(const struct qry_config *config);
void qry_destroy(struct querier *querier);

struct fg_rpc_server;
struct qry_share;

/*
 * Starts what the querier does without being asked: it evaluates recording rules each minute, and
 * shares that with the other queriers of the share, of which server serves the calls; it has not
 * started yet. share and server NULL: this is the only querier. Once, before queries come; needs a
 * bucket. FG_E_LIMIT: no more threads.
 */
enum fg_code qry_start(struct querier *querier, struct qry_share *share,
                       struct fg_rpc_server *server, struct fg_registry *registry,
                       struct fg_err *err) fg_must_check;

/* Stops that, before the pool is destroyed: evaluations that are under way, or come from other
 * queriers, end soon with FG_E_CANCELED. Accepts NULL, and a querier that was not started. */
void qry_stop(struct querier *querier);

/* Makes queries that come from now on read the manifests again, since something has changed in the
 * bucket that responses have to show at once. Any thread. */
void qry_refresh(struct querier *querier);

/* Adds all routes to a server that has not started yet. Once. */
void qry_routes(struct querier *querier, struct fg_http_server *server);

#endif
