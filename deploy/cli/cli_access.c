/* `flamegrid access init`: the first token of a server, in the bucket, before or while the server
 * runs. */
#include "common/access/access.h"
#include "common/net/guard.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/on_record.h"
#include "deploy/single/server.h"

#include <openssl/crypto.h>

static const int64_t TIMEOUT_NS = 30 * FG_SECOND_NS;

static const char about[] = "Gives access to a server for the first time.\n";

static const char notes[] =
    "The server may run or not; it has to have access.mode: token to ask for tokens. Works on the\n"
    "bucket that a server with the same settings has: --config FILE, --data DIR, --bucket.type s3\n"
    "and so on, or FG_... in the environment.\n"
    "\n"
    "examples:\n"
    "  flamegrid access init --data ./data\n"
    "  flamegrid access init --config /etc/flamegrid/server.yaml\n"
    "  export FLAMEGRID_TOKEN=fgt_...\n"
    "  flamegrid tenant create shop\n"
    "  flamegrid token create --tenants shop --scopes push --name agents\n";

static const char next_steps[] =
    "Next, with it in FLAMEGRID_TOKEN, or on the page of the server, under Admin:\n"
    "  flamegrid token create --name agents --tenants anonymous --scopes push   # sends profiles\n"
    "  flamegrid token create --name me --tenants anonymous --scopes read       # looks at them\n"
    "With multitenancy_enabled the tenants are those of `flamegrid tenant create`.\n";

struct init_command {
    bool again, json;
    const char *name;
    Access__Token token;
    int64_t now_ms;
};

static enum fg_code add_admin(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct init_command *command = arg;

    if (!command->again && fg_access_has_admin(change->registry, change->now_ms))
        return fg_fail(err, FG_E_EXISTS,
                       "there is a token with the scope admin; --again makes another one");
    return fg_access_create_token(change, &command->token, err);
}

struct init_change {
    struct fg_bucket *bucket;
    struct init_command *command;
};

static enum fg_code swap(void *arg, struct fg_audit_event *event, struct fg_err *err)
{
    const struct init_change *change = arg;

    (void)event;
    return fg_access_swap(
        &(struct fg_access_writer){.bucket = change->bucket,
                                   .by = "flamegrid access init",
                                   .now_ms = change->command->now_ms,
                                   .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS},
        add_admin, change->command, err);
}

/* Prints the text of the token alone to standard output, so that scripts can take it. */
static enum fg_code print(const struct init_command *command, const char *text, struct fg_err *err)
{
    if (command->json)
        return cli_json_print(json_pack("{s:s,s:o,s:[s],s:[s,s],s:I,s:s}", "id", command->token.id,
                                        "name", cli_json_text(fg_cstr(command->name)), "tenants",
                                        "*", "scopes", "admin", "tenant-admin", "expiresMs",
                                        (json_int_t)command->token.expires_ms, "token", text),
                              stdout, err);
    fprintf(stderr, "The first token, on standard output, is shown only this once. It may do "
                    "everything but read and send profiles.\n");
    printf("%s\n", text);
    fprintf(stderr, "%s", next_steps);
    return FG_OK;
}

static enum fg_code init(struct init_command *command, struct fg_err *err)
{
    const int64_t year_ms = INT64_C(365) * 24 * 3600 * 1000;
    struct fg_bucket *bucket = NULL;
    Access__Secret secret = ACCESS__SECRET__INIT, *secrets[] = {&secret};
    char all[] = "*", *tenants[] = {all}, text[FG_TOKEN_CHARS + 1];
    struct fg_token made;
    enum fg_code code;

    if (fg_access_make_secret(NULL, text, &made, err) != FG_OK ||
        single_make_bucket(&bucket, err) != FG_OK)
        return err->code;
    command->now_ms = fg_wall_ns(fg_clock_real()) / FG_MS_NS;
    secret.sha256 = (ProtobufCBinaryData){FG_TOKEN_HASH_BYTES, made.hash};
    access__token__init(&command->token);
    command->token.id = made.id;
    command->token.name = (char *)(uintptr_t)command->name; /* only packed, never written to */
    command->token.n_tenants = 1;
    command->token.tenants = tenants;
    command->token.scopes = FG_SCOPE_ADMIN | FG_SCOPE_TENANT_ADMIN;
    command->token.n_secrets = 1;
    command->token.secrets = secrets;
    command->token.expires_ms = command->now_ms + year_ms;
    code = cli_on_record(bucket, "flamegrid-access",
                         (struct fg_audit_event){.kind = FG_AUDIT_ADMIN,
                                                 .who = FG_LIT("flamegrid access init"),
                                                 .detail = fg_cstr(command->token.id)},
                         swap, &(struct init_change){bucket, command}, err);
    fg_bucket_close(bucket);
    if (code == FG_OK)
        code = print(command, text, err);
    access__token__init(&command->token); /* it referred to what ends here */
    OPENSSL_cleanse(text, sizeof text);
    return code;
}

static const struct access_verb {
    struct cli_args_verb verb;
} verbs[] = {
    {{"init", NULL, 0, 0, NULL,
      "makes the first token of a server, with the scopes admin and tenant-admin, and\n"
      "prints it once. It is valid for a year\n"}},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

static int with_def(const struct fg_program_def *def, int argc, char **argv)
{
    struct init_command command = {.name = "admin"};
    const struct cli_args_option options[] = {
        {"again", 0, ARGS_FLAG, &command.again, NULL,
         "make a further token although there is one with the scope admin: it was lost", 0, 0},
        {"name", 0, ARGS_TEXT, &command.name, "NAME", "give the token this name; default admin", 0,
         0},
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print the token as JSON", 0, 0},
    };
    const struct cli_args_command args = {"access", "[options] [settings]", about,     notes,
                                          options,  FG_COUNT(options),      &all_verbs};
    struct fg_program program;
    struct fg_err err;
    int words, n_settings, code;

    if (cli_args_begin_on_bucket(&args, argc, argv, &words, &n_settings, &code) == NULL)
        return code;
    if (fg_program_configure(def, n_settings, argv + words, &program, &err) != FG_OK)
        code = cli_args_refuse(&args, &err);
    else
        code = init(&command, &err) == FG_OK ? CLI_OK : cli_args_fail(&args, &err);
    fg_program_forget(&program);
    return code;
}

int cli_access(int argc, char **argv)
{
    return single_with_def(with_def, argc, argv);
}
