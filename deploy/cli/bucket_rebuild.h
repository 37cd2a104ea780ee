/*
 * Implements `flamegrid bucket rebuild`: reconstructs a manifest or the ring from the other objects
 * of the bucket. Each function prints what it found and what it would write. With apply it writes
 * that, if the object has not changed since it was read, and copies the old object to
 * manifests/kept/.../replaced-<time> first.
 *
 * FG_E_PRECONDITION: something is lost or ambiguous; the error names the object and the reason.
 * With accept_loss the functions leave such profiles out and print which they are.
 *
 * Thread: one that may block.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_REBUILD_H
#define FG_DEPLOY_CLI_BUCKET_REBUILD_H

#include "deploy/cli/bucket_survey.h"

#include <stdio.h>

struct cli_rebuild_options {
    bool apply, accept_loss;
    uint64_t generation; /* least generation of the L0 manifest; 0: derived from the bucket */
};

/*
 * Rebuilds the L0 manifest. The new one has each profile of a segment once, if no block has it and
 * no deletion took it. It lists copies of segments, under a writer id of its own: the cut numbers
 * that ingesters remember say nothing about a lost manifest. Its floor exceeds every generation
 * there ever was, so ingesters compare their profiles with it by ids (settle-on-rejoin).
 */
enum fg_code cli_rebuild_l0(struct fg_bucket *bucket, const struct cli_rebuild_options *options,
                            FILE *out, struct fg_err *err) fg_must_check;

/* Rebuilds a tenant's manifest from the newest kept version and the blocks in the bucket. */
enum fg_code cli_rebuild_tenant(struct fg_bucket *bucket, struct fg_slice tenant,
                                const struct cli_rebuild_options *options, FILE *out,
                                struct fg_err *err) fg_must_check;

/* Rebuilds the ring from the newest kept version. If there is none, and with accept_loss, writes an
 * empty ring, which ingesters join when they start. */
enum fg_code cli_rebuild_ring(struct fg_bucket *bucket, const struct cli_rebuild_options *options,
                              FILE *out, struct fg_err *err) fg_must_check;

/* ---- shared by the functions above ---- */

/* Copies the old object, if there is one, and replaces it if it has not changed. FG_E_ABORTED: it
 * has changed. */
enum fg_code cli_rebuild_replace(struct fg_bucket *bucket, const char *name,
                                 const struct cli_survey_object *was, struct fg_slice bytes,
                                 FILE *out, struct fg_err *err) fg_must_check;

/* Replaces the manifest of a tenant's blocks, in the same way. */
enum fg_code cli_rebuild_replace_blocks(struct fg_bucket *bucket,
                                        const struct cli_survey_object *was,
                                        const struct fg_blocks *blocks, FILE *out,
                                        struct fg_err *err) fg_must_check;

/* Returns microseconds since 1970: a number greater than any counter of swaps, and than that of any
 * earlier rebuild. */
uint64_t cli_rebuild_revision(void);

#endif
