/* `flamegrid whoami`: who one is for the server, and what one may do. */
#include "common/model/tenant_id.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/json_out.h"

struct whoami_command {
    struct cli_client_config server;
    bool json;
    struct fg_err err;
};

static void print_list(const char *title, const json_t *list)
{
    const json_t *item;
    size_t i;

    printf("%-9s", title);
    json_array_foreach(list, i, item) printf("%s%s", i == 0 ? "" : ", ", json_string_value(item));
    printf("\n");
}

/* Consumes the document. */
static enum fg_code print(struct whoami_command *command, json_t *document)
{
    const char *subject = json_string_value(json_object_get(document, "subject"));
    const char *issuer = json_string_value(json_object_get(document, "issuer"));
    const char *mode = json_string_value(json_object_get(document, "mode"));
    const char *kind = json_string_value(json_object_get(document, "kind"));
    const char *matchers = json_string_value(json_object_get(document, "matchers"));

    if (command->json)
        return cli_json_print(document, stdout, &command->err);
    printf("%-9s%s\n%-9s%s\n", "you are", subject == NULL ? "" : subject, "mode",
           mode == NULL ? "" : mode);
    if (issuer != NULL)
        printf("%-9s%s\n", "issuer", issuer);
    if (json_is_false(json_object_get(document, "tenancy")))
        printf("%-9s%s, the only one\n", "tenants", FG_TENANT_ONLY);
    else if (kind != NULL && strcmp(kind, "anyone") == 0)
        printf("%-9sany\n", "tenants");
    else
        print_list("tenants", json_object_get(document, "tenants"));
    print_list("scopes", json_object_get(document, "scopes"));
    if (matchers != NULL)
        printf("%-9s%s\n", "matchers", matchers);
    json_decref(document);
    return FG_OK;
}

static enum fg_code ask_server(struct whoami_command *command)
{
    fg_auto(cli_client) *client = NULL;
    struct cli_client_reply reply = {0};
    json_t *document = NULL;

    if (cli_client_create(&command->server, &client, &command->err) != FG_OK ||
        cli_client_get(client, "/api/whoami", &reply, &command->err) != FG_OK ||
        cli_json_reply(&reply, &document, &command->err) != FG_OK)
        return command->err.code;
    return print(command, document);
}

int cli_whoami(int argc, char **argv)
{
    struct whoami_command command = {0};
    const struct cli_args_option options[] = {
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print JSON", 0, 0},
        CLIENT_ADMIN_OPTIONS(command.server),
    };
    const struct cli_args_command args = {
        "whoami", "[options]", "Says who you are for the server, and what you may do.\n",
        "",       options,     FG_COUNT(options),
        NULL};
    int words, code;

    if (!cli_args_begin(&args, argc, argv, &words, &code))
        return code;
    if (words > 0) {
        (void)fg_fail(&command.err, FG_E_INVALID, "unexpected word \"%.100s\"", argv[0]);
        return cli_args_refuse(&args, &command.err);
    }
    return ask_server(&command) == FG_OK ? CLI_OK : cli_args_fail(&args, &command.err);
}
