/* What a bucket's live segments hold, read the slow and simple way: whole objects, all of them. */
#ifndef FG_TESTS_LIB_COMMITTED_H
#define FG_TESTS_LIB_COMMITTED_H

#include "common/cluster/manifest/snapshot_core.h"
#include "common/storage/bucket/bucket.h"

struct committed {
    uint64_t generation;
    uint32_t n_segments;
    uint64_t n_profiles;
    uint64_t n_nodes;    /* rollups, of all tenants */
    struct fg_id digest; /* sum of the profiles' ids */
};

/*
 * Reads all segments. Verifies each one, and that its rollups are the sums of its profiles. lines:
 * folded stacks of the tenant's values of one type ("cpu:nanoseconds"), summed and in byte order,
 * that of the empty stack (" 5") first.
 */
struct committed committed_read(struct fg_bucket *bucket, const char *tenant, const char *type,
                                struct fg_buf *lines);

/* The L0 manifest, which there is; the manifest of a tenant's blocks, empty if there is none. The
 * caller's references. */
struct fg_manifest *committed_manifest(struct fg_bucket *bucket);
struct fg_manifest *committed_blocks(struct fg_bucket *bucket, const char *tenant);

/* The same lines, of one segment or block, which there is. */
void committed_read_object(struct fg_bucket *bucket, const char *name, const char *tenant,
                           const char *type, struct fg_buf *lines);

#endif
