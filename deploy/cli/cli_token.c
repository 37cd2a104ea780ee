/* `flamegrid token VERB [ID]`: tokens of a server, over /api/tokens. A verb is a row of the table
 * at the end. */
#include "common/base/str.h"
#include "deploy/cli/admin.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"

#include <string.h>

enum { QUERY_MAX_BYTES = 1024 };

struct token_options {
    bool forever;
    const char *name, *tenants, *scopes, *matchers, *expires, *overlap;
    const char *label, *prefix, *otherwise; /* of tenant_label */
};

static const char about[] =
    "Manages the tokens by which agents, Grafana and people prove who they are. Needs a token "
    "with\n"
    "the scope admin, or tenant-admin for tokens of one's own tenants.\n"
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

/* ---- texts ---- */

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

/* Prints the hour in which a token was used last. since_ms: since when uses are recorded; 0: the
 * server could not say. */
static void print_last_use(const json_t *token, int64_t since_ms)
{
    int64_t last_ms = json_integer_value(json_object_get(token, "lastUsedMs"));
    bool is_older = json_integer_value(json_object_get(token, "createdMs")) < since_ms;
    json_t *time = cli_json_time((last_ms != 0 ? last_ms : since_ms) * 1000000);

    if (last_ms != 0)
        printf("used %-25.13s ", json_string_value(time));
    else if (since_ms != 0 && is_older)
        printf("not used since %-15.10s ", json_string_value(time));
    else
        printf("%-30s ", since_ms == 0 ? "last use unknown" : "never used");
    json_decref(time);
}

static void print_line(const json_t *token, int64_t since_ms)
{
    json_int_t expires_ms = json_integer_value(json_object_get(token, "expiresMs"));
    json_t *until = expires_ms == 0 ? NULL : cli_json_time((int64_t)expires_ms * 1000000);

    printf("%s  %-13s %-24s until %-24s ", text_of(token, "id"), text_of(token, "state"),
           text_of(token, "name"), until == NULL ? "for ever" : json_string_value(until));
    print_last_use(token, since_ms);
    print_list(json_object_get(token, "tenants"));
    printf("  ");
    print_list(json_object_get(token, "scopes"));
    printf("%s%s\n", text_of(token, "matchers")[0] == '\0' ? "" : "  ", text_of(token, "matchers"));
    json_decref(until);
}

/* ---- verbs ---- */

static enum fg_code list(struct cli_admin *admin)
{
    const struct token_options *options = admin->options;
    json_t *document = NULL, *token;
    struct fg_buf query;
    enum fg_code code;
    int64_t since_ms;
    size_t i;

    fg_buf_init(&query, QUERY_MAX_BYTES);
    if (options->tenants != NULL) {
        fg_buf_puts(&query, "?tenant=");
        fg_buf_url(&query, fg_cstr(options->tenants));
    }
    fg_buf_putc(&query, '\0');
    code = query.full
               ? fg_fail(&admin->err, FG_E_INVALID, "--tenants is too long")
               : cli_admin_get(admin, CLI_ADMIN_TOKENS, NULL, (const char *)query.ptr, &document);
    fg_buf_done(&query);
    if (code != FG_OK)
        return code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    since_ms = json_integer_value(json_object_get(document, "usesSinceMs"));
    json_array_foreach(json_object_get(document, "tokens"), i, token) print_line(token, since_ms);
    json_decref(document);
    return FG_OK;
}

/* Prints the text of a token alone to standard output, so that scripts can take it. */
static enum fg_code print_secret(struct cli_admin *admin, json_t *document)
{
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    fprintf(stderr, "Token %s (%s). It is shown once:\n", text_of(document, "id"),
            text_of(document, "name"));
    printf("%s\n", text_of(document, "token"));
    json_decref(document);
    return FG_OK;
}

static const char *or_nothing(const char *option)
{
    return option == NULL ? "" : option;
}

/* Returns what POST /api/tokens wants; NULL: an option is not UTF-8. */
static json_t *create_body(const struct token_options *options)
{
    json_t *body = json_pack("{s:s,s:o,s:o,s:s,s:s}", "name", options->name, "tenants",
                             split(options->tenants), "scopes", split(options->scopes), "matchers",
                             or_nothing(options->matchers), "expiresIn",
                             options->forever ? "0" : or_nothing(options->expires));

    if (body != NULL && options->label != NULL &&
        json_object_set_new(body, "tenantLabel",
                            json_pack("{s:s,s:s,s:s}", "name", options->label, "prefix",
                                      or_nothing(options->prefix), "otherwise",
                                      or_nothing(options->otherwise))) != 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}

/* Says which of the options that a token needs were not given. */
static enum fg_code fail_missing(const struct token_options *options, struct fg_err *err)
{
    const struct {
        const char *option, *value;
    } needed[] = {
        {"--name", options->name}, {"--tenants", options->tenants}, {"--scopes", options->scopes}};
    const char *missing[FG_COUNT(needed)];
    struct fg_buf list;
    size_t n = 0;

    for (size_t i = 0; i < FG_COUNT(needed); i++)
        if (needed[i].value == NULL)
            missing[n++] = needed[i].option;
    fg_buf_init(&list, QUERY_MAX_BYTES);
    for (size_t i = 0; i < n; i++)
        fg_buf_printf(&list, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", missing[i]);
    (void)fg_fail(err, FG_E_INVALID, "%.*s %s missing", FG_S(fg_buf_slice(&list)),
                  n == 1 ? "is" : "are");
    fg_buf_done(&list);
    return err->code;
}

static enum fg_code create(struct cli_admin *admin)
{
    const struct token_options *options = admin->options;
    json_t *document = NULL, *names;

    if (options->name == NULL || options->tenants == NULL || options->scopes == NULL)
        return fail_missing(options, &admin->err);
    if (options->expires != NULL && strcmp(options->expires, "0") == 0 && !options->forever)
        return fg_fail(&admin->err, FG_E_INVALID,
                       "a token without an end needs --forever: nobody notices when it is lost");
    if (cli_admin_post(admin, CLI_ADMIN_TOKENS, NULL, "", create_body(options), &document) != FG_OK)
        return admin->err.code;
    names = split(options->tenants);
    cli_admin_warn_token(admin, names);
    json_decref(names);
    return print_secret(admin, document);
}

static enum fg_code rotate(struct cli_admin *admin)
{
    const struct token_options *options = admin->options;
    json_t *document = NULL;

    if (cli_admin_post(admin, CLI_ADMIN_TOKENS, admin->words[0], ":rotate",
                       json_pack("{s:s}", "overlap", or_nothing(options->overlap)),
                       &document) != FG_OK)
        return admin->err.code;
    return print_secret(admin, document);
}

static enum fg_code revoke(struct cli_admin *admin)
{
    json_t *document = NULL;

    if (cli_admin_post(admin, CLI_ADMIN_TOKENS, admin->words[0], ":revoke", json_object(),
                       &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_decref(document);
    printf("token %s is revoked\n", admin->words[0]);
    return FG_OK;
}

/* ---- the command ---- */

static const struct cli_admin_verb verbs[] = {
    {{"list", NULL, 0, 0, "tenants",
      "lists the tokens that you govern, or those of a tenant, with the hour (UTC) of their last "
      "use\n"},
     list},
    {{"create", NULL, 0, 0,
      "name tenants scopes matchers tenant-label tenant-prefix otherwise expires-in forever",
      "makes a token and prints its secret; nothing can show the secret again\n"},
     create},
    {{"rotate", "ID", 1, 1, "overlap",
      "prints a new secret of a token; the old one stays valid for --overlap\n"},
     rotate},
    {{"revoke", "ID", 1, 1, NULL, "ends a token, everywhere within access.poll (10 s)\n"}, revoke},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

int cli_token(int argc, char **argv)
{
    struct token_options own = {0};
    struct cli_admin admin = {.options = &own};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"name",       0, ARGS_TEXT, &own.name,     "NAME",     "name the token after what it is for", 0, 0},
        {"tenants",    0, ARGS_TEXT, &own.tenants,  "A,B",      "give the token these tenants, * for all; list the tokens of this one", 0, 0},
        {"scopes",     0, ARGS_TEXT, &own.scopes,   "A,B",      "allow the token this", 0, 0},
        {"matchers",   0, ARGS_TEXT, &own.matchers, "SELECTOR", "restrict the token to profiles with these labels", 0, 0},
        {"tenant-label",  0, ARGS_TEXT, &own.label,     "LABEL",  "send each series to the tenant that its label LABEL names", 0, 0},
        {"tenant-prefix", 0, ARGS_TEXT, &own.prefix,    "PREFIX", "put PREFIX before the value of LABEL to get the tenant's name", 0, 0},
        {"otherwise",     0, ARGS_TEXT, &own.otherwise, "TENANT", "send series whose LABEL names no tenant of the token to this tenant", 0, 0},
        {"expires-in", 0, ARGS_TEXT, &own.expires,  "DURATION", "let the token expire after DURATION, such as 90d or 2y; default 1y", 0, 0},
        {"forever",    0, ARGS_FLAG, &own.forever,  NULL,       "make a token that never expires", 0, 0},
        {"overlap",    0, ARGS_TEXT, &own.overlap,  "DURATION", "keep the old secret valid for DURATION; default 24h", 0, 0},
        {"json",       0, ARGS_FLAG, &admin.json,     NULL,       "print JSON", 0, 0},
        CLIENT_ADMIN_OPTIONS(admin.server),
    };
    /* clang-format on */
    const struct cli_args_command args = {"token", "[options]",       about,     notes,
                                          options, FG_COUNT(options), &all_verbs};

    return cli_admin_main(&admin, &args, argc, argv);
}
