#include "common/base/def.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/single/server.h"

#include <stdio.h>
#include <string.h>

static const struct cli_command commands[] = {
    {"server", single_run}, {"bucket", cli_bucket},   {"ring", cli_ring},
    {"push", cli_push},     {"query", cli_query},     {"compare", cli_compare},
    {"labels", cli_labels}, {"rules", cli_rules},     {"canary", cli_canary},
    {"adhoc", cli_adhoc},   {"access", cli_access},   {"tenant", cli_tenant},
    {"token", cli_token},   {"binding", cli_binding}, {"session", cli_session},
    {"login", cli_login},   {"whoami", cli_whoami},   {"usage", cli_usage},
    {"cost", cli_cost},     {"audit", cli_audit},     {"encryption", cli_encryption},
};

static int completion(int argc, char **argv)
{
    return cli_completion(commands, FG_COUNT(commands), argc, argv);
}

static int man(int argc, char **argv)
{
    return cli_man(commands, FG_COUNT(commands), argc, argv);
}

/* Commands that print something about the others. */
static const struct cli_command helpers[] = {{"completion", completion}, {"man", man}};

/* Suggestions include the helpers and `version`, which are not in the first table. */
static int unknown(const char *command)
{
    const char *known[FG_COUNT(commands) + FG_COUNT(helpers) + 1];
    size_t n = 0;

    for (size_t i = 0; i < FG_COUNT(commands); i++)
        known[n++] = commands[i].name;
    for (size_t i = 0; i < FG_COUNT(helpers); i++)
        known[n++] = helpers[i].name;
    known[n] = "version";
    return cli_args_unknown("flamegrid", "command", command, known, FG_COUNT(known));
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0)
        return cli_version(argc > 2 && strcmp(argv[2], "--json") == 0);
    if (strcmp(command, "--help") == 0 || strcmp(command, "help") == 0) {
        cli_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < FG_COUNT(commands); i++)
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].run(argc - 2, argv + 2);
    for (size_t i = 0; i < FG_COUNT(helpers); i++)
        if (strcmp(command, helpers[i].name) == 0)
            return helpers[i].run(argc - 2, argv + 2);
    if (command[0] != '\0')
        return unknown(command);
    cli_help(stderr);
    return CLI_USAGE;
}
