/*
 * Implements `flamegrid bucket repair OBJECT`: saves the intact parts of a damaged segment or
 * block. A part is everything that a tenant has of one service in the object; a part with one
 * damaged page of profiles is lost as a whole. Rollups, groups and names are derived again from the
 * profiles.
 *
 * For each tenant whose manifest refers to the object it writes the intact parts to new blocks, by
 * the same merge as the compactor's, and swaps them in for the reference. A record for each lost
 * part stays in the manifest (struct fg_blocks_lost) and names the service.
 *
 * A crash or a lost race between the upload and the swap leaves blocks that no manifest refers to,
 * which the compactor's sweep deletes.
 *
 * Thread: one that may wait. Memory: the object, and what is written of it.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_REPAIR_H
#define FG_DEPLOY_CLI_BUCKET_REPAIR_H

#include "common/storage/bucket/bucket.h"

#include <stdio.h>

/*
 * Prints what is intact and what is lost; with apply it repairs the object, each manifest by
 * compare-and-swap. FG_E_INVALID: not a segment or block. FG_E_PRECONDITION: no manifest refers to
 * it, one that should is lost, or nothing is wrong with the object. FG_E_CORRUPT: nothing of it can
 * be saved. FG_E_ABORTED: a manifest changed meanwhile; what was done stays, and the command may be
 * repeated.
 */
enum fg_code cli_bucket_repair(struct fg_bucket *bucket, const char *object, bool apply, FILE *out,
                               struct fg_err *err) fg_must_check;

#endif
