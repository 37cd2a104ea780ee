#include "deploy/single/cli.h"

int cli_labels(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return CLI_FAILED;
}
