/* What `flamegrid bucket inspect` does: a close look at one object. */
#ifndef FG_DEPLOY_CLI_BUCKET_LOOK_H
#define FG_DEPLOY_CLI_BUCKET_LOOK_H

#include "common/storage/bucket/bucket.h"

#include <stdio.h>

/* Prints a manifest, the ring or the list of compactors, always as JSON; of a segment or block
 * prints what its directory says, as text or, with `json`, as one JSON document. FG_E_INVALID: the
 * name is of none of these. */
enum fg_code cli_bucket_inspect(struct fg_bucket *bucket, const char *name, bool json, FILE *out,
                                struct fg_err *err) fg_must_check;

#endif
