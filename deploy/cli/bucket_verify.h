/* Implements `flamegrid bucket verify`: checks all objects of the bucket against each other. */
#ifndef FG_DEPLOY_CLI_BUCKET_VERIFY_H
#define FG_DEPLOY_CLI_BUCKET_VERIFY_H

#include "common/storage/bucket/bucket.h"

#include <stdio.h>

/*
 * Compares the ring, the L0 manifest and the tenants' manifests with one another and with the list
 * of objects. Reads every live segment and block, whole: recomputes its checksums, orders, sums and
 * digests (common/storage/block/verify.h), compares them with what the manifest says of it, and
 * looks for profiles of a tenant that are in two of them. It goes on after a fault. To `out`: a
 * line for each fault, with what it means and what cures it; a line for each tenant; the number of
 * objects that no manifest refers to, which is no fault; and a line for all if there is no fault.
 * An object gets a line "unchecked: ..." if it cannot be read and nothing says that it is damaged:
 * its key is not available, or a newer version wrote it. Parts whose keys were shredded are
 * counted, and no fault. FG_E_CORRUPT: there are faults. FG_E_UNAVAILABLE, with the lines: there
 * are none, but not all was checked. FG_E_ABORTED: a compactor replaced objects meanwhile; any
 * other failure: the bucket could not be read.
 */
enum fg_code cli_bucket_verify(struct fg_bucket *bucket, FILE *out,
                               struct fg_err *err) fg_must_check;

/* Does the same, and prints one JSON document, unless the bucket could not be read. */
enum fg_code cli_bucket_verify_json(struct fg_bucket *bucket, FILE *out,
                                    struct fg_err *err) fg_must_check;

#endif
