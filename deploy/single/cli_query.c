#include "deploy/single/cli.h"

int cli_query(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return CLI_FAILED;
}
