/* `flamegrid bucket export`: profiles out of a bucket, without a server. */
#ifndef FG_DEPLOY_CLI_BUCKET_EXPORT_H
#define FG_DEPLOY_CLI_BUCKET_EXPORT_H

#include "common/program/program.h"

/* argv: what follows the word. def: of the server, which says what settings there are. Returns the
 * exit code. */
int cli_bucket_export(const struct fg_program_def *def, int argc, char **argv);

#endif
