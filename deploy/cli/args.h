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

/*
 * A verb of a command: the first member of a row of the command's table, whatever follows it. A
 * verb takes the options that its list names, and those that no list of the table names.
 */
struct cli_args_verb {
    const char *name;         /* "rotate" */
    const char *words;        /* what follows it, as "ID"; NULL: nothing */
    int words_min, words_max; /* how many words that are */
    const char *options;      /* names with blanks between them: "overlap name"; NULL: none */
    const char *about;        /* what it does, in lines */
};

struct cli_args_verbs {
    const void *table;
    size_t n, size; /* of the table, of a row */
};
#define CLI_ARGS_VERBS(table)                                                                      \
    {                                                                                              \
        table, FG_COUNT(table), sizeof(table)[0]                                                   \
    }

struct cli_args_command {
    const char *name;  /* "push" */
    const char *usage; /* "FILE... --name SERVICE{labels} [options]"; after a verb and its words */
    const char *about; /* what it does, in lines */
    const char *notes; /* lines after the options: details, examples */
    const struct cli_args_option *options;
    size_t n_options;                   /* at most 64 */
    const struct cli_args_verbs *verbs; /* NULL: it has none */
};

/*
 * Parses argv into the options' targets. Moves the words to the front of argv, in their order, and
 * counts them. Texts are borrowed from argv. FG_E_INVALID: what is wrong.
 */
enum fg_code cli_args_parse(const struct cli_args_command *command, int argc, char **argv,
                            int *ret_words, struct fg_err *err) fg_must_check;

/*
 * Does the same for a command on the bucket of a server, which also takes the server's settings,
 * --key VALUE or --key=VALUE: options that are not in the table. Moves them behind the words.
 */
enum fg_code cli_args_split(const struct cli_args_command *command, int argc, char **argv,
                            int *ret_words, int *ret_settings, struct fg_err *err) fg_must_check;

/* Help in other forms, for cli_completion.c: verbs and options as words, a line each; a man page
 * without its head. */
#define ARGS_FORM_WORDS "--help=words"
#define ARGS_FORM_MAN   "--help=man"

/* Returns true if argv asks for help in any form, and prints it to standard output: that of the
 * verb, if argv has one. */
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
 * words if none is near: "it is ls, cat or rm". Returns CLI_USAGE. program: "flamegrid", "flamegrid
 * bucket".
 */
int cli_args_unknown(const char *program, const char *what, const char *word,
                     const char *const *known, size_t n_known);

/* Returns the place of the first word that is neither an option nor its value, or argc. */
int cli_args_first_word(const struct cli_args_command *command, int argc, char **argv);

/*
 * Does cli_args_begin() for a command whose first word is a verb. Returns the verb's row, and its
 * words behind it in argv; NULL: the command ends here with *ret_exit, because help was printed, or
 * the verb or its words are missing or unknown, or it does not take an option, which is said on
 * standard error.
 */
const void *cli_args_begin_verb(const struct cli_args_command *command, int argc, char **argv,
                                int *ret_words, int *ret_exit) fg_must_check;

/* Does the same with cli_args_split(). */
const void *cli_args_begin_on_bucket(const struct cli_args_command *command, int argc, char **argv,
                                     int *ret_words, int *ret_settings,
                                     int *ret_exit) fg_must_check;

/* Prints "flamegrid push: <err>; see flamegrid push --help" to standard error. Returns CLI_USAGE.
 */
int cli_args_refuse(const struct cli_args_command *command, const struct fg_err *err);

/* Prints "flamegrid push: <err>" to standard error. Returns CLI_FAILED. */
int cli_args_fail(const struct cli_args_command *command, const struct fg_err *err);

/* Does the first of them for FG_E_INVALID, which says that the command line is, else the second. */
int cli_args_end(const struct cli_args_command *command, const struct fg_err *err);

#endif
