/* Tests the registry of access: tenants, their limits, and that everything is found by its id. */
#include "common/access/registry/tenant_deletion.h"
#include "common/base/str.h"
#include "common/net/guard.h"
#include "tests/unit/common/access/registry/registry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void thousands_are_found_by_their_ids(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_registry *registry;
    char text[FG_TOKEN_CHARS + 1];
    uint32_t at;

    for (unsigned i = 0; i < 2000; i++)
        registry_add_tenant(f, fg_arena_printf(f->arena, "tenant-%u", i));
    for (unsigned i = 0; i < 250; i++)
        access_make_token(&f->make,
                          &(struct access_token){.tenants = "tenant-0",
                                                 .scopes = FG_SCOPE_READ,
                                                 .matchers = i % 2 ? "{a=\"b\"}" : NULL,
                                                 .seed = (uint8_t)i},
                          text);
    registry = access_make_registry(&f->make.message);
    for (size_t i = 0; i < 2000; i++) {
        const char *id = f->make.message.tenants[i]->id;

        assert_string_equal(fg_access_find_tenant(registry, fg_cstr(id))->id, id);
    }
    for (size_t i = 0; i < 250; i++) {
        const char *id = f->make.message.tokens[i]->id;

        assert_string_equal(fg_access_find_token(registry, fg_cstr(id), &at)->id, id);
        assert_int_equal(at, i);
        assert_int_equal(fg_selector_matches(&registry->matchers[at], &(struct fg_labels){0}),
                         i % 2 == 0);
    }
    assert_null(fg_access_find_tenant(registry, FG_LIT("tenant-2000")));
    assert_null(fg_access_find_tenant(registry, FG_LIT("")));
    assert_null(fg_access_find_token(registry, FG_LIT("00000000"), NULL));
    fg_access_registry_unref(fg_access_registry_ref(registry));
    fg_access_registry_unref(registry);
}

/* ---- tenants ---- */

static void a_tenant_is_created_once(void **state)
{
    struct registry_fixture *f = *state;

    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fg_access_create_tenant(&f->make.change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(f->make.message.n_tenants, 1);
    assert_string_equal(f->make.message.tenants[0]->created_by, "test");
    assert_int_equal(f->make.message.tenants[0]->created_ms, NOW_MS);
    assert_int_equal(fg_access_create_tenant(&f->make.change, FG_LIT("a/b"), &f->err),
                     FG_E_INVALID);
    /* To tokens it means all tenants. */
    assert_int_equal(fg_access_create_tenant(&f->make.change, FG_LIT("*"), &f->err), FG_E_INVALID);
}

static void states_go_one_way_to_the_end(void **state)
{
    struct registry_fixture *f = *state;
    const struct fg_access_change *change = &f->make.change;

    registry_add_tenant(f, "a");
    f->make.change.now_ms = NOW_MS + 5;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fg_access_set_tenant_state(change, FG_LIT("a"),
                                                    ACCESS__TENANT__STATE__SUSPENDED, &f->err),
                         FG_OK);
    assert_int_equal(f->make.message.tenants[0]->changed_ms, NOW_MS + 5);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_E_EXISTS);
    assert_int_equal(
        fg_access_set_tenant_state(change, FG_LIT("a"), ACCESS__TENANT__STATE__ACTIVE, &f->err),
        FG_OK);
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(
        fg_access_set_tenant_state(change, FG_LIT("a"), ACCESS__TENANT__STATE__ACTIVE, &f->err),
        FG_E_PRECONDITION);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_E_EXISTS);
}

/* ---- limits ---- */

static const char *yaml(struct registry_fixture *f)
{
    static char text[4096];
    struct fg_buf out;

    fg_buf_init(&out, sizeof text - 1);
    fg_access_limits_yaml(f->make.message.tenants[0], &out);
    (void)snprintf(text, sizeof text, "%.*s", FG_S(fg_buf_slice(&out)));
    fg_buf_done(&out);
    return text;
}

static void limits_are_set_replaced_and_removed(void **state)
{
    struct registry_fixture *f = *state;
    const struct fg_access_change *change = &f->make.change;

    registry_add_tenant(f, "a");
    assert_int_equal(fg_access_set_limit(change, FG_LIT("a"), "x", "1", &f->err), FG_OK);
    assert_int_equal(fg_access_set_limit(change, FG_LIT("a"), "y", "7d", &f->err), FG_OK);
    assert_string_equal(yaml(f), "x: 1\ny: 7d\n");
    assert_int_equal(fg_access_set_limit(change, FG_LIT("a"), "x", "2", &f->err), FG_OK);
    assert_string_equal(yaml(f), "x: 2\ny: 7d\n");
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fg_access_set_limit(change, FG_LIT("a"), "x", "", &f->err), FG_OK);
    assert_string_equal(yaml(f), "y: 7d\n");
    assert_int_equal(fg_access_set_limit(change, FG_LIT("b"), "x", "1", &f->err), FG_E_NOT_FOUND);
}

/* A value becomes a line of YAML: it must not become two. */
static void a_value_is_one_line(void **state)
{
    static const char *const wrong[] = {"1\nadmin: true", "1\r2", "\t1", "a\x01"};
    struct registry_fixture *f = *state;
    char *large = fg_calloc(70000, 1);

    registry_add_tenant(f, "a");
    for (size_t i = 0; i < FG_COUNT(wrong); i++)
        assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"), "x", wrong[i], &f->err),
                         FG_E_INVALID);
    memset(large, '1', 69999);
    assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"), "x", large, &f->err),
                     FG_E_INVALID);
    free(large);
    assert_string_equal(yaml(f), "");
}

static void a_tenant_has_so_many_limits(void **state)
{
    struct registry_fixture *f = *state;

    registry_add_tenant(f, "a");
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"),
                                             fg_arena_printf(f->arena, "l%u", i), "1", &f->err),
                         FG_OK);
    assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"), "one-more", "1", &f->err),
                     FG_E_LIMIT);
    assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"), "l99", "2", &f->err), FG_OK);
}

/* An arena that is full is an answer, and the message in the bucket stays as it is. */
static void a_full_arena_is_a_limit(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change change = f->make.change;
    Access__Registry message = ACCESS__REGISTRY__INIT;
    enum fg_code code = FG_OK;

    change.arena = fg_arena_create(100000);
    change.registry = &message;
    for (unsigned i = 0; i < 100000 && code == FG_OK; i++)
        code =
            fg_access_create_tenant(&change, fg_cstr(fg_arena_printf(f->arena, "t%u", i)), &f->err);
    assert_int_equal(code, FG_E_LIMIT);
    fg_arena_destroy(change.arena);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, registry_set_up, registry_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(thousands_are_found_by_their_ids),
        WITH(a_tenant_is_created_once),
        WITH(states_go_one_way_to_the_end),
        WITH(limits_are_set_replaced_and_removed),
        WITH(a_value_is_one_line),
        WITH(a_tenant_has_so_many_limits),
        WITH(a_full_arena_is_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
