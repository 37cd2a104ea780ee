/*
 * Queriers share what they read of segments and blocks: each object belongs to one of them
 * (members.h), which keeps its pages (pages.h), and the others ask that one before they ask the
 * bucket. So each block is read from the bucket once, and the memory and disks of all queriers
 * together are one cache.
 *
 * For those who read it is a bucket: ranges of segments and blocks take that way, all else goes to
 * the bucket itself. A querier that cannot be reached, is slow or full costs a request to the
 * bucket, never an answer.
 *
 *   query --> whose? -- ours ------> pages --(missing)--> bucket
 *                   \---- another's --> READ --> its pages --(missing)--> bucket
 *                                        \--(no answer)----------------> bucket
 *
 * Thread: as of a bucket.
 */
#ifndef FG_QUERIER_SHARE_SHARE_H
#define FG_QUERIER_SHARE_SHARE_H

#include "common/net/rpc/rpc.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/disk_cache.h"

/* Section "querier.share". */
struct qry_share_settings {
    char *queriers, *listen;
    uint64_t cache_max_bytes, requests_max;
    int64_t look_up_ns, timeout_ns;
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

/* Starts threads of its own. FG_E_INVALID: addresses in the settings; FG_E_UNAVAILABLE. */
enum fg_code qry_share_create(const struct qry_share_config *config, struct qry_share **ret_share,
                              struct fg_err *err) fg_must_check;

/* The bucket to read through; it lives as long as the share, and is not to be closed. */
struct fg_bucket *qry_share_bucket(struct qry_share *share);

/* Sets the handler of a server that has not started yet. */
void qry_share_serve(struct qry_share *share, struct fg_rpc_server *server);

/* Nobody reads any more, and the server has stopped. NULL is fine. */
void qry_share_destroy(struct qry_share *share);

#endif
