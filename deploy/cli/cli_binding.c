/* `flamegrid binding VERB [ID]`: bindings of a server, which give people and workloads roles in
 * tenants, over /api/bindings. A verb is a row of the table at the end. */
#include "deploy/cli/admin.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"

struct binding_options {
    const char *issuer, *claim, *value, *tenants, *role;
};

static const char about[] =
    "Manages bindings: whoever has a value in a claim of an issuer's token has a role in tenants.\n"
    "Needs a token with the scope admin, or tenant-admin for bindings to one of one's own "
    "tenants.\n"
    "Those of the setting access.bindings are not among them.\n"
    "\n"
    "Roles: sender, viewer, editor, admin, cluster-admin.\n";

static const char notes[] =
    "examples:\n"
    "  flamegrid binding create --issuer https://login.example --claim groups --value dev "
    "--tenants shop --role editor\n"
    "  flamegrid binding create --issuer https://kubernetes.default.svc --claim "
    "/kubernetes.io/namespace --value '*' --tenants '{value}' --role sender\n";

/* ---- verbs ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

static void print_line(const json_t *binding)
{
    printf("%s  %s %s=%s  %s in %s\n", text_of(binding, "id"), text_of(binding, "issuer"),
           text_of(binding, "claim"), text_of(binding, "value"), text_of(binding, "role"),
           text_of(binding, "tenants"));
}

static enum fg_code list(struct cli_admin *admin)
{
    json_t *document = NULL, *binding;
    size_t i;

    if (cli_admin_get(admin, CLI_ADMIN_BINDINGS, NULL, "", &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_array_foreach(json_object_get(document, "bindings"), i, binding) print_line(binding);
    json_decref(document);
    return FG_OK;
}

static enum fg_code create(struct cli_admin *admin)
{
    const struct binding_options *options = admin->options;
    json_t *document = NULL, *body;

    if (options->issuer == NULL || options->claim == NULL || options->value == NULL ||
        options->tenants == NULL || options->role == NULL)
        return fg_fail(&admin->err, FG_E_INVALID,
                       "create needs --issuer, --claim, --value, --tenants and --role");
    body =
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "issuer", options->issuer, "claim", options->claim,
                  "value", options->value, "tenants", options->tenants, "role", options->role);
    if (cli_admin_post(admin, CLI_ADMIN_BINDINGS, NULL, "", body, &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    print_line(document);
    json_decref(document);
    return FG_OK;
}

static enum fg_code delete (struct cli_admin *admin) {
    json_t *document = NULL;

    if (cli_admin_delete(admin, CLI_ADMIN_BINDINGS, admin->words[0], &document) !=
        FG_OK) return admin->err.code;
    if (admin->json) return cli_json_print(document, stdout, &admin->err);
    json_decref(document);
    printf("binding %s is deleted\n", admin->words[0]);
    return FG_OK;
}

/* ---- the command ---- */

static const struct cli_admin_verb verbs[] = {
    {{"list", NULL, 0, 0, NULL, "lists the bindings\n"}, list},
    {{"create", NULL, 0, 0, "issuer claim value tenants role", "makes a binding\n"}, create},
    {{"delete", "ID", 1, 1, NULL,
      "removes a binding, from the next request on, everywhere within access.poll (10 s)\n"},
     delete},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

int cli_binding(int argc, char **argv)
{
    struct binding_options own = {0};
    struct cli_admin admin = {.options = &own};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"issuer",  0, ARGS_TEXT, &own.issuer,  "URL",     "bind a claim of this issuer, one of access.issuers", 0, 0},
        {"claim",   0, ARGS_TEXT, &own.claim,   "CLAIM",   "compare this claim: a name, or a JSON pointer such as /realm_access/roles", 0, 0},
        {"value",   0, ARGS_TEXT, &own.value,   "VALUE",   "demand this value of the claim; * is any", 0, 0},
        {"tenants", 0, ARGS_TEXT, &own.tenants, "PATTERN", "give the role in these: a tenant, or with * at the end, or with {value}", 0, 0},
        {"role",    0, ARGS_TEXT, &own.role,    "ROLE",    "give this role", 0, 0},
        {"json",    0, ARGS_FLAG, &admin.json,  NULL,      "print JSON", 0, 0},
        CLIENT_ADMIN_OPTIONS(admin.server),
    };
    /* clang-format on */
    const struct cli_args_command args = {"binding", "[options]",       about,     notes,
                                          options,   FG_COUNT(options), &all_verbs};

    return cli_admin_main(&admin, &args, argc, argv);
}
