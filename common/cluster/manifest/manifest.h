/*
 * A manifest of either kind as it was read from the bucket, with its etag. Never changed; shared by
 * counting.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_MANIFEST_H
#define FG_COMMON_CLUSTER_MANIFEST_MANIFEST_H

#include "common/cluster/manifest/blocks.h"

#include <stdatomic.h>

struct fg_manifest {
    _Atomic uint32_t refs;
    struct fg_arena *arena;
    struct fg_l0 l0;         /* of the L0 manifest */
    struct fg_blocks blocks; /* of a tenant's manifest */
    struct fg_slice etag;    /* empty: there is no object; the first swap creates it */
};

/*
 * Fails with FG_E_UNAVAILABLE and says that the L0 manifest is missing. An ingester creates it
 * before it serves (ingester/segments/publish.h) and nothing deletes it. So a reader that finds
 * none came before the first ingester, or the object was lost; in both cases it cannot know what
 * the bucket holds.
 */
static inline enum fg_code fg_manifest_l0_missing(struct fg_err *err)
{
    return fg_fail(err, FG_E_UNAVAILABLE,
                   FG_NAME_L0 " is missing: no ingester has used this bucket yet, or the object "
                              "was lost (see flamegrid bucket verify and bucket rebuild)");
}

/* Decode a manifest. Bytes and etag empty: there is no object, so the manifest is empty.
 * *ret_manifest: the caller's reference. FG_E_CORRUPT: also for an object without bytes, which was
 * truncated. Errors of fg_l0_decode() and fg_blocks_decode(). */
enum fg_code fg_manifest_l0(struct fg_slice bytes, struct fg_slice etag,
                            struct fg_manifest **ret_manifest, struct fg_err *err) fg_must_check;
enum fg_code fg_manifest_blocks(struct fg_slice bytes, struct fg_slice etag, struct fg_slice tenant,
                                struct fg_manifest **ret_manifest,
                                struct fg_err *err) fg_must_check;
/* Adds a reference; returns the manifest. Accepts NULL. */
struct fg_manifest *fg_manifest_ref(struct fg_manifest *manifest);
/* Releases a reference. Accepts NULL. */
void fg_manifest_unref(struct fg_manifest *manifest);

#endif
