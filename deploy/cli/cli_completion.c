/*
 * Completion for shells, and man pages. Neither knows an option by itself: the scripts ask the
 * program for words while somebody types, and a command writes its own page, both out of the table
 * that --help shows.
 */
#include "common/base/def.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"

#include <string.h>

/* A shell's script; it asks `flamegrid completion words` for what may follow. */
static const struct {
    const char *shell, *script;
} scripts[] = {
    {"bash",
     "_flamegrid() {\n"
     "    local words\n"
     "    words=$(flamegrid completion words \"${COMP_WORDS[@]:1:COMP_CWORD-1}\" 2>/dev/null)\n"
     "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
     "}\n"
     "complete -o default -F _flamegrid flamegrid\n"},
    {"zsh", "#compdef flamegrid\n"
            "_flamegrid() {\n"
            "    local -a words_after\n"
            "    words_after=(${(f)\"$(flamegrid completion words \"${(@)words[2,CURRENT-1]}\" "
            "2>/dev/null)\"})\n"
            "    compadd -a words_after\n"
            "    _files\n"
            "}\n"
            "compdef _flamegrid flamegrid\n"},
    {"fish", "complete -c flamegrid -a '(flamegrid completion words (commandline -opc)[2..-1] "
             "2>/dev/null)'\n"},
};

static const char about[] =
    "Writes the completion of a shell; flamegrid man COMMAND writes a man page.\n";

static const char notes[] = "examples:\n"
                            "  flamegrid completion bash >/etc/bash_completion.d/flamegrid\n"
                            "  flamegrid completion zsh >/usr/share/zsh/site-functions/_flamegrid\n"
                            "  flamegrid completion fish "
                            ">~/.config/fish/completions/flamegrid.fish\n"
                            "  flamegrid man push | man -l -\n"
                            "  flamegrid man server >/usr/share/man/man8/flamegrid-server.8\n"
                            "  flamegrid-ingester --help=man | man -l -\n";

static const struct cli_args_command completion = {
    .name = "completion", .usage = "bash|zsh|fish", .about = about, .notes = notes};

/* Makes the command write its help in another form. */
static int ask_form(const struct cli_command *command, const char *verb, const char *form)
{
    char *argv[] = {(char *)(uintptr_t)form, (char *)(uintptr_t)form, NULL};
    int argc = 1;

    if (verb != NULL) {
        argv[0] = (char *)(uintptr_t)verb;
        argc = 2;
    }
    return command->run(argc, argv);
}

static const struct cli_command *find(const struct cli_command *commands, size_t n,
                                      const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* Prints what may follow these words, a line each. */
static int write_words(const struct cli_command *commands, size_t n, int argc, char **argv)
{
    const struct cli_command *command = argc > 0 ? find(commands, n, argv[0]) : NULL;
    bool export = argc > 1 && strcmp(argv[0], "bucket") == 0 && strcmp(argv[1], "export") == 0;

    if (command != NULL)
        return ask_form(command, export ? argv[1] : NULL, ARGS_FORM_WORDS);
    for (size_t i = 0; argc == 0 && i < n; i++)
        puts(commands[i].name);
    return CLI_OK;
}

int cli_completion(const struct cli_command *commands, size_t n, int argc, char **argv)
{
    struct fg_err err;

    if (argc > 0 && strcmp(argv[0], "words") == 0)
        return write_words(commands, n, argc - 1, argv + 1);
    if (cli_args_wants_help(&completion, argc, argv))
        return CLI_OK;
    for (size_t i = 0; argc == 1 && i < FG_COUNT(scripts); i++)
        if (strcmp(argv[0], scripts[i].shell) == 0) {
            fputs(scripts[i].script, stdout);
            return CLI_OK;
        }
    (void)fg_fail(&err, FG_E_INVALID, "which shell? bash, zsh or fish");
    return cli_args_refuse(&completion, &err);
}

int cli_man(const struct cli_command *commands, size_t n, int argc, char **argv)
{
    const struct cli_command *command = argc == 1 ? find(commands, n, argv[0]) : NULL;
    const char **known;
    int code;

    if (command != NULL)
        return ask_form(command, NULL, ARGS_FORM_MAN);
    known = fg_calloc(n, sizeof(const char *));
    for (size_t i = 0; i < n; i++)
        known[i] = commands[i].name;
    code = cli_args_unknown("flamegrid man", "command", argc > 0 ? argv[0] : "", known, n);
    free(known);
    return code;
}
