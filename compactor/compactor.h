/*
 * The compactor makes blocks of what ingesters commit: segments become blocks of an hour, these
 * blocks of a day; it drops what retention says, takes out what users delete, and removes objects
 * that nobody needs any more. It works on the bucket alone, and knows nothing that is not there.
 *
 *   GET  /compactor/status      the state, as JSON
 *   POST /compactor/delete      deletes profiles (deletion.h): selector, start, end. Needs the
 *                               header X-Flamegrid-Action
 *   GET  /compactor/deletions   pending deletions and the last completed ones, with counts
 *
 * Thread: one of its own, which waits for the bucket most of the time. Handlers run on the loops of
 * the server and hand over to the pool's QUERY lane.
 */
#ifndef FG_COMPACTOR_COMPACTOR_H
#define FG_COMPACTOR_COMPACTOR_H

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/model/tenant_limits.h"
#include "common/net/http.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/runtime/work.h"
#include "common/storage/bucket/bucket.h"

/* Settings, section "compactor". */
struct cmp_settings {
    int64_t interval_ns;
    int64_t hour_delay_ns, day_delay_ns, fold_after_ns, fold_quiet_ns;
    uint64_t job_max_bytes, job_max_sources, nodes_min_bytes;
    uint64_t memory_max_bytes; /* 0: the share that cmp_share() gives */
    int64_t retire_after_ns, grace_ns, orphan_after_ns, deletion_wait_ns;
    unsigned block_version; /* of FG_BLOCK_VERSION_CHOICES */
};
extern const struct fg_conf_field cmp_fields[];
extern const size_t cmp_n_fields;

/* Sets what is 0 of the memory settings to a share of the process's budget. */
void cmp_share(struct cmp_settings *settings, uint64_t memory_max_bytes);

/* That of the one ingester there is, in this process: it is found while others ask already. */
struct cmp_store {
    struct fg_id id;
    _Atomic bool known; /* set last */
};

/* All borrowed. */
struct cmp_config {
    const struct cmp_settings *settings;
    struct fg_bucket *bucket;
    const char *scratch;        /* a folder of its own; what it made there before is removed */
    const struct fg_disk *disk; /* the scratch folder is on; NULL: it is not watched */
    const char *name;           /* among the compactors of the bucket; NULL: there are no others */
    const struct cmp_store *store; /* NULL: the ring says which ingesters there are */
    struct fg_work *work;
    struct fg_tenants *tenants;
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    struct fg_clock *clock;
    /* On a worker: a deletion is in a manifest and not answered for yet, so whoever caches
     * manifests can let go of them. NULL: they find out as theirs get old. */
    void (*on_deletion)(void *arg);
    void *on_deletion_arg;
    void (*pause)(void *arg, int64_t ns); /* for tests with a clock of their own; NULL: waits */
    void *pause_arg;
};

struct compactor;

/* FG_E_UNAVAILABLE, FG_E_DENIED: the scratch folder cannot be made. */
enum fg_code cmp_create(const struct cmp_config *config, struct compactor **ret_compactor,
                        struct fg_err *err) fg_must_check;

/* Begins to work. */
enum fg_code cmp_start(struct compactor *compactor, struct fg_err *err) fg_must_check;

/* Breaks off what it is at. NULL is fine. */
void cmp_stop(struct compactor *compactor);

/* Stopped, or never started; the server and the pool have stopped before. NULL is fine. */
void cmp_destroy(struct compactor *compactor);

/* Adds its routes to a server of operators' (admin_listen) that has not started yet. */
void cmp_routes(struct compactor *compactor, struct fg_http_server *server);

#endif
