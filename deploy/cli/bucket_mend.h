/*
 * What `flamegrid bucket quarantine` and `repair` share: which manifests refer to an object, and
 * the swap that takes such a reference away.
 *
 * One tenant's manifest lists a block. A segment holds data of several tenants; the swap marks it
 * as covered in the manifest of each tenant that has not covered it yet, and the compactor then
 * retires it like any other segment.
 *
 * Thread: one that may wait.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_MEND_H
#define FG_DEPLOY_CLI_BUCKET_MEND_H

#include "deploy/cli/bucket_survey.h"

#include <stdio.h>

/* A tenant whose manifest refers to the object. All of it is the survey's. */
struct cli_mend_reference {
    struct fg_slice tenant;
    const struct cli_survey_object *manifest;
    const struct fg_blocks_entry *block; /* of a block, else NULL */
    const struct fg_l0_segment *segment; /* of a segment, else NULL */
    const struct fg_l0_part *part;       /* what the segment has of the tenant */
};

/*
 * Parses the name of the object, reads the bucket and finds the references. The caller ends with
 * cli_mend_done() in any case. FG_E_INVALID: the object is neither a segment nor a block.
 * FG_E_PRECONDITION: a manifest that would tell is missing or damaged, or none refers to the
 * object.
 */
struct cli_mending {
    const char *object;
    struct fg_name name;
    struct cli_survey survey;
    struct cli_mend_reference *references;
    uint32_t n_references;
};
enum fg_code cli_mend_open(struct fg_bucket *bucket, const char *object,
                           struct cli_mending *mending, struct fg_err *err) fg_must_check;
void cli_mend_done(struct cli_mending *mending);

/* Returns the tenant's manifest; before its first swap an empty one. */
struct fg_blocks cli_mend_blocks(const struct cli_mend_reference *reference);

/* What takes the place of a reference. */
struct cli_mend_swap {
    const struct fg_blocks_entry *add; /* blocks that are in the bucket already */
    uint32_t n_add;
    const struct fg_blocks_taken *taken; /* by deletions, from these blocks */
    uint32_t n_taken;
    const struct fg_blocks_lost *lost; /* [n_lost]; object and since_wall_ns are set here */
    uint32_t n_lost;
};

/*
 * Swaps the reference out of the tenant's manifest; apply false: only checks that it can be done.
 * FG_E_ABORTED: the manifest changed meanwhile.
 */
enum fg_code cli_mend_swap(const struct cli_mending *mending,
                           const struct cli_mend_reference *reference,
                           const struct cli_mend_swap *swap, bool apply, FILE *out,
                           struct fg_err *err) fg_must_check;

/* Copies what is left of the object's bytes to quarantine/OBJECT; the same bytes each time. */
enum fg_code cli_mend_keep(const struct cli_mending *mending, struct fg_slice bytes, FILE *out,
                           struct fg_err *err) fg_must_check;

#endif
