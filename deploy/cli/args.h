/*
 * Options of a command, as a table: the parser and the help text come from the same lines.
 *
 * Forms: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, and --, after which everything is a word.
 * Options and words may be mixed; a lone "-" is a word. If an option is repeated, the last one
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
    char letter;      /* of the short form; 0: none */
    enum cli_args_kind kind;
    void *to;          /* written only if the option is given */
    const char *value; /* name of the value in help; NULL for flags */
    const char *help;  /* one line, less than 70 characters */
    uint64_t min, max; /* of numbers */
};

struct cli_args_command {
    const char *name;  /* "push" */
    const char *usage; /* "FILE... --name SERVICE{labels} [options]" */
    const char *about; /* what it does, in lines */
    const char *notes; /* lines after the options: details, examples */
    const struct cli_args_option *options;
    size_t n_options;
};

/*
 * Parses argv into the options' targets. Moves the words to the front of argv, in their order, and
 * counts them. Texts are borrowed from argv. FG_E_INVALID: what is wrong.
 */
enum fg_code cli_args_parse(const struct cli_args_command *command, int argc, char **argv,
                            int *ret_words, struct fg_err *err) fg_must_check;

/*
 * Parses the table's options and removes them from argv; leaves everything else, in its order, for
 * another parser. *ret_left: how much is left. FG_E_INVALID: what is wrong.
 */
enum fg_code cli_args_take(const struct cli_args_command *command, int argc, char **argv,
                           int *ret_left, struct fg_err *err) fg_must_check;

/* Prints the help text. */
void cli_args_write_help(const struct cli_args_command *command, FILE *out);

/* Help in other forms, for cli_completion.c: options as words, a line each; a man page. */
#define ARGS_FORM_WORDS "--help=words"
#define ARGS_FORM_MAN   "--help=man"

/* Returns true if argv asks for help in any form, and prints it to standard output. */
bool cli_args_wants_help(const struct cli_args_command *command, int argc,
                         char **argv) fg_must_check;

/*
 * Starts a command: parses argv or prints help. Returns false if the command ends here with
 * *ret_exit, because help was printed or the command line is wrong, which is said on standard
 * error.
 */
bool cli_args_begin(const struct cli_args_command *command, int argc, char **argv, int *ret_words,
                    int *ret_exit) fg_must_check;

/*
 * Prints "flamegrid bucket: unknown verb "lss"; did you mean "ls"?" to standard error, or all known
 * words if none is near. Returns CLI_USAGE. program: "flamegrid", "flamegrid bucket".
 */
int cli_args_unknown(const char *program, const char *what, const char *word,
                     const char *const *known, size_t n_known);

/* The verbs of a command: a table of structs of any type whose first member is the name, a const
 * char *. */
struct cli_args_verbs {
    const char *program; /* "flamegrid bucket" */
    const void *table;
    size_t n, size; /* of the table, of an entry */
};
#define CLI_ARGS_VERBS(program, table)                                                             \
    {                                                                                              \
        program, table, FG_COUNT(table), sizeof(table)[0]                                          \
    }

/* Returns the entry of the verb `name`, or NULL. */
const void *cli_args_find_verb(const struct cli_args_verbs *verbs, const char *name);

/* Says on standard error that there is no verb `word`, as cli_args_unknown() does. Returns
 * CLI_USAGE. */
int cli_args_unknown_verb(const struct cli_args_verbs *verbs, const char *word);

/* If argv asks for words to complete (ARGS_FORM_WORDS), prints the verbs to standard output, a line
 * each, and returns true. Options are printed by cli_args_wants_help(). */
bool cli_args_complete_verbs(const struct cli_args_verbs *verbs, int argc, char **argv);

/*
 * Does cli_args_begin() for a command whose first word is a verb, and completes verbs. Returns the
 * entry of the verb; NULL: the command ends here with *ret_exit, because help was printed, or the
 * verb is missing or unknown, which is said on standard error.
 */
const void *cli_args_begin_verb(const struct cli_args_command *command,
                                const struct cli_args_verbs *verbs, int argc, char **argv,
                                int *ret_words, int *ret_exit) fg_must_check;

/* Prints "flamegrid push: <err>; see flamegrid push --help" to standard error. Returns CLI_USAGE.
 */
int cli_args_refuse(const struct cli_args_command *command, const struct fg_err *err);

/* Prints "flamegrid push: <err>" to standard error. Returns CLI_FAILED. */
int cli_args_fail(const struct cli_args_command *command, const struct fg_err *err);

#endif
