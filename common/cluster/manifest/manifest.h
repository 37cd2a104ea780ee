/*
 * A manifest as it was read from the bucket, of either kind, with its etag. Never changed; shared
 * by counting, any thread.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_MANIFEST_H
#define FG_COMMON_CLUSTER_MANIFEST_MANIFEST_H

#include "common/cluster/manifest/blocks.h"

#include <stdatomic.h>

struct fg_manifest {
    _Atomic uint32_t refs;
    struct fg_arena *arena;
    struct fg_l0 l0;         /* where it is the L0 manifest */
    struct fg_blocks blocks; /* where it is a tenant's */
    struct fg_slice etag;    /* empty: there is no object, the first swap makes it */
};

/*
 * Says that the L0 manifest is missing, for who reads it. An ingester makes it before it serves
 * (ingester/segments/publish.h) and nothing deletes it, so whoever finds none has come before the
 * first ingester, or the object was lost; in neither case is it known what the bucket holds.
 */
static inline enum fg_code fg_manifest_l0_missing(struct fg_err *err)
{
    return fg_fail(err, FG_E_UNAVAILABLE,
                   FG_NAME_L0 " is missing: no ingester has used this bucket yet, or the object "
                              "was lost (see flamegrid bucket verify and bucket rebuild)");
}

/* Bytes and etag empty: there is no object. An object of no bytes is FG_E_CORRUPT: it was cut. The
 * caller's reference. */
enum fg_code fg_manifest_l0(struct fg_slice bytes, struct fg_slice etag,
                            struct fg_manifest **ret_manifest, struct fg_err *err) fg_must_check;
enum fg_code fg_manifest_blocks(struct fg_slice bytes, struct fg_slice etag, struct fg_slice tenant,
                                struct fg_manifest **ret_manifest,
                                struct fg_err *err) fg_must_check;
struct fg_manifest *fg_manifest_ref(struct fg_manifest *manifest);
void fg_manifest_unref(struct fg_manifest *manifest); /* NULL is fine */

#endif
