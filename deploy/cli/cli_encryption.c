/* `flamegrid encryption VERB`: the keys of tenants in the bucket of a server with these settings,
 * whether one runs or not. A verb is a row of the table at the end. */
#include "common/access/keys/key_store.h"
#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_keys.h"
#include "deploy/cli/args.h"
#include "deploy/cli/bucket_shredded.h"
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
    FILE *out;                /* of drop: standard output, or its report */
};

struct encryption_verb {
    struct cli_args_verb verb;
    enum fg_code (*run)(struct encryption_command *command);
};

static const int64_t TIMEOUT_NS = 30 * FG_SECOND_NS; /* of a read */

static const char by[] = "flamegrid encryption";

static const char about[] =
    "Works on the bucket that a server with the same settings has: --config FILE, --data DIR,\n"
    "--bucket.type s3 and so on, or FG_... in the environment. The server may run or not. How\n"
    "encryption works: deploy/operations/encryption.md.\n";

static const char notes[] =
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
    /* For the record after the change, which alone knows the version. */
    (void)snprintf(command->detail, sizeof command->detail, "rotate: key %u", command->version);
    event->detail = fg_cstr(command->detail);
    return FG_OK;
}

static enum fg_code print_version(struct encryption_command *command, const char *key)
{
    return cli_json_print(json_pack("{s:o,s:i}", "tenant", cli_json_text(fg_cstr(command->tenant)),
                                    key, (int)command->version),
                          stdout, &command->err);
}

static enum fg_code rotate(struct encryption_command *command)
{
    if (need_keys(command) != FG_OK || on_record(command, "rotate", rotate_key) != FG_OK)
        return command->err.code;
    if (command->json)
        return print_version(command, "version");
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
    /* Without need_keys(): nothing is unwrapped, so keys can be shredded after their key file was
     * lost. */
    if (on_record(command, "shred", shred_keys) != FG_OK)
        return command->err.code;
    if (command->json)
        return print_version(command, "versions");
    printf("the keys of tenant %s are shredded; running servers forget them after access.poll\n",
           command->tenant);
    return FG_OK;
}

static enum fg_code drop_shredded(void *arg, struct fg_audit_event *event, struct fg_err *err)
{
    struct encryption_command *command = arg;

    (void)event;
    return cli_bucket_drop_shredded(command->bucket, fg_cstr(command->tenant), command->apply,
                                    command->out, err);
}

static enum fg_code drop_to(struct encryption_command *command, FILE *out)
{
    command->out = out;
    /* A preview changes nothing, so it is not recorded. */
    return command->apply ? on_record(command, "drop", drop_shredded)
                          : drop_shredded(command, NULL, &command->err);
}

static enum fg_code drop(struct encryption_command *command)
{
    struct cli_json_report report;

    if (!command->json)
        return drop_to(command, stdout);
    if (cli_json_report_begin(&report, &command->err) != FG_OK)
        return command->err.code;
    return cli_json_report_end(&report, drop_to(command, report.out), command->apply,
                               &command->err);
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
    if (command->json)
        return cli_json_print(json_pack("{s:i}", "rewrapped", (int)command->count), stdout,
                              &command->err);
    printf("%u keys are encrypted again\n", command->count);
    return FG_OK;
}

/* ---- the command ---- */

static const struct encryption_verb verbs[] = {
    {{"list", NULL, 0, 0, NULL,
      "lists the keys of all tenants: versions, since when, what encrypts them\n"},
     list},
    {{"rotate", "TENANT", 1, 1, NULL,
      "makes the next version of a tenant's key. New blocks are encrypted with it; those\n"
      "that are there keep theirs and stay readable\n"},
     rotate},
    {{"shred", "TENANT", 1, 1, "yes",
      "removes all keys of a tenant for good: nothing of it that is encrypted can be read\n"
      "any more, here and in copies. Old versions of the object access/registry, and copies\n"
      "of it, have the keys encrypted by encryption.key_file: delete them, or change that\n"
      "file (see rewrap) and destroy the old one\n"},
     shred},
    {{"drop", "TENANT", 1, 1, "apply",
      "removes what is encrypted with shredded keys of a tenant from its manifest; the\n"
      "compactor then deletes it. Other data of the tenant stays. Lists the objects;\n"
      "--apply removes them\n"},
     drop},
    {{"rewrap", NULL, 0, 0, NULL,
      "encrypts the keys of all tenants with encryption.key_file, Vault or KMS (see\n"
      "encryption.wrap_with) that are encrypted with another of these, with one of\n"
      "encryption.old_key_files and encryption.kms.old_keys, or with an older version\n"
      "of Vault's key\n"},
     rewrap},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

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
    /* Before the bucket, whose keys it resets. */
    fg_key_store_destroy(command->keys);
    fg_bucket_close(command->bucket);
    return code;
}

static int with_def(const struct fg_program_def *def, int argc, char **argv)
{
    struct fg_program program;
    /* The settings are filled in below, before anybody reads them. */
    struct encryption_command command = {.settings = &program.encryption, .tenant = ""};
    const struct cli_args_option options[] = {
        {"yes", 0, ARGS_FLAG, &command.yes, NULL, "destroy the keys, and ask no further", 0, 0},
        {"apply", 0, ARGS_FLAG, &command.apply, NULL,
         "remove the objects; without it, print what would be removed", 0, 0},
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print one JSON document", 0, 0},
    };
    const struct cli_args_command args = {"encryption", "[options] [settings]", about,     notes,
                                          options,      FG_COUNT(options),      &all_verbs};
    int words, n_settings, code;
    const struct encryption_verb *verb =
        cli_args_begin_on_bucket(&args, argc, argv, &words, &n_settings, &code);

    if (verb == NULL)
        return code;
    if (words > 1)
        command.tenant = argv[1];
    if (fg_program_configure(def, n_settings, argv + words, &program, &command.err) != FG_OK)
        code = CLI_USAGE;
    else
        code = run_on_bucket(verb, &command) == FG_OK ? CLI_OK : CLI_FAILED;
    if (code != CLI_OK)
        fprintf(stderr, "flamegrid encryption %s: %s\n", verb->verb.name, command.err.msg);
    fg_program_forget(&program);
    return code;
}

int cli_encryption(int argc, char **argv)
{
    return single_with_def(with_def, argc, argv);
}
