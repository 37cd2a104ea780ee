#include "common/access/admin_api.h"

#include "common/access/audit_search.h"
#include "common/base/json.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/base/timespec.h"
#include "common/net/pbjson.h"
#include "common/runtime/log.h"

#include <openssl/crypto.h>

enum {
    BODY_MAX_BYTES = 1024 * 1024,
    ANSWER_MAX_BYTES = 64 * 1024 * 1024,
    ARENA_MAX_BYTES = 8 * 1024 * 1024,
    WHO_MAX_BYTES = 256,
    LIMITS_MAX = 100, /* of a request */
    AUDIT_RECORDS = 1000,
    AUDIT_MAX_BYTES = 32 * 1024 * 1024,
};

#define SWAP_TIMEOUT_NS  (20 * FG_SECOND_NS)
#define AUDIT_TIMEOUT_NS (60 * FG_SECOND_NS)
#define DAY_NS           (24 * FG_HOUR_NS)
#define TOKEN_DEFAULT_NS (365 * DAY_NS)
#define OVERLAP_NS       DAY_NS

#define TENANTS "/api/tenants"
#define TOKENS  "/api/tokens"
#define AUDIT   "/api/audit"

/* A request on its way. */
struct admin_call {
    struct fg_job job;
    struct fg_admin_api *api;
    struct fg_http_request *req;
    const struct fg_grant *grant;
    struct fg_access_registry *registry; /* that is known; a reference */
    struct fg_arena *arena;
    char who[WHO_MAX_BYTES];
    struct fg_access_who audited;
    struct fg_audit_event event;
    int64_t now_ms;
    struct fg_slice id;   /* of the tenant or token that the path names */
    struct fg_slice verb; /* behind its ':' or '/' */
    struct fg_slice made; /* the id of what was created, for the audit */
    struct fg_buf body;   /* the answer */
};

typedef enum fg_code (*action)(struct admin_call *call, struct fg_err *err);

/* ---- what callers may see and do ---- */

static bool is_admin(const struct admin_call *call)
{
    return (fg_grant_scopes(call->grant, FG_LIT("*")) & FG_SCOPE_ADMIN) != 0;
}

/* Returns whether the caller governs a tenant. */
static bool governs(const struct admin_call *call, const char *tenant)
{
    return is_admin(call) ||
           (strcmp(tenant, "*") != 0 &&
            (fg_grant_scopes(call->grant, fg_cstr(tenant)) & FG_SCOPE_TENANT_ADMIN));
}

static bool governs_token(const struct admin_call *call, const Access__Token *token)
{
    for (size_t i = 0; i < token->n_tenants; i++)
        if (!governs(call, token->tenants[i]))
            return false;
    return is_admin(call) || !(token->scopes & (FG_SCOPE_ADMIN | FG_SCOPE_METRICS));
}

static enum fg_code denied(const struct admin_call *call, const char *what, struct fg_err *err)
{
    return fg_fail(err, FG_E_DENIED, "%s may not %s", call->who, what);
}

static enum fg_code need_admin(const struct admin_call *call, const char *what, struct fg_err *err)
{
    return is_admin(call) ? FG_OK : denied(call, what, err);
}

/* ---- JSON ---- */

static void put_scopes(struct fg_json_writer *json, unsigned scopes)
{
    struct fg_buf names;
    struct fg_slice rest;

    fg_buf_init(&names, WHO_MAX_BYTES);
    fg_access_write_scopes(scopes, &names);
    rest = fg_buf_slice(&names);
    fg_json_begin_array(json, "scopes");
    while (rest.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(rest, ','), rest.len);

        fg_json_put_text(json, NULL, fg_slice_sub(rest, 0, comma));
        rest = fg_slice_sub(rest, comma + 1, SIZE_MAX);
    }
    fg_json_end(json);
    fg_buf_done(&names);
}

static void put_tenant(struct fg_json_writer *json, const Access__Tenant *tenant)
{
    static const char *const states[] = {"active", "suspended", "deleting"};

    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "id", tenant->id);
    fg_json_put_cstr(json, "state",
                     (unsigned)tenant->state < FG_COUNT(states) ? states[tenant->state]
                                                                : "unknown");
    fg_json_put_i64(json, "createdMs", tenant->created_ms);
    fg_json_put_cstr(json, "createdBy", tenant->created_by);
    fg_json_put_i64(json, "changedMs", tenant->changed_ms);
    fg_json_end(json);
}

static const char *token_state(const struct admin_call *call, const Access__Token *token)
{
    if (token->revoked_ms != 0)
        return "revoked";
    if (token->expires_ms != 0 && token->expires_ms <= call->now_ms)
        return "expired";
    return token->not_before_ms > call->now_ms ? "not yet valid" : "active";
}

/* Writes a token without its text. secret: the text, right after it was made; NULL at any other
 * time, since only its hash is stored. */
static void put_token(struct fg_json_writer *json, const struct admin_call *call,
                      const Access__Token *token, const char *secret)
{
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "id", token->id);
    fg_json_put_cstr(json, "name", token->name);
    fg_json_put_cstr(json, "state", token_state(call, token));
    fg_json_begin_array(json, "tenants");
    for (size_t i = 0; i < token->n_tenants; i++)
        fg_json_put_cstr(json, NULL, token->tenants[i]);
    fg_json_end(json);
    put_scopes(json, token->scopes);
    if (token->matchers[0] != '\0')
        fg_json_put_cstr(json, "matchers", token->matchers);
    if (token->tenant_label != NULL)
        fg_json_put_cstr(json, "tenantLabel", token->tenant_label->name);
    fg_json_put_i64(json, "createdMs", token->created_ms);
    fg_json_put_cstr(json, "createdBy", token->created_by);
    fg_json_put_i64(json, "expiresMs", token->expires_ms);
    if (token->revoked_ms != 0) {
        fg_json_put_i64(json, "revokedMs", token->revoked_ms);
        fg_json_put_cstr(json, "revokedBy", token->revoked_by);
    }
    if (token->n_secrets > 1)
        fg_json_put_i64(json, "oldSecretUntilMs", token->secrets[0]->expires_ms);
    if (secret != NULL)
        fg_json_put_cstr(json, "token", secret);
    fg_json_end(json);
}

/* ---- bodies ---- */

static enum fg_code read_body(struct admin_call *call, const ProtobufCMessageDescriptor *type,
                              ProtobufCMessage **ret_message, struct fg_err *err)
{
    struct fg_slice body = fg_http_body(call->req);

    /* No body is an object without members. */
    if (body.len == 0)
        body = FG_LIT("{}");
    return fg_pbjson_read(body, type, call->arena, ret_message, err) == FG_OK
               ? FG_OK
               : fg_wrap(err, "body");
}

/* text "": `otherwise`. */
static enum fg_code read_duration(const char *text, const char *name, int64_t otherwise_ns,
                                  int64_t *ret_ms, struct fg_err *err)
{
    int64_t ns = otherwise_ns;
    const char *fault = text[0] == '\0' ? NULL : fg_conf_read_duration(fg_cstr(text), &ns);

    if (fault != NULL || ns < 0)
        return fg_fail(err, FG_E_INVALID, "%s \"%.100s\": %s", name, text,
                       fault != NULL ? fault : "is negative");
    *ret_ms = ns / FG_MS_NS;
    return FG_OK;
}

/* ---- changes ---- */

/* Makes a change in the bucket and in what this process knows. */
static enum fg_code swap(struct admin_call *call, fg_access_edit edit, void *arg,
                         struct fg_err *err)
{
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + SWAP_TIMEOUT_NS;
    enum fg_code code =
        fg_access_swap(call->api->bucket, call->who, call->now_ms, deadline_ns, edit, arg, err);

    if (code == FG_OK)
        fg_access_refresh(call->api->access);
    return code;
}

static enum fg_code edit_create_tenant(void *arg, const struct fg_access_change *change,
                                       struct fg_err *err)
{
    const struct admin_call *call = arg;

    return fg_access_create_tenant(change, call->id, err);
}

static enum fg_code create_tenant(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    Access__Tenant tenant;
    ProtobufCMessage *body;

    if (need_admin(call, "create tenants", err) != FG_OK ||
        read_body(call, &access__create_tenant__descriptor, &body, err) != FG_OK)
        return err->code;
    call->id = fg_cstr(((Access__CreateTenant *)body)->id);
    if (swap(call, edit_create_tenant, call, err) != FG_OK)
        return err->code;
    fg_log_info("tenant created", fg_lb("tenant", call->id), fg_ls("by", call->who));
    access__tenant__init(&tenant);
    tenant.id = ((Access__CreateTenant *)body)->id;
    tenant.created_by = call->who;
    tenant.created_ms = tenant.changed_ms = call->now_ms;
    put_tenant(&json, &tenant);
    return FG_OK;
}

struct state_edit {
    struct fg_slice id;
    Access__Tenant__State state;
};

static enum fg_code edit_state(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct state_edit *edit = arg;

    return fg_access_set_tenant_state(change, edit->id, edit->state, err);
}

static enum fg_code set_state(struct admin_call *call, Access__Tenant__State state,
                              struct fg_err *err)
{
    static const char *const words[] = {"active", "suspended", "deleting"};
    struct fg_json_writer json = fg_json_writer(&call->body);
    struct state_edit edit = {call->id, state};

    if (need_admin(call, "change the state of tenants", err) != FG_OK ||
        swap(call, edit_state, &edit, err) != FG_OK)
        return err->code;
    fg_log_info("state of a tenant changed", fg_lb("tenant", call->id),
                fg_ls("state", words[state]), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_text(&json, "id", call->id);
    fg_json_put_cstr(&json, "state", words[state]);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code suspend_tenant(struct admin_call *call, struct fg_err *err)
{
    return set_state(call, ACCESS__TENANT__STATE__SUSPENDED, err);
}

static enum fg_code resume_tenant(struct admin_call *call, struct fg_err *err)
{
    return set_state(call, ACCESS__TENANT__STATE__ACTIVE, err);
}

static enum fg_code list_tenants(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Registry *message = call->registry->message;

    (void)err;
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "tenants");
    for (size_t i = 0; i < message->n_tenants; i++)
        if (governs(call, message->tenants[i]->id))
            put_tenant(&json, message->tenants[i]);
    fg_json_end(&json);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code find_tenant(const struct admin_call *call, const Access__Tenant **ret_tenant,
                                struct fg_err *err)
{
    const char *id = fg_arena_text(call->arena, call->id);

    *ret_tenant = fg_access_find_tenant(call->registry, call->id);
    /* Who may not see it does not learn whether it is there. */
    if (id == NULL || *ret_tenant == NULL || !governs(call, id))
        return fg_fail(err, FG_E_NOT_FOUND, "there is no tenant \"%.*s\"",
                       FG_S(fg_slice_sub(call->id, 0, FG_TENANT_MAX_BYTES)));
    return FG_OK;
}

static enum fg_code get_tenant(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Tenant *tenant;

    if (find_tenant(call, &tenant, err) != FG_OK)
        return err->code;
    put_tenant(&json, tenant);
    return FG_OK;
}

/* ---- limits ---- */

static bool is_in_registry(const Access__Tenant *tenant, const char *key)
{
    for (size_t i = 0; tenant != NULL && i < tenant->n_limits; i++)
        if (strcmp(tenant->limits[i]->name, key) == 0)
            return true;
    return false;
}

/* Where the value of a limit comes from. */
static const char *source_of(const struct fg_conf_field *field, const Access__Tenant *tenant,
                             struct fg_slice value, const struct fg_limits *defaults)
{
    struct fg_buf shared;
    bool same;

    if (is_in_registry(tenant, field->key))
        return "registry";
    fg_buf_init(&shared, BODY_MAX_BYTES);
    fg_conf_write_value(field, &defaults->values, &shared);
    same = fg_slice_eq(fg_buf_slice(&shared), value);
    fg_buf_done(&shared);
    return same ? "settings" : "tenants_file";
}

static void put_limits(struct fg_json_writer *json, const Access__Tenant *tenant,
                       const struct fg_limits *limits, const struct fg_limits *defaults)
{
    fg_json_begin_object(json, NULL);
    for (size_t i = 0; i < fg_limit_n_fields; i++) {
        const struct fg_conf_field *field = &fg_limit_fields[i];
        struct fg_buf value;

        fg_buf_init(&value, BODY_MAX_BYTES);
        fg_conf_write_value(field, &limits->values, &value);
        fg_json_begin_object(json, field->key);
        fg_json_put_text(json, "value", fg_buf_slice(&value));
        fg_json_put_cstr(json, "source", source_of(field, tenant, fg_buf_slice(&value), defaults));
        fg_json_end(json);
        fg_buf_done(&value);
    }
    fg_json_end(json);
}

static enum fg_code get_limits(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Tenant *tenant;
    struct fg_limits *limits, *defaults;

    if (find_tenant(call, &tenant, err) != FG_OK)
        return err->code;
    limits = fg_tenants_limits(call->api->tenants, call->id);
    defaults = fg_tenants_defaults(call->api->tenants);
    put_limits(&json, tenant, limits, defaults);
    fg_limits_unref(defaults);
    fg_limits_unref(limits);
    return FG_OK;
}

/* {"max_query_length": "7d", "spread": 2, "max_query_bytes": null}: null removes a limit. */
struct limits_edit {
    const struct admin_call *call;
    const struct fg_conf_field *fields[LIMITS_MAX];
    const char *values[LIMITS_MAX]; /* "": to be removed */
    size_t n;
};

static const struct fg_conf_field *limit_of(struct fg_slice name)
{
    for (size_t i = 0; i < fg_limit_n_fields; i++)
        if (fg_slice_is(name, fg_limit_fields[i].key))
            return &fg_limit_fields[i];
    return NULL;
}

static bool read_value(struct fg_json *json, struct fg_arena *arena, const char **ret_value)
{
    switch (fg_json_next(json)) {
    case FG_JSON_STRING:
        *ret_value = fg_arena_text(arena, fg_json_text(json, arena));
        break;
    case FG_JSON_NUMBER:
        *ret_value = fg_arena_text(arena, json->text);
        break;
    case FG_JSON_TRUE:
        *ret_value = "true";
        break;
    case FG_JSON_FALSE:
        *ret_value = "false";
        break;
    case FG_JSON_NULL:
        *ret_value = "";
        break;
    default:
        return false;
    }
    return *ret_value != NULL;
}

static enum fg_code read_limits(struct admin_call *call, struct limits_edit *edit,
                                struct fg_err *err)
{
    struct fg_json json = fg_json(fg_http_body(call->req));
    enum fg_json_token token;

    if (fg_json_next(&json) != FG_JSON_OBJECT)
        return fg_json_fail(&json, "expected an object", err);
    while ((token = fg_json_next(&json)) == FG_JSON_KEY) {
        struct fg_slice name = fg_json_text(&json, call->arena);
        const struct fg_conf_field *field = limit_of(name);

        if (field == NULL)
            return fg_fail(err, FG_E_INVALID, "there is no limit \"%.*s\"",
                           FG_S(fg_slice_sub(name, 0, WHO_MAX_BYTES)));
        if (edit->n == LIMITS_MAX)
            return fg_fail(err, FG_E_INVALID, "more than %d limits", LIMITS_MAX);
        edit->fields[edit->n] = field;
        if (!read_value(&json, call->arena, &edit->values[edit->n++]))
            return fg_json_fail(&json, "expected a string, a number, true, false or null", err);
    }
    if (token != FG_JSON_OBJECT_END || fg_json_next(&json) != FG_JSON_END)
        return fg_json_fail(&json, "expected a limit", err);
    return FG_OK;
}

static enum fg_code edit_limits(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    const struct limits_edit *edit = arg;
    struct fg_buf yaml;
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < edit->n; i++)
        if (fg_access_set_limit(change, edit->call->id, edit->fields[i]->key, edit->values[i],
                                err) != FG_OK)
            return err->code;
    /* All together, since limits may contradict each other. */
    fg_buf_init(&yaml, BODY_MAX_BYTES);
    for (size_t i = 0; i < change->registry->n_tenants; i++)
        if (fg_slice_is(edit->call->id, change->registry->tenants[i]->id))
            fg_access_limits_yaml(change->registry->tenants[i], &yaml);
    if (yaml.full)
        code = fg_fail(err, FG_E_LIMIT, "the limits of a tenant exceed 1 MiB");
    else if (yaml.len > 0)
        code = fg_tenants_check_override(edit->call->api->tenants, fg_buf_slice(&yaml), err);
    fg_buf_done(&yaml);
    return code;
}

static enum fg_code set_limits(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    struct limits_edit edit = {.call = call};

    if (need_admin(call, "change limits", err) != FG_OK || read_limits(call, &edit, err) != FG_OK ||
        swap(call, edit_limits, &edit, err) != FG_OK)
        return err->code;
    fg_log_info("limits of a tenant changed", fg_lb("tenant", call->id), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_text(&json, "id", call->id);
    fg_json_end(&json);
    return FG_OK;
}

/* ---- tokens ---- */

static enum fg_code edit_create_token(void *arg, const struct fg_access_change *change,
                                      struct fg_err *err)
{
    return fg_access_create_token(change, arg, err);
}

static enum fg_code fill_token(struct admin_call *call, const Access__CreateToken *wanted,
                               Access__Token *token, struct fg_err *err)
{
    int64_t lives_ms = 0;

    if (read_duration(wanted->expires_in, "expiresIn", TOKEN_DEFAULT_NS, &lives_ms, err) != FG_OK)
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
    return governs_token(call, token) ? FG_OK : denied(call, "create such a token", err);
}

static enum fg_code create_token(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    Access__Token token;
    Access__Secret secret = ACCESS__SECRET__INIT, *secrets[] = {&secret};
    char text[FG_TOKEN_CHARS + 1];
    struct fg_token made;
    ProtobufCMessage *body;

    access__token__init(&token);
    if (read_body(call, &access__create_token__descriptor, &body, err) != FG_OK ||
        fill_token(call, (Access__CreateToken *)body, &token, err) != FG_OK ||
        fg_access_make_secret(NULL, text, &made, err) != FG_OK)
        return err->code;
    token.id = made.id;
    secret.sha256 = (ProtobufCBinaryData){FG_TOKEN_HASH_BYTES, made.hash};
    token.n_secrets = 1;
    token.secrets = secrets;
    if (swap(call, edit_create_token, &token, err) != FG_OK)
        return err->code;
    fg_log_info("token created", fg_ls("token", token.id), fg_ls("name", token.name),
                fg_ls("by", call->who));
    put_token(&json, call, &token, text);
    OPENSSL_cleanse(text, sizeof text);
    call->made = fg_arena_copy(call->arena, fg_cstr(token.id));
    return FG_OK;
}

static enum fg_code list_tokens(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    struct fg_slice tenant = fg_http_param(call->req, "tenant");
    const Access__Registry *message = call->registry->message;

    (void)err;
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "tokens");
    for (size_t i = 0; i < message->n_tokens; i++) {
        const Access__Token *token = message->tokens[i];
        bool wanted = tenant.len == 0;

        for (size_t t = 0; t < token->n_tenants; t++)
            wanted |= fg_slice_is(tenant, token->tenants[t]);
        if (wanted && governs_token(call, token))
            put_token(&json, call, token, NULL);
    }
    fg_json_end(&json);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code find_token(const struct admin_call *call, const Access__Token **ret_token,
                               struct fg_err *err)
{
    *ret_token = fg_access_find_token(call->registry, call->id, NULL);
    if (*ret_token == NULL || !governs_token(call, *ret_token))
        return fg_fail(err, FG_E_NOT_FOUND, "there is no token \"%.*s\"",
                       FG_S(fg_slice_sub(call->id, 0, FG_TENANT_MAX_BYTES)));
    return FG_OK;
}

static enum fg_code get_token(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Token *token;

    if (find_token(call, &token, err) != FG_OK)
        return err->code;
    put_token(&json, call, token, NULL);
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

static enum fg_code rotate_token(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Token *token;
    struct token_edit edit = {.id = call->id};
    char text[FG_TOKEN_CHARS + 1];
    struct fg_token made;
    ProtobufCMessage *body;

    if (find_token(call, &token, err) != FG_OK ||
        read_body(call, &access__rotate_token__descriptor, &body, err) != FG_OK ||
        read_duration(((Access__RotateToken *)body)->overlap, "overlap", OVERLAP_NS,
                      &edit.overlap_ms, err) != FG_OK ||
        fg_access_make_secret(token->id, text, &made, err) != FG_OK)
        return err->code;
    edit.made = &made;
    if (swap(call, edit_rotate, &edit, err) != FG_OK)
        return err->code;
    fg_log_info("token rotated", fg_ls("token", token->id), fg_ls("by", call->who));
    put_token(&json, call, token, text);
    OPENSSL_cleanse(text, sizeof text);
    return FG_OK;
}

static enum fg_code edit_revoke(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    const struct token_edit *edit = arg;

    return fg_access_revoke_token(change, edit->id, err);
}

static enum fg_code revoke_token(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    struct token_edit edit = {.id = call->id};
    const Access__Token *token;

    if (find_token(call, &token, err) != FG_OK || swap(call, edit_revoke, &edit, err) != FG_OK)
        return err->code;
    fg_log_info("token revoked", fg_ls("token", token->id), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "id", token->id);
    fg_json_put_cstr(&json, "state", "revoked");
    fg_json_end(&json);
    return FG_OK;
}

/* ---- the audit ---- */

/* A record about several tenants names them all, so only who governs all of them may see it. What
 * is about no tenant is for admins. */
static bool may_see(void *arg, struct fg_slice tenants)
{
    const struct admin_call *call = arg;

    if (is_admin(call) || tenants.len == 0)
        return is_admin(call);
    while (tenants.len > 0) {
        size_t end = FG_MIN(fg_slice_find(tenants, '|'), tenants.len);
        char tenant[FG_TENANT_MAX_BYTES + 1];

        (void)snprintf(tenant, sizeof tenant, "%.*s", FG_S(fg_slice_sub(tenants, 0, end)));
        if (end > FG_TENANT_MAX_BYTES || !governs(call, tenant))
            return false;
        tenants = fg_slice_sub(tenants, end + 1, SIZE_MAX);
    }
    return true;
}

static enum fg_code read_time(struct admin_call *call, const char *name, int64_t otherwise_ms,
                              int64_t *ret_ms, struct fg_err *err)
{
    struct fg_slice text = fg_http_param(call->req, name);
    int64_t ns;

    *ret_ms = otherwise_ms;
    if (text.len == 0)
        return FG_OK;
    if (!fg_timespec_parse(text, call->now_ms * FG_MS_NS, &ns))
        return fg_fail(err, FG_E_INVALID, "%s is not a time, such as now-1d or 1700000000: %.*s",
                       name, FG_S(fg_slice_sub(text, 0, FG_TENANT_MAX_BYTES)));
    *ret_ms = ns / FG_MS_NS;
    return FG_OK;
}

static enum fg_code read_audit_params(struct admin_call *call, struct fg_audit_wanted *wanted,
                                      struct fg_err *err)
{
    struct fg_slice limit = fg_http_param(call->req, "limit");
    uint64_t n = AUDIT_RECORDS;

    if (read_time(call, "from", call->now_ms - DAY_NS / FG_MS_NS, &wanted->from_ms, err) != FG_OK ||
        read_time(call, "to", call->now_ms, &wanted->to_ms, err) != FG_OK)
        return err->code;
    if (limit.len > 0 && (!fg_parse_u64(limit, &n) || n < 1 || n > FG_AUDIT_SEARCH_MAX_RECORDS))
        return fg_fail(err, FG_E_INVALID, "limit has to be from 1 to %d",
                       FG_AUDIT_SEARCH_MAX_RECORDS);
    wanted->limit = n;
    wanted->who = fg_http_param(call->req, "who");
    wanted->tenant = fg_http_param(call->req, "tenant");
    wanted->kind = fg_http_param(call->req, "kind");
    wanted->may_see = may_see;
    wanted->arg = call;
    return FG_OK;
}

static enum fg_code list_audit(struct admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    fg_auto(fg_arena) *arena = fg_arena_create(AUDIT_MAX_BYTES);
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + AUDIT_TIMEOUT_NS;
    struct fg_audit_wanted wanted = {.from_ms = 0};
    struct fg_audit_found found;

    if (read_audit_params(call, &wanted, err) != FG_OK)
        return err->code;
    if (fg_audit_search(call->api->bucket, &wanted, deadline_ns, arena, &found, err) != FG_OK) {
        if (err->code == FG_E_DENIED || err->code == FG_E_NOT_FOUND)
            err->code = FG_E_UNAVAILABLE; /* of the bucket, which is no fault of the client */
        return err->code;
    }
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "records");
    for (size_t i = 0; i < found.n; i++) {
        fg_json_newline(&json);
        fg_buf_put(fg_json_value(&json, NULL), found.lines[i]);
    }
    fg_json_end(&json);
    if (found.next_ms != 0)
        fg_json_put_i64(&json, "nextMs", found.next_ms);
    if (found.n_unreadable > 0) {
        fg_json_begin_array(&json, "unreadable");
        for (size_t i = 0; i < FG_MIN(found.n_unreadable, (size_t)FG_AUDIT_SEARCH_NAMES_MAX); i++)
            fg_json_put_cstr(&json, NULL, found.unreadable[i]);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    return FG_OK;
}

/* ---- who asks ---- */

/* What the page has to know of a session. */
static void put_session(struct fg_json_writer *json, const struct fg_session *session)
{
    if (session == NULL)
        return;
    fg_json_put_text(json, "name", session->name);
    fg_json_put_i64(json, "expiresMs", (session->issued_s + FG_SESSION_MAX_S) * 1000);
    fg_buf_putc(fg_json_value(json, "csrf"), '"');
    fg_buf_hex(json->out, session->csrf, sizeof session->csrf);
    fg_buf_putc(json->out, '"');
}

static enum fg_code whoami(struct admin_call *call, struct fg_err *err)
{
    static const char *const modes[] = {"auto", "none", "header", "token"};
    static const char *const kinds[] = {"anyone", "token", "person"};
    struct fg_json_writer json = fg_json_writer(&call->body);
    const struct fg_grant *grant = call->grant;
    unsigned scopes = 0;

    (void)err;
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "mode", modes[fg_access_mode(call->api->access)]);
    fg_json_put_cstr(&json, "kind", kinds[grant->kind]);
    fg_json_put_cstr(&json, "subject", call->who);
    fg_json_begin_array(&json, "tenants");
    for (size_t i = 0; call->registry != NULL && i < call->registry->message->n_tenants; i++) {
        const Access__Tenant *tenant = call->registry->message->tenants[i];

        if (fg_grant_scopes(grant, fg_cstr(tenant->id)) != 0 &&
            tenant->state == ACCESS__TENANT__STATE__ACTIVE) {
            fg_json_put_cstr(&json, NULL, tenant->id);
            scopes |= fg_grant_scopes(grant, fg_cstr(tenant->id));
        }
    }
    fg_json_end(&json);
    fg_json_put_bool(&json, "tenancy", fg_tenants_are_several(call->api->tenants));
    put_scopes(&json, grant->kind == FG_GRANT_IDENTITY ? scopes
                      : grant->kind == FG_GRANT_TOKEN  ? grant->token->scopes
                                                       : FG_SCOPES_ALL);
    if (grant->kind == FG_GRANT_TOKEN)
        fg_json_put_i64(&json, "expiresMs", grant->token->expires_ms);
    put_session(&json, fg_access_session(call->req));
    fg_json_end(&json);
    return FG_OK;
}

/* ---- requests ---- */

/* The action of each path, chosen by the method and by the text behind the id. verb NULL: the path
 * has no id. */
static const struct {
    const char *path;
    unsigned method;
    const char *verb;
    action act;
} actions[] = {
    {TENANTS, FG_HTTP_GET, NULL, list_tenants},
    {TENANTS, FG_HTTP_POST, NULL, create_tenant},
    {TENANTS, FG_HTTP_GET, "", get_tenant},
    {TENANTS, FG_HTTP_POST, ":suspend", suspend_tenant},
    {TENANTS, FG_HTTP_POST, ":resume", resume_tenant},
    {TENANTS, FG_HTTP_GET, "/limits", get_limits},
    {TENANTS, FG_HTTP_PUT, "/limits", set_limits},
    {TOKENS, FG_HTTP_GET, NULL, list_tokens},
    {TOKENS, FG_HTTP_POST, NULL, create_token},
    {TOKENS, FG_HTTP_GET, "", get_token},
    {TOKENS, FG_HTTP_POST, ":rotate", rotate_token},
    {TOKENS, FG_HTTP_POST, ":revoke", revoke_token},
    {AUDIT, FG_HTTP_GET, NULL, list_audit},
    {"/api/whoami", FG_HTTP_GET, NULL, whoami},
};

/* Splits /api/tenants/ID:verb and /api/tenants/ID/verb. Returns false if there is no id. */
static bool split_path(struct admin_call *call, const char *root)
{
    struct fg_slice rest = fg_slice_sub(fg_http_path(call->req), strlen(root), SIZE_MAX);
    size_t end = 0;

    if (!fg_slice_starts(rest, "/"))
        return false;
    rest = fg_slice_sub(rest, 1, SIZE_MAX);
    while (end < rest.len && rest.ptr[end] != ':' && rest.ptr[end] != '/')
        end++;
    call->id = fg_slice_sub(rest, 0, end);
    call->verb = fg_slice_sub(rest, end, SIZE_MAX);
    return true;
}

static action find_action(struct admin_call *call)
{
    unsigned method = (unsigned)fg_http_method(call->req);

    if (method == FG_HTTP_HEAD)
        method = FG_HTTP_GET;
    for (size_t i = 0; i < FG_COUNT(actions); i++) {
        struct fg_slice path = fg_http_path(call->req);
        size_t len = strlen(actions[i].path);
        bool has_id;

        if (actions[i].method != method || !fg_slice_starts(path, actions[i].path) ||
            (path.len > len && path.ptr[len] != '/'))
            continue;
        has_id = split_path(call, actions[i].path);
        if (actions[i].verb == NULL ? !has_id : has_id && fg_slice_is(call->verb, actions[i].verb))
            return actions[i].act;
    }
    return NULL;
}

static bool is_change(const struct admin_call *call)
{
    return !(fg_http_method(call->req) & (FG_HTTP_GET | FG_HTTP_HEAD));
}

/* A change is not made unless the audit has it. */
static enum fg_code act_on_record(struct admin_call *call, action act, struct fg_err *err)
{
    enum fg_code code;

    if (fg_slice_starts(fg_http_path(call->req), TENANTS))
        call->event.tenant = call->id;
    call->event.detail = fg_slice_sub(fg_http_body(call->req), 0, FG_AUDIT_TEXT_MAX_BYTES);
    if (fg_audit_begin(call->api->audit, &call->event, err) != FG_OK)
        return err->code;
    code = act(call, err);
    call->event.detail = call->made;
    if (fg_slice_starts(fg_http_path(call->req), TENANTS))
        call->event.tenant = call->id; /* of one that was created */
    fg_audit_result(call->api->audit, &call->event, code, err);
    return code;
}

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct admin_call *call = fg_container(job, struct admin_call, job);
    action act = find_action(call);

    if (act == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "there is nothing like that");
    if (call->registry == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "the registry of access was not read yet");
    if ((is_change(call) ? act_on_record(call, act, err) : act(call, err)) != FG_OK)
        return err->code;
    fg_buf_putc(&call->body, '\n');
    return call->body.full ? fg_fail(err, FG_E_TOO_LARGE, "the answer is too large") : FG_OK;
}

static void done(struct fg_job *job)
{
    struct admin_call *call = fg_container(job, struct admin_call, job);

    fg_http_add_header(call->req, "Cache-Control", "no-store");
    if (job->code != FG_OK) {
        fg_http_respond_error(call->req, &job->err);
    } else {
        fg_http_respond(call->req, 200, "application/json", &call->body);
    }
    fg_buf_done(&call->body);
    fg_access_registry_unref(call->registry);
    fg_arena_destroy(call->arena);
    free(call);
}

static void on_request(struct fg_http_request *req, void *arg)
{
    struct fg_admin_api *api = arg;
    struct admin_call *call = fg_new(struct admin_call);

    call->api = api;
    call->req = req;
    call->grant = fg_access_grant(req);
    call->registry = fg_access_registry(api->access);
    call->arena = fg_arena_create(ARENA_MAX_BYTES);
    call->now_ms = fg_wall_ns(api->clock) / FG_MS_NS;
    call->job.home = fg_http_loop(req);
    call->job.run = run;
    call->job.done = done;
    fg_grant_describe(call->grant, call->who, sizeof call->who);
    call->event = fg_access_audit_event(req, FG_AUDIT_ADMIN, &call->audited);
    fg_buf_init(&call->body, ANSWER_MAX_BYTES);
    if (fg_work_submit(api->work, FG_LANE_QUERY, &call->job))
        return;
    call->job.code =
        fg_fail(&call->job.err, FG_E_LIMIT, "too many requests are waiting, try again");
    done(&call->job);
}

void fg_admin_api_routes(struct fg_admin_api *api, struct fg_http_server *server)
{
    const unsigned govern = FG_SCOPE_TENANT_ADMIN | FG_SCOPE_ADMIN;
    const struct fg_http_route routes[] = {
        {.methods = FG_HTTP_GET,
         .path = "/api/whoami",
         .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_KNOWN,
         .name = "whoami"},
        {.methods = FG_HTTP_GET,
         .path = AUDIT,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "audit"},
        {.methods = FG_HTTP_GET,
         .path = TENANTS,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "tenants"},
        {.methods = FG_HTTP_POST,
         .path = TENANTS,
         .kind = FG_HTTP_CHANGES,
         .scopes = FG_SCOPE_ADMIN,
         .name = "tenants"},
        {.methods = FG_HTTP_GET,
         .path = TENANTS "/",
         .prefix = true,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "tenant"},
        {.methods = FG_HTTP_POST | FG_HTTP_PUT,
         .path = TENANTS "/",
         .prefix = true,
         .kind = FG_HTTP_CHANGES,
         .scopes = FG_SCOPE_ADMIN,
         .name = "tenant"},
        {.methods = FG_HTTP_GET,
         .path = TOKENS,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "tokens"},
        {.methods = FG_HTTP_POST,
         .path = TOKENS,
         .kind = FG_HTTP_CHANGES,
         .scopes = govern,
         .name = "tokens"},
        {.methods = FG_HTTP_GET,
         .path = TOKENS "/",
         .prefix = true,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "token"},
        {.methods = FG_HTTP_POST,
         .path = TOKENS "/",
         .prefix = true,
         .kind = FG_HTTP_CHANGES,
         .scopes = govern,
         .name = "token"},
    };

    for (size_t i = 0; i < FG_COUNT(routes); i++) {
        struct fg_http_route route = routes[i];

        route.handler = on_request;
        route.arg = api;
        route.body_max_bytes = route.kind == FG_HTTP_READS ? 0 : BODY_MAX_BYTES;
        fg_http_server_route(server, &route);
    }
}
