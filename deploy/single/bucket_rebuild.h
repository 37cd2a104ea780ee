/*
 * What `flamegrid bucket rebuild` does: makes an object that says what is in the bucket from the
 * bucket itself. Each of the three prints what it found and what it would write; with apply it
 * writes that, on the condition that the object is still the one it has read. What was there is
 * copied to manifests/kept/.../replaced-<time> first.
 *
 * What cannot be told for certain is refused, with the object and the reason: FG_E_PRECONDITION.
 * accept_loss goes on without what is lost or in doubt, and says what that is.
 *
 * Thread: one that may wait.
 */
#ifndef FG_DEPLOY_SINGLE_BUCKET_REBUILD_H
#define FG_DEPLOY_SINGLE_BUCKET_REBUILD_H

#include "deploy/single/bucket_survey.h"

#include <stdio.h>

struct rebuild_options {
    bool apply, accept_loss;
    uint64_t generation; /* of the L0 manifest, at least; 0: as the bucket tells */
};

/*
 * The L0 manifest. Every profile in a segment of the bucket that is in no block and was not deleted
 * on purpose is in the new one, once. It lists copies of segments, under a writer of its own: what
 * ingesters know of their own cuts says nothing of a manifest that was lost, so they compare what
 * they hold by profile ids (settle-on-rejoin), as its floor is greater than any generation that
 * there was.
 */
enum fg_code rebuild_l0(struct fg_bucket *bucket, const struct rebuild_options *options, FILE *out,
                        struct fg_err *err) fg_must_check;

/* A tenant's manifest, from the newest kept version and from the blocks that there are. */
enum fg_code rebuild_tenant(struct fg_bucket *bucket, struct fg_slice tenant,
                            const struct rebuild_options *options, FILE *out,
                            struct fg_err *err) fg_must_check;

/* The ring: the newest kept version, or, with accept_loss, one without members that ingesters join
 * as they start. */
enum fg_code rebuild_ring(struct fg_bucket *bucket, const struct rebuild_options *options,
                          FILE *out, struct fg_err *err) fg_must_check;

/* ---- for these three ---- */

/* Copies what was there, if anything, and puts the new bytes in its place, if it is still there.
 * FG_E_ABORTED: it changed meanwhile. */
enum fg_code rebuild_replace(struct fg_bucket *bucket, const char *name,
                             const struct survey_object *was, struct fg_slice bytes, FILE *out,
                             struct fg_err *err) fg_must_check;

/* Greater than what any counter of swaps has reached, and than that of an earlier rebuild:
 * microseconds since 1970. */
uint64_t rebuild_revision(void);

#endif
