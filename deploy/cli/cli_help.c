#include "deploy/cli/cli.h"

static const char help[] =
    "flamegrid, a continuous-profiling server and its tools\n"
    "\n"
    "usage: flamegrid COMMAND [options]\n"
    "\n"
    "commands:\n"
    "  server    run the server\n"
    "  push      send profiles from files\n"
    "  query     merge profiles and print a table, stacks, pprof or JSON\n"
    "  compare   say which functions changed between two selections, and how sure that is\n"
    "  labels    list label names, values of a label, or profile types\n"
    "  rules     list, create and delete recording rules, which make metrics of profiles\n"
    "  adhoc     upload files with profiles to look at them; list, fetch, delete them\n"
    "  usage     print what a tenant used, for bills: a table, CSV or JSON\n"
    "  cost      print what a tenant costs in an object store\n"
    "  bucket    look into the bucket of a server, verify, repair and export it\n"
    "  ring      show the ring of a cluster, and give up members that are gone\n"
    "  access    make the first token of a server\n"
    "  encryption\n"
    "            list, renew and destroy the keys of tenants in a bucket\n"
    "  tenant    list, create, suspend and resume tenants; show and set their limits\n"
    "  token     list, create, rotate and revoke tokens\n"
    "  binding   list, create and delete roles of people and workloads in tenants\n"
    "  session   end the sessions of a person\n"
    "  login     log in at the identity provider of a server, with a browser\n"
    "  audit     show who did what, and verify that no record was changed or removed\n"
    "  whoami    say who you are for the server, and what you may do\n"
    "  canary    push and query all the time; check that answers have each profile once\n"
    "  completion, man\n"
    "            print completions for bash, zsh and fish, and man pages\n"
    "  version   show the version\n"
    "\n"
    "flamegrid COMMAND --help describes a command.\n"
    "\n"
    "All but server, bucket, ring, access, encryption and audit verify talk to\n"
    "http://127.0.0.1:4040 unless --url or FLAMEGRID_URL says otherwise. --ca-file or\n"
    "FLAMEGRID_CA_FILE names an authority of your own that signed the server's certificate;\n"
    "--cert-file and --key-file, or FLAMEGRID_CERT_FILE and FLAMEGRID_KEY_FILE, name yours, for\n"
    "servers that demand one.\n"
    "\n"
    "Exit codes: 0 success, 1 failure, 2 invalid command line.\n"
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
