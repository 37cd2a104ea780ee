/*
 * What `flamegrid bucket quarantine OBJECT` does: gives one segment or block up. Its reference goes
 * out of the manifests, a record of what is gone comes in (struct fg_blocks_lost), and its bytes,
 * if any are left, are copied to quarantine/OBJECT. Answers about its time say from then on that
 * they lack it, compaction goes on, and profiles that are sent again are stored.
 *
 * A segment is in the manifests of several tenants: for each that has no block of it yet, it is
 * marked covered. The compactor retires it as any other.
 *
 * Thread: one that may wait.
 */
#ifndef FG_DEPLOY_SINGLE_BUCKET_QUARANTINE_H
#define FG_DEPLOY_SINGLE_BUCKET_QUARANTINE_H

#include "common/bucket/bucket.h"

#include <stdio.h>

/*
 * Says what it would do; with apply it does it, each manifest by compare-and-swap. FG_E_INVALID:
 * not a segment or block. FG_E_PRECONDITION: no manifest refers to it, or one that should is lost.
 * FG_E_ABORTED: a manifest changed meanwhile; what was done stays, and the command may be repeated.
 */
enum fg_code bucket_quarantine(struct fg_bucket *bucket, const char *object, bool apply, FILE *out,
                               struct fg_err *err) fg_must_check;

#endif
