/*
 * Queriers share what they read of segments and blocks: each object has one owner among them
 * (members.h), which caches its pages (pages.h), and the others ask the owner before they ask the
 * bucket. So each block is read from the bucket once, and the memory and disks of all queriers
 * together are one cache.
 *
 * To its readers the share is a bucket: it serves ranges of segments and blocks; everything else
 * goes to the bucket itself. An owner that cannot be reached, is slow or has too many reads costs a
 * request to the bucket, never a response.
 *
 *   query --> owner? -- this one ----> pages --(missing)--> bucket
 *                  \--- another ----> READ --> its pages --(missing)--> bucket
 *                                        \--(no answer)---------------> bucket
 *
 * Thread: as of a bucket.
 */
#ifndef FG_QUERIER_SHARE_SHARE_H
#define FG_QUERIER_SHARE_SHARE_H

#include "common/cluster/membership/peer_directory.h"
#include "common/net/rpc/rpc.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/disk_cache.h"

/* Section "querier.share". */
struct qry_share_settings {
    char *queriers, *listen;
    uint64_t cache_max_bytes, requests_max;
    int64_t resolve_interval_ns, timeout_ns;
};
extern const struct fg_conf_field qry_share_fields[];
extern const size_t qry_share_n_fields;

/* All borrowed. */
struct qry_share_config {
    const struct qry_share_settings *settings;
    struct fg_bucket *bucket;
    struct fg_disk_cache *disk; /* of the pages; NULL: none */
    struct fg_rpc *rpc;
    struct fg_registry *registry;
    struct fg_clock *clock;
};

struct qry_share;

/* Creates the share and its threads. FG_E_INVALID: addresses in the settings; FG_E_UNAVAILABLE. */
enum fg_code qry_share_create(const struct qry_share_config *config, struct qry_share **ret_share,
                              struct fg_err *err) fg_must_check;

/* Returns the bucket to read through. It lives as long as the share; do not close it. */
struct fg_bucket *qry_share_bucket(struct qry_share *share);

/* Sets the handler for other queriers, in a server that has not started yet. */
void qry_share_serve(struct qry_share *share, struct fg_rpc_server *server);

/* Returns the queriers of the share, this one included. They live as long as the share. */
struct fg_peer_directory *qry_share_queriers(const struct qry_share *share);

/* Returns the number, random and never 0, by which this run of the querier knows itself in a reply:
 * one of the addresses of the share is its own, and only a call can tell which. */
uint64_t qry_share_start_id(const struct qry_share *share);

/* Destroys it. No read is under way, and the server has stopped. NULL is fine. */
void qry_share_destroy(struct qry_share *share);

#endif
