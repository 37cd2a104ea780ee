#include "deploy/cli/args.h"

#include "common/base/str.h"
#include "common/program/man.h"
#include "deploy/cli/cli.h"

static const struct cli_args_option *by_name(const struct cli_args_command *command,
                                             struct fg_slice name)
{
    for (size_t i = 0; i < command->n_options; i++)
        if (fg_slice_is(name, command->options[i].name))
            return &command->options[i];
    return NULL;
}

static const struct cli_args_option *by_letter(const struct cli_args_command *command, char letter)
{
    for (size_t i = 0; i < command->n_options; i++)
        if (command->options[i].letter == letter)
            return &command->options[i];
    return NULL;
}

/* Names the option with the most similar name: most unknown options are typos. */
static enum fg_code fail_unknown(const struct cli_args_command *command, struct fg_slice name,
                                 struct fg_err *err)
{
    const char **known = fg_calloc(FG_MAX(command->n_options, 1), sizeof *known);
    const char *near;

    for (size_t i = 0; i < command->n_options; i++)
        known[i] = command->options[i].name;
    near = fg_nearest(name, known, command->n_options);
    free(known);
    if (near != NULL)
        return fg_fail(err, FG_E_INVALID, "unknown option --%.*s (did you mean --%s?)", FG_S(name),
                       near);
    return fg_fail(err, FG_E_INVALID, "unknown option --%.*s", FG_S(name));
}

int cli_args_unknown(const char *program, const char *what, const char *word,
                     const char *const *known, size_t n_known)
{
    const char *near = fg_nearest(fg_cstr(word), known, n_known);

    fprintf(stderr, "%s: unknown %s \"%.100s\"; ", program, what, word);
    /* Two short words are always near each other, so a suggestion needs a letter in common. */
    if (near != NULL && fg_edit_distance(fg_cstr(word), fg_cstr(near)) < strlen(word)) {
        fprintf(stderr, "did you mean \"%s\"?\n", near);
        return CLI_USAGE;
    }
    for (size_t i = 0; i < n_known; i++)
        fprintf(stderr, "%s%s", i == 0 ? "there are " : ", ", known[i]);
    fprintf(stderr, "; see %s --help\n", program);
    return CLI_USAGE;
}

/* ---- verbs ---- */

static const char *verb_name(const struct cli_args_verbs *verbs, size_t i)
{
    const char *name;

    memcpy(&name, (const char *)verbs->table + i * verbs->size, sizeof name);
    return name;
}

const void *cli_args_find_verb(const struct cli_args_verbs *verbs, const char *name)
{
    for (size_t i = 0; i < verbs->n; i++)
        if (strcmp(name, verb_name(verbs, i)) == 0)
            return (const char *)verbs->table + i * verbs->size;
    return NULL;
}

int cli_args_unknown_verb(const struct cli_args_verbs *verbs, const char *word)
{
    const char **known = fg_calloc(verbs->n, sizeof *known);
    int code;

    for (size_t i = 0; i < verbs->n; i++)
        known[i] = verb_name(verbs, i);
    code = cli_args_unknown(verbs->program, "verb", word, known, verbs->n);
    free(known);
    return code;
}

bool cli_args_complete_verbs(const struct cli_args_verbs *verbs, int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], ARGS_FORM_WORDS) != 0)
        return false;
    for (size_t i = 0; i < verbs->n; i++)
        puts(verb_name(verbs, i));
    return true;
}

/* ---- options ---- */

static enum fg_code set_number(const struct cli_args_option *option, const char *value,
                               struct fg_err *err)
{
    uint64_t number;

    if (!fg_parse_u64(fg_cstr(value), &number) || number < option->min || number > option->max)
        return fg_fail(err, FG_E_INVALID, "--%s %s: a number from %llu to %llu is needed",
                       option->name, value, (unsigned long long)option->min,
                       (unsigned long long)option->max);
    *(uint64_t *)option->to = number;
    return FG_OK;
}

/* The words of a command line, one after another. */
struct args_reader {
    char **argv;
    int argc, at;
};

/* Takes an option. inside: its value if that stands in the same word, else NULL: then the value is
 * the next word. */
static enum fg_code take_option(const struct cli_args_option *option, const char *inside,
                                struct args_reader *reader, struct fg_err *err)
{
    if (option->kind == ARGS_FLAG) {
        if (inside != NULL)
            return fg_fail(err, FG_E_INVALID, "--%s takes no value", option->name);
        *(bool *)option->to = true;
        return FG_OK;
    }
    if (inside == NULL) {
        if (reader->at == reader->argc)
            return fg_fail(err, FG_E_INVALID, "--%s needs a value: %s", option->name,
                           option->value);
        inside = reader->argv[reader->at++];
    }
    if (option->kind == ARGS_NUMBER)
        return set_number(option, inside, err);
    *(const char **)option->to = inside;
    return FG_OK;
}

static enum fg_code take_long(const struct cli_args_command *command, const char *text,
                              struct args_reader *reader, struct fg_err *err)
{
    size_t len = strcspn(text, "=");
    const struct cli_args_option *option = by_name(command, fg_bytes(text, len));

    if (option == NULL)
        return fail_unknown(command, fg_bytes(text, len), err);
    return take_option(option, text[len] == '=' ? text + len + 1 : NULL, reader, err);
}

/* Takes -n NAME or -nNAME. Letters cannot be combined: what follows one in its word is its
 * value. */
static enum fg_code take_short(const struct cli_args_command *command, const char *text,
                               struct args_reader *reader, struct fg_err *err)
{
    const struct cli_args_option *option = by_letter(command, text[0]);

    if (option == NULL)
        return fg_fail(err, FG_E_INVALID, "unknown option -%c", text[0]);
    return take_option(option, text[1] != '\0' ? text + 1 : NULL, reader, err);
}

enum fg_code cli_args_parse(const struct cli_args_command *command, int argc, char **argv,
                            int *ret_words, struct fg_err *err)
{
    /* Arguments are packed at the front of argv while it is read, so no list of them is
     * allocated. */
    struct args_reader reader = {argv, argc, 0};
    bool options = true; /* until "--" */
    int words = 0;

    while (reader.at < argc) {
        char *word = argv[reader.at++];
        enum fg_code code = FG_OK;

        fg_assert(words < reader.at);
        /* A single - is an argument. */
        if (!options || word[0] != '-' || word[1] == '\0')
            argv[words++] = word; /* words <= reader.at, so no unread word is overwritten */
        else if (strcmp(word, "--") == 0)
            options = false;
        else if (word[1] == '-')
            code = take_long(command, word + 2, &reader, err);
        else
            code = take_short(command, word + 1, &reader, err);
        if (code != FG_OK)
            return code;
    }
    *ret_words = words;
    return FG_OK;
}

/* Returns true if the word is an option of the table. */
static bool is_ours(const struct cli_args_command *command, const char *word)
{
    if (word[0] != '-' || word[1] == '\0')
        return false;
    if (word[1] != '-')
        return by_letter(command, word[1]) != NULL;
    return by_name(command, fg_bytes(word + 2, strcspn(word + 2, "="))) != NULL;
}

enum fg_code cli_args_take(const struct cli_args_command *command, int argc, char **argv,
                           int *ret_left, struct fg_err *err)
{
    struct args_reader reader = {argv, argc, 0};
    int left = 0;

    while (reader.at < argc) {
        char *word = argv[reader.at++];
        enum fg_code code = FG_OK;

        fg_assert(left < reader.at);
        if (!is_ours(command, word))
            argv[left++] = word;
        else if (word[1] == '-')
            code = take_long(command, word + 2, &reader, err);
        else
            code = take_short(command, word + 1, &reader, err);
        if (code != FG_OK)
            return code;
    }
    *ret_left = left;
    return FG_OK;
}

static void write_option(const struct cli_args_option *option, FILE *out)
{
    enum { COLUMN = 24 };
    const char *value = option->value == NULL ? "" : option->value;
    int width = 0;

    if (option->letter != '\0')
        width += fprintf(out, "  -%c, --%s %s", option->letter, option->name, value);
    else
        width += fprintf(out, "  --%s %s", option->name, value);
    fprintf(out, "%*s%s\n", width < COLUMN ? COLUMN - width : 1, "", option->help);
}

void cli_args_write_help(const struct cli_args_command *command, FILE *out)
{
    fprintf(out, "usage: flamegrid %s %s\n\n%s", command->name, command->usage, command->about);
    if (command->n_options > 0)
        fputs("\noptions:\n", out);
    for (size_t i = 0; i < command->n_options; i++)
        write_option(&command->options[i], out);
    if (command->notes[0] != '\0')
        fprintf(out, "\n%s", command->notes);
}

/* Prints the options one a line, for completion scripts: they ask the program, so they need no list
 * of their own. */
static void write_words(const struct cli_args_command *command, FILE *out)
{
    for (size_t i = 0; i < command->n_options; i++)
        fprintf(out, "--%s\n", command->options[i].name);
}

/* Writes the man page in the format man(7), from the table that --help shows. */
static void write_man(const struct cli_args_command *command, FILE *out)
{
    struct fg_buf page;

    /* Unbounded: the text is the program's own. */
    fg_buf_init(&page, SIZE_MAX);
    fg_buf_printf(&page, ".TH FLAMEGRID 1\n.SH SYNOPSIS\nflamegrid %s ", command->name);
    fg_man_text(command->usage, &page);
    fg_buf_putc(&page, '\n');
    fg_man_section("DESCRIPTION", command->about, &page);
    if (command->n_options > 0)
        fg_buf_puts(&page, ".SH OPTIONS\n");
    for (size_t i = 0; i < command->n_options; i++) {
        const struct cli_args_option *option = &command->options[i];

        fg_buf_puts(&page, ".TP\n.B ");
        if (option->letter != '\0')
            fg_buf_printf(&page, "\\-%c, ", option->letter);
        fg_buf_puts(&page, "\\-\\-");
        fg_man_text(option->name, &page);
        fg_buf_printf(&page, " %s\n", option->value == NULL ? "" : option->value);
        fg_man_text(option->help, &page);
        fg_buf_putc(&page, '\n');
    }
    if (command->notes[0] != '\0')
        fg_man_section("NOTES", command->notes, &page);
    (void)fwrite(page.ptr, 1, page.len, out);
    fg_buf_done(&page);
}

/* Prints help before anything is checked: a user who asks for help may have got the rest wrong. */
bool cli_args_wants_help(const struct cli_args_command *command, int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*write)(const struct cli_args_command *command, FILE *out);
    } forms[] = {{"--help", cli_args_write_help},
                 {"-h", cli_args_write_help},
                 {ARGS_FORM_WORDS, write_words},
                 {ARGS_FORM_MAN, write_man}};

    /* After "--" all words are arguments, also "--help". */
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < FG_COUNT(forms); k++)
            if (strcmp(argv[i], forms[k].word) == 0) {
                forms[k].write(command, stdout);
                return true;
            }
    return false;
}

bool cli_args_begin(const struct cli_args_command *command, int argc, char **argv, int *ret_words,
                    int *ret_exit)
{
    struct fg_err err;

    if (cli_args_wants_help(command, argc, argv)) {
        *ret_exit = CLI_OK;
        return false;
    }
    if (cli_args_parse(command, argc, argv, ret_words, &err) != FG_OK) {
        *ret_exit = cli_args_refuse(command, &err);
        return false;
    }
    return true;
}

int cli_args_refuse(const struct cli_args_command *command, const struct fg_err *err)
{
    fprintf(stderr, "flamegrid %s: %s; see flamegrid %s --help\n", command->name, err->msg,
            command->name);
    return CLI_USAGE;
}

int cli_args_fail(const struct cli_args_command *command, const struct fg_err *err)
{
    fprintf(stderr, "flamegrid %s: %s\n", command->name, err->msg);
    return CLI_FAILED;
}

/* "list, create or delete has to follow" */
static int refuse_no_verb(const struct cli_args_command *command,
                          const struct cli_args_verbs *verbs)
{
    struct fg_buf text;
    struct fg_err err;

    fg_buf_init(&text, FG_ERR_MSG_MAX_BYTES);
    for (size_t i = 0; i < verbs->n; i++) {
        fg_buf_puts(&text, i == 0 ? "" : i + 1 < verbs->n ? ", " : " or ");
        fg_buf_puts(&text, verb_name(verbs, i));
    }
    (void)fg_fail(&err, FG_E_INVALID, "%.*s has to follow", FG_S(fg_buf_slice(&text)));
    fg_buf_done(&text);
    return cli_args_refuse(command, &err);
}

const void *cli_args_begin_verb(const struct cli_args_command *command,
                                const struct cli_args_verbs *verbs, int argc, char **argv,
                                int *ret_words, int *ret_exit)
{
    const void *verb = NULL;

    /* Shell completion asks for words: verbs come from here, options from cli_args_begin(). */
    (void)cli_args_complete_verbs(verbs, argc, argv);
    if (!cli_args_begin(command, argc, argv, ret_words, ret_exit))
        return NULL;
    if (*ret_words > 0)
        verb = cli_args_find_verb(verbs, argv[0]);
    if (verb == NULL)
        *ret_exit = *ret_words == 0 ? refuse_no_verb(command, verbs)
                                    : cli_args_unknown_verb(verbs, argv[0]);
    return verb;
}
