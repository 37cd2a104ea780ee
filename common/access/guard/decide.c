#include "common/access/guard/decide.h"

#include "common/base/str.h"

enum { BASIC_MAX_BYTES = 512 }; /* of a user name and a token, in base64 */

/* ---- who it is ---- */

struct fg_slice fg_credentials_of(struct fg_slice header, const char *scheme)
{
    size_t len = strlen(scheme);

    if (header.len <= len || !fg_slice_is_nocase(fg_slice_sub(header, 0, len), scheme) ||
        header.ptr[len] != ' ')
        return fg_bytes(NULL, 0);
    return fg_trim(fg_slice_sub(header, len, SIZE_MAX));
}

/* The token is the password (RFC 7617), since that is all that some agents can send. */
static bool read_basic(struct fg_slice encoded, struct fg_grant *grant, struct fg_token *token)
{
    uint8_t decoded[BASIC_MAX_BYTES];
    struct fg_slice text;
    size_t len, colon;

    if (encoded.len > BASIC_MAX_BYTES || !fg_parse_base64(encoded, decoded, &len))
        return false;
    text = fg_bytes(decoded, len);
    colon = fg_slice_find(text, ':');
    if (colon >= sizeof grant->user)
        return false;
    /* A user with a NUL is no tenant and is ignored; the password counts all the same. */
    if (memchr(decoded, '\0', colon) == NULL) {
        memcpy(grant->user, decoded, colon);
        grant->user[colon] = '\0';
    }
    return fg_token_read(fg_slice_sub(text, colon + 1, SIZE_MAX), token);
}

static bool read_token(struct fg_slice authorization, struct fg_grant *grant,
                       struct fg_token *token)
{
    struct fg_slice bearer = fg_credentials_of(authorization, "Bearer");

    return bearer.ptr != NULL ? fg_token_read(bearer, token)
                              : read_basic(fg_credentials_of(authorization, "Basic"), grant, token);
}

/* What a stranger is compared with, so that it takes as long as an id that is known. */
static const uint8_t no_hash[FG_TOKEN_HASH_BYTES];

static enum fg_code decide_token(const struct fg_access_facts *facts, struct fg_grant *grant,
                                 char ret_id[FG_TOKEN_ID_CHARS + 1], struct fg_err *err)
{
    struct fg_token token;
    const Access__Token *known = NULL;
    uint32_t at = 0;
    bool valid = false;

    if (facts->authorization.ptr == NULL)
        return fg_fail(
            err, FG_E_NO_TENANT,
            "this server wants to know who you are: send Authorization: Bearer TOKEN, or "
            "the token as the password of Basic");
    if (read_token(facts->authorization, grant, &token)) {
        memcpy(ret_id, token.id, sizeof token.id);
        if (grant->registry != NULL)
            known = fg_access_find_token(grant->registry, fg_cstr(token.id), &at);
        valid = known != NULL ? fg_access_token_is_valid(known, token.hash, facts->now_ms)
                              : fg_token_hash_eq(no_hash, token.hash);
    }
    /* One sentence for all reasons: it tells nobody whether an id exists. */
    if (!valid || known == NULL)
        return fg_fail(err, FG_E_NO_TENANT, "the credentials are not valid");
    grant->kind = FG_GRANT_TOKEN;
    grant->token = known;
    if (known->matchers[0] != '\0')
        grant->matchers = &grant->registry->matchers[at];
    if (grant->registry->uses != NULL)
        grant->use = grant->registry->uses[at];
    return FG_OK;
}

/* ---- what it may do ---- */

static bool role_is_for(const struct fg_access_role *role, struct fg_slice tenant)
{
    struct fg_slice pattern = role->tenants;

    if (!fg_slice_ends(pattern, "*"))
        return fg_slice_eq(pattern, tenant);
    pattern.len--;
    return tenant.len >= pattern.len && fg_slice_eq(fg_slice_sub(tenant, 0, pattern.len), pattern);
}

static bool token_names(const Access__Token *token, struct fg_slice tenant)
{
    for (size_t i = 0; i < token->n_tenants; i++)
        if (strcmp(token->tenants[i], "*") == 0 || fg_slice_is(tenant, token->tenants[i]))
            return true;
    return false;
}

/* A token that lists the name may have been made for an earlier tenant of it, which was deleted. */
static bool token_is_for(const struct fg_grant *grant, struct fg_slice tenant)
{
    const Access__Token *token = grant->token;
    const Access__Tenant *known = fg_access_find_tenant(grant->registry, tenant);
    bool earlier =
        known != NULL && known->replaced_ms != 0 && token->created_ms <= known->replaced_ms;

    for (size_t i = 0; i < token->n_tenants; i++)
        if (strcmp(token->tenants[i], "*") == 0 ||
            (!earlier && fg_slice_is(tenant, token->tenants[i])))
            return true;
    return false;
}

unsigned fg_grant_scopes(const struct fg_grant *grant, struct fg_slice tenant)
{
    unsigned scopes = 0;

    switch (grant->kind) {
    case FG_GRANT_ANYONE:
        return FG_SCOPES_ALL & ~grant->denied;
    case FG_GRANT_TOKEN:
        return token_is_for(grant, tenant) ? grant->token->scopes : 0;
    case FG_GRANT_IDENTITY:
        for (size_t i = 0; i < grant->identity.n_roles; i++)
            if (role_is_for(&grant->identity.roles[i], tenant))
                scopes |= grant->identity.roles[i].scopes;
        return scopes;
    }
    return 0;
}

/* For any tenant at all. */
static unsigned scopes_of(const struct fg_grant *grant)
{
    unsigned scopes = 0;

    if (grant->kind == FG_GRANT_ANYONE)
        return FG_SCOPES_ALL & ~grant->denied;
    if (grant->kind == FG_GRANT_TOKEN)
        return grant->token->scopes;
    for (size_t i = 0; i < grant->identity.n_roles; i++)
        scopes |= grant->identity.roles[i].scopes;
    return scopes;
}

void fg_person_describe(struct fg_slice issuer, struct fg_slice subject, char *out, size_t size)
{
    struct fg_slice from = fg_slice_sub(issuer, 0, size / 2);
    size_t others = from.len + strlen(" ()") + 1;

    (void)snprintf(out, size, "%.*s (%.*s)",
                   FG_S(fg_slice_sub(subject, 0, size > others ? size - others : 0)), FG_S(from));
}

void fg_grant_describe(const struct fg_grant *grant, char *out, size_t size)
{
    switch (grant->kind) {
    case FG_GRANT_ANYONE:
        (void)snprintf(out, size, "anyone");
        break;
    case FG_GRANT_TOKEN:
        (void)snprintf(out, size, "token %s (%s)", grant->token->id, grant->token->name);
        break;
    case FG_GRANT_IDENTITY:
        fg_person_describe(grant->identity.issuer, grant->identity.subject, out, size);
        break;
    }
}

/* Names the scopes that would do: any one of them is enough. */
static enum fg_code lacks_scope(const struct fg_grant *grant, struct fg_err *err)
{
    char who[FG_ACCESS_NAME_MAX_BYTES + 1];
    struct fg_buf names;

    if (grant->denied & grant->demanded)
        return fg_fail(err, FG_E_DENIED,
                       "with access.mode header nobody is known to be an admin here: ask at the "
                       "address of admin_listen");
    fg_grant_describe(grant, who, sizeof who);
    fg_buf_init(&names, FG_ERR_MSG_MAX_BYTES);
    fg_access_write_scopes(grant->demanded, &names);
    (void)fg_fail(err, FG_E_DENIED, "%s needs %s %.*s", who,
                  __builtin_popcount(grant->demanded) == 1 ? "the scope" : "one of the scopes",
                  FG_S(fg_buf_slice(&names)));
    fg_buf_done(&names);
    return err->code;
}

enum fg_code fg_access_decide(const struct fg_access_facts *facts,
                              struct fg_access_registry *registry, struct fg_grant *ret_grant,
                              char ret_id[FG_TOKEN_ID_CHARS + 1], struct fg_err *err)
{
    *ret_grant = (struct fg_grant){.demanded = facts->scopes, .registry = registry};
    ret_id[0] = '\0';
    fg_assert(facts->mode != FG_ACCESS_UNSET);
    if (facts->mode == FG_ACCESS_NONE)
        return FG_OK;
    if (facts->mode == FG_ACCESS_HEADER && !facts->trusted)
        return fg_fail(err, FG_E_NO_TENANT,
                       "this server takes requests from its gateway only (setting "
                       "access.trusted_cidrs)");
    if (facts->mode == FG_ACCESS_HEADER) {
        /* Whoever is behind the gateway is a tenant's user. Admins use the port for operators,
         * which the gateway does not serve. */
        ret_grant->denied = facts->operators ? 0 : FG_SCOPE_TENANT_ADMIN | FG_SCOPE_ADMIN;
    } else if (facts->identity != NULL) {
        /* An identity was verified before, from the same header or a cookie. */
        ret_grant->kind = FG_GRANT_IDENTITY;
        ret_grant->identity = *facts->identity;
    } else if (decide_token(facts, ret_grant, ret_id, err) != FG_OK) {
        return err->code;
    }
    /* For any tenant: fg_grant_tenants() decides about the one that the request is about. */
    if (facts->scopes == FG_SCOPE_KNOWN || (scopes_of(ret_grant) & facts->scopes))
        return FG_OK;
    return lacks_scope(ret_grant, err);
}

/* ---- about whom ---- */

/* Returns the tenant that is meant without a header; ptr NULL: there is none. */
static struct fg_slice only_tenant(const struct fg_grant *grant)
{
    if (grant->kind == FG_GRANT_IDENTITY) {
        /* Only a tenant that a role names without a '*'. */
        const struct fg_access_identity *identity = &grant->identity;

        if (identity->n_roles != 1 || fg_slice_ends(identity->roles[0].tenants, "*"))
            return fg_bytes(NULL, 0);
        return identity->roles[0].tenants;
    }
    if (grant->kind != FG_GRANT_TOKEN)
        return fg_bytes(NULL, 0);
    /* Each series has its own tenant, and what is not said by labels counts for this one. */
    if (grant->token->tenant_label != NULL)
        return fg_cstr(grant->token->tenant_label->otherwise[0] != '\0'
                           ? grant->token->tenant_label->otherwise
                           : grant->token->tenants[0]);
    if (grant->user[0] != '\0' && token_names(grant->token, fg_cstr(grant->user)) &&
        fg_access_find_tenant(grant->registry, fg_cstr(grant->user)) != NULL)
        return fg_cstr(grant->user);
    return grant->token->n_tenants == 1 && strcmp(grant->token->tenants[0], "*") != 0
               ? fg_cstr(grant->token->tenants[0])
               : fg_bytes(NULL, 0);
}

static enum fg_code check_scopes(const struct fg_grant *grant, struct fg_slice id,
                                 struct fg_err *err)
{
    unsigned scopes = fg_grant_scopes(grant, id);
    char who[FG_ACCESS_NAME_MAX_BYTES + 1];

    if (scopes == 0) {
        fg_grant_describe(grant, who, sizeof who);
        return fg_fail(err, FG_E_DENIED, "%s has no access to tenant \"%.*s\"%s", who, FG_S(id),
                       grant->kind == FG_GRANT_TOKEN && token_names(grant->token, id)
                           ? ": it was made for an earlier one of that name, which was deleted"
                           : "");
    }
    if (grant->demanded != FG_SCOPE_KNOWN && !(scopes & grant->demanded))
        return lacks_scope(grant, err);
    return FG_OK;
}

static enum fg_code check_state(const struct fg_grant *grant, bool several, struct fg_slice id,
                                struct fg_err *err)
{
    const Access__Tenant *tenant =
        grant->registry == NULL ? NULL : fg_access_find_tenant(grant->registry, id);

    /* After check_scopes(): a caller without access does not learn whether the tenant exists. In
     * the modes none and header tenants need no entry. */
    if (tenant == NULL && grant->kind != FG_GRANT_ANYONE && several) {
        if (grant->may_be_new != NULL && grant->may_be_new(grant->arg, id))
            return fg_fail(err, FG_E_UNAVAILABLE,
                           "tenant \"%.*s\" may be new: the registry is read again, try again",
                           FG_S(id));
        return fg_fail(err, FG_E_DENIED, "tenant \"%.*s\" does not exist", FG_S(id));
    }
    if (tenant != NULL && tenant->state != ACCESS__TENANT__STATE__ACTIVE)
        return fg_fail(err, FG_E_DENIED, "tenant \"%.*s\" %s", FG_S(id),
                       tenant->state == ACCESS__TENANT__STATE__SUSPENDED  ? "is suspended"
                       : tenant->state == ACCESS__TENANT__STATE__DELETING ? "is being deleted"
                       : tenant->state == ACCESS__TENANT__STATE__DELETED  ? "was deleted"
                                                                          : "is not active");
    return FG_OK;
}

static enum fg_code choose(const struct fg_grant *grant, bool several, struct fg_tenant_names names,
                           struct fg_tenant_ids *ret_ids, struct fg_err *err)
{
    struct fg_slice only = only_tenant(grant);

    if (!several) {
        *ret_ids = (struct fg_tenant_ids){.ids = {FG_LIT(FG_TENANT_ONLY)}, .n = 1};
        return FG_OK;
    }
    if (names.header.len > 0 || grant->kind == FG_GRANT_ANYONE)
        return fg_tenant_ids_parse(names.header, ret_ids, err);
    if (names.param.len > 0)
        return fg_tenant_ids_parse(names.param, ret_ids, err);
    if (only.ptr == NULL)
        return fg_fail(
            err, FG_E_NO_TENANT,
            "no org id: you have access to several tenants; X-Scope-OrgID, the parameter tenant, "
            "or one of them as user name of Basic authentication, says which one is meant");
    *ret_ids = (struct fg_tenant_ids){.ids = {only}, .n = 1};
    return FG_OK;
}

/* Checks that the parameter names the tenants that were chosen. */
static enum fg_code check_param(struct fg_slice param, const struct fg_tenant_ids *chosen,
                                struct fg_err *err)
{
    struct fg_tenant_ids named = {.n = 0};
    bool same;

    if (param.len == 0)
        return FG_OK;
    if (fg_tenant_ids_parse(param, &named, err) != FG_OK)
        return fg_wrap(err, "parameter tenant");
    /* Both are sorted, so the order of names in the request does not matter. */
    same = named.n == chosen->n;
    for (size_t i = 0; i < named.n && same; i++)
        same = fg_slice_eq(named.ids[i], chosen->ids[i]);
    if (same)
        return FG_OK;
    return fg_fail(err, FG_E_DENIED,
                   "the parameter tenant is \"%.*s\", but the request is about tenant \"%.*s\"%s",
                   FG_S(fg_slice_sub(param, 0, FG_TENANT_MAX_BYTES)), FG_S(chosen->ids[0]),
                   chosen->n > 1 ? " and others" : "");
}

enum fg_code fg_grant_tenants(const struct fg_grant *grant, bool several,
                              struct fg_tenant_names names, struct fg_tenant_ids *ret_ids,
                              struct fg_err *err)
{
    if (choose(grant, several, names, ret_ids, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < ret_ids->n; i++) {
        if (check_scopes(grant, ret_ids->ids[i], err) != FG_OK)
            return err->code;
        /* Where labels say the tenant, each series is checked: one tenant that is suspended does
         * not shut out the others of a node. */
        if (!(fg_grant_splits(grant) && (grant->demanded & FG_SCOPE_PUSH)) &&
            check_state(grant, several, ret_ids->ids[i], err) != FG_OK)
            return err->code;
    }
    return check_param(names.param, ret_ids, err);
}

enum fg_code fg_grant_tenant(const struct fg_grant *grant, bool several,
                             struct fg_tenant_names names, struct fg_slice *ret_id,
                             struct fg_err *err)
{
    struct fg_tenant_ids ids = {.n = 0};

    if (fg_grant_tenants(grant, several, names, &ids, err) != FG_OK)
        return err->code;
    if (ids.n > 1)
        return fg_fail(err, FG_E_INVALID, "multiple org IDs present");
    *ret_id = ids.ids[0];
    return FG_OK;
}

/* Returns the tenant that the label's value names; ptr NULL: none. The text of a prefix and a value
 * is that of the token's list. */
static struct fg_slice named_by_label(const Access__Token *token, struct fg_slice value)
{
    const Access__TenantLabel *label = token->tenant_label;
    size_t prefix = strlen(label->prefix);

    for (size_t i = 0; i < label->n_tenants; i++)
        if (fg_slice_is(value, label->tenants[i]->value))
            return fg_cstr(label->tenants[i]->tenant);
    /* Only among the tenants of the token: no value of the label can name another one. */
    for (size_t i = 0; i < token->n_tenants && value.len > 0; i++) {
        struct fg_slice tenant = fg_cstr(token->tenants[i]);

        if (fg_slice_starts(tenant, label->prefix) &&
            fg_slice_eq(fg_slice_sub(tenant, prefix, SIZE_MAX), value))
            return tenant;
    }
    return fg_cstr(label->otherwise);
}

enum fg_code fg_grant_tenant_of(const struct fg_grant *grant, struct fg_slice tenant,
                                const struct fg_labels *labels, struct fg_slice *ret_tenant,
                                struct fg_err *err)
{
    const Access__TenantLabel *label;
    struct fg_slice value;

    *ret_tenant = tenant;
    if (!fg_grant_splits(grant))
        return FG_OK;
    label = grant->token->tenant_label;
    value = fg_labels_get(labels, label->name);
    *ret_tenant = named_by_label(grant->token, value);
    if (ret_tenant->len == 0)
        return fg_fail(err, FG_E_DENIED, "token %s has no tenant for %s=\"%.*s\"", grant->token->id,
                       label->name, FG_S(fg_slice_sub(value, 0, FG_TENANT_MAX_BYTES)));
    if (check_scopes(grant, *ret_tenant, err) != FG_OK)
        return err->code;
    return check_state(grant, true, *ret_tenant, err);
}
