#include "deploy/cli/cli.h"

static const char help[] =
    "flamegrid, a continuous-profiling server and its tools\n"
    "\n"
    "usage: flamegrid COMMAND [options]\n"
    "\n"
    "commands:\n"
    "  server    run the server\n"
    "  push      send profiles from files\n"
    "  query     ask for the merge of profiles: a table, stacks, pprof, JSON\n"
    "  labels    list label names, values of a label, or profile types\n"
    "  bucket    look at what a server keeps in its bucket and export it, without the server\n"
    "  ring      look at the ring of a cluster, and give up members that are gone\n"
    "  canary    push profiles all the time, and check that every answer has them once\n"
    "  completion, man\n"
    "            completion for bash, zsh and fish; man pages\n"
    "  version   show the version\n"
    "\n"
    "flamegrid COMMAND --help says more about each.\n"
    "\n"
    "push, query, labels and canary talk to http://127.0.0.1:4040 unless --url or FLAMEGRID_URL\n"
    "says otherwise. Exit codes: 0 all is well, 1 it failed, 2 the command line was wrong.\n"
    "\n"
    "examples:\n"
    "  flamegrid server\n"
    "  flamegrid push cpu.pb.gz --name 'shop{env=prod}'\n"
    "  flamegrid query shop --type cpu\n"
    "  flamegrid labels service_name\n";

void cli_help(FILE *out)
{
    fputs(help, out);
}

int cli_version(bool json)
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
    return CLI_OK;
}
