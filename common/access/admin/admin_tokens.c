#include "common/access/admin/admin_api_impl.h"
#include "common/access/registry/token_uses_object.h"
#include "common/runtime/log.h"

#include <openssl/crypto.h>

/* Times for a request that names none: a forgotten token ends after a year, and agents have a day
 * to get the new secret. */
#define TOKEN_DEFAULT_NS (365 * FG_ADMIN_DAY_NS)
#define OVERLAP_NS       FG_ADMIN_DAY_NS

/* Needs all tenants of the token: a rotation answers with a secret that is good for each of them.
 * The scopes admin and metrics are about the whole cluster. */
static bool governs_token(const struct fg_admin_call *call, const Access__Token *token)
{
    for (size_t i = 0; i < token->n_tenants; i++)
        if (!fg_admin_governs(call, token->tenants[i]))
            return false;
    return fg_admin_is_admin(call) || !(token->scopes & (FG_SCOPE_ADMIN | FG_SCOPE_METRICS));
}

static const char *token_state(const struct fg_admin_call *call, const Access__Token *token)
{
    if (token->revoked_ms != 0)
        return "revoked";
    if (token->expires_ms != 0 && token->expires_ms <= call->now_ms)
        return "expired";
    return token->not_before_ms > call->now_ms ? "not yet valid" : "active";
}

static void put_tenant_label(struct fg_json_writer *json, const Access__TenantLabel *label)
{
    fg_json_begin_object(json, "tenantLabel");
    fg_json_put_cstr(json, "name", label->name);
    if (label->n_tenants > 0) {
        fg_json_begin_array(json, "tenants");
        for (size_t i = 0; i < label->n_tenants; i++) {
            fg_json_begin_object(json, NULL);
            fg_json_put_cstr(json, "value", label->tenants[i]->value);
            fg_json_put_cstr(json, "tenant", label->tenants[i]->tenant);
            fg_json_end(json);
        }
        fg_json_end(json);
    }
    if (label->prefix[0] != '\0')
        fg_json_put_cstr(json, "prefix", label->prefix);
    if (label->otherwise[0] != '\0')
        fg_json_put_cstr(json, "otherwise", label->otherwise);
    fg_json_end(json);
}

/* Returns when tokens were used last, in the arena; NULL: the bucket does not say. */
static const Access__TokenUses *read_uses(struct fg_admin_call *call, struct fg_arena *arena)
{
    const Access__TokenUses *uses;
    struct fg_err err;

    if (fg_access_uses(call->api->access, arena, &uses, &err) == FG_OK)
        return uses;
    fg_log_warn("when tokens were used last could not be read", fg_ls("err", err.msg));
    return NULL;
}

static void put_last_use(struct fg_json_writer *json, const Access__Token *token,
                         const Access__TokenUses *uses)
{
    int64_t last_ms = uses == NULL ? 0 : fg_token_uses_last_ms(uses, token->id);

    if (last_ms != 0)
        fg_json_put_i64(json, "lastUsedMs", last_ms);
}

/* Writes since when uses are recorded, without which "never" means nothing. */
static void put_uses_since(struct fg_json_writer *json, const Access__TokenUses *uses)
{
    if (uses != NULL)
        fg_json_put_i64(json, "usesSinceMs", uses->since_ms);
}

/* Writes the members of a token, without its text. */
static void put_members(struct fg_json_writer *json, const struct fg_admin_call *call,
                        const Access__Token *token)
{
    fg_json_put_cstr(json, "id", token->id);
    fg_json_put_cstr(json, "name", token->name);
    fg_json_put_cstr(json, "state", token_state(call, token));
    fg_json_begin_array(json, "tenants");
    for (size_t i = 0; i < token->n_tenants; i++)
        fg_json_put_cstr(json, NULL, token->tenants[i]);
    fg_json_end(json);
    fg_admin_put_scopes(json, token->scopes);
    if (token->matchers[0] != '\0')
        fg_json_put_cstr(json, "matchers", token->matchers);
    if (token->tenant_label != NULL)
        put_tenant_label(json, token->tenant_label);
    fg_json_put_i64(json, "createdMs", token->created_ms);
    fg_json_put_cstr(json, "createdBy", token->created_by);
    fg_json_put_i64(json, "expiresMs", token->expires_ms);
    if (token->revoked_ms != 0) {
        fg_json_put_i64(json, "revokedMs", token->revoked_ms);
        fg_json_put_cstr(json, "revokedBy", token->revoked_by);
    }
    if (token->n_secrets > 1)
        fg_json_put_i64(json, "oldSecretUntilMs", token->secrets[0]->expires_ms);
}

/* Answers with a token and its text, right after that was made: only its hash is stored. */
static void answer_secret(struct fg_admin_call *call, const Access__Token *token,
                          const char *secret)
{
    struct fg_json_writer json = fg_json_writer(&call->body);

    fg_json_begin_object(&json, NULL);
    put_members(&json, call, token);
    fg_json_put_cstr(&json, "token", secret);
    fg_json_end(&json);
}

static enum fg_code edit_create_token(void *arg, const struct fg_access_change *change,
                                      struct fg_err *err)
{
    return fg_access_create_token(change, arg, err);
}

static enum fg_code fill_token(struct fg_admin_call *call, const Access__CreateToken *wanted,
                               Access__Token *token, struct fg_err *err)
{
    int64_t lives_ms = 0;

    if (fg_admin_read_duration(wanted->expires_in, "expiresIn", TOKEN_DEFAULT_NS, &lives_ms, err) !=
        FG_OK)
        return err->code;
    for (size_t i = 0; i < wanted->n_scopes; i++) {
        unsigned scopes;

        if (fg_access_read_scopes(fg_cstr(wanted->scopes[i]), &scopes, err) != FG_OK)
            return err->code;
        token->scopes |= scopes;
    }
    token->name = wanted->name;
    token->n_tenants = wanted->n_tenants;
    token->tenants = wanted->tenants;
    token->matchers = wanted->matchers;
    token->tenant_label = wanted->tenant_label;
    token->created_ms = call->now_ms;
    token->created_by = call->who;
    token->expires_ms = lives_ms == 0 ? 0 : call->now_ms + lives_ms;
    return governs_token(call, token) ? FG_OK : fg_admin_denied(call, "create such a token", err);
}

enum fg_code fg_admin_create_token(struct fg_admin_call *call, struct fg_err *err)
{
    Access__Token token;
    Access__Secret secret = ACCESS__SECRET__INIT, *secrets[] = {&secret};
    char text[FG_TOKEN_CHARS + 1];
    struct fg_token made;
    ProtobufCMessage *body;

    access__token__init(&token);
    if (fg_admin_read_body(call, &access__create_token__descriptor, &body, err) != FG_OK ||
        fill_token(call, (Access__CreateToken *)body, &token, err) != FG_OK ||
        fg_access_make_secret(NULL, text, &made, err) != FG_OK)
        return err->code;
    /* The secret was made before the swap, which may run its edit several times: each try has to
     * add the same token. */
    token.id = made.id;
    secret.sha256 = (ProtobufCBinaryData){FG_TOKEN_HASH_BYTES, made.hash};
    token.n_secrets = 1;
    token.secrets = secrets;
    if (fg_admin_swap(call, edit_create_token, &token, err) != FG_OK)
        return err->code;
    fg_log_info("token created", fg_ls("token", token.id), fg_ls("name", token.name),
                fg_ls("by", call->who));
    answer_secret(call, &token, text);
    OPENSSL_cleanse(text, sizeof text);
    /* A copy, since the audit needs the id when `made` is gone. */
    call->made = fg_arena_copy(call->arena, fg_cstr(token.id));
    return FG_OK;
}

enum fg_code fg_admin_list_tokens(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Registry *message = call->registry->message;
    fg_auto(fg_arena) *arena = fg_arena_create(FG_TOKEN_USES_ARENA_BYTES);
    const Access__TokenUses *uses;
    struct fg_slice tenant;

    if (fg_admin_read_tenant(call, &tenant, err) != FG_OK)
        return err->code;
    uses = read_uses(call, arena);
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "tokens");
    for (size_t i = 0; i < message->n_tokens; i++) {
        const Access__Token *token = message->tokens[i];
        bool wanted = tenant.len == 0;

        for (size_t t = 0; t < token->n_tenants; t++)
            wanted |= fg_slice_is(tenant, token->tenants[t]);
        if (!wanted || !governs_token(call, token))
            continue;
        fg_json_begin_object(&json, NULL);
        put_members(&json, call, token);
        put_last_use(&json, token, uses);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    put_uses_since(&json, uses);
    fg_json_end(&json);
    return FG_OK;
}

/* A token of others is answered like one that does not exist, so nobody can find out which ids
 * there are. */
static enum fg_code find_token(const struct fg_admin_call *call, const Access__Token **ret_token,
                               struct fg_err *err)
{
    *ret_token = fg_access_find_token(call->registry, call->id, NULL);
    if (*ret_token == NULL || !governs_token(call, *ret_token))
        return fg_fail(err, FG_E_NOT_FOUND, "there is no token \"%.*s\"",
                       FG_S(fg_slice_sub(call->id, 0, FG_TENANT_MAX_BYTES)));
    return FG_OK;
}

enum fg_code fg_admin_get_token(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    fg_auto(fg_arena) *arena = fg_arena_create(FG_TOKEN_USES_ARENA_BYTES);
    const Access__TokenUses *uses;
    const Access__Token *token;

    if (find_token(call, &token, err) != FG_OK)
        return err->code;
    uses = read_uses(call, arena);
    fg_json_begin_object(&json, NULL);
    put_members(&json, call, token);
    put_last_use(&json, token, uses);
    put_uses_since(&json, uses);
    fg_json_end(&json);
    return FG_OK;
}

struct token_edit {
    struct fg_slice id;
    const struct fg_token *made;
    int64_t overlap_ms;
};

static enum fg_code edit_rotate(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    const struct token_edit *edit = arg;

    return fg_access_rotate_token(change, edit->id, edit->made->hash, edit->overlap_ms, err);
}

/* Answers with the token as it is after the swap, with the end of its old secret. Only if this
 * process could not read the registry since is it as it was before. */
static void answer_rotated(struct fg_admin_call *call, const Access__Token *before,
                           const char *secret)
{
    struct fg_access_registry *registry = fg_access_registry(call->api->access);
    const Access__Token *token = fg_access_find_token(registry, call->id, NULL);

    answer_secret(call, token == NULL ? before : token, secret);
    fg_access_registry_unref(registry);
}

enum fg_code fg_admin_rotate_token(struct fg_admin_call *call, struct fg_err *err)
{
    const Access__Token *token;
    struct token_edit edit = {.id = call->id};
    char text[FG_TOKEN_CHARS + 1];
    struct fg_token made;
    ProtobufCMessage *body;

    if (find_token(call, &token, err) != FG_OK ||
        fg_admin_read_body(call, &access__rotate_token__descriptor, &body, err) != FG_OK ||
        fg_admin_read_duration(((Access__RotateToken *)body)->overlap, "overlap", OVERLAP_NS,
                               &edit.overlap_ms, err) != FG_OK ||
        fg_access_make_secret(token->id, text, &made, err) != FG_OK)
        return err->code;
    edit.made = &made;
    if (fg_admin_swap(call, edit_rotate, &edit, err) != FG_OK)
        return err->code;
    fg_log_info("token rotated", fg_ls("token", token->id), fg_ls("by", call->who));
    answer_rotated(call, token, text);
    OPENSSL_cleanse(text, sizeof text);
    return FG_OK;
}

static enum fg_code edit_revoke(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    const struct token_edit *edit = arg;

    return fg_access_revoke_token(change, edit->id, err);
}

enum fg_code fg_admin_revoke_token(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    struct token_edit edit = {.id = call->id};
    const Access__Token *token;

    if (find_token(call, &token, err) != FG_OK ||
        fg_admin_swap(call, edit_revoke, &edit, err) != FG_OK)
        return err->code;
    fg_log_info("token revoked", fg_ls("token", token->id), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "id", token->id);
    fg_json_put_cstr(&json, "state", "revoked");
    fg_json_end(&json);
    return FG_OK;
}
