/*
 * The configuration of a compactor: its settings, and the parts of the process that it uses.
 */
#ifndef FG_COMPACTOR_CONFIG_H
#define FG_COMPACTOR_CONFIG_H

#include "common/access/access.h"
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/model/tenant_limits.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/runtime/work.h"
#include "common/storage/bucket/bucket.h"

/* Settings of section "compactor". */
struct cmp_settings {
    int64_t interval_ns;
    int64_t hour_delay_ns, day_delay_ns, fold_after_ns, fold_quiet_ns;
    uint64_t job_max_bytes, job_max_sources, rollup_min_bytes;
    uint64_t memory_max_bytes; /* 0: the share that cmp_share() gives */
    int64_t retire_after_ns, grace_ns, orphan_after_ns, deletion_wait_ns;
    unsigned block_version; /* of FG_BLOCK_VERSION_CHOICES */
};
extern const struct fg_conf_field cmp_fields[];
extern const size_t cmp_n_fields;

/* Sets what is 0 of the memory settings to a share of the process's budget. */
void cmp_share(struct cmp_settings *settings, uint64_t memory_max_bytes);

/* The store of the only ingester of a single server. The ingester finds its id while others read
 * it. */
struct cmp_local_store {
    struct fg_id id;
    _Atomic bool known; /* written after `id` */
};

/* All borrowed. */
struct cmp_config {
    const struct cmp_settings *settings;
    struct fg_bucket *bucket;
    const char *scratch;        /* a folder of its own; leftovers in it are removed */
    const struct fg_disk *disk; /* of the scratch folder; NULL: its free space is not watched */
    const char *name;           /* unique among the bucket's compactors; NULL: it is the only one */
    const struct cmp_local_store *store; /* NULL: the ring says which ingesters there are */
    struct fg_work *work;
    struct fg_audit *audit;   /* NULL: none */
    struct fg_access *access; /* says which tenants are to be deleted; NULL: none is */
    struct fg_tenants *tenants;
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    struct fg_clock *clock;
    /* Called on a worker after a deletion was written to a manifest and before the request is
     * answered, so that caches of manifests can be expired. NULL: they expire by age. */
    void (*on_deletion)(void *arg);
    void *on_deletion_arg;
    void (*pause)(void *arg, int64_t ns); /* for tests with their own clock; NULL: really waits */
    void *pause_arg;
};

#endif
