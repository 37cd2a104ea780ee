#include "deploy/cli/args.h"

#include "common/base/str.h"
#include "common/program/man.h"
#include "deploy/cli/cli.h"

#include <ctype.h>

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

/* Appends "ls, cat or rm". */
static void list_words(const char *const *words, size_t n, struct fg_buf *out)
{
    for (size_t i = 0; i < n; i++)
        fg_buf_printf(out, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", words[i]);
}

int cli_args_unknown(const char *program, const char *what, const char *word,
                     const char *const *known, size_t n_known)
{
    const char *near = fg_nearest(fg_cstr(word), known, n_known);
    struct fg_buf all;

    fprintf(stderr, "%s: unknown %s \"%.100s\"; ", program, what, word);
    /* Two short words are always near each other, so a suggestion needs a letter in common. */
    if (near != NULL && fg_edit_distance(fg_cstr(word), fg_cstr(near)) < strlen(word)) {
        fprintf(stderr, "did you mean \"%s\"?\n", near);
        return CLI_USAGE;
    }
    fg_buf_init(&all, FG_ERR_MSG_MAX_BYTES);
    list_words(known, n_known, &all);
    fprintf(stderr, "it is %.*s; see %s --help\n", FG_S(fg_buf_slice(&all)), program);
    fg_buf_done(&all);
    return CLI_USAGE;
}

/* ---- verbs ---- */

static const struct cli_args_verb *verb_at(const struct cli_args_command *command, size_t i)
{
    const struct cli_args_verbs *verbs = command->verbs;

    return (const struct cli_args_verb *)(const void *)((const char *)verbs->table +
                                                        i * verbs->size);
}

static size_t count_verbs(const struct cli_args_command *command)
{
    return command->verbs == NULL ? 0 : command->verbs->n;
}

static const struct cli_args_verb *find_verb(const struct cli_args_command *command,
                                             const char *name)
{
    for (size_t i = 0; i < count_verbs(command); i++)
        if (strcmp(name, verb_at(command, i)->name) == 0)
            return verb_at(command, i);
    return NULL;
}

static bool lists(const struct cli_args_verb *verb, const char *option)
{
    struct fg_slice rest = fg_cstr(verb->options == NULL ? "" : verb->options);

    while (rest.len > 0) {
        size_t blank = FG_MIN(fg_slice_find(rest, ' '), rest.len);

        if (fg_slice_is(fg_slice_sub(rest, 0, blank), option))
            return true;
        rest = fg_slice_sub(rest, blank + 1, SIZE_MAX);
    }
    return false;
}

/* Returns true if the verb takes the option; NULL: any verb does. */
static bool takes(const struct cli_args_command *command, const struct cli_args_verb *verb,
                  const char *option)
{
    bool of_some = false;

    if (verb == NULL || lists(verb, option))
        return true;
    for (size_t i = 0; i < count_verbs(command); i++)
        of_some = of_some || lists(verb_at(command, i), option);
    return !of_some;
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
    uint64_t given; /* options that were there: a bit for each row of the table */
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
    reader->given |= UINT64_C(1) << (option - command->options);
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
    reader->given |= UINT64_C(1) << (option - command->options);
    return take_option(option, text[1] != '\0' ? text + 1 : NULL, reader, err);
}

static struct args_reader reader_of(const struct cli_args_command *command, int argc, char **argv)
{
    fg_assert(command->n_options <= 64); /* bits of `given` */
    return (struct args_reader){.argv = argv, .argc = argc};
}

/* Packs words at the front of argv while it is read, so no list of them is allocated. */
static enum fg_code parse(const struct cli_args_command *command, struct args_reader *reader,
                          int *ret_words, struct fg_err *err)
{
    bool options = true; /* until "--" */
    int words = 0;

    while (reader->at < reader->argc) {
        char *word = reader->argv[reader->at++];
        enum fg_code code = FG_OK;

        fg_assert(words < reader->at);
        /* A single - is an argument. */
        if (!options || word[0] != '-' || word[1] == '\0')
            reader->argv[words++] = word; /* words <= at, so no unread word is overwritten */
        else if (strcmp(word, "--") == 0)
            options = false;
        else if (word[1] == '-')
            code = take_long(command, word + 2, reader, err);
        else
            code = take_short(command, word + 1, reader, err);
        if (code != FG_OK)
            return code;
    }
    *ret_words = words;
    return FG_OK;
}

enum fg_code cli_args_parse(const struct cli_args_command *command, int argc, char **argv,
                            int *ret_words, struct fg_err *err)
{
    struct args_reader reader = reader_of(command, argc, argv);

    return parse(command, &reader, ret_words, err);
}

/* Returns the option of the table that the word is, or NULL. *ret_joined: it has its value. */
static const struct cli_args_option *option_of(const struct cli_args_command *command,
                                               const char *word, bool *ret_joined)
{
    size_t len = strcspn(word, "=");

    if (word[0] != '-' || word[1] == '\0')
        return NULL;
    *ret_joined = word[1] == '-' ? word[len] == '=' : word[2] != '\0';
    return word[1] == '-' ? by_name(command, fg_bytes(word + 2, len - 2))
                          : by_letter(command, word[1]);
}

/* Returns how many words of argv a setting has: --key=VALUE, or --key and VALUE, as
 * fg_conf_load() reads them. */
static int setting_words(char *const *argv, int argc)
{
    return strchr(argv[0], '=') == NULL && argc > 1 && strncmp(argv[1], "--", 2) != 0 ? 2 : 1;
}

int cli_args_first_word(const struct cli_args_command *command, int argc, char **argv)
{
    int at = 0;

    while (at < argc && argv[at][0] == '-' && argv[at][1] != '\0') {
        bool joined = false;
        const struct cli_args_option *option = option_of(command, argv[at], &joined);

        if (option == NULL)
            at += setting_words(argv + at, argc - at);
        else
            at += option->kind == ARGS_FLAG || joined ? 1 : 2;
    }
    return FG_MIN(at, argc);
}

static enum fg_code split(const struct cli_args_command *command, struct args_reader *reader,
                          int *ret_words, int *ret_settings, struct fg_err *err)
{
    char **settings = fg_calloc((size_t)FG_MAX(reader->argc, 1), sizeof *settings);
    int words = 0, n_settings = 0;
    enum fg_code code = FG_OK;

    while (code == FG_OK && reader->at < reader->argc) {
        char **word = reader->argv + reader->at++;
        bool joined;

        if ((*word)[0] != '-' || (*word)[1] == '\0')
            reader->argv[words++] = *word;
        else if (option_of(command, *word, &joined) == NULL)
            for (int n = setting_words(word, reader->argc - reader->at + 1); n > 0; n--) {
                settings[n_settings++] = *word++;
                reader->at = (int)(word - reader->argv);
            }
        else if ((*word)[1] == '-')
            code = take_long(command, *word + 2, reader, err);
        else
            code = take_short(command, *word + 1, reader, err);
    }
    for (int i = 0; i < n_settings; i++)
        reader->argv[words + i] = settings[i];
    free(settings);
    *ret_words = words;
    *ret_settings = n_settings;
    return code;
}

enum fg_code cli_args_split(const struct cli_args_command *command, int argc, char **argv,
                            int *ret_words, int *ret_settings, struct fg_err *err)
{
    struct args_reader reader = reader_of(command, argc, argv);

    return split(command, &reader, ret_words, ret_settings, err);
}

/* ---- help ---- */

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

/* Writes "flamegrid token rotate ID [options]". */
static void write_usage(const struct cli_args_command *command, const struct cli_args_verb *verb,
                        struct fg_buf *out)
{
    fg_buf_printf(out, "flamegrid %s", command->name);
    if (verb != NULL)
        fg_buf_printf(out, " %s%s%s", verb->name, verb->words == NULL ? "" : " ",
                      verb->words == NULL ? "" : verb->words);
    fg_buf_printf(out, " %s\n", command->usage);
}

/* Writes the usage of the verb; NULL: of each verb, a line each, or of a command without verbs. */
static void write_usages(const struct cli_args_command *command, const struct cli_args_verb *verb,
                         const char *between, struct fg_buf *out)
{
    if (verb != NULL || count_verbs(command) == 0) {
        write_usage(command, verb, out);
        return;
    }
    for (size_t i = 0; i < count_verbs(command); i++) {
        fg_buf_puts(out, i == 0 ? "" : between);
        write_usage(command, verb_at(command, i), out);
    }
}

/* Writes a paragraph for each verb: its name and what it does. */
static void write_verbs(const struct cli_args_command *command, FILE *out)
{
    enum { COLUMN = 10 };

    for (size_t i = 0; i < count_verbs(command); i++) {
        const struct cli_args_verb *verb = verb_at(command, i);
        bool wide = strlen(verb->name) >= COLUMN;

        fprintf(out, "  %-*s%s", COLUMN, verb->name, wide ? "\n" : "");
        for (const char *line = verb->about; *line != '\0';) {
            int len = (int)strcspn(line, "\n");

            fprintf(out, "%*s%.*s\n", line != verb->about || wide ? COLUMN + 2 : 0, "", len, line);
            line += (size_t)len + (line[len] == '\n');
        }
    }
}

static void write_options(const struct cli_args_command *command, const struct cli_args_verb *verb,
                          FILE *out)
{
    bool any = false;

    for (size_t i = 0; i < command->n_options; i++) {
        if (!takes(command, verb, command->options[i].name))
            continue;
        fputs(any ? "" : "\noptions:\n", out);
        any = true;
        write_option(&command->options[i], out);
    }
}

static void write_help(const struct cli_args_command *command, const struct cli_args_verb *verb,
                       FILE *out)
{
    struct fg_buf usage;

    fg_buf_init(&usage, SIZE_MAX);
    write_usages(command, verb, "       ", &usage);
    fprintf(out, "usage: %.*s\n", FG_S(fg_buf_slice(&usage)));
    if (verb == NULL)
        fputs(command->about, out);
    else /* it follows the verb in the help of the command, and begins a sentence here */
        fprintf(out, "%c%s", toupper((unsigned char)verb->about[0]), verb->about + 1);
    fg_buf_done(&usage);
    if (verb == NULL && count_verbs(command) > 0) {
        fputs("\n", out);
        write_verbs(command, out);
    }
    write_options(command, verb, out);
    if (verb != NULL)
        fprintf(out, "\nflamegrid %s --help says more, and has examples.\n", command->name);
    else if (command->notes[0] != '\0')
        fprintf(out, "\n%s", command->notes);
}

/* Prints verbs and options one a line, for completion scripts: they ask the program, so they need
 * no list of their own. */
static void write_words(const struct cli_args_command *command, const struct cli_args_verb *verb,
                        FILE *out)
{
    for (size_t i = 0; verb == NULL && i < count_verbs(command); i++)
        fprintf(out, "%s\n", verb_at(command, i)->name);
    for (size_t i = 0; i < command->n_options; i++)
        if (takes(command, verb, command->options[i].name))
            fprintf(out, "--%s\n", command->options[i].name);
}

/* Writes the man page behind its head in the format man(7), from the table that --help shows. It is
 * that of the command, whatever the verb. */
static void write_man(const struct cli_args_command *command, const struct cli_args_verb *verb,
                      FILE *out)
{
    struct fg_buf page, usage;

    (void)verb;
    /* Unbounded: the text is the program's own. */
    fg_buf_init(&page, SIZE_MAX);
    fg_buf_init(&usage, SIZE_MAX);
    write_usages(command, NULL, "", &usage);
    fg_buf_putc(&usage, '\0');
    fg_man_section("SYNOPSIS", (const char *)usage.ptr, &page);
    fg_man_section("DESCRIPTION", command->about, &page);
    if (count_verbs(command) > 0)
        fg_buf_puts(&page, ".SH VERBS\n");
    for (size_t i = 0; i < count_verbs(command); i++) {
        fg_buf_puts(&page, ".TP\n.B ");
        fg_man_text(verb_at(command, i)->name, &page);
        fg_buf_putc(&page, '\n');
        fg_man_text(verb_at(command, i)->about, &page);
    }
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
    fg_buf_done(&usage);
}

/* Prints help before anything is checked: a user who asks for help may have got the rest wrong. */
bool cli_args_wants_help(const struct cli_args_command *command, int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*write)(const struct cli_args_command *command, const struct cli_args_verb *verb,
                      FILE *out);
    } forms[] = {{"--help", write_help},
                 {"-h", write_help},
                 {ARGS_FORM_WORDS, write_words},
                 {ARGS_FORM_MAN, write_man}};
    int at = cli_args_first_word(command, argc, argv);

    /* After "--" all words are arguments, also "--help". */
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < FG_COUNT(forms); k++)
            if (strcmp(argv[i], forms[k].word) == 0) {
                forms[k].write(command, at < argc ? find_verb(command, argv[at]) : NULL, stdout);
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

int cli_args_end(const struct cli_args_command *command, const struct fg_err *err)
{
    return (err->code == FG_E_INVALID ? cli_args_refuse : cli_args_fail)(command, err);
}

/* ---- verbs of a command line ---- */

/* Says which verbs there are: none was given, or `word`, which is unknown. */
static int refuse_verb(const struct cli_args_command *command, const char *word)
{
    const char **known = fg_calloc(count_verbs(command), sizeof *known);
    char program[64];
    struct fg_buf all;
    struct fg_err err;
    int code;

    for (size_t i = 0; i < count_verbs(command); i++)
        known[i] = verb_at(command, i)->name;
    if (word != NULL) {
        (void)snprintf(program, sizeof program, "flamegrid %s", command->name);
        code = cli_args_unknown(program, "verb", word, known, count_verbs(command));
    } else {
        fg_buf_init(&all, FG_ERR_MSG_MAX_BYTES);
        list_words(known, count_verbs(command), &all);
        (void)fg_fail(&err, FG_E_INVALID, "%.*s has to follow", FG_S(fg_buf_slice(&all)));
        fg_buf_done(&all);
        code = cli_args_refuse(command, &err);
    }
    free(known);
    return code;
}

/* Checks the words behind a verb, and the options. */
static enum fg_code check_verb(const struct cli_args_command *command,
                               const struct cli_args_verb *verb, int words, char *const *argv,
                               uint64_t given, struct fg_err *err)
{
    if (words < verb->words_min)
        return fg_fail(err, FG_E_INVALID, "%s has to follow", verb->words);
    if (words > verb->words_max)
        return fg_fail(err, FG_E_INVALID, "unexpected argument \"%.100s\"", argv[verb->words_max]);
    for (size_t i = 0; i < command->n_options; i++)
        if ((given & UINT64_C(1) << i) != 0 && !takes(command, verb, command->options[i].name))
            return fg_fail(err, FG_E_INVALID, "it takes no --%s", command->options[i].name);
    return FG_OK;
}

/* Ends what cli_args_begin_verb() and cli_args_begin_on_bucket() began. */
static const void *choose_verb(const struct cli_args_command *command, uint64_t given, int words,
                               char **argv, int *ret_exit)
{
    const struct cli_args_verb *verb = words == 0 ? NULL : find_verb(command, argv[0]);
    struct fg_err err;

    if (verb == NULL) {
        *ret_exit = refuse_verb(command, words == 0 ? NULL : argv[0]);
        return NULL;
    }
    if (check_verb(command, verb, words - 1, argv + 1, given, &err) != FG_OK) {
        fprintf(stderr, "flamegrid %s %s: %s; see flamegrid %s %s --help\n", command->name,
                verb->name, err.msg, command->name, verb->name);
        *ret_exit = CLI_USAGE;
        return NULL;
    }
    return verb;
}

const void *cli_args_begin_verb(const struct cli_args_command *command, int argc, char **argv,
                                int *ret_words, int *ret_exit)
{
    struct args_reader reader = reader_of(command, argc, argv);
    struct fg_err err;

    *ret_exit = CLI_OK;
    if (cli_args_wants_help(command, argc, argv))
        return NULL;
    if (parse(command, &reader, ret_words, &err) != FG_OK) {
        *ret_exit = cli_args_refuse(command, &err);
        return NULL;
    }
    return choose_verb(command, reader.given, *ret_words, argv, ret_exit);
}

const void *cli_args_begin_on_bucket(const struct cli_args_command *command, int argc, char **argv,
                                     int *ret_words, int *ret_settings, int *ret_exit)
{
    struct args_reader reader = reader_of(command, argc, argv);
    struct fg_err err;

    *ret_exit = CLI_OK;
    if (cli_args_wants_help(command, argc, argv))
        return NULL;
    if (split(command, &reader, ret_words, ret_settings, &err) != FG_OK) {
        *ret_exit = cli_args_refuse(command, &err);
        return NULL;
    }
    return choose_verb(command, reader.given, *ret_words, argv, ret_exit);
}
