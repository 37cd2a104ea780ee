#include "common/base/def.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/single/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int completion(int argc, char **argv);
static int man(int argc, char **argv);

/* In the order of help. */
static const struct cli_command commands[] = {
    {"server", single_run, "run the server"},
    {"agent", single_run_agent,
     "run a server that only forwards: no blocks, no queries, little memory"},
    {"push", cli_push, "send profiles from files"},
    {"import", cli_import, "copy what a running Pyroscope has"},
    {"query", cli_query, "merge profiles and print a table, stacks, pprof or JSON"},
    {"compare", cli_compare,
     "say which functions changed between two selections, and how sure that is"},
    {"labels", cli_labels, "list label names, values of a label, or profile types"},
    {"rules", cli_rules, "list, create and delete recording rules, which make metrics of profiles"},
    {"adhoc", cli_adhoc, "upload files with profiles to look at them; list, fetch, delete them"},
    {"usage", cli_usage, "print what a tenant used, for bills: a table, CSV or JSON"},
    {"cost", cli_cost, "print what a tenant costs in an object store"},
    {"bucket", cli_bucket, "look into the bucket of a server, verify, repair and export it"},
    {"ring", cli_ring, "show the ring of a cluster, and give up members that are gone"},
    {"upgrade-check", cli_upgrade_check,
     "say whether this version, and the one before, reads what is in a bucket"},
    {"forward", cli_forward,
     "show what the server forwards to others; pause, resume and drop what is pending"},
    {"access", cli_access, "make the first token of a server"},
    {"encryption", cli_encryption, "list, renew and destroy the keys of tenants in a bucket"},
    {"tenant", cli_tenant, "list, create, suspend and resume tenants; show and set their limits"},
    {"token", cli_token, "list, create, rotate and revoke tokens"},
    {"binding", cli_binding, "list, create and delete roles of people and workloads in tenants"},
    {"session", cli_session, "end the sessions of a person"},
    {"login", cli_login, "log in at the identity provider of a server, with a browser"},
    {"audit", cli_audit, "show who did what, and verify that no record was changed or removed"},
    {"whoami", cli_whoami, "say who you are for the server, and what you may do"},
    {"canary", cli_canary,
     "push and query all the time; check that answers have each profile once"},
    {"completion", completion, "print completions for bash, zsh and fish"},
    {"man", man, "print man pages"},
    {"version", cli_version, "print the version"},
};

static const struct cli_commands all = {commands, FG_COUNT(commands)};

static int completion(int argc, char **argv)
{
    return cli_completion(&all, argc, argv);
}

static int man(int argc, char **argv)
{
    return cli_man(&all, argc, argv);
}

/* Returns the exit code of what has run with this one. Lines that a command prints as it goes may
 * still be in the buffer, or were lost before on a full disk: then whoever redirected them has less
 * than the code would say. */
static int finish(const char *name, int code)
{
    bool failed = ferror(stdout) != 0;
    const char *why = "";

    if (fflush(stdout) != 0) {
        failed = true;
        why = strerrordesc_np(errno);
    }
    if (!failed || code != CLI_OK)
        return code;
    (void)fprintf(stderr, "flamegrid%s%s: cannot write output%s%s\n", name[0] == '\0' ? "" : " ",
                  name, why[0] == '\0' ? "" : ": ", why);
    return CLI_FAILED;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct cli_command *command =
        cli_find_command(&all, strcmp(name, "--version") == 0 ? "version" : name);

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        cli_help(&all, stdout);
        return finish("", CLI_OK);
    }
    if (command != NULL)
        return finish(command->name, command->run(argc - 2, argv + 2));
    if (name[0] != '\0')
        return cli_unknown_command(&all, "flamegrid", name);
    cli_help(&all, stderr);
    return CLI_USAGE;
}
