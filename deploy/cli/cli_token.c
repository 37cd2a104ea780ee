/* `flamegrid token VERB [ID]`: tokens of a server, over /api/tokens. A verb is a row of the table
 * at the end. */
#include "common/base/str.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/json_out.h"

#include <string.h>

enum { PATH_MAX_BYTES = 1024 };

struct token_command {
    struct cli_client_config server;
    const char *word; /* behind the verb; NULL: none */
    bool json, forever;
    const char *name, *tenants, *scopes, *matchers, *expires, *overlap;
    const char *label, *prefix, *otherwise; /* of tenant_label */
    struct cli_client *client;
    struct fg_err err;
};

struct token_verb {
    const char *name;
    bool word; /* an id has to follow */
    enum fg_code (*run)(struct token_command *command);
};

static const char about[] =
    "Manages the tokens by which agents, Grafana and people prove who they are. Needs a token "
    "with\n"
    "the scope admin, or tenant-admin for tokens of one's own tenants.\n"
    "\n"
    "  list       lists the tokens that you govern; with --tenants, those of a tenant\n"
    "  create     makes a token and prints it, which no command can do again\n"
    "  rotate ID  prints a new secret for a token; the old one is valid for --overlap more\n"
    "  revoke ID  ends a token, everywhere within access.poll (10 s)\n"
    "\n"
    "Scopes: push, read, forward, debuginfo, rules, share, delete, tenant-admin, admin, metrics.\n";

static const char notes[] =
    "examples:\n"
    "  flamegrid token create --name agents --tenants shop --scopes push\n"
    "  flamegrid token create --name grafana --tenants shop,web --scopes read --expires-in 90d\n"
    "  flamegrid token create --name team-a --tenants shop --scopes read --matchers "
    "'{namespace=\"a\"}'\n"
    "  flamegrid token create --name nodes --tenants team-a,team-b --scopes push --tenant-label "
    "namespace\n"
    "  flamegrid token rotate 4uJc0TqZ --overlap 24h\n";

/* ---- requests ---- */

/* Consumes the body. verb: behind the id, ":rotate"; "" without an id. */
static enum fg_code post(struct token_command *command, const char *verb, json_t *body,
                         json_t **ret_document)
{
    char *text = json_dumps(body, JSON_COMPACT), path[PATH_MAX_BYTES];
    struct cli_client_reply reply = {0};
    enum fg_code code;

    (void)snprintf(path, sizeof path, "/api/tokens%s%s%s", command->word == NULL ? "" : "/",
                   command->word == NULL ? "" : command->word, verb);
    code = cli_client_post(command->client, path, "application/json", fg_cstr(text), &reply,
                           &command->err);
    free(text);
    json_decref(body);
    return code != FG_OK ? code : cli_json_reply(&reply, ret_document, &command->err);
}

/* Returns a list of texts that are separated by commas; NULL: an empty one. */
static json_t *split(const char *list)
{
    json_t *array = json_array();
    struct fg_slice rest = fg_cstr(list == NULL ? "" : list);

    while (rest.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(rest, ','), rest.len);

        (void)json_array_append_new(array, cli_json_text(fg_trim(fg_slice_sub(rest, 0, comma))));
        rest = fg_slice_sub(rest, comma + 1, SIZE_MAX);
    }
    return array;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

/* Prints "a,b" from a list. */
static void print_list(const json_t *list)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) printf("%s%s", i == 0 ? "" : ",", json_string_value(item));
}

static void print_line(const json_t *token)
{
    json_int_t expires_ms = json_integer_value(json_object_get(token, "expiresMs"));
    json_t *until = expires_ms == 0 ? NULL : cli_json_time((int64_t)expires_ms * 1000000);

    printf("%s  %-13s %-24s until %-24s ", text_of(token, "id"), text_of(token, "state"),
           text_of(token, "name"), until == NULL ? "for ever" : json_string_value(until));
    print_list(json_object_get(token, "tenants"));
    printf("  ");
    print_list(json_object_get(token, "scopes"));
    printf("%s%s\n", text_of(token, "matchers")[0] == '\0' ? "" : "  ", text_of(token, "matchers"));
    json_decref(until);
}

/* ---- verbs ---- */

static enum fg_code list(struct token_command *command)
{
    struct cli_client_reply reply = {0};
    json_t *document = NULL, *token;
    struct fg_buf path;
    enum fg_code code;
    size_t i;

    fg_buf_init(&path, PATH_MAX_BYTES);
    fg_buf_puts(&path, "/api/tokens");
    if (command->tenants != NULL) {
        fg_buf_puts(&path, "?tenant=");
        fg_buf_url(&path, fg_cstr(command->tenants));
    }
    fg_buf_putc(&path, '\0');
    code = path.full
               ? fg_fail(&command->err, FG_E_INVALID, "--tenants is too long")
               : cli_client_get(command->client, (const char *)path.ptr, &reply, &command->err);
    fg_buf_done(&path);
    if (code != FG_OK || cli_json_reply(&reply, &document, &command->err) != FG_OK)
        return command->err.code;
    if (command->json)
        return cli_json_print(document, stdout, &command->err);
    json_array_foreach(json_object_get(document, "tokens"), i, token) print_line(token);
    json_decref(document);
    return FG_OK;
}

/* Prints the text of a token alone to standard output, so that scripts can take it. */
static enum fg_code print_secret(struct token_command *command, json_t *document)
{
    if (command->json)
        return cli_json_print(document, stdout, &command->err);
    fprintf(stderr, "Token %s (%s). It is shown once:\n", text_of(document, "id"),
            text_of(document, "name"));
    printf("%s\n", text_of(document, "token"));
    json_decref(document);
    return FG_OK;
}

static enum fg_code create(struct token_command *command)
{
    json_t *body, *document = NULL;

    if (command->name == NULL || command->tenants == NULL || command->scopes == NULL)
        return fg_fail(&command->err, FG_E_INVALID, "create needs --name, --tenants and --scopes");
    if (command->expires != NULL && strcmp(command->expires, "0") == 0 && !command->forever)
        return fg_fail(&command->err, FG_E_INVALID,
                       "a token without an end needs --forever: nobody notices when it is lost");
    body = json_pack("{s:s,s:o,s:o,s:s,s:s}", "name", command->name, "tenants",
                     split(command->tenants), "scopes", split(command->scopes), "matchers",
                     command->matchers == NULL ? "" : command->matchers, "expiresIn",
                     command->forever           ? "0"
                     : command->expires == NULL ? ""
                                                : command->expires);
    if (body == NULL)
        return fg_fail(&command->err, FG_E_INVALID, "options have to be UTF-8");
    if (command->label != NULL)
        (void)json_object_set_new(body, "tenantLabel",
                                  json_pack("{s:s,s:s,s:s}", "name", command->label, "prefix",
                                            command->prefix == NULL ? "" : command->prefix,
                                            "otherwise",
                                            command->otherwise == NULL ? "" : command->otherwise));
    if (post(command, "", body, &document) != FG_OK)
        return command->err.code;
    return print_secret(command, document);
}

static enum fg_code rotate(struct token_command *command)
{
    json_t *document = NULL;

    if (post(command, ":rotate",
             json_pack("{s:s}", "overlap", command->overlap == NULL ? "" : command->overlap),
             &document) != FG_OK)
        return command->err.code;
    return print_secret(command, document);
}

static enum fg_code revoke(struct token_command *command)
{
    json_t *document = NULL;

    if (post(command, ":revoke", json_object(), &document) != FG_OK)
        return command->err.code;
    if (command->json)
        return cli_json_print(document, stdout, &command->err);
    json_decref(document);
    printf("token %s is revoked\n", command->word);
    return FG_OK;
}

/* ---- the command ---- */

static const struct token_verb verbs[] = {
    {"list", false, list},
    {"create", false, create},
    {"rotate", true, rotate},
    {"revoke", true, revoke},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS("flamegrid token", verbs);

static bool is_id(const char *word)
{
    for (; *word != '\0'; word++)
        if (strchr("/?#%:", *word) != NULL)
            return false;
    return true;
}

static int run(struct token_command *command, const struct cli_args_command *args,
               const struct token_verb *verb, int words)
{
    enum fg_code code;

    if (verb->word != (words == 2) || (command->word != NULL && !is_id(command->word))) {
        (void)fg_fail(&command->err, FG_E_INVALID, "%s: %s", verb->name,
                      verb->word ? "the ID of a token has to follow" : "too many words");
        return cli_args_refuse(args, &command->err);
    }
    if (cli_client_create(&command->server, &command->client, &command->err) != FG_OK)
        return cli_args_refuse(args, &command->err);
    code = verb->run(command);
    cli_client_destroy(command->client);
    return code == FG_OK ? CLI_OK : cli_args_fail(args, &command->err);
}

int cli_token(int argc, char **argv)
{
    struct token_command command = {0};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"name",       0, ARGS_TEXT, &command.name,     "NAME",     "create: what it is for", 0, 0},
        {"tenants",    0, ARGS_TEXT, &command.tenants,  "A,B",      "create: its tenants; * is all", 0, 0},
        {"scopes",     0, ARGS_TEXT, &command.scopes,   "A,B",      "create: what it may do", 0, 0},
        {"matchers",   0, ARGS_TEXT, &command.matchers, "SELECTOR", "create: only profiles with these labels", 0, 0},
        {"tenant-label",  0, ARGS_TEXT, &command.label,     "LABEL",  "create: each series goes to the tenant that this label names", 0, 0},
        {"tenant-prefix", 0, ARGS_TEXT, &command.prefix,    "PREFIX", "create: stands before the value of that label", 0, 0},
        {"otherwise",     0, ARGS_TEXT, &command.otherwise, "TENANT", "create: for series whose label names no tenant of the token", 0, 0},
        {"expires-in", 0, ARGS_TEXT, &command.expires,  "DURATION", "create: 90d; else a year", 0, 0},
        {"forever",    0, ARGS_FLAG, &command.forever,  NULL,       "create: it does not expire", 0, 0},
        {"overlap",    0, ARGS_TEXT, &command.overlap,  "DURATION", "rotate: the old secret is valid so long; else 24h", 0, 0},
        {"json",       0, ARGS_FLAG, &command.json,     NULL,       "print JSON", 0, 0},
        CLIENT_OPTIONS(command.server),
    };
    /* clang-format on */
    const struct cli_args_command args = {"token", "list|create|rotate ID|revoke ID [options]",
                                          about,   notes,
                                          options, FG_COUNT(options)};
    const struct token_verb *verb;
    int words, code;

    verb = cli_args_begin_verb(&args, &all_verbs, argc, argv, &words, &code);
    if (verb == NULL)
        return code;
    command.word = words > 1 ? argv[1] : NULL;
    return run(&command, &args, verb, words);
}
