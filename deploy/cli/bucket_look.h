/* What `flamegrid bucket inspect` does: a close look at one object. */
#ifndef FG_DEPLOY_CLI_BUCKET_LOOK_H
#define FG_DEPLOY_CLI_BUCKET_LOOK_H

#include "common/storage/bucket/bucket.h"

#include <stdio.h>

/* A manifest or the ring as JSON; of a segment or block what its directory says. FG_E_INVALID:
 * neither. */
enum fg_code cli_bucket_inspect(struct fg_bucket *bucket, const char *name, FILE *out,
                                struct fg_err *err) fg_must_check;

#endif
