/*
 * Implements `flamegrid encryption drop TENANT`: removes from the tenant's manifest all that is
 * encrypted with shredded versions of its key, which nobody can read any more. Blocks leave it, and
 * segments are marked as covered; the compactor then deletes them like any others. Data stays if
 * it is not encrypted, or encrypted with a version that was not shredded. An object that has both
 * kinds of data stays, too.
 *
 * Nothing is recorded as lost: as after a deletion, answers do not say that they lack it.
 *
 * Thread: one that may block.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_SHREDDED_H
#define FG_DEPLOY_CLI_BUCKET_SHREDDED_H

#include "common/storage/bucket/bucket.h"

#include <stdio.h>

/*
 * Prints what it would do; with apply does it, by compare-and-swap. FG_E_NOT_FOUND: no version of
 * the tenant's key was shredded. FG_E_PRECONDITION: a manifest is missing or damaged. FG_E_ABORTED:
 * the manifest changed meanwhile; completed steps stay, and the command can be repeated.
 */
enum fg_code cli_bucket_drop_shredded(struct fg_bucket *bucket, struct fg_slice tenant, bool apply,
                                      FILE *out, struct fg_err *err) fg_must_check;

#endif
