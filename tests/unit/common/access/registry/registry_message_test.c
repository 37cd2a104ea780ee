/* Tests which messages in the bucket are refused as damaged. */
#include "common/base/str.h"
#include "common/net/guard.h"
#include "tests/unit/common/access/registry/registry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Makes the message wrong in one place; `says` is part of the sentence. */
struct spoiling {
    const char *name, *says;
    void (*spoil)(struct registry_fixture *f, Access__Token *token);
};

/* `n` times the same character. */
static char *long_text(struct registry_fixture *f, size_t n)
{
    char *text = fg_arena_new(f->arena, char, n + 1);

    memset(text, 'n', n);
    return text;
}

#define SPOIL(name) static void name(struct registry_fixture *f, Access__Token *token)

SPOIL(id_is_short)
{
    (void)f;
    token->id[7] = '\0';
}
SPOIL(id_is_odd)
{
    (void)f;
    token->id[3] = '|';
}
SPOIL(scopes_are_none)
{
    (void)f;
    token->scopes = 0;
}
SPOIL(scope_is_unknown)
{
    (void)f;
    token->scopes |= FG_SCOPES_ALL + 1U;
}
SPOIL(scope_is_of_routes)
{
    (void)f;
    token->scopes |= (unsigned)FG_SCOPE_OPEN;
}
SPOIL(admin_of_a_tenant)
{
    (void)f;
    token->scopes = FG_SCOPE_ADMIN;
}
SPOIL(metrics_of_a_tenant)
{
    (void)f;
    token->scopes = FG_SCOPE_METRICS;
}
SPOIL(tenants_are_none)
{
    (void)f;
    token->n_tenants = 0;
}
SPOIL(tenant_is_none)
{
    token->tenants[0] = registry_text(f, "a/b");
}
SPOIL(tenants_are_many)
{
    token->n_tenants = FG_ACCESS_TENANTS_MAX + 1;
    token->tenants = fg_arena_new(f->arena, char *, token->n_tenants);
    for (size_t i = 0; i < token->n_tenants; i++)
        token->tenants[i] = fg_arena_printf(f->arena, "t%zu", i);
}
SPOIL(name_is_empty)
{
    token->name = registry_text(f, "");
}
SPOIL(name_has_a_line_end)
{
    token->name = registry_text(f, "a\nb");
}
SPOIL(name_is_long)
{
    token->name = long_text(f, FG_ACCESS_NAME_MAX_BYTES + 1);
}
SPOIL(secrets_are_none)
{
    (void)f;
    token->n_secrets = 0;
}
SPOIL(secrets_are_three)
{
    Access__Secret **secrets = fg_arena_new(f->arena, Access__Secret *, 3);

    for (size_t i = 0; i < 3; i++)
        secrets[i] = token->secrets[0];
    token->secrets = secrets;
    token->n_secrets = 3;
}
SPOIL(secret_is_short)
{
    (void)f;
    token->secrets[0]->sha256.len = 31;
}
SPOIL(secret_is_empty)
{
    (void)f;
    token->secrets[0]->sha256.len = 0;
}
SPOIL(times_are_negative)
{
    (void)f;
    token->expires_ms = -1;
}
SPOIL(begins_before_all_time)
{
    (void)f;
    token->not_before_ms = INT64_MIN;
}
SPOIL(ends_before_it_begins)
{
    (void)f;
    token->not_before_ms = 10;
    token->expires_ms = 10;
}
SPOIL(matchers_are_no_selector)
{
    token->matchers = registry_text(f, "{namespace=");
}
SPOIL(matchers_are_long)
{
    token->matchers = long_text(f, 5000);
}
SPOIL(matchers_with_another_scope)
{
    token->matchers = registry_text(f, "{namespace=\"a\"}");
    token->scopes = FG_SCOPE_READ | FG_SCOPE_DELETE;
    (void)f;
}
SPOIL(label_without_push)
{
    token->tenant_label = fg_arena_new(f->arena, Access__TenantLabel, 1);
    access__tenant_label__init(token->tenant_label);
    token->tenant_label->name = registry_text(f, "namespace");
    token->scopes = FG_SCOPE_READ;
}
SPOIL(label_of_a_foreign_tenant)
{
    token->tenant_label = fg_arena_new(f->arena, Access__TenantLabel, 1);
    access__tenant_label__init(token->tenant_label);
    token->tenant_label->name = registry_text(f, "namespace");
    token->tenant_label->otherwise = fg_arena_printf(f->arena, "b");
}
SPOIL(label_maps_to_a_foreign_tenant)
{
    Access__TenantOfValue *value = fg_arena_new(f->arena, Access__TenantOfValue, 1);
    Access__TenantOfValue **values = fg_arena_new(f->arena, Access__TenantOfValue *, 1);

    label_of_a_foreign_tenant(f, token);
    token->tenant_label->otherwise = fg_arena_printf(f->arena, "a");
    access__tenant_of_value__init(value);
    value->value = fg_arena_printf(f->arena, "web");
    value->tenant = fg_arena_printf(f->arena, "b");
    values[0] = value;
    token->tenant_label->tenants = values;
    token->tenant_label->n_tenants = 1;
}
SPOIL(token_is_there_twice)
{
    Access__Token **both = fg_arena_new(f->arena, Access__Token *, 2);

    both[0] = both[1] = token;
    f->make.message.tokens = both;
    f->make.message.n_tokens = 2;
}
SPOIL(tenant_is_there_twice)
{
    Access__Tenant **both = fg_arena_new(f->arena, Access__Tenant *, 2);

    (void)token;
    both[0] = both[1] = f->make.message.tenants[0];
    f->make.message.tenants = both;
    f->make.message.n_tenants = 2;
}
SPOIL(tenant_has_no_id)
{
    (void)token;
    f->make.message.tenants[0]->id = registry_text(f, "");
}
SPOIL(tenant_is_a_path)
{
    (void)token;
    f->make.message.tenants[0]->id = registry_text(f, "..");
}

static const struct spoiling spoilings[] = {
    {"id is short", "8 letters and digits", id_is_short},
    {"id is odd", "8 letters and digits", id_is_odd},
    {"no scopes", "needs a scope", scopes_are_none},
    {"unknown scope", "only known ones", scope_is_unknown},
    {"scope of routes", "only known ones", scope_is_of_routes},
    {"admin of one tenant", "not about tenants", admin_of_a_tenant},
    {"metrics of one tenant", "not about tenants", metrics_of_a_tenant},
    {"no tenants", "needs a tenant", tenants_are_none},
    {"tenant is a path", "unsupported character", tenant_is_none},
    {"many tenants", "at most 32 tenants", tenants_are_many},
    {"empty name", "1 to 200 bytes", name_is_empty},
    {"long name", "1 to 200 bytes", name_is_long},
    {"name with a line end", "control characters", name_has_a_line_end},
    {"no secrets", "one or two", secrets_are_none},
    {"three secrets", "one or two", secrets_are_three},
    {"short secret", "one or two", secret_is_short},
    {"empty secret", "one or two", secret_is_empty},
    {"negative end", "expires after it begins", times_are_negative},
    {"negative begin", "expires after it begins", begins_before_all_time},
    {"ends at once", "expires after it begins", ends_before_it_begins},
    {"no selector", "matchers: ", matchers_are_no_selector},
    {"long matchers", "at most 4096 bytes", matchers_are_long},
    {"matchers and delete", "no scopes but push and read", matchers_with_another_scope},
    {"tenant_label without push", "tenant_label", label_without_push},
    {"tenant_label otherwise", "tenant_label", label_of_a_foreign_tenant},
    {"tenant_label maps", "tenant_label", label_maps_to_a_foreign_tenant},
    {"token twice", "is there twice", token_is_there_twice},
    {"tenant twice", "is there twice", tenant_is_there_twice},
    {"tenant without an id", "empty", tenant_has_no_id},
    {"tenant ..", "'.' or '..'", tenant_is_a_path},
};

/* It was checked before it was stored, so the object is damaged. */
static void a_message_that_says_what_cannot_be_is_corrupt(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(spoilings); i++) {
        char text[FG_TOKEN_CHARS + 1];
        struct registry_fixture *f;

        print_message("  %s\n", spoilings[i].name);
        (void)registry_set_up((void **)&f);
        registry_add_tenant(f, "a");
        access_make_token(
            &f->make, &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = 1},
            text);
        assert_int_equal(registry_load(f), FG_OK);
        spoilings[i].spoil(f, f->make.message.tokens[0]);
        assert_int_equal(registry_load(f), FG_E_CORRUPT);
        assert_non_null(strstr(f->err.msg, "access/registry"));
        if (strstr(f->err.msg, spoilings[i].says) == NULL)
            fail_msg("%s", f->err.msg);
        (void)registry_tear_down((void **)&f);
    }
}

/* A version after this one may add states, and this one goes on with the rest. */
static void an_unknown_state_damages_nothing(void **state)
{
    struct registry_fixture *f = *state;

    registry_add_tenant(f, "a");
    f->make.message.tenants[0]->state = (Access__Tenant__State)77;
    assert_int_equal(registry_load(f), FG_OK);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, registry_set_up, registry_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_says_what_cannot_be_is_corrupt),
        WITH(an_unknown_state_damages_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
