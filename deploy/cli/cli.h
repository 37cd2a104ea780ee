/*
 * The commands of the program flamegrid: those that talk to a server over HTTP, and those that work
 * on its bucket. `server` is in deploy/single.
 *
 * Each takes the arguments after its name and returns the exit code. Results go to standard output,
 * everything else to standard error.
 */
#ifndef FG_DEPLOY_CLI_CLI_H
#define FG_DEPLOY_CLI_CLI_H

#include <stdio.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,   /* the command line is invalid; nothing was done */
    CLI_UNKNOWN = 2, /* of commands that check something: it could not be checked */
};

int cli_push(int argc, char **argv);
int cli_import(int argc, char **argv);
int cli_query(int argc, char **argv);
int cli_compare(int argc, char **argv);
int cli_labels(int argc, char **argv);
int cli_adhoc(int argc, char **argv);
int cli_bucket(int argc, char **argv);
int cli_ring(int argc, char **argv);
int cli_upgrade_check(int argc, char **argv);
int cli_rules(int argc, char **argv);
int cli_usage(int argc, char **argv);
int cli_cost(int argc, char **argv);
int cli_canary(int argc, char **argv);
int cli_access(int argc, char **argv);
int cli_encryption(int argc, char **argv);
int cli_tenant(int argc, char **argv);
int cli_token(int argc, char **argv);
int cli_binding(int argc, char **argv);
int cli_forward(int argc, char **argv);
int cli_session(int argc, char **argv);
int cli_login(int argc, char **argv);
int cli_audit(int argc, char **argv);
int cli_whoami(int argc, char **argv);

/* Prints the version, and the revision if it was known at build time. */
int cli_version(int argc, char **argv);

/* A command; main.c has the table. */
struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* with the arguments after the name */
    const char *what;                  /* it does, in a line */
};

struct cli_commands {
    const struct cli_command *items;
    size_t count;
};

/* Returns NULL if there is no such command. */
const struct cli_command *cli_find_command(const struct cli_commands *commands, const char *name);

/* Says on standard error that there is no such command. Returns CLI_USAGE. */
int cli_unknown_command(const struct cli_commands *commands, const char *program, const char *name);

/* Prints a shell's completion script; with `words`, the words that may follow others. */
int cli_completion(const struct cli_commands *commands, int argc, char **argv);

/* Prints a man page (troff), that of a command or the overview. */
int cli_man(const struct cli_commands *commands, int argc, char **argv);

/* Prints the overview of `flamegrid --help`. */
void cli_help(const struct cli_commands *commands, FILE *out);

/* What the overview says besides the commands. */
#define CLI_WHAT "a continuous-profiling server and its tools"
extern const char cli_help_notes[];

#endif
