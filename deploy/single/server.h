/*
 * The single-node server: distributor, ingester, querier and compactor in one process on a local
 * directory. They talk by the same calls as in a cluster, over the in-process transport. The agent
 * is the same without querier and compactor.
 */
#ifndef FG_DEPLOY_SINGLE_SERVER_H
#define FG_DEPLOY_SINGLE_SERVER_H

#include "common/program/program.h"
#include "common/storage/bucket/settings.h"
#include "querier/querier.h"

/* Run `flamegrid server` and `flamegrid agent` (agent.h). argv: the arguments after the word.
 * Return the exit code. */
int single_run(int argc, char **argv);
int single_run_agent(int argc, char **argv);

/* Calls with() with the server's definition, for commands that work on its bucket: they read its
 * settings with fg_program_configure() into the variables below. */
int single_with_def(int (*with)(const struct fg_program_def *def, int argc, char **argv), int argc,
                    char **argv);

struct single_settings {
    char *data;
};
extern struct single_settings single_settings;
extern struct fg_bucket_settings single_bucket;
extern struct fg_bucket_s3_settings single_bucket_s3;
extern struct qry_settings single_querier;

/* Opens the bucket of these settings. FG_E_NOT_FOUND: the directory does not exist; it is not
 * created. */
enum fg_code single_open_bucket(struct fg_bucket **ret_bucket, struct fg_err *err) fg_must_check;

/* Does the same, and makes the data folder and the bucket if they do not exist. */
enum fg_code single_make_bucket(struct fg_bucket **ret_bucket, struct fg_err *err) fg_must_check;

#endif
