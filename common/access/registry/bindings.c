#include "common/access/registry/bindings.h"

#include "common/access/jwt/claims.h"
#include "common/model/tenant_id.h"
#include "common/net/guard.h"

#include <stdatomic.h>

#define ANY   "*"
#define VALUE "{value}"

/* ---- roles ---- */

unsigned fg_role_scopes(struct fg_slice role)
{
    enum {
        EDITOR = FG_SCOPE_READ | FG_SCOPE_RULES | FG_SCOPE_SHARE,
        ADMIN = EDITOR | FG_SCOPE_DELETE | FG_SCOPE_TENANT_ADMIN,
    };
    static const struct {
        const char *name;
        unsigned scopes;
    } roles[] = {
        {"sender", FG_SCOPE_PUSH | FG_SCOPE_DEBUGINFO},
        {"viewer", FG_SCOPE_READ},
        {"editor", EDITOR},
        {"admin", ADMIN},
        {"cluster-admin", ADMIN | FG_SCOPE_ADMIN},
    };

    for (size_t i = 0; i < FG_COUNT(roles); i++)
        if (fg_slice_is(role, roles[i].name))
            return roles[i].scopes;
    return 0;
}

/* ---- of the registry ---- */

const struct fg_bindings *fg_bindings_create(const Access__Registry *registry,
                                             struct fg_arena *arena)
{
    /* Identities that were verified are kept with the generation of their roles, and get new ones
     * when it is another. */
    static _Atomic uint64_t generations;
    /* fg_access_bind() adds no more, so others are not of our making. */
    size_t n = FG_MIN(registry->n_bindings, (size_t)FG_BINDINGS_MAX);
    struct fg_binding *list = fg_arena_new(arena, struct fg_binding, n);
    struct fg_bindings *bindings = fg_arena_new(arena, struct fg_bindings, 1);

    if (list == NULL || bindings == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        list[i] =
            (struct fg_binding){.issuer = fg_cstr(registry->bindings[i]->issuer),
                                .claim = fg_cstr(registry->bindings[i]->claim),
                                .value = fg_cstr(registry->bindings[i]->value),
                                .tenants = fg_cstr(registry->bindings[i]->tenants),
                                .scopes = fg_role_scopes(fg_cstr(registry->bindings[i]->role))};
    *bindings = (struct fg_bindings){
        .list = list,
        .n = n,
        .generation = atomic_fetch_add_explicit(&generations, 1, memory_order_relaxed) + 1,
    };
    return bindings;
}

/* ---- checks ---- */

/* A name, or one with '*' at its end; "*" alone, too. */
static bool is_pattern(struct fg_slice text)
{
    struct fg_err err;
    size_t star = fg_slice_find(text, '*');

    if (star != SIZE_MAX && star + 1 != text.len)
        return false;
    return fg_tenant_check(text, &err) == FG_OK;
}

/* The pattern for a value. ptr NULL: there is none. */
static struct fg_slice fill(struct fg_slice pattern, struct fg_slice value, struct fg_arena *arena)
{
    struct fg_slice before, after, filled = fg_bytes(NULL, 0);
    char *text;
    size_t at = fg_slice_search(pattern, VALUE);

    if (at == SIZE_MAX)
        return pattern;
    before = fg_slice_sub(pattern, 0, at);
    after = fg_slice_sub(pattern, at + strlen(VALUE), pattern.len);
    /* A NUL would cut the text when it is printed, and so name another tenant. */
    if (value.len == 0 || value.len > FG_TENANT_MAX_BYTES ||
        fg_slice_find(value, '*') != SIZE_MAX || fg_slice_find(value, '\0') != SIZE_MAX)
        return filled;
    text = fg_arena_printf(arena, "%.*s%.*s%.*s", FG_S(before), FG_S(value), FG_S(after));
    if (text != NULL && is_pattern(fg_cstr(text)))
        filled = fg_cstr(text);
    return filled;
}

/* Tries a short value. One that is too long, or makes no valid name, gives no access later. */
static bool is_pattern_with_value(struct fg_slice pattern)
{
    fg_auto(fg_arena) *arena = fg_arena_create(4096);

    return pattern.len <= FG_TENANT_MAX_BYTES && fill(pattern, FG_LIT("a"), arena).ptr != NULL &&
           is_pattern(fill(pattern, FG_LIT("a"), arena));
}

enum fg_code fg_binding_check(const struct fg_binding *binding, struct fg_err *err)
{
    const char *fault = fg_claim_path_fault(binding->claim);

    if (binding->issuer.len == 0)
        return fg_fail(err, FG_E_INVALID, "a binding needs an issuer");
    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "claim \"%.*s\" %s",
                       FG_S(fg_slice_sub(binding->claim, 0, 64)), fault);
    if (binding->value.len == 0)
        return fg_fail(err, FG_E_INVALID, "a binding needs a value, * for all");
    if (binding->scopes == 0)
        return fg_fail(err, FG_E_INVALID,
                       "roles are sender, viewer, editor, admin and cluster-admin");
    if (!is_pattern_with_value(binding->tenants))
        return fg_fail(err, FG_E_INVALID,
                       "tenants \"%.*s\" is no name of a tenant, with * at its end at most",
                       FG_S(fg_slice_sub(binding->tenants, 0, 64)));
    if ((binding->scopes & FG_SCOPE_ADMIN) != 0 && !fg_slice_is(binding->tenants, ANY))
        return fg_fail(err, FG_E_INVALID, "cluster-admin is a role for all tenants: *");
    return FG_OK;
}

/* ---- claims ---- */

static bool matches(const struct fg_binding *binding, struct fg_slice value)
{
    return fg_slice_is(binding->value, ANY) || fg_slice_eq(binding->value, value);
}

static bool has_claim(const struct fg_claim *claims, uint32_t n, struct fg_slice path,
                      struct fg_slice value)
{
    for (uint32_t i = 0; i < n; i++)
        if (fg_slice_eq(claims[i].path, path) && fg_slice_eq(claims[i].value, value))
            return true;
    return false;
}

static bool is_trustworthy(struct fg_slice path, struct fg_slice json, struct fg_arena *arena)
{
    struct fg_slice *verified;
    uint32_t n;

    if (!fg_slice_is(path, "email") && !fg_slice_is(path, "/email"))
        return true;
    return fg_claim_values(json, FG_LIT("email_verified"), arena, &verified, &n) ==
               FG_CLAIM_FOUND &&
           n == 1 && fg_slice_is(verified[0], "true");
}

struct claims {
    struct fg_claim *list;
    uint32_t n, cap;
};

/* Adds what the token has for one binding. false: there is no room. */
static bool add_claims(struct claims *claims, const struct fg_binding *binding,
                       struct fg_slice json, struct fg_arena *arena)
{
    struct fg_slice *values;
    uint32_t n;

    /* A claim of another type is taken for absent: it gives nothing, and does no harm to others. */
    if (fg_claim_values(json, binding->claim, arena, &values, &n) != FG_CLAIM_FOUND ||
        !is_trustworthy(binding->claim, json, arena))
        return true;
    for (uint32_t i = 0; i < n; i++) {
        if (!matches(binding, values[i]) ||
            has_claim(claims->list, claims->n, binding->claim, values[i]))
            continue;
        if (claims->n == FG_ACCESS_CLAIMS_MAX ||
            !fg_arena_grow(arena, &claims->list, claims->n, 1, &claims->cap, sizeof *claims->list))
            return false;
        claims->list[claims->n++] = (struct fg_claim){binding->claim, values[i]};
    }
    return true;
}

enum fg_code fg_bindings_claims(const struct fg_bindings *bindings, struct fg_slice issuer,
                                struct fg_slice json, struct fg_arena *arena,
                                struct fg_claim **ret_claims, uint32_t *ret_n, struct fg_err *err)
{
    struct claims claims = {NULL, 0, 0};

    for (; bindings != NULL; bindings = bindings->more)
        for (size_t i = 0; i < bindings->n; i++)
            if (fg_slice_eq(bindings->list[i].issuer, issuer) &&
                !add_claims(&claims, &bindings->list[i], json, arena))
                return fg_fail(err, FG_E_LIMIT, "more than %d claims have bindings",
                               FG_ACCESS_CLAIMS_MAX);
    *ret_claims = claims.list;
    *ret_n = claims.n;
    return FG_OK;
}

/* ---- what they allow ---- */

struct roles {
    struct fg_access_role *list;
    uint32_t n, cap;
};

static bool add_role(struct roles *roles, struct fg_slice tenants, unsigned scopes,
                     struct fg_arena *arena)
{
    for (uint32_t i = 0; i < roles->n; i++)
        if (fg_slice_eq(roles->list[i].tenants, tenants)) {
            roles->list[i].scopes |= scopes;
            return true;
        }
    if (roles->n == FG_ACCESS_ROLES_MAX ||
        !fg_arena_grow(arena, &roles->list, roles->n, 1, &roles->cap, sizeof *roles->list))
        return false;
    roles->list[roles->n++] = (struct fg_access_role){tenants, scopes};
    return true;
}

static bool add_roles(struct roles *roles, const struct fg_binding *binding,
                      const struct fg_claim *claims, uint32_t n_claims, struct fg_arena *arena)
{
    for (uint32_t i = 0; i < n_claims; i++) {
        struct fg_slice tenants;

        if (!fg_slice_eq(claims[i].path, binding->claim) || !matches(binding, claims[i].value))
            continue;
        tenants = fill(binding->tenants, claims[i].value, arena);
        if (tenants.ptr != NULL && !add_role(roles, tenants, binding->scopes, arena))
            return false;
    }
    return true;
}

enum fg_code fg_bindings_roles(const struct fg_bindings *bindings, struct fg_slice issuer,
                               const struct fg_claim *claims, uint32_t n_claims,
                               struct fg_arena *arena, struct fg_access_role **ret_roles,
                               uint32_t *ret_n, struct fg_err *err)
{
    struct roles roles = {NULL, 0, 0};

    for (; bindings != NULL; bindings = bindings->more)
        for (size_t i = 0; i < bindings->n; i++)
            if (fg_slice_eq(bindings->list[i].issuer, issuer) &&
                !add_roles(&roles, &bindings->list[i], claims, n_claims, arena))
                return fg_fail(err, FG_E_LIMIT, "more than %d roles", FG_ACCESS_ROLES_MAX);
    *ret_roles = roles.list;
    *ret_n = roles.n;
    return FG_OK;
}
