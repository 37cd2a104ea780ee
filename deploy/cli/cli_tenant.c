/* `flamegrid tenant VERB [ID]`: tenants of a server and their limits, over /api/tenants. A verb is
 * a row of the table at the end. */
#include "common/base/str.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/show.h"

#include <string.h>

enum { PATH_MAX_BYTES = 1024 };

struct tenant_command {
    struct cli_client_config server;
    char *const *words; /* behind the verb */
    int n_words;
    bool json;
    struct cli_client *client;
    struct fg_err err;
};

struct tenant_verb {
    const char *name;
    int words_min, words_max; /* that have to follow, and may */
    enum fg_code (*run)(struct tenant_command *command);
};

static const char about[] =
    "Manages the tenants of a server, which needs a token with the scope admin. A tenant-admin "
    "may\n"
    "list its tenants and look at their limits.\n"
    "\n"
    "  list                     lists the tenants\n"
    "  create ID                makes one\n"
    "  suspend ID               refuses its pushes and queries, and keeps its data\n"
    "  resume ID                ends that\n"
    "  limits ID [NAME=VALUE..] shows its limits and where each comes from, or sets some;\n"
    "                           NAME= removes a limit of its own\n";

static const char notes[] =
    "examples:\n"
    "  flamegrid tenant create shop\n"
    "  flamegrid tenant limits shop max_query_length=31d ingestion_rate_mb=8\n"
    "  flamegrid tenant limits shop ingestion_rate_mb=\n";

/* ---- requests ---- */

/* Writes /api/tenants, and behind it an id and a verb. */
static void make_path(char out[PATH_MAX_BYTES], const char *id, const char *verb)
{
    struct fg_buf path;

    fg_buf_init(&path, PATH_MAX_BYTES - 1);
    fg_buf_puts(&path, "/api/tenants");
    if (id != NULL) {
        fg_buf_putc(&path, '/');
        fg_buf_url(&path, fg_cstr(id));
        fg_buf_puts(&path, verb);
    }
    (void)snprintf(out, PATH_MAX_BYTES, "%.*s", FG_S(fg_buf_slice(&path)));
    fg_buf_done(&path);
}

static enum fg_code get(struct tenant_command *command, const char *id, const char *verb,
                        json_t **ret_document)
{
    struct cli_client_reply reply = {0};
    char path[PATH_MAX_BYTES];

    make_path(path, id, verb);
    if (cli_client_get(command->client, path, &reply, &command->err) != FG_OK)
        return command->err.code;
    return cli_json_reply(&reply, ret_document, &command->err);
}

static enum fg_code post(struct tenant_command *command, const char *id, const char *verb,
                         json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT), path[PATH_MAX_BYTES];
    struct cli_client_reply reply = {0};
    json_t *document = NULL;
    enum fg_code code;

    make_path(path, id, verb);
    code = cli_client_post(command->client, path, "application/json", fg_cstr(text), &reply,
                           &command->err);
    free(text);
    json_decref(body);
    if (code != FG_OK || cli_json_reply(&reply, &document, &command->err) != FG_OK)
        return command->err.code;
    if (command->json)
        return cli_json_print(document, stdout, &command->err);
    printf("tenant %s is %s\n", json_string_value(json_object_get(document, "id")),
           json_string_value(json_object_get(document, "state")));
    json_decref(document);
    return FG_OK;
}

/* ---- verbs ---- */

static enum fg_code list(struct tenant_command *command)
{
    json_t *document = NULL, *tenant;
    size_t i;

    if (get(command, NULL, "", &document) != FG_OK)
        return command->err.code;
    if (command->json)
        return cli_json_print(document, stdout, &command->err);
    json_array_foreach(json_object_get(document, "tenants"), i, tenant)
        printf("%-40s %s\n", json_string_value(json_object_get(tenant, "id")),
               json_string_value(json_object_get(tenant, "state")));
    json_decref(document);
    return FG_OK;
}

static enum fg_code create(struct tenant_command *command)
{
    return post(command, NULL, "", json_pack("{s:s}", "id", command->words[0]));
}

static enum fg_code suspend(struct tenant_command *command)
{
    return post(command, command->words[0], ":suspend", json_object());
}

static enum fg_code resume(struct tenant_command *command)
{
    return post(command, command->words[0], ":resume", json_object());
}

static enum fg_code show_limits(struct tenant_command *command)
{
    json_t *document = NULL, *limit;
    const char *name;

    if (get(command, command->words[0], "/limits", &document) != FG_OK)
        return command->err.code;
    if (command->json)
        return cli_json_print(document, stdout, &command->err);
    json_object_foreach(document, name, limit)
        printf("%-44s %-16s %s\n", name, json_string_value(json_object_get(limit, "value")),
               json_string_value(json_object_get(limit, "source")));
    json_decref(document);
    return FG_OK;
}

static enum fg_code set_limits(struct tenant_command *command)
{
    json_t *body = json_object(), *document = NULL;
    struct cli_client_reply reply = {0};
    char path[PATH_MAX_BYTES], *text;
    enum fg_code code = FG_OK;

    for (int i = 1; i < command->n_words && code == FG_OK; i++) {
        const char *equals = strchr(command->words[i], '=');

        if (equals == NULL)
            code = fg_fail(&command->err, FG_E_INVALID, "%s is not NAME=VALUE", command->words[i]);
        else
            (void)json_object_setn_new(body, command->words[i],
                                       (size_t)(equals - command->words[i]),
                                       json_string(equals + 1));
    }
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    make_path(path, command->words[0], "/limits");
    if (code == FG_OK)
        code = cli_client_put(command->client, path, fg_cstr(text), &reply, &command->err);
    free(text);
    if (code != FG_OK || cli_json_reply(&reply, &document, &command->err) != FG_OK)
        return command->err.code;
    json_decref(document);
    printf("the limits of tenant %s are changed\n", command->words[0]);
    return FG_OK;
}

static enum fg_code limits(struct tenant_command *command)
{
    return command->n_words == 1 ? show_limits(command) : set_limits(command);
}

/* ---- the command ---- */

static const struct tenant_verb verbs[] = {
    {"list", 0, 0, list},     {"create", 1, 1, create},   {"suspend", 1, 1, suspend},
    {"resume", 1, 1, resume}, {"limits", 1, 100, limits},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS("flamegrid tenant", verbs);

static int run(struct tenant_command *command, const struct cli_args_command *args,
               const struct tenant_verb *verb)
{
    enum fg_code code;

    if (command->n_words < verb->words_min || command->n_words > verb->words_max) {
        (void)fg_fail(&command->err, FG_E_INVALID, "%s: %s", verb->name,
                      command->n_words < verb->words_min ? "an ID has to follow"
                                                         : "too many words");
        return cli_args_refuse(args, &command->err);
    }
    if (cli_client_create(&command->server, &command->client, &command->err) != FG_OK)
        return cli_args_refuse(args, &command->err);
    code = verb->run(command);
    cli_client_destroy(command->client);
    return code == FG_OK ? CLI_OK : cli_args_fail(args, &command->err);
}

int cli_tenant(int argc, char **argv)
{
    struct tenant_command command = {0};
    const struct cli_args_option options[] = {
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print JSON", 0, 0},
        CLIENT_OPTIONS(command.server),
    };
    const struct cli_args_command args = {
        "tenant", "list|create ID|suspend ID|resume ID|limits ID [NAME=VALUE...] [options]",
        about,    notes,
        options,  FG_COUNT(options)};
    const struct tenant_verb *verb;
    int words, code;

    verb = cli_args_begin_verb(&args, &all_verbs, argc, argv, &words, &code);
    if (verb == NULL)
        return code;
    command.words = argv + 1;
    command.n_words = words - 1;
    return run(&command, &args, verb);
}
