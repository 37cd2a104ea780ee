/*
 * Implements `flamegrid bucket quarantine OBJECT`: removes the reference to a segment or block from
 * the manifests, adds a record of the loss (struct fg_blocks_lost), and copies the remaining bytes
 * to quarantine/OBJECT. From then on answers about its time say that they lack it, compaction goes
 * on, and profiles that are sent again are stored.
 *
 * If parts of some tenants cannot be decrypted, only these tenants' references are removed: nothing
 * is wrong with the others.
 *
 * A segment has profiles of several tenants. In the manifest of each tenant that has no block of it
 * yet, it is marked as covered; the compactor then retires it like any other.
 *
 * Thread: one that may block.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_QUARANTINE_H
#define FG_DEPLOY_CLI_BUCKET_QUARANTINE_H

#include "common/storage/bucket/bucket.h"

#include <stdio.h>

/*
 * Prints what it would do; with apply does it, each manifest by compare-and-swap. FG_E_INVALID:
 * not a segment or block. FG_E_PRECONDITION: no manifest refers to it, or a manifest is missing.
 * FG_E_UNAVAILABLE: the bucket, or a key, cannot be had now. FG_E_ABORTED: a manifest changed
 * meanwhile; completed steps stay, and the command can be repeated.
 */
enum fg_code cli_bucket_quarantine(struct fg_bucket *bucket, const char *object, bool apply,
                                   FILE *out, struct fg_err *err) fg_must_check;

#endif
