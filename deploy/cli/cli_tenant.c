/* `flamegrid tenant VERB [ID]`: tenants of a server and their limits, over /api/tenants. A verb is
 * a row of the table at the end. */
#include "deploy/cli/admin.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"

#include <string.h>
#include <time.h>

struct tenant_options {
    bool yes, wait;
};

enum { WAIT_SECONDS = 5 }; /* between two looks */

static const char about[] =
    "Manages the tenants of a server, which needs a token with the scope admin. A tenant-admin "
    "may\n"
    "list its tenants and look at their limits.\n";

static const char notes[] =
    "examples:\n"
    "  flamegrid tenant create shop\n"
    "  flamegrid tenant limits shop max_query_length=31d ingestion_rate_mb=8\n"
    "  flamegrid tenant limits shop ingestion_rate_mb=\n"
    "  flamegrid tenant delete shop --yes --wait\n";

/* ---- verbs ---- */

static enum fg_code list(struct cli_admin *admin)
{
    json_t *document = NULL, *tenant;
    size_t i;

    if (cli_admin_get(admin, CLI_ADMIN_TENANTS, NULL, "", &document) != FG_OK)
        return admin->err.code;
    /* This frees the document, here and in the verbs below. */
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_array_foreach(json_object_get(document, "tenants"), i, tenant)
        printf("%-40s %s\n", json_string_value(json_object_get(tenant, "id")),
               json_string_value(json_object_get(tenant, "state")));
    json_decref(document);
    return FG_OK;
}

/* Makes or changes a tenant, and prints its state. */
static enum fg_code change(struct cli_admin *admin, const char *id, const char *verb, json_t *body)
{
    json_t *document = NULL;

    if (cli_admin_post(admin, CLI_ADMIN_TENANTS, id, verb, body, &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    printf("tenant %s is %s\n", json_string_value(json_object_get(document, "id")),
           json_string_value(json_object_get(document, "state")));
    json_decref(document);
    return FG_OK;
}

static enum fg_code create(struct cli_admin *admin)
{
    json_t *body = json_pack("{s:o}", "id", cli_json_text(fg_cstr(admin->words[0])));

    if (change(admin, NULL, "", body) != FG_OK)
        return admin->err.code;
    cli_admin_warn_tenant(admin, admin->words[0]);
    return FG_OK;
}

static enum fg_code suspend(struct cli_admin *admin)
{
    return change(admin, admin->words[0], ":suspend", json_object());
}

static enum fg_code resume(struct cli_admin *admin)
{
    return change(admin, admin->words[0], ":resume", json_object());
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_time(const char *what, long long ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char text[32];

    if (ms != 0 && gmtime_r(&seconds, &tm) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm) > 0)
        printf("%-11s%s\n", what, text);
}

static void print_deletion(const json_t *deletion)
{
    if (deletion == NULL)
        return;
    print_time("asked", number_of(deletion, "askedMs"));
    printf("%-11s%s\n", "by", json_string_value(json_object_get(deletion, "askedBy")));
    printf("%-11s%lld keys shredded, %lld tokens revoked, %lld bindings removed\n", "at once",
           number_of(deletion, "keysShredded"), number_of(deletion, "tokensRevoked"),
           number_of(deletion, "bindingsRemoved"));
    print_time("begun", number_of(deletion, "begunMs"));
    if (json_object_get(deletion, "begunMs") != NULL)
        printf("%-11s%lld profiles in %lld blocks of %lld bytes, and in %lld segments\n", "listed",
               number_of(deletion, "profiles"), number_of(deletion, "blocks"),
               number_of(deletion, "blockBytes"), number_of(deletion, "segments"));
    print_time("ended", number_of(deletion, "endedMs"));
    if (json_object_get(deletion, "endedMs") != NULL)
        printf("%-11s%lld profiles, with those that came later\n", "removed",
               number_of(deletion, "profilesRemoved"));
}

static enum fg_code show(struct cli_admin *admin)
{
    json_t *tenant = NULL;

    if (cli_admin_get(admin, CLI_ADMIN_TENANTS, admin->words[0], "", &tenant) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(tenant, stdout, &admin->err);
    printf("%-11s%s\n", "tenant", json_string_value(json_object_get(tenant, "id")));
    printf("%-11s%s\n", "state", json_string_value(json_object_get(tenant, "state")));
    print_time("created", number_of(tenant, "createdMs"));
    print_deletion(json_object_get(tenant, "deletion"));
    json_decref(tenant);
    return FG_OK;
}

/* *ret_ended: nothing of the tenant is left. */
static enum fg_code has_ended(struct cli_admin *admin, bool *ret_ended)
{
    json_t *tenant = NULL;

    if (cli_admin_get(admin, CLI_ADMIN_TENANTS, admin->words[0], "", &tenant) != FG_OK)
        return admin->err.code;
    *ret_ended = strcmp(json_string_value(json_object_get(tenant, "state")), "deleted") == 0;
    json_decref(tenant);
    return FG_OK;
}

/* The server may be away for a while, which changes nothing. */
static enum fg_code await_end(struct cli_admin *admin)
{
    const struct timespec pause = {WAIT_SECONDS, 0};
    bool ended = false;

    (void)fprintf(stderr, "flamegrid: waiting until all objects of the tenant are deleted, which "
                          "takes an hour or two; it goes on without this command\n");
    /* Without a deadline: a member of the ring that is away delays the end as long as it is
     * away. */
    for (;;) {
        enum fg_code code = has_ended(admin, &ended);

        if (code != FG_OK && !fg_code_retry(code))
            return code;
        if (code == FG_OK && ended)
            return show(admin);
        (void)nanosleep(&pause, NULL);
    }
}

static enum fg_code delete_tenant(struct cli_admin *admin)
{
    const struct tenant_options *options = admin->options;
    json_t *document = NULL;

    /* The server does not ask again: this is the only question before the data goes. */
    if (!options->yes)
        return fg_fail(&admin->err, FG_E_INVALID,
                       "this deletes tenant %s with all its data for good, and nobody can bring "
                       "them back. Repeat it with --yes",
                       admin->words[0]);
    if (cli_admin_delete(admin, CLI_ADMIN_TENANTS, admin->words[0], &document) != FG_OK)
        return admin->err.code;
    if (options->wait) {
        json_decref(document);
        return await_end(admin);
    }
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_decref(document);
    printf("tenant %s is refused from now on, and its data is being deleted; flamegrid tenant show "
           "says when\nnothing is left\n",
           admin->words[0]);
    return FG_OK;
}

/* Limits of which nobody keeps count have no use. */
static void print_limit(const char *name, const json_t *limit)
{
    const json_t *used = json_object_get(limit, "used"), *reset = json_object_get(limit, "resetMs");
    time_t reset_s = (time_t)(json_integer_value(reset) / 1000);
    char until[64] = "";
    struct tm date;

    if (reset != NULL && gmtime_r(&reset_s, &date) != NULL)
        (void)strftime(until, sizeof until, ", next reset at %Y-%m-%dT%H:%M:%SZ", &date);
    printf("%-44s %-16s %s", name, json_string_value(json_object_get(limit, "value")),
           json_string_value(json_object_get(limit, "source")));
    if (used != NULL)
        printf(" (used: %.6g%s)", json_number_value(used), until);
    printf("\n");
}

static enum fg_code show_limits(struct cli_admin *admin)
{
    json_t *document = NULL, *limit;
    const char *name;

    if (cli_admin_get(admin, CLI_ADMIN_TENANTS, admin->words[0], "/limits", &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_object_foreach(document, name, limit) print_limit(name, limit);
    json_decref(document);
    return FG_OK;
}

static enum fg_code set_limits(struct cli_admin *admin)
{
    json_t *body = json_object(), *document = NULL;

    for (int i = 1; i < admin->n_words; i++) {
        const char *word = admin->words[i], *equals = strchr(word, '=');

        if (equals == NULL) {
            json_decref(body);
            return fg_fail(&admin->err, FG_E_INVALID, "%s is not NAME=VALUE", word);
        }
        /* NAME= gives an empty text, which the server takes for "remove it". */
        (void)json_object_setn_new(body, word, (size_t)(equals - word),
                                   cli_json_text(fg_cstr(equals + 1)));
    }
    if (cli_admin_put(admin, CLI_ADMIN_TENANTS, admin->words[0], "/limits", body, &document) !=
        FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_decref(document);
    printf("the limits of tenant %s are changed\n", admin->words[0]);
    return FG_OK;
}

static enum fg_code limits(struct cli_admin *admin)
{
    return admin->n_words == 1 ? show_limits(admin) : set_limits(admin);
}

/* ---- the command ---- */

static const struct cli_admin_verb verbs[] = {
    {{"list", NULL, 0, 0, NULL, "lists the tenants\n"}, list},
    {{"create", "ID", 1, 1, NULL, "makes a tenant\n"}, create},
    {{"show", "ID", 1, 1, NULL, "shows the state of a tenant, and what its deletion did\n"}, show},
    {{"suspend", "ID", 1, 1, NULL, "refuses pushes and queries of a tenant, and keeps its data\n"},
     suspend},
    {{"resume", "ID", 1, 1, NULL, "ends the suspension of a tenant\n"}, resume},
    {{"delete", "ID", 1, 1, "yes wait",
      "deletes a tenant with all its data, for good: profiles, settings, files, rules,\n"
      "bills and keys. Needs --yes\n"},
     delete_tenant},
    {{"limits", "ID [NAME=VALUE...]", 1, 100, NULL,
      "shows the limits of a tenant, where each comes from and what is used, or sets\n"
      "some; NAME= removes a limit of its own\n"},
     limits},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

int cli_tenant(int argc, char **argv)
{
    struct tenant_options own = {0};
    struct cli_admin admin = {.options = &own};
    const struct cli_args_option options[] = {
        {"yes", 0, ARGS_FLAG, &own.yes, NULL, "delete the tenant, and ask no further", 0, 0},
        {"wait", 0, ARGS_FLAG, &own.wait, NULL, "return when nothing of the tenant is left", 0, 0},
        {"json", 0, ARGS_FLAG, &admin.json, NULL, "print JSON", 0, 0},
        CLIENT_ADMIN_OPTIONS(admin.server),
    };
    const struct cli_args_command args = {"tenant", "[options]",       about,     notes,
                                          options,  FG_COUNT(options), &all_verbs};

    return cli_admin_main(&admin, &args, argc, argv);
}
