#include "common/base/err.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"

#include <stdbool.h>
#include <string.h>

const char cli_help_notes[] =
    "flamegrid COMMAND --help describes a command.\n"
    "\n"
    "All but server, agent, bucket, ring, upgrade-check, access, encryption and audit verify talk\n"
    "to http://127.0.0.1:4040 unless --url (of canary: --through) or FLAMEGRID_URL says "
    "otherwise.\n"
    "--ca-file or FLAMEGRID_CA_FILE names an authority of your own that signed the server's\n"
    "certificate; --cert-file and --key-file, or FLAMEGRID_CERT_FILE and FLAMEGRID_KEY_FILE, name\n"
    "yours, for servers that demand one.\n"
    "\n"
    "Exit codes: 0 success, 1 failure, 2 invalid command line.\n"
    "\n"
    "examples:\n"
    "  flamegrid server\n"
    "  flamegrid push cpu.pb.gz --name 'shop{env=prod}'\n"
    "  flamegrid query shop --type cpu\n"
    "  flamegrid labels service_name\n";

void cli_help(const struct cli_commands *commands, FILE *out)
{
    fputs("flamegrid, " CLI_WHAT "\n"
          "\n"
          "usage: flamegrid COMMAND [options]\n"
          "\n"
          "commands:\n",
          out);
    for (size_t i = 0; i < commands->count; i++)
        fprintf(out, "  %-13s  %s\n", commands->items[i].name, commands->items[i].what);
    fprintf(out, "\n%s", cli_help_notes);
}

const struct cli_command *cli_find_command(const struct cli_commands *commands, const char *name)
{
    for (size_t i = 0; i < commands->count; i++)
        if (strcmp(name, commands->items[i].name) == 0)
            return &commands->items[i];
    return NULL;
}

int cli_unknown_command(const struct cli_commands *commands, const char *program, const char *name)
{
    const char **known = fg_calloc(commands->count, sizeof *known);
    int code;

    for (size_t i = 0; i < commands->count; i++)
        known[i] = commands->items[i].name;
    code = cli_args_unknown(program, "command", name, known, commands->count);
    free(known);
    return code;
}

static void print_version(bool json)
{
#ifdef FG_REVISION
    const char *revision = FG_REVISION;
#else
    const char *revision = "";
#endif

    if (json)
        printf("{\"version\":\"%s\",\"revision\":\"%s\"}\n", FG_VERSION, revision);
    else
        printf("flamegrid %s%s%s%s\n", FG_VERSION, revision[0] == '\0' ? "" : " (", revision,
               revision[0] == '\0' ? "" : ")");
}

int cli_version(int argc, char **argv)
{
    bool json = false;
    const struct cli_args_option options[] = {
        {"json", 0, ARGS_FLAG, &json, NULL, "print JSON", 0, 0},
    };
    const struct cli_args_command command = {
        .name = "version",
        .usage = "[--json]",
        .about = "Prints the version, and the revision if it was known at build time.\n",
        .notes = "",
        .options = options,
        .n_options = FG_COUNT(options),
    };
    struct fg_err err;
    int words, code;

    if (!cli_args_begin(&command, argc, argv, &words, &code))
        return code;
    if (words > 0) {
        (void)fg_fail(&err, FG_E_INVALID, "unexpected word \"%.100s\"", argv[0]);
        return cli_args_refuse(&command, &err);
    }
    print_version(json);
    return CLI_OK;
}
