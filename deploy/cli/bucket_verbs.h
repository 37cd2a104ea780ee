/*
 * The frame of commands that work on the bucket of a server, whether one runs or not: `flamegrid
 * bucket`, `access`, `encryption`. The first word is a verb; the rest are words of the command and
 * settings of the server.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_VERBS_H
#define FG_DEPLOY_CLI_BUCKET_VERBS_H

#include "common/program/program.h"
#include "deploy/cli/args.h"

struct cli_bucket_verbs {
    const char *name; /* of the command: "bucket" */
    const char *help; /* the whole text */
    const struct cli_args_verbs *verbs;
    /* Runs a known verb, argv[0]. Returns the exit code. */
    int (*run)(const struct fg_program_def *def, int argc, char **argv);
};

/* Prints help, words to complete or a man page if argv asks for one of these, which needs no
 * bucket; else runs the verb. Returns the exit code. */
int cli_bucket_verbs_main(const struct cli_bucket_verbs *command, int argc, char **argv);

#endif
