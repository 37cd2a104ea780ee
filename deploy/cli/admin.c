#include "deploy/cli/admin.h"

#include "common/base/str.h"
#include "common/model/tenant_id.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"

enum { PATH_MAX_BYTES = 4096 }; /* of a URL: an id and a few parameters */

/* ---- requests ---- */

typedef enum fg_code (*sending)(struct cli_admin *admin, const char *path, struct fg_slice body,
                                struct cli_client_reply *ret_reply);

static enum fg_code send_get(struct cli_admin *admin, const char *path, struct fg_slice body,
                             struct cli_client_reply *ret_reply)
{
    (void)body;
    return cli_client_get(admin->client, path, ret_reply, &admin->err);
}

static enum fg_code send_post(struct cli_admin *admin, const char *path, struct fg_slice body,
                              struct cli_client_reply *ret_reply)
{
    return cli_client_post(admin->client, path, "application/json", body, ret_reply, &admin->err);
}

static enum fg_code send_act(struct cli_admin *admin, const char *path, struct fg_slice body,
                             struct cli_client_reply *ret_reply)
{
    (void)body;
    return cli_client_act(admin->client, path, ret_reply, &admin->err);
}

static enum fg_code send_put(struct cli_admin *admin, const char *path, struct fg_slice body,
                             struct cli_client_reply *ret_reply)
{
    return cli_client_put(admin->client, path, body, ret_reply, &admin->err);
}

static enum fg_code send_delete(struct cli_admin *admin, const char *path, struct fg_slice body,
                                struct cli_client_reply *ret_reply)
{
    (void)body;
    return cli_client_delete(admin->client, path, ret_reply, &admin->err);
}

static enum fg_code send_request(struct cli_admin *admin, sending send, const char *root,
                                 const char *id, const char *rest, struct fg_slice body,
                                 json_t **ret_document)
{
    struct cli_client_reply reply = {0};
    struct fg_buf path;
    enum fg_code code;

    fg_buf_init(&path, PATH_MAX_BYTES);
    fg_buf_puts(&path, root);
    if (id != NULL) {
        fg_buf_putc(&path, '/');
        fg_buf_url(&path, fg_cstr(id));
    }
    fg_buf_puts(&path, rest);
    fg_buf_putc(&path, '\0');
    code = path.full ? fg_fail(&admin->err, FG_E_INVALID, "a name is too long")
                     : send(admin, (const char *)path.ptr, body, &reply);
    fg_buf_done(&path);
    return code != FG_OK ? code : cli_json_reply(&reply, ret_document, &admin->err);
}

/* Consumes the document. */
static enum fg_code ask_with(struct cli_admin *admin, sending send, const char *root,
                             const char *id, const char *rest, json_t *document,
                             json_t **ret_document)
{
    char *text = json_dumps(document, JSON_COMPACT);
    enum fg_code code =
        text == NULL ? fg_fail(&admin->err, FG_E_INVALID, "options have to be UTF-8")
                     : send_request(admin, send, root, id, rest, fg_cstr(text), ret_document);

    free(text);
    json_decref(document);
    return code;
}

enum fg_code cli_admin_get(struct cli_admin *admin, const char *root, const char *id,
                           const char *rest, json_t **ret_document)
{
    return send_request(admin, send_get, root, id, rest, fg_bytes(NULL, 0), ret_document);
}

enum fg_code cli_admin_post(struct cli_admin *admin, const char *root, const char *id,
                            const char *rest, json_t *body, json_t **ret_document)
{
    return ask_with(admin, send_post, root, id, rest, body, ret_document);
}

enum fg_code cli_admin_act(struct cli_admin *admin, const char *root, const char *id,
                           const char *rest, json_t **ret_document)
{
    return send_request(admin, send_act, root, id, rest, fg_bytes(NULL, 0), ret_document);
}

enum fg_code cli_admin_put(struct cli_admin *admin, const char *root, const char *id,
                           const char *rest, json_t *body, json_t **ret_document)
{
    return ask_with(admin, send_put, root, id, rest, body, ret_document);
}

enum fg_code cli_admin_delete(struct cli_admin *admin, const char *root, const char *id,
                              json_t **ret_document)
{
    return send_request(admin, send_delete, root, id, "", fg_bytes(NULL, 0), ret_document);
}

/* ---- warnings ---- */

/* Returns what the server says of itself and the caller; NULL: nothing. The caller frees it. */
static json_t *ask_about(struct cli_admin *admin)
{
    json_t *document = NULL;

    return cli_admin_get(admin, "/api/whoami", NULL, "", &document) == FG_OK ? document : NULL;
}

static bool has_one_tenant(const json_t *about)
{
    return json_is_false(json_object_get(about, "tenancy"));
}

static void warn_of_one(const char *name)
{
    if (strcmp(name, "*") != 0 && strcmp(name, FG_TENANT_ONLY) != 0)
        (void)fprintf(
            stderr,
            "flamegrid: nobody reaches tenant %s: the server has one tenant, " FG_TENANT_ONLY
            ", until it is started with --multitenancy_enabled true\n",
            name);
}

void cli_admin_warn_tenant(struct cli_admin *admin, const char *name)
{
    json_t *about = ask_about(admin);

    if (has_one_tenant(about))
        warn_of_one(name);
    json_decref(about);
}

static bool is_among(const json_t *tenants, const char *name)
{
    const json_t *tenant;
    bool found = false;
    size_t i;

    json_array_foreach(tenants, i, tenant)
    {
        const char *id = json_string_value(json_object_get(tenant, "id"));

        found = found || (id != NULL && strcmp(id, name) == 0);
    }
    return found;
}

static void warn_of_unknown(struct cli_admin *admin, const json_t *names)
{
    json_t *document = NULL;
    const json_t *name;
    size_t i;

    if (cli_admin_get(admin, CLI_ADMIN_TENANTS, NULL, "", &document) != FG_OK)
        return;
    json_array_foreach(names, i, name)
    {
        const char *text = json_string_value(name);

        if (strcmp(text, "*") != 0 && !is_among(json_object_get(document, "tenants"), text))
            (void)fprintf(stderr,
                          "flamegrid: the server does not know tenant %s: flamegrid tenant create "
                          "%s makes it\n",
                          text, text);
    }
    json_decref(document);
}

void cli_admin_warn_token(struct cli_admin *admin, const json_t *tenants)
{
    json_t *about = ask_about(admin);
    const char *mode = json_string_value(json_object_get(about, "mode"));
    const json_t *name;
    size_t i;

    if (mode != NULL && (strcmp(mode, "none") == 0 || strcmp(mode, "header") == 0))
        (void)fprintf(
            stderr,
            "flamegrid: the server asks nobody for a token (access.mode is %s) until it is "
            "started with --access.mode token\n",
            mode);
    if (has_one_tenant(about))
        json_array_foreach(tenants, i, name) warn_of_one(json_string_value(name));
    else
        warn_of_unknown(admin, tenants);
    json_decref(about);
}

/* ---- the command ---- */

int cli_admin_main(struct cli_admin *admin, const struct cli_args_command *args, int argc,
                   char **argv)
{
    const struct cli_admin_verb *verb;
    enum fg_code code;
    int words, exit_code;

    verb = cli_args_begin_verb(args, argc, argv, &words, &exit_code);
    if (verb == NULL)
        return exit_code;
    admin->words = argv + 1;
    admin->n_words = words - 1;
    if (cli_client_create(&admin->server, &admin->client, &admin->err) != FG_OK)
        return cli_args_refuse(args, &admin->err);
    code = verb->run(admin);
    cli_client_destroy(admin->client);
    return code == FG_OK ? CLI_OK : cli_args_end(args, &admin->err);
}
