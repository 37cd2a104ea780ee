/* Tests changes of bindings and of ended sessions in the registry. */
#include "common/access/people/people_change.h"
#include "common/access/people/sealed_cookie.h"
#include "common/access/registry/bindings.h"
#include "tests/unit/common/access/registry/registry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_binding_is_there_once(void **state)
{
    struct registry_fixture *f = *state;
    const struct fg_access_change *change = &f->make.change;
    char issuer[] = "https://login.example", claim[] = "groups", value[] = "dev", role[] = "editor",
         a[] = "a", all[] = "*", id[FG_BINDING_ID_CHARS + 1];
    Access__Binding binding;

    access__binding__init(&binding);
    binding.issuer = issuer;
    binding.claim = claim;
    binding.value = value;
    binding.role = role;
    assert_int_equal(fg_access_bind(change, &binding, &f->err), FG_E_INVALID);
    binding.tenants = a;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fg_access_bind(change, &binding, &f->err), FG_OK);
    assert_int_equal(f->make.message.n_bindings, 1);
    fg_binding_id(&binding, id);
    assert_string_equal(f->make.message.bindings[0]->id, id);
    binding.tenants = all;
    assert_int_equal(fg_access_bind(change, &binding, &f->err), FG_OK);
    assert_int_equal(f->make.message.n_bindings, 2);
    assert_int_equal(fg_access_unbind(change, fg_cstr(id), &f->err), FG_OK);
    assert_int_equal(fg_access_unbind(change, fg_cstr(id), &f->err), FG_E_NOT_FOUND);
    assert_int_equal(f->make.message.n_bindings, 1);
    assert_string_equal(f->make.message.bindings[0]->tenants, "*");
    assert_int_equal(f->make.message.bindings[0]->created_ms, NOW_MS);
}

static void bindings_are_bounded(void **state)
{
    struct registry_fixture *f = *state;
    char issuer[] = "https://login.example", claim[] = "groups", role[] = "viewer", a[] = "a",
         value[16];
    Access__Binding binding, *many[FG_BINDINGS_MAX - 1];

    access__binding__init(&binding);
    binding.issuer = issuer;
    binding.claim = claim;
    binding.value = value;
    binding.tenants = a;
    binding.role = role;
    (void)snprintf(value, sizeof value, "0");
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_OK);
    /* The same one, over and over: nothing here compares those that are there. */
    for (size_t i = 0; i < FG_COUNT(many); i++)
        many[i] = f->make.message.bindings[0];
    f->make.message.bindings = many;
    f->make.message.n_bindings = FG_COUNT(many);
    (void)snprintf(value, sizeof value, "1");
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_OK);
    (void)snprintf(value, sizeof value, "2");
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_E_LIMIT);
    assert_int_equal(f->make.message.n_bindings, FG_BINDINGS_MAX);
}

/* Those that somebody who governs some tenants makes, so that others find room. */
static void bindings_of_a_tenant_are_bounded(void **state)
{
    struct registry_fixture *f = *state;
    Access__Binding binding;
    unsigned n = 0;

    f->make.change.bounded = true;
    access__binding__init(&binding);
    binding.issuer = registry_text(f, "https://login.example");
    binding.claim = registry_text(f, "groups");
    binding.tenants = registry_text(f, "a");
    binding.role = registry_text(f, "viewer");
    binding.value = fg_arena_printf(f->arena, "%0*d", FG_BINDING_TEXTS_MAX_BYTES, 0);
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_E_INVALID);
    do
        binding.value = fg_arena_printf(f->arena, "%u", n++);
    while (fg_access_bind(&f->make.change, &binding, &f->err) == FG_OK);
    assert_int_equal(f->err.code, FG_E_LIMIT);
    assert_int_equal(f->make.message.n_bindings, FG_ACCESS_TENANT_BINDINGS_MAX);
    binding.tenants = registry_text(f, "b");
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_OK);
    binding.tenants = registry_text(f, "a");
    f->make.change.bounded = false;
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_OK);
}

static void ended_sessions_are_forgotten_after_a_day(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    char subject[32];

    assert_int_equal(fg_access_revoke_sessions(change, FG_LIT(""), &f->err), FG_E_INVALID);
    for (unsigned i = 0; i < FG_REVOKED_SESSIONS_MAX; i++) {
        (void)snprintf(subject, sizeof subject, "%u", i);
        assert_int_equal(fg_access_revoke_sessions(change, fg_cstr(subject), &f->err), FG_OK);
    }
    assert_int_equal(fg_access_revoke_sessions(change, FG_LIT("ann"), &f->err), FG_E_LIMIT);
    change->now_ms += 1000;
    assert_int_equal(fg_access_revoke_sessions(change, FG_LIT("7"), &f->err), FG_OK);
    assert_int_equal(f->make.message.n_revoked_sessions, FG_REVOKED_SESSIONS_MAX);
    change->now_ms = NOW_MS + FG_SESSION_MAX_S * 1000;
    assert_int_equal(fg_access_revoke_sessions(change, FG_LIT("ann"), &f->err), FG_OK);
    assert_int_equal(f->make.message.n_revoked_sessions, 2);
    assert_string_equal(f->make.message.revoked_sessions[0]->subject, "7");
    assert_int_equal(f->make.message.revoked_sessions[0]->before_ms, NOW_MS + 1000);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, registry_set_up, registry_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_binding_is_there_once),
        WITH(bindings_are_bounded),
        WITH(bindings_of_a_tenant_are_bounded),
        WITH(ended_sessions_are_forgotten_after_a_day),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
