/*
 * The single-node server: distributor, ingester, querier and compactor in one process on a local
 * directory. They talk by the same calls as in a cluster, over the in-process transport.
 */
#ifndef FG_DEPLOY_SINGLE_SERVER_H
#define FG_DEPLOY_SINGLE_SERVER_H

#include "common/bucket/settings.h"
#include "common/program/program.h"

/* `flamegrid server`: argv is what follows the word. Returns the exit code. */
int server_run(int argc, char **argv);

/* Calls with() with the server's definition, for commands that work on what it keeps: they read its
 * settings with fg_program_configure(), and find these below. */
int server_with_def(int (*with)(const struct fg_program_def *def, int argc, char **argv), int argc,
                    char **argv);

struct server_settings {
    char *data;
};
extern struct server_settings server_settings;
extern struct fg_bucket_settings server_bucket;
extern struct fg_bucket_s3_settings server_bucket_s3;

#endif
