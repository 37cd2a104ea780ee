/* What claims of an issuer's token allow. */
#include "common/access/registry/bindings.h"
#include "common/base/buf.h"
#include "common/net/guard.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_BYTES = 1024 * 1024 };

#define ISSUER "https://i"

static struct fg_binding binding(const char *claim, const char *value, const char *tenants,
                                 const char *role)
{
    return (struct fg_binding){.issuer = FG_LIT(ISSUER),
                               .claim = fg_cstr(claim),
                               .value = fg_cstr(value),
                               .tenants = fg_cstr(tenants),
                               .scopes = fg_role_scopes(fg_cstr(role))};
}

/* "pattern:scopes " for each role. */
static void show(const struct fg_binding *list, size_t n, const char *issuer, const char *json,
                 struct fg_buf *out)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_bindings bindings = {.list = list, .n = n};
    struct fg_access_role *roles;
    struct fg_claim *claims;
    uint32_t n_claims, n_roles;
    struct fg_err err;

    fg_buf_clear(out);
    assert_int_equal(fg_bindings_claims(&bindings, fg_cstr(issuer), fg_cstr(json), arena, &claims,
                                        &n_claims, &err),
                     FG_OK);
    assert_int_equal(fg_bindings_roles(&bindings, fg_cstr(issuer), claims, n_claims, arena, &roles,
                                       &n_roles, &err),
                     FG_OK);
    for (uint32_t i = 0; i < n_roles; i++)
        fg_buf_printf(out, "%.*s:%x ", FG_S(roles[i].tenants), roles[i].scopes);
    fg_buf_putc(out, 0);
}

static void roles_have_their_scopes(void **state)
{
    (void)state;
    assert_int_equal(fg_role_scopes(FG_LIT("sender")), FG_SCOPE_PUSH | FG_SCOPE_DEBUGINFO);
    assert_int_equal(fg_role_scopes(FG_LIT("viewer")), FG_SCOPE_READ);
    assert_int_equal(fg_role_scopes(FG_LIT("editor")),
                     FG_SCOPE_READ | FG_SCOPE_RULES | FG_SCOPE_SHARE);
    assert_int_equal(fg_role_scopes(FG_LIT("admin")), FG_SCOPE_READ | FG_SCOPE_RULES |
                                                          FG_SCOPE_SHARE | FG_SCOPE_DELETE |
                                                          FG_SCOPE_TENANT_ADMIN);
    assert_int_equal(fg_role_scopes(FG_LIT("cluster-admin")),
                     fg_role_scopes(FG_LIT("admin")) | FG_SCOPE_ADMIN);
    assert_int_equal(fg_role_scopes(FG_LIT("Admin")), 0);
    assert_int_equal(fg_role_scopes(FG_LIT("")), 0);
}

static void claims_give_the_roles_that_are_bound_to_them(void **state)
{
    const struct fg_binding list[] = {
        binding("groups", "dev", "team-*", "viewer"),
        binding("groups", "dev", "acme", "editor"),
        binding("groups", "ops", "team-*", "admin"),
        binding("sub", "root", "*", "cluster-admin"),
        binding("/kubernetes.io/namespace", "*", "{value}", "sender"),
        binding("/realm_access/roles", "*", "r-{value}", "viewer"),
        binding("email", "a@example.org", "mail", "viewer"),
    };
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"{}", ""},
        {"{\"groups\":[\"dev\"]}", "team-*:2 acme:32 "},
        {"{\"groups\":\"dev\"}", "team-*:2 acme:32 "},
        {"{\"groups\":[\"ops\",\"dev\",\"dev\"]}", "team-*:f2 acme:32 "},
        {"{\"groups\":[\"Dev\",\"dev \",\"de\",\"*\"]}", ""},
        {"{\"sub\":\"root\"}", "*:1f2 "},
        {"{\"kubernetes.io\":{\"namespace\":\"shop\"}}", "shop:9 "},
        {"{\"realm_access\":{\"roles\":[\"a\",\"b\"]}}", "r-a:2 r-b:2 "},
        /* A claim never widens a pattern, and is a name of a tenant or nothing. */
        {"{\"kubernetes.io\":{\"namespace\":\"*\"}}", ""},
        {"{\"kubernetes.io\":{\"namespace\":\"sh*\"}}", ""},
        {"{\"kubernetes.io\":{\"namespace\":\"\"}}", ""},
        {"{\"kubernetes.io\":{\"namespace\":\"..\"}}", ""},
        {"{\"kubernetes.io\":{\"namespace\":\"a/b\"}}", ""},
        {"{\"kubernetes.io\":{\"namespace\":\"a|b\"}}", ""},
        {"{\"kubernetes.io\":{\"namespace\":\"a:b\"}}", ""},
        {"{\"kubernetes.io\":{\"namespace\":\"a\\u0000b\"}}", ""},
        {"{\"realm_access\":{\"roles\":[\"*\",\"{value}\"]}}", ""},
        /* An address counts if the issuer has seen that it is the person's. */
        {"{\"email\":\"a@example.org\"}", ""},
        {"{\"email\":\"a@example.org\",\"email_verified\":false}", ""},
        {"{\"email\":\"a@example.org\",\"email_verified\":true}", "mail:2 "},
    };
    struct fg_buf got;

    (void)state;
    fg_buf_init(&got, 4096);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].json);
        show(list, FG_COUNT(list), ISSUER, cases[i].json, &got);
        assert_string_equal((const char *)got.ptr, cases[i].want);
        show(list, FG_COUNT(list), ISSUER "/", cases[i].json, &got);
        assert_string_equal((const char *)got.ptr, ""); /* another issuer's */
    }
    fg_buf_done(&got);
}

/* Roles of stored claims, after the bindings were changed. */
static void a_binding_that_is_gone_gives_nothing(void **state)
{
    const struct fg_binding before[] = {binding("groups", "dev", "acme", "editor")};
    const struct fg_binding after[] = {binding("groups", "dev", "acme", "viewer"),
                                       binding("groups", "ops", "other", "admin")};
    struct fg_bindings old = {.list = before, .n = 1}, new = {.list = after, .n = 2},
                       none = {.n = 0};
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_access_role *roles;
    struct fg_claim *claims;
    uint32_t n_claims, n_roles;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_bindings_claims(&old, FG_LIT(ISSUER),
                                        FG_LIT("{\"groups\":[\"dev\",\"ops\"]}"), arena, &claims,
                                        &n_claims, &err),
                     FG_OK);
    assert_int_equal(n_claims, 1); /* only what a binding asks for */
    assert_int_equal(
        fg_bindings_roles(&new, FG_LIT(ISSUER), claims, n_claims, arena, &roles, &n_roles, &err),
        FG_OK);
    assert_int_equal(n_roles, 1);
    assert_int_equal(roles[0].scopes, FG_SCOPE_READ);
    assert_int_equal(
        fg_bindings_roles(&none, FG_LIT(ISSUER), claims, n_claims, arena, &roles, &n_roles, &err),
        FG_OK);
    assert_int_equal(n_roles, 0);
}

static void too_many_roles_and_claims_are_a_limit(void **state)
{
    const struct fg_binding list[] = {binding("g", "*", "{value}", "viewer")};
    struct fg_bindings bindings = {.list = list, .n = 1};
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_access_role *roles;
    struct fg_claim *claims;
    uint32_t n_claims, n_roles;
    struct fg_buf json;
    struct fg_err err;

    (void)state;
    fg_buf_init(&json, SIZE_MAX);
    for (unsigned n = FG_ACCESS_ROLES_MAX; n <= FG_ACCESS_CLAIMS_MAX + 1; n++) {
        enum fg_code code;

        fg_buf_clear(&json);
        fg_buf_puts(&json, "{\"g\":[");
        for (unsigned i = 0; i < n; i++)
            fg_buf_printf(&json, "%s\"t%u\"", i == 0 ? "" : ",", i);
        fg_buf_puts(&json, "]}");
        fg_arena_reset(arena);
        code = fg_bindings_claims(&bindings, FG_LIT(ISSUER), fg_buf_slice(&json), arena, &claims,
                                  &n_claims, &err);
        assert_int_equal(code, n <= FG_ACCESS_CLAIMS_MAX ? FG_OK : FG_E_LIMIT);
        if (code != FG_OK)
            continue;
        assert_int_equal(n_claims, n);
        code = fg_bindings_roles(&bindings, FG_LIT(ISSUER), claims, n_claims, arena, &roles,
                                 &n_roles, &err);
        assert_int_equal(code, n <= FG_ACCESS_ROLES_MAX ? FG_OK : FG_E_LIMIT);
    }
    fg_buf_done(&json);
}

static void faults_of_bindings_are_named(void **state)
{
    static const struct {
        const char *claim, *value, *tenants, *role, *why; /* NULL: it is fine */
    } cases[] = {
        {"groups", "dev", "acme", "viewer", NULL},
        {"groups", "*", "*", "viewer", NULL},
        {"/a/b", "*", "team-*", "admin", NULL},
        {"groups", "*", "{value}", "sender", NULL},
        {"groups", "*", "a-{value}-b", "sender", NULL},
        {"groups", "x", "a-{value}*", "sender", NULL},
        {"groups", "x", "*", "cluster-admin", NULL},
        {"groups", "x", "acme", "cluster-admin", "all tenants"},
        {"groups", "x", "acme*", "cluster-admin", "all tenants"},
        {"groups", "x", "acme", "root", "roles are"},
        {"groups", "x", "*acme", "viewer", "no name"},
        {"groups", "x", "a*c", "viewer", "no name"},
        {"groups", "x", "a|c", "viewer", "no name"},
        {"groups", "x", "", "viewer", "no name"},
        {"groups", "x", "{value}{value}", "viewer", "no name"},
        {"groups", "", "acme", "viewer", "needs a value"},
        {"", "x", "acme", "viewer", "is empty"},
        {"/a~2", "x", "acme", "viewer", "~"},
    };
    struct fg_binding nobody = binding("groups", "x", "acme", "viewer");
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_binding made =
            binding(cases[i].claim, cases[i].value, cases[i].tenants, cases[i].role);
        enum fg_code code = fg_binding_check(&made, &err);

        print_message("  %s %s: %s\n", cases[i].tenants, cases[i].role,
                      code == FG_OK ? "ok" : err.msg);
        assert_int_equal(code, cases[i].why == NULL ? FG_OK : FG_E_INVALID);
        if (cases[i].why != NULL)
            assert_non_null(strstr(err.msg, cases[i].why));
    }
    nobody.issuer = FG_LIT("");
    assert_int_equal(fg_binding_check(&nobody, &err), FG_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_have_their_scopes),
        cmocka_unit_test(claims_give_the_roles_that_are_bound_to_them),
        cmocka_unit_test(a_binding_that_is_gone_gives_nothing),
        cmocka_unit_test(too_many_roles_and_claims_are_a_limit),
        cmocka_unit_test(faults_of_bindings_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
