#include "deploy/cli/bucket_verbs.h"

#include "deploy/cli/cli.h"
#include "deploy/single/server.h"

#include <string.h>

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int cli_bucket_verbs_main(const struct cli_bucket_verbs *command, int argc, char **argv)
{
    const struct cli_args_command page = {command->name, "VERB", command->help, "", NULL, 0};

    if (wants_help(argc, argv)) {
        (void)fputs(command->help, stdout);
        return CLI_OK;
    }
    if (cli_args_complete_verbs(command->verbs, argc, argv))
        return CLI_OK;
    if (argc > 0 && strcmp(argv[0], ARGS_FORM_MAN) == 0)
        return cli_args_wants_help(&page, argc, argv) ? CLI_OK : CLI_USAGE;
    if (argc > 0 && cli_args_find_verb(command->verbs, argv[0]) == NULL)
        return cli_args_unknown_verb(command->verbs, argv[0]);
    if (argc == 0) {
        (void)fputs(command->help, stderr);
        return CLI_USAGE;
    }
    return single_with_def(command->run, argc, argv);
}
