/* `flamegrid session revoke SUBJECT`: ends sessions of a person, over /api/sessions. */
#include "common/base/str.h"
#include "deploy/cli/admin.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"

static const char about[] =
    "Ends all sessions of a person that began until now. Needs a token with the scope admin. The\n"
    "person may log in again, unless the identity provider refuses.\n";

static enum fg_code revoke(struct cli_admin *admin)
{
    json_t *document = NULL;
    json_t *body = json_pack("{s:o}", "subject", cli_json_text(fg_cstr(admin->words[0])));

    if (cli_admin_post(admin, "/api/sessions:revoke", NULL, "", body, &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_decref(document);
    printf("the sessions of %s are ended\n", admin->words[0]);
    return FG_OK;
}

static const struct cli_admin_verb verbs[] = {
    {{"revoke", "SUBJECT", 1, 1, NULL,
      "ends the sessions, everywhere within access.poll (10 s). SUBJECT is the claim sub,\n"
      "which flamegrid audit list --kind login shows\n"},
     revoke},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

int cli_session(int argc, char **argv)
{
    struct cli_admin admin = {0};
    const struct cli_args_option options[] = {
        {"json", 0, ARGS_FLAG, &admin.json, NULL, "print JSON", 0, 0},
        CLIENT_ADMIN_OPTIONS(admin.server),
    };
    const struct cli_args_command args = {"session", "[options]",       about,     "",
                                          options,   FG_COUNT(options), &all_verbs};

    return cli_admin_main(&admin, &args, argc, argv);
}
