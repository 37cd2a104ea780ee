/* `flamegrid encryption VERB`: the keys of tenants in the bucket of a server with these settings,
 * whether one runs or not. A verb is a row of the table at the end. */
#include "common/access/key_store.h"
#include "common/access/registry_object.h"
#include "common/access/tenant_keys.h"
#include "deploy/cli/args.h"
#include "deploy/cli/bucket_shredded.h"
#include "deploy/cli/bucket_verbs.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/on_record.h"
#include "deploy/single/server.h"

#include <unistd.h>

struct encryption_command {
    const struct fg_encryption_settings *settings;
    const char *tenant; /* "": none */
    bool json, yes, apply;
    struct fg_bucket *bucket;
    struct fg_key_store *keys;
    struct fg_err err;
    char who[64], detail[64]; /* of the records of a change */
    uint32_t version, count;  /* the result of one */
};

struct encryption_verb {
    const char *name;
    bool needs_tenant;
    enum fg_code (*run)(struct encryption_command *command);
};

static const int64_t TIMEOUT_NS = 30 * FG_SECOND_NS; /* of a read */

static const char by[] = "flamegrid encryption";

static const char help[] =
    "usage: flamegrid encryption list [--json] [settings]\n"
    "       flamegrid encryption rotate TENANT [settings]\n"
    "       flamegrid encryption shred TENANT --yes [settings]\n"
    "       flamegrid encryption drop TENANT [--apply] [settings]\n"
    "       flamegrid encryption rewrap [settings]\n"
    "\n"
    "Works on the bucket that a server with the same settings has: --config FILE, --data DIR,\n"
    "--bucket.type s3 and so on, or FG_... in the environment. The server may run or not. How\n"
    "encryption works: deploy/operations/encryption.md.\n"
    "\n"
    "  list    lists the keys of all tenants: versions, since when, what encrypts them\n"
    "  rotate  makes the next version of a tenant's key. New blocks are encrypted with it; those\n"
    "          that are there keep theirs and stay readable\n"
    "  shred   removes all keys of a tenant for good: nothing of it that is encrypted can be read\n"
    "          any more, here and in copies. Old versions of the object access/registry, and "
    "copies\n"
    "          of it, have the keys encrypted by encryption.key_file: delete them, or change that\n"
    "          file (see rewrap) and destroy the old one\n"
    "  drop    removes what is encrypted with shredded keys of a tenant from its manifest; the\n"
    "          compactor then deletes it. Other data of the tenant stays. Lists the objects;\n"
    "          --apply removes them\n"
    "  rewrap  encrypts the keys of all tenants with encryption.key_file, Vault or KMS (see\n"
    "          encryption.wrap_with) that are encrypted with another of these, or with one of\n"
    "          encryption.old_key_files and encryption.kms.old_keys\n"
    "\n"
    "examples:\n"
    "  flamegrid encryption list --config /etc/flamegrid/server.yaml\n"
    "  flamegrid encryption rotate shop --config /etc/flamegrid/server.yaml\n"
    "  flamegrid encryption shred shop --yes --config /etc/flamegrid/server.yaml\n"
    "  flamegrid encryption drop shop --apply --config /etc/flamegrid/server.yaml\n";

/* ---- list ---- */

static void print_key(const Access__TenantKey *key, const Access__TenantKey *newest)
{
    char date[32] = "";
    time_t seconds = (time_t)((key->shredded_ms != 0 ? key->shredded_ms : key->created_ms) / 1000);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) != NULL)
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (key->shredded_ms != 0)
        printf("%-40s %4u  shredded %s by %s\n", key->tenant, key->version, date, key->shredded_by);
    else
        printf("%-40s %4u  %s since %s, encrypted with %s\n", key->tenant, key->version,
               key == newest ? "newest" : "old   ", date, key->wrapped_by);
}

static json_t *key_json(const Access__TenantKey *key)
{
    json_t *json =
        json_pack("{s:s,s:i,s:s,s:o,s:s}", "tenant", key->tenant, "version", (int)key->version,
                  "state", key->shredded_ms != 0 ? "shredded" : "usable", "created",
                  cli_json_time(key->created_ms * FG_MS_NS), "encrypted_with", key->wrapped_by);

    if (key->shredded_ms != 0) {
        (void)json_object_set_new(json, "shredded", cli_json_time(key->shredded_ms * FG_MS_NS));
        (void)json_object_set_new(json, "shredded_by", cli_json_text(fg_cstr(key->shredded_by)));
    }
    return json;
}

static enum fg_code list(struct encryption_command *command)
{
    struct fg_access_registry *registry = NULL;
    const Access__Registry *message;
    json_t *keys = json_array();
    enum fg_code code = FG_OK;

    if (fg_access_read(command->bucket, fg_mono_ns(fg_clock_real()) + TIMEOUT_NS, &registry,
                       &command->err) != FG_OK) {
        json_decref(keys);
        return command->err.code;
    }
    message = registry->message;
    for (size_t i = 0; i < message->n_keys; i++)
        if (command->json)
            (void)json_array_append_new(keys, key_json(message->keys[i]));
        else
            print_key(message->keys[i],
                      fg_tenant_key_newest(message, fg_cstr(message->keys[i]->tenant)));
    fg_access_registry_unref(registry);
    if (command->json)
        code = cli_json_print(json_pack("{s:o}", "keys", json_incref(keys)), stdout, &command->err);
    json_decref(keys);
    return code;
}

/* ---- changes ---- */

static enum fg_code need_keys(struct encryption_command *command)
{
    if (command->keys != NULL)
        return FG_OK;
    return fg_fail(
        &command->err, FG_E_INVALID,
        "one of the settings encryption.key_file, encryption.vault_address and encryption.kms.key "
        "is needed");
}

/* Makes a change with records of who made it. There is no token: who may write to the bucket may do
 * this. */
static enum fg_code on_record(struct encryption_command *command, const char *what,
                              cli_change change)
{
    (void)snprintf(command->who, sizeof command->who, "%s (uid %lu)", by, (unsigned long)getuid());
    (void)snprintf(command->detail, sizeof command->detail, "%s", what);
    return cli_on_record(command->bucket, "flamegrid-encryption",
                         (struct fg_audit_event){.kind = FG_AUDIT_ADMIN,
                                                 .who = fg_cstr(command->who),
                                                 .tenant = fg_cstr(command->tenant),
                                                 .detail = fg_cstr(command->detail)},
                         change, command, &command->err);
}

static enum fg_code rotate_key(void *arg, struct fg_audit_event *event, struct fg_err *err)
{
    struct encryption_command *command = arg;

    if (fg_key_store_rotate(command->keys, fg_cstr(command->tenant), &command->version, err) !=
        FG_OK)
        return err->code;
    (void)snprintf(command->detail, sizeof command->detail, "rotate: key %u", command->version);
    event->detail = fg_cstr(command->detail);
    return FG_OK;
}

static enum fg_code rotate(struct encryption_command *command)
{
    if (need_keys(command) != FG_OK || on_record(command, "rotate", rotate_key) != FG_OK)
        return command->err.code;
    printf("tenant %s has key %u; running servers use it for new blocks after access.poll\n",
           command->tenant, command->version);
    return FG_OK;
}

static enum fg_code shred_keys(void *arg, struct fg_audit_event *event, struct fg_err *err)
{
    struct encryption_command *command = arg;

    if (fg_key_store_shred(command->bucket, by, fg_cstr(command->tenant), &command->version, err) !=
        FG_OK)
        return err->code;
    (void)snprintf(command->detail, sizeof command->detail, "shred: keys 1 to %u",
                   command->version);
    event->detail = fg_cstr(command->detail);
    return FG_OK;
}

static enum fg_code shred(struct encryption_command *command)
{
    if (!command->yes)
        return fg_fail(&command->err, FG_E_INVALID,
                       "this cannot be undone: nothing of tenant %s that is encrypted can be read "
                       "afterwards. Repeat it with --yes",
                       command->tenant);
    if (on_record(command, "shred", shred_keys) != FG_OK)
        return command->err.code;
    printf("the keys of tenant %s are shredded; running servers forget them after access.poll\n",
           command->tenant);
    return FG_OK;
}

static enum fg_code drop_shredded(void *arg, struct fg_audit_event *event, struct fg_err *err)
{
    struct encryption_command *command = arg;

    (void)event;
    return cli_bucket_drop_shredded(command->bucket, fg_cstr(command->tenant), command->apply,
                                    stdout, err);
}

static enum fg_code drop(struct encryption_command *command)
{
    return command->apply ? on_record(command, "drop", drop_shredded)
                          : drop_shredded(command, NULL, &command->err);
}

static enum fg_code rewrap_keys(void *arg, struct fg_audit_event *event, struct fg_err *err)
{
    struct encryption_command *command = arg;
    enum fg_code code = fg_key_store_rewrap(command->keys, &command->count, err);

    event->count = command->count; /* also of those before one that failed */
    return code;
}

static enum fg_code rewrap(struct encryption_command *command)
{
    if (need_keys(command) != FG_OK || on_record(command, "rewrap", rewrap_keys) != FG_OK)
        return command->err.code;
    printf("%u keys are encrypted again\n", command->count);
    return FG_OK;
}

/* ---- the command ---- */

static const struct encryption_verb verbs[] = {
    {"list", false, list}, {"rotate", true, rotate},  {"shred", true, shred},
    {"drop", true, drop},  {"rewrap", false, rewrap},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS("flamegrid encryption", verbs);

static enum fg_code run_on_bucket(const struct encryption_verb *verb,
                                  struct encryption_command *command)
{
    enum fg_code code = single_open_bucket(&command->bucket, &command->err);

    if (code == FG_OK)
        code = fg_key_store_create(&(struct fg_key_store_config){.settings = command->settings,
                                                                 .bucket = command->bucket,
                                                                 .by = by},
                                   &command->keys, &command->err);
    if (code == FG_OK)
        code = verb->run(command);
    fg_key_store_destroy(command->keys);
    fg_bucket_close(command->bucket);
    return code;
}

/* Takes the command's own words out of argv; what remains are settings. */
static int take_words(struct encryption_command *command, int argc, char **argv)
{
    int kept = 0;

    for (int i = 0; i < argc; i++) {
        if (i == 0 && argv[i][0] != '-')
            command->tenant = argv[i];
        else if (strcmp(argv[i], "--json") == 0)
            command->json = true;
        else if (strcmp(argv[i], "--yes") == 0)
            command->yes = true;
        else if (strcmp(argv[i], "--apply") == 0)
            command->apply = true;
        else
            argv[kept++] = argv[i];
    }
    return kept;
}

static enum fg_code check_words(const struct encryption_verb *verb,
                                struct encryption_command *command)
{
    bool has_tenant = command->tenant[0] != '\0';

    if (verb->needs_tenant && !has_tenant)
        return fg_fail(&command->err, FG_E_INVALID, "the name of a tenant has to follow");
    if (!verb->needs_tenant && has_tenant)
        return fg_fail(&command->err, FG_E_INVALID, "unexpected argument \"%.100s\"",
                       command->tenant);
    return FG_OK;
}

static int run(const struct fg_program_def *def, int argc, char **argv)
{
    const struct encryption_verb *verb = cli_args_find_verb(&all_verbs, argv[0]);
    struct fg_program program;
    struct encryption_command command = {.settings = &program.encryption, .tenant = ""};
    int n_flags = take_words(&command, argc - 1, argv + 1), code = CLI_OK;

    if (fg_program_configure(def, n_flags, argv + 1, &program, &command.err) != FG_OK ||
        check_words(verb, &command) != FG_OK)
        code = CLI_USAGE;
    else if (run_on_bucket(verb, &command) != FG_OK)
        code = CLI_FAILED;
    if (code != CLI_OK)
        fprintf(stderr, "flamegrid encryption %s: %s\n", verb->name, command.err.msg);
    fg_program_forget(&program);
    return code;
}

int cli_encryption(int argc, char **argv)
{
    static const struct cli_bucket_verbs command = {"encryption", help, &all_verbs, run};

    return cli_bucket_verbs_main(&command, argc, argv);
}
