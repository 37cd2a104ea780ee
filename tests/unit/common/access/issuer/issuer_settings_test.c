/* The lists of issuers and bindings in the settings, and what is wrong with those that are wrong.
 */
#include "common/access/issuer/issuer_settings.h"
#include "common/net/guard.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void issuers_are_read(void **state)
{
    static const char yaml[] = "- issuer: https://a\n  audience: x\n"
                               "- {audience: 'y z', issuer: \"https://b\", keys_url: https://b/k,\n"
                               "   ca_file: /ca, token_file: /t, tenant_claim: /k.io/ns}\n";
    fg_auto(fg_arena) *arena = fg_arena_create(65536);
    struct fg_issuer_config list[FG_ISSUERS_MAX];
    struct fg_err err;
    size_t n;

    (void)state;
    assert_int_equal(fg_issuer_settings_read(fg_cstr(yaml), arena, list, &n, &err), FG_OK);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].issuer, "https://a");
    assert_string_equal(list[0].audience, "x");
    assert_string_equal(list[0].keys_url, "");
    assert_string_equal(list[1].audience, "y z");
    assert_string_equal(list[1].keys_url, "https://b/k");
    assert_string_equal(list[1].ca_file, "/ca");
    assert_string_equal(list[1].token_file, "/t");
    assert_string_equal(list[1].tenant_claim, "/k.io/ns");
    assert_int_equal(fg_issuer_settings_read(FG_LIT(""), arena, list, &n, &err), FG_OK);
    assert_int_equal(n, 0);
    assert_int_equal(fg_issuer_settings_read(FG_LIT("[]"), arena, list, &n, &err), FG_OK);
    assert_int_equal(n, 0);
}

static void bindings_are_read(void **state)
{
    static const char yaml[] =
        "[{issuer: i, claim: groups, value: dev, tenants: team-*, role: editor},"
        " {issuer: i, claim: /a/b, value: '*', tenants: '{value}', role: sender}]";
    fg_auto(fg_arena) *arena = fg_arena_create(65536);
    struct fg_binding *list;
    struct fg_err err;
    uint32_t n;

    (void)state;
    assert_int_equal(fg_binding_settings_read(fg_cstr(yaml), arena, &list, &n, &err), FG_OK);
    assert_int_equal(n, 2);
    assert_true(fg_slice_is(list[0].tenants, "team-*"));
    assert_int_equal(list[0].scopes, FG_SCOPE_READ | FG_SCOPE_RULES | FG_SCOPE_SHARE);
    assert_true(fg_slice_is(list[1].claim, "/a/b"));
    assert_true(fg_slice_is(list[1].value, "*"));
}

static void faults_are_named_with_their_place(void **state)
{
    static const struct {
        const char *yaml, *why;
    } cases[] = {
        {"issuer: https://a", "expected a list"},
        {"- https://a", "expected a map"},
        {"- {isuer: https://a}", "did you mean \"issuer\""},
        {"- {issuer: https://a, issuer: https://b}", "a second time"},
        {"- {issuer: [https://a]}", "needs a text"},
        {"- {issuer: }", "needs a text"},
        {"- {issuer: \"a\\0b\"}", "NUL"},
        {"- {issuer: a}\n---\n- {issuer: b}", "second document"},
        {"- &x {issuer: a}\n- *x", "access.issuers:"},
        {"- {issuer: a", "access.issuers:"},
    };
    fg_auto(fg_arena) *arena = fg_arena_create(65536);
    struct fg_issuer_config list[FG_ISSUERS_MAX];
    struct fg_binding *bindings;
    struct fg_err err;
    uint32_t n_bindings;
    size_t n;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        assert_int_equal(fg_issuer_settings_read(fg_cstr(cases[i].yaml), arena, list, &n, &err),
                         FG_E_INVALID);
        print_message("  %s\n", err.msg);
        assert_non_null(strstr(err.msg, cases[i].why));
    }
    assert_int_equal(fg_binding_settings_read(
                         FG_LIT("- {issuer: i, claim: g, value: x, tenants: a*b, role: viewer}"),
                         arena, &bindings, &n_bindings, &err),
                     FG_E_INVALID);
    assert_non_null(strstr(err.msg, "a*b"));
    assert_int_equal(
        fg_binding_settings_read(FG_LIT("\n- {issuer: i, claim: g, value: x, tenants: a, role: x}"),
                                 arena, &bindings, &n_bindings, &err),
        FG_E_INVALID);
    assert_non_null(strstr(err.msg, "access.bindings:2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(issuers_are_read),
        cmocka_unit_test(bindings_are_read),
        cmocka_unit_test(faults_are_named_with_their_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
