/*
 * The querier answers queries about profiles: querier.v1.QuerierService over Connect (JSON and
 * protobuf), /pyroscope/render and its kin, and the page at /. It holds no data. Each query
 * becomes calls to the peers that do, and their exact answers are merged here; flame graphs are cut
 * only after that.
 *
 * Thread: handlers run on the loops of the server and hand over at once; a query is
 * straight-line code on the QUERY lane of the worker pool and may wait for peers there. The querier
 * itself is read-only after create, so nothing is locked. Memory: of a query, an arena and trees
 * that end with it; an answer is at most answer_max_bytes.
 */
#ifndef FG_QUERIER_QUERIER_H
#define FG_QUERIER_QUERIER_H

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

/* Settings, section "querier". */
struct qry_settings {
    int64_t timeout_ns;
    uint64_t answer_max_bytes;
    uint64_t cache_max_bytes, fetch_max_bytes, refine_max_bytes;
    int64_t manifest_age_ns;
    char *disk_cache; /* folder; "": see qry_open_disk_cache() */
    uint64_t disk_cache_max_bytes;
};
extern const struct fg_conf_field qry_fields[];
extern const size_t qry_n_fields;

/* The same, section "querier.ingesters": of a querier that goes by a ring. */
struct qry_ingester_settings {
    uint64_t calls_max;
    int64_t hedge_after_ns;
};
extern const struct fg_conf_field qry_ingester_fields[];
extern const size_t qry_n_ingester_fields;

/* Everything named is borrowed and outlives the querier. */
struct qry_config {
    /* Ingesters: either those of a ring, with their peers by address; or one that has all; or
     * none, and there is only what they have committed. */
    struct fg_ring_watch *ring;
    struct fg_peers *peers;
    int64_t hedge_after_ns; /* others are asked in the place of one that has not answered then */
    struct fg_peer *ingester;
    struct fg_work *work; /* its QUERY lane */
    struct fg_tenants *tenants;
    struct fg_registry *registry;     /* of metrics */
    struct fg_conditions *conditions; /* reports an unavailable bucket; NULL: not reported */
    struct fg_clock *clock;           /* what "now" is in requests, and deadlines */
    int64_t timeout_ns;               /* of a query that brings no earlier deadline; 0: 60 s */
    uint64_t answer_max_bytes;        /* 0: 256 MiB */
    struct fg_bucket *bucket;         /* segments and blocks; NULL: there are none */
    uint64_t cache_max_bytes;         /* of what was read of them */
    uint64_t fetch_max_bytes;         /* under way for one query */
    uint64_t refine_max_bytes;        /* of samples, read in full where crowns do not do */
    int64_t manifest_age_ns;          /* older manifests are asked for again */
    struct fg_disk_cache *disk;       /* of what was read of them, too; NULL: none */
};

struct fg_program;

/*
 * Opens the disk cache that the settings say, in a folder that is made. Where they name none it is
 * this one; NULL, or disk_cache_max_bytes 0: there is none, which is FG_OK and NULL, and so it is
 * on a disk too full for one.
 */
enum fg_code qry_open_disk_cache(const struct qry_settings *settings, const char *otherwise,
                                 struct fg_program *program, struct fg_disk_cache **ret_disk,
                                 struct fg_err *err) fg_must_check;

struct querier;

/* Never fails. Destroy accepts NULL; the server and the pool have stopped before. It waits for
 * calls to ingesters that nobody waited for. */
struct querier *qry_create(const struct qry_config *config);
void qry_destroy(struct querier *querier);

/* Something was changed in the bucket that answers have to show at once: queries that come from
 * now on read the manifests anew. Any thread. */
void qry_refresh(struct querier *querier);

/* Adds its routes to a server that has not started yet. */
void qry_routes(struct querier *querier, struct fg_http_server *server);

#endif
