/* Implements `flamegrid bucket export`: exports profiles from a bucket, without a server. */
#ifndef FG_DEPLOY_CLI_BUCKET_EXPORT_H
#define FG_DEPLOY_CLI_BUCKET_EXPORT_H

#include "common/program/program.h"

/* Runs the command. argv: the arguments after the word. def: the server's, for its settings.
 * Returns the exit code. */
int cli_bucket_export(const struct fg_program_def *def, int argc, char **argv);

#endif
