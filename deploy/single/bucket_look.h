/* What `flamegrid bucket verify` and `inspect` do: a close look at what the manifests list. */
#ifndef FG_DEPLOY_SINGLE_BUCKET_LOOK_H
#define FG_DEPLOY_SINGLE_BUCKET_LOOK_H

#include "common/bucket/bucket.h"

#include <stdio.h>

/*
 * Reads every live segment and block, whole: recomputes its checksums, orders, sums and digests
 * (common/block/verify.h), compares them with what the manifest says of it, and looks for profiles
 * of a tenant that are in two of them. A line for each tenant, and one for all, to out.
 * FG_E_CORRUPT: the first fault, with its object and place. FG_E_NOT_FOUND: an object that is
 * listed is not there; beside a running compactor it may have been replaced meanwhile.
 */
enum fg_code bucket_verify(struct fg_bucket *bucket, FILE *out, struct fg_err *err) fg_must_check;

/* A manifest or the ring as JSON; of a segment or block what its directory says. FG_E_INVALID:
 * neither. */
enum fg_code bucket_inspect(struct fg_bucket *bucket, const char *name, FILE *out,
                            struct fg_err *err) fg_must_check;

#endif
