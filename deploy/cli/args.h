/*
 * Options of a command, as a table: the parser and the help text come from the same lines.
 *
 * Understood are --name VALUE, --name=VALUE, -n VALUE, -nVALUE, and -- after which everything is a
 * word. Options and words may be mixed; a lone "-" is a word. Of an option given twice the last
 * counts.
 */
#ifndef FG_DEPLOY_CLI_ARGS_H
#define FG_DEPLOY_CLI_ARGS_H

#include "common/base/err.h"

#include <stdio.h>

enum cli_args_kind {
    ARGS_TEXT,   /* to: const char * */
    ARGS_NUMBER, /* to: uint64_t; decimal, min..max */
    ARGS_FLAG,   /* to: bool; has no value */
};

struct cli_args_option {
    const char *name; /* without its dashes */
    char letter;      /* of the short form; 0: there is none */
    enum cli_args_kind kind;
    void *to;          /* written only when the option is there */
    const char *value; /* what help calls the value; NULL for flags */
    const char *help;  /* one line, less than 70 characters */
    uint64_t min, max; /* of numbers */
};

struct cli_args_command {
    const char *name;  /* "push" */
    const char *usage; /* "FILE... --name SERVICE{labels} [options]" */
    const char *about; /* lines that say what it does */
    const char *notes; /* lines after the options: details, examples */
    const struct cli_args_option *options;
    size_t n_options;
};

/*
 * Moves what is no option to the front of argv, in its order, and counts it. Texts are borrowed
 * from argv. FG_E_INVALID with what is wrong.
 */
enum fg_code cli_args_parse(const struct cli_args_command *command, int argc, char **argv,
                            int *ret_words, struct fg_err *err) fg_must_check;

/*
 * Takes the table's options out of argv and leaves all else, in its order, for somebody who knows
 * it; counts what is left. FG_E_INVALID with what is wrong.
 */
enum fg_code cli_args_take(const struct cli_args_command *command, int argc, char **argv,
                           int *ret_left, struct fg_err *err) fg_must_check;

void cli_args_write_help(const struct cli_args_command *command, FILE *out);

/* Help in other forms, for cli_completion.c: options as words, a line each; a man page. */
#define ARGS_FORM_WORDS "--help=words"
#define ARGS_FORM_MAN   "--help=man"

/* Is help asked for, in any form? It is written to standard output then. */
bool cli_args_wants_help(const struct cli_args_command *command, int argc,
                         char **argv) fg_must_check;

/*
 * What every command does first. false: the command is over, with *ret_exit, since the command line
 * was wrong (said on standard error) or help was asked for.
 */
bool cli_args_begin(const struct cli_args_command *command, int argc, char **argv, int *ret_words,
                    int *ret_exit) fg_must_check;

/*
 * "flamegrid bucket: unknown verb "lss"; did you mean "ls"?" on standard error, or which there are
 * if none is near; gives CLI_USAGE. program: "flamegrid", "flamegrid bucket".
 */
int cli_args_unknown(const char *program, const char *what, const char *word,
                     const char *const *known, size_t n_known);

/* "flamegrid push: <err>; see flamegrid push --help" on standard error; gives CLI_USAGE. */
int cli_args_refuse(const struct cli_args_command *command, const struct fg_err *err);

/* "flamegrid push: <err>" on standard error; gives CLI_FAILED. */
int cli_args_fail(const struct cli_args_command *command, const struct fg_err *err);

#endif
