#include "deploy/single/cli.h"

int cli_push(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return CLI_FAILED;
}
