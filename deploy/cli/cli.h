/*
 * The commands of the program flamegrid: those that talk to a server over HTTP, and those that work
 * on what it keeps; `server` itself is elsewhere.
 *
 * Each takes what follows its name on the command line and gives the exit code. What was asked for
 * goes to standard output, everything else to standard error.
 */
#ifndef FG_DEPLOY_CLI_CLI_H
#define FG_DEPLOY_CLI_CLI_H

#include <stdio.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,   /* the command line makes no sense; nothing was done */
    CLI_UNKNOWN = 2, /* of what checks something: it could not be checked */
};

int cli_push(int argc, char **argv);
int cli_query(int argc, char **argv);
int cli_labels(int argc, char **argv);
int cli_bucket(int argc, char **argv);
int cli_ring(int argc, char **argv);
int cli_canary(int argc, char **argv);

/* The overview: what `flamegrid --help` shows. */
void cli_help(FILE *out);

/* One line: the version, and the revision where it was known when we were built. */
int cli_version(void);

#endif
