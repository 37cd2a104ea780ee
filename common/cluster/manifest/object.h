/*
 * A manifest's object in the bucket: reads it, conditionally if an older version is at hand, and
 * replaces it by compare-and-swap. Every program that reads or writes manifests does so here.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_OBJECT_H
#define FG_COMMON_CLUSTER_MANIFEST_OBJECT_H

#include "common/cluster/manifest/manifest.h"
#include "common/storage/bucket/bucket.h"

/* One read. The caller sends `request` as it likes (a call, a wave) between init and take. Do not
 * move it in between: the request points into it. */
struct fg_manifest_read {
    struct fg_bucket_request request;
    struct fg_slice tenant; /* borrowed; empty: the L0 manifest */
    char name[FG_NAME_MAX_BYTES];
};

/*
 * Prepares the read of a tenant's manifest, or of the L0 manifest if tenant is empty. known_etag:
 * copied; of the version at hand, so that an unchanged object comes without content; empty: none.
 * FG_E_INVALID: the tenant is not valid in a name.
 */
enum fg_code fg_manifest_read_init(struct fg_manifest_read *read, struct fg_slice tenant,
                                   struct fg_slice known_etag, int64_t deadline_mono_ns,
                                   struct fg_err *err) fg_must_check;

/*
 * Decodes what came of the request. *ret_manifest: the caller's reference; NULL: the version at
 * hand is still current. A missing tenant's manifest is the empty one.
 * FG_E_UNAVAILABLE: the L0 manifest is missing (fg_manifest_l0_missing()). FG_E_CORRUPT,
 * FG_E_UNIMPLEMENTED: the object cannot be decoded. Errors of the request.
 */
enum fg_code fg_manifest_read_take(struct fg_manifest_read *read, struct fg_manifest **ret_manifest,
                                   struct fg_err *err) fg_must_check;

/* Frees the request's result. */
void fg_manifest_read_done(struct fg_manifest_read *read);

/*
 * Reads a manifest as above and waits for it. *manifest: the version at hand, or NULL; replaced
 * only if the object has changed. stop: ends the wait early with FG_E_CANCELED; NULL: nothing does.
 */
enum fg_code fg_manifest_refresh(struct fg_bucket *bucket, struct fg_bucket_stop *stop,
                                 struct fg_slice tenant, int64_t deadline_mono_ns,
                                 struct fg_manifest **manifest, struct fg_err *err) fg_must_check;

/*
 * Replaces the object whose etag is `etag`; empty: creates the object. Offers the bytes to the
 * copies of the bucket (kept.h). FG_E_PRECONDITION: the object has another etag by now. After any
 * other failure the object may have been replaced: the next read tells.
 */
enum fg_code fg_manifest_swap(struct fg_bucket *bucket, struct fg_bucket_stop *stop,
                              struct fg_slice tenant, struct fg_slice etag, struct fg_slice bytes,
                              int64_t deadline_mono_ns, struct fg_err *err) fg_must_check;

#endif
