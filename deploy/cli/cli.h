/*
 * The commands of the program flamegrid: those that talk to a server over HTTP, and those that work
 * on what it keeps; `server` itself is elsewhere.
 *
 * Each takes what follows its name on the command line and gives the exit code. What was asked for
 * goes to standard output, everything else to standard error.
 */
#ifndef FG_DEPLOY_CLI_CLI_H
#define FG_DEPLOY_CLI_CLI_H

#include <stdbool.h>
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

/* A command; all of them are a table of main.c. */
struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* with what follows the name */
};

/* The script of a shell that completes what is typed; or, of `words`, what may follow words. */
int cli_completion(const struct cli_command *commands, size_t n, int argc, char **argv);

/* A command's man page (troff). */
int cli_man(const struct cli_command *commands, size_t n, int argc, char **argv);

/* The overview: what `flamegrid --help` shows. */
void cli_help(FILE *out);

/* Prints the version, and the revision if it was known at build time: a line, or JSON. */
int cli_version(bool json);

#endif
