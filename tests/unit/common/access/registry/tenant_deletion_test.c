/* Tests the deletion of a tenant in the registry: its steps, and what is left of it. */
#include "common/access/people/people_change.h"
#include "common/access/registry/tenant_deletion.h"
#include "common/access/registry/tenant_keys_change.h"
#include "common/net/guard.h"
#include "tests/unit/common/access/registry/registry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static Access__Tenant *only_tenant(struct registry_fixture *f)
{
    assert_int_equal(f->make.message.n_tenants, 1);
    return f->make.message.tenants[0];
}

static void bind(struct registry_fixture *f, const char *tenants)
{
    Access__Binding binding;

    access__binding__init(&binding);
    binding.issuer = registry_text(f, "https://login.example");
    binding.claim = registry_text(f, "groups");
    binding.value = registry_text(f, "dev");
    binding.role = registry_text(f, "viewer");
    binding.tenants = registry_text(f, tenants);
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_OK);
}

static void a_deletion_takes_what_is_for_the_tenant_alone(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    char text[FG_TOKEN_CHARS + 1];

    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_E_NOT_FOUND);
    registry_add_tenant(f, "a");
    access_make_token(&f->make, &(struct access_token){.tenants = "a", .scopes = 1, .seed = 1},
                      text);
    access_make_token(&f->make, &(struct access_token){.tenants = "a,b", .scopes = 1, .seed = 2},
                      text);
    access_make_token(&f->make, &(struct access_token){.tenants = "ab", .scopes = 1, .seed = 3},
                      text);
    bind(f, "a");
    bind(f, "a*");
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("a"), 1, FG_LIT("wrapped"), "file:1", &f->err), FG_OK);
    for (unsigned i = 0; i < 2; i++) { /* again: the same, with the first numbers */
        assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
        change->now_ms++;
    }
    assert_int_equal(only_tenant(f)->state, ACCESS__TENANT__STATE__DELETING);
    assert_int_equal(only_tenant(f)->deletion->asked_ms, NOW_MS);
    assert_int_equal(only_tenant(f)->deletion->tokens, 1);
    assert_int_equal(only_tenant(f)->deletion->bindings, 1);
    assert_int_equal(only_tenant(f)->deletion->keys, 1);
    assert_int_equal(f->make.message.tokens[0]->revoked_ms, NOW_MS);
    assert_int_equal(f->make.message.tokens[1]->revoked_ms, 0);
    assert_int_equal(f->make.message.tokens[2]->revoked_ms, 0);
    assert_int_equal(f->make.message.n_bindings, 1);
    assert_string_equal(f->make.message.bindings[0]->tenants, "a*");
    assert_true(fg_tenant_key_is_shredded(&f->make.message, FG_LIT("a"), 1));
    assert_int_equal(registry_load(f), FG_OK);
}

static void a_deletion_begins_and_ends_once(void **state)
{
    const struct fg_access_listed listed = {1, 2, 3, 4}, later = {9, 9, 9, 9};
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;

    registry_add_tenant(f, "a");
    assert_int_equal(fg_access_begin_deletion(change, FG_LIT("a"), &listed, &f->err),
                     FG_E_PRECONDITION);
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 4, &f->err), FG_E_PRECONDITION);
    assert_int_equal(fg_access_set_limit(change, FG_LIT("a"), "x", "1", &f->err), FG_OK);
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(fg_access_begin_deletion(change, FG_LIT("a"), &listed, &f->err), FG_OK);
    assert_int_equal(fg_access_begin_deletion(change, FG_LIT("a"), &later, &f->err), FG_OK);
    assert_int_equal(only_tenant(f)->deletion->listed, 4);
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 5, &f->err), FG_OK);
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 6, &f->err), FG_OK);
    assert_int_equal(only_tenant(f)->deletion->removed, 5);
    assert_int_equal(only_tenant(f)->state, ACCESS__TENANT__STATE__DELETED);
    assert_true(fg_access_is_deleted(only_tenant(f)));
    assert_int_equal(
        fg_access_set_tenant_state(change, FG_LIT("a"), ACCESS__TENANT__STATE__ACTIVE, &f->err),
        FG_E_PRECONDITION);
    assert_int_equal(registry_load(f), FG_OK);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(only_tenant(f)->state, ACCESS__TENANT__STATE__ACTIVE);
    assert_null(only_tenant(f)->deletion);
    assert_int_equal(only_tenant(f)->n_limits, 0);
    assert_false(fg_access_is_deleted(only_tenant(f)));
    assert_false(fg_access_is_deleted(NULL));
}

/* Ingesters would forget what it sends. */
static void a_tenant_whose_key_was_shredded_needs_a_new_one(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;

    registry_add_tenant(f, "a");
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("a"), 1, FG_LIT("wrapped"), "file:1", &f->err), FG_OK);
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 0, &f->err), FG_OK);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_E_PRECONDITION);
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("a"), 2, FG_LIT("wrapped"), "file:1", &f->err), FG_OK);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_OK);
}

/* Whatever of it is still on its way would be readable by it. */
static void a_deleted_tenant_gets_no_key(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    const struct fg_slice early = FG_LIT("early"), late = FG_LIT("late"), key = FG_LIT("wrapped");

    registry_add_tenant(f, "early");
    registry_add_tenant(f, "late");
    assert_int_equal(fg_tenant_key_add(change, late, 1, key, "file:1", &f->err), FG_OK);
    assert_int_equal(fg_access_delete_tenant(change, early, &f->err), FG_OK);
    assert_int_equal(fg_access_delete_tenant(change, late, &f->err), FG_OK);
    assert_int_equal(fg_tenant_key_add(change, early, 1, key, "file:1", &f->err), FG_E_NOT_FOUND);
    assert_int_equal(fg_tenant_key_add(change, late, 2, key, "file:1", &f->err), FG_E_NOT_FOUND);
    assert_non_null(strstr(f->err.msg, "is being deleted"));
    assert_int_equal(fg_access_end_deletion(change, early, 0, &f->err), FG_OK);
    assert_int_equal(fg_access_end_deletion(change, late, 0, &f->err), FG_OK);
    assert_int_equal(fg_tenant_key_add(change, early, 1, key, "file:1", &f->err), FG_E_NOT_FOUND);
    assert_non_null(strstr(f->err.msg, "was deleted"));
    /* For new tenants of these names. */
    assert_int_equal(fg_tenant_key_add(change, late, 2, key, "file:1", &f->err), FG_OK);
    registry_add_tenant(f, "late");
    registry_add_tenant(f, "early");
    assert_int_equal(fg_tenant_key_add(change, early, 1, key, "file:1", &f->err), FG_OK);
    assert_int_equal(registry_load(f), FG_OK);
}

/* An older version made them. */
static void keys_that_were_made_during_a_deletion_are_shredded_at_its_end(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;

    registry_add_tenant(f, "a");
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    only_tenant(f)->state = ACCESS__TENANT__STATE__ACTIVE;
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("a"), 1, FG_LIT("wrapped"), "file:1", &f->err), FG_OK);
    only_tenant(f)->state = ACCESS__TENANT__STATE__DELETING;
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 0, &f->err), FG_OK);
    assert_true(fg_tenant_key_is_shredded(&f->make.message, FG_LIT("a"), 1));
    assert_int_equal(only_tenant(f)->deletion->keys, 1);
    assert_int_equal(registry_load(f), FG_OK);
}

static const int64_t KEPT_MS = FG_ACCESS_DELETED_KEPT_DAYS * INT64_C(86400000);

static void end_deletion(struct registry_fixture *f, const char *id, int64_t now_ms)
{
    f->make.change.now_ms = now_ms;
    registry_add_tenant(f, id);
    assert_int_equal(fg_access_delete_tenant(&f->make.change, fg_cstr(id), &f->err), FG_OK);
    assert_int_equal(fg_access_end_deletion(&f->make.change, fg_cstr(id), 0, &f->err), FG_OK);
}

static void tenants_that_were_deleted_long_ago_are_forgotten(void **state)
{
    static const char *const kept[] = {"active", "deleting", "late", "new"};
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;

    registry_add_tenant(f, "shredded");
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("shredded"), 1, FG_LIT("wrapped"), "file:1", &f->err),
        FG_OK);
    end_deletion(f, "shredded", NOW_MS);
    end_deletion(f, "early", NOW_MS);
    registry_add_tenant(f, "active");
    registry_add_tenant(f, "deleting");
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("deleting"), &f->err), FG_OK);
    end_deletion(f, "late", NOW_MS + 1);
    change->now_ms = NOW_MS + KEPT_MS - 1;
    registry_add_tenant(f, "new");
    assert_int_equal(f->make.message.n_tenants, 6);
    change->now_ms++;
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("deleting"), &f->err), FG_E_EXISTS);
    assert_int_equal(f->make.message.n_tenants, FG_COUNT(kept));
    for (size_t i = 0; i < FG_COUNT(kept); i++)
        assert_string_equal(f->make.message.tenants[i]->id, kept[i]);
    /* What its key encrypted stays unreadable, and keeps the name. */
    assert_true(fg_tenant_key_is_shredded(&f->make.message, FG_LIT("shredded"), 1));
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("shredded"), &f->err),
                     FG_E_PRECONDITION);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("early"), &f->err), FG_OK);
    assert_int_equal(registry_load(f), FG_OK);
}

/* Tokens of several tenants name it on, and are not for the new one. */
static void a_tenant_of_a_deleted_ones_name_says_so(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    char text[FG_TOKEN_CHARS + 1];

    registry_add_tenant(f, "a");
    assert_int_equal(only_tenant(f)->replaced_ms, 0);
    access_make_token(&f->make, &(struct access_token){.tenants = "b,a", .scopes = 1, .seed = 1},
                      text);
    f->make.message.tokens[0]->expires_ms = NOW_MS + 2 * KEPT_MS;
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(f->make.message.tokens[0]->revoked_ms, 0);
    change->now_ms += KEPT_MS;
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 0, &f->err), FG_OK);
    /* The token keeps the entry, until it ends. */
    change->now_ms = NOW_MS + 2 * KEPT_MS - 1;
    f->make.message.tenants[0]->deletion->ended_ms = NOW_MS;
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("c"), &f->err), FG_OK);
    assert_int_equal(f->make.message.n_tenants, 2);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_string_equal(f->make.message.tenants[0]->id, "a");
    assert_int_equal(f->make.message.tenants[0]->replaced_ms, change->now_ms);
    assert_int_equal(registry_load(f), FG_OK);
    end_deletion(f, "d", NOW_MS);
    access_make_token(&f->make, &(struct access_token){.tenants = "b,d", .scopes = 1, .seed = 2},
                      text);
    f->make.message.tokens[1]->expires_ms = NOW_MS + KEPT_MS;
    change->now_ms = NOW_MS + KEPT_MS;
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("e"), &f->err), FG_OK);
    for (size_t i = 0; i < f->make.message.n_tenants; i++)
        assert_string_not_equal(f->make.message.tenants[i]->id, "d");
}

/* Whoever governs several tenants governs the name of a deleted one, until it is made again. */
static void what_was_left_for_a_deleted_tenant_is_not_for_the_next(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    char text[FG_TOKEN_CHARS + 1];
    int64_t made_ms;

    registry_add_tenant(f, "a");
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 0, &f->err), FG_OK);
    change->now_ms += 10;
    access_make_token(&f->make, &(struct access_token){.tenants = "a", .scopes = 1, .seed = 1},
                      text);
    bind(f, "a");
    bind(f, "a*");
    made_ms = change->now_ms += 10;
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_true(f->make.message.tokens[0]->created_ms <= only_tenant(f)->replaced_ms);
    assert_int_equal(f->make.message.n_bindings, 1);
    assert_string_equal(f->make.message.bindings[0]->tenants, "a*");
    /* A token for the new tenant is newer than the tenant, even if the clock of the server that
     * makes the token is slow. */
    change->now_ms = made_ms - 5;
    access_make_token(&f->make, &(struct access_token){.tenants = "b,a", .scopes = 1, .seed = 2},
                      text);
    assert_true(f->make.message.tokens[1]->created_ms > only_tenant(f)->replaced_ms);
    bind(f, "a");
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_OK); /* again */
    assert_int_equal(f->make.message.n_bindings, 2);
    assert_int_equal(registry_load(f), FG_OK);
}

static void deleted_tenants_leave_room_for_others(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    Access__Tenant **tenants;

    registry_add_tenant(f, "a");
    end_deletion(f, "b", NOW_MS);
    /* Full: the same two, over and over, since nothing here looks at the names of others. */
    tenants = fg_arena_new(change->arena, Access__Tenant *, FG_ACCESS_ALL_TENANTS_MAX);
    assert_non_null(tenants);
    for (size_t i = 0; i < FG_ACCESS_ALL_TENANTS_MAX; i++)
        tenants[i] = f->make.message.tenants[i % 2];
    f->make.message.tenants = tenants;
    f->make.message.n_tenants = FG_ACCESS_ALL_TENANTS_MAX;
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("c"), &f->err), FG_E_LIMIT);
    assert_non_null(strstr(f->err.msg, "deleted in the last 400 days"));
    change->now_ms = NOW_MS + KEPT_MS;
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("c"), &f->err), FG_OK);
    assert_int_equal(f->make.message.n_tenants, FG_ACCESS_ALL_TENANTS_MAX / 2 + 1);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, registry_set_up, registry_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_deletion_takes_what_is_for_the_tenant_alone),
        WITH(a_tenant_of_a_deleted_ones_name_says_so),
        WITH(what_was_left_for_a_deleted_tenant_is_not_for_the_next),
        WITH(a_deletion_begins_and_ends_once),
        WITH(tenants_that_were_deleted_long_ago_are_forgotten),
        WITH(deleted_tenants_leave_room_for_others),
        WITH(a_tenant_whose_key_was_shredded_needs_a_new_one),
        WITH(a_deleted_tenant_gets_no_key),
        WITH(keys_that_were_made_during_a_deletion_are_shredded_at_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
