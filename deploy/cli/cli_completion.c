/*
 * Completion for shells, and man pages. Neither knows an option by itself: the scripts ask the
 * program for words while somebody types, and a command writes its own page, both out of the table
 * that --help shows.
 */
#include "common/base/def.h"
#include "common/program/man.h"
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

static const char about[] = "Writes the completion of a shell.\n";

static const char notes[] = "examples:\n"
                            "  flamegrid completion bash >/etc/bash_completion.d/flamegrid\n"
                            "  flamegrid completion zsh >/usr/share/zsh/site-functions/_flamegrid\n"
                            "  flamegrid completion fish "
                            ">~/.config/fish/completions/flamegrid.fish\n";

static const struct cli_args_command completion = {
    .name = "completion", .usage = "bash|zsh|fish", .about = about, .notes = notes};

/* Makes the command write its help in another form. word: its verb, if it has verbs; or NULL. */
static int ask_form(const struct cli_command *command, const char *word, const char *form)
{
    char *argv[] = {(char *)(uintptr_t)form, (char *)(uintptr_t)form, NULL};
    int argc = 1;

    if (word != NULL) {
        argv[0] = (char *)(uintptr_t)word;
        argc = 2;
    }
    return command->run(argc, argv);
}

/* Prints what may follow these words, a line each. */
static int write_words(const struct cli_commands *commands, int argc, char **argv)
{
    const struct cli_command *command = argc > 0 ? cli_find_command(commands, argv[0]) : NULL;

    if (command != NULL)
        return ask_form(command, argc > 1 && argv[1][0] != '-' ? argv[1] : NULL, ARGS_FORM_WORDS);
    for (size_t i = 0; argc == 0 && i < commands->count; i++)
        puts(commands->items[i].name);
    return CLI_OK;
}

int cli_completion(const struct cli_commands *commands, int argc, char **argv)
{
    struct fg_err err;

    if (argc > 0 && strcmp(argv[0], "words") == 0)
        return write_words(commands, argc - 1, argv + 1);
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

/* ---- man pages ---- */

static const struct cli_args_command man = {
    .name = "man",
    .usage = "[COMMAND]",
    .about = "Writes the man page of a command; without COMMAND, an overview of all commands.\n",
    .notes = "examples:\n"
             "  flamegrid man push | man -l -\n"
             "  flamegrid man >/usr/share/man/man1/flamegrid.1\n"
             "  flamegrid man push >/usr/share/man/man1/flamegrid-push.1\n"
             "  flamegrid man server >/usr/share/man/man8/flamegrid-server.8\n"
             "  flamegrid-ingester --help=man | man -l -\n"};

static void print(struct fg_buf *page)
{
    (void)fwrite(page->ptr, 1, page->len, stdout);
    fg_buf_done(page);
}

static int write_overview(const struct cli_commands *commands)
{
    struct fg_buf page;

    fg_buf_init(&page, SIZE_MAX);
    fg_man_head("flamegrid", 1, CLI_WHAT, &page);
    fg_man_section("SYNOPSIS", "flamegrid COMMAND [options]\n", &page);
    fg_buf_puts(&page, ".SH COMMANDS\n");
    for (size_t i = 0; i < commands->count; i++) {
        fg_buf_printf(&page, ".TP\n.B %s\n", commands->items[i].name);
        fg_man_text(commands->items[i].what, &page);
        fg_buf_putc(&page, '\n');
    }
    fg_man_section("NOTES", cli_help_notes, &page);
    print(&page);
    return CLI_OK;
}

/* Writes the page: its head, and what the command says. Server and agent write their own head, as
 * other programs with settings do. */
static int write_page(const struct cli_command *command)
{
    char name[64];
    struct fg_buf head;

    if (strcmp(command->name, "server") != 0 && strcmp(command->name, "agent") != 0) {
        fg_buf_init(&head, SIZE_MAX);
        (void)snprintf(name, sizeof name, "flamegrid %s", command->name);
        fg_man_head(name, 1, command->what, &head);
        print(&head);
    }
    return ask_form(command, NULL, ARGS_FORM_MAN);
}

int cli_man(const struct cli_commands *commands, int argc, char **argv)
{
    const struct cli_command *command;
    int words, code;
    struct fg_err err;

    if (!cli_args_begin(&man, argc, argv, &words, &code))
        return code;
    if (words == 0)
        return write_overview(commands);
    if (words > 1) {
        (void)fg_fail(&err, FG_E_INVALID, "one COMMAND at a time");
        return cli_args_refuse(&man, &err);
    }
    command = cli_find_command(commands, argv[0]);
    return command != NULL ? write_page(command)
                           : cli_unknown_command(commands, "flamegrid man", argv[0]);
}
