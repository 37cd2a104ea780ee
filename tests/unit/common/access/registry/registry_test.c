/* The registry of access: what is refused of a message, and what changes make of it. */
#include "common/access/people/people_change.h"
#include "common/access/people/sealed_cookie.h"
#include "common/access/registry/registry.h"
#include "common/access/registry/tenant_deletion.h"
#include "common/access/registry/tenant_keys_change.h"
#include "common/base/str.h"
#include "common/net/guard.h"
#include "common/net/pbjson.h"
#include "tests/lib/access_make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { NOW_MS = 1000000, DAY_MS = 24 * 3600 * 1000 };

struct fixture {
    struct fg_arena *arena;
    struct access_make make;
    struct fg_err err;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create(256 << 20);
    access_make_init(&f->make, f->arena, NOW_MS);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

static void tenant(struct fixture *f, const char *id)
{
    access_make_tenant(&f->make, id, ACCESS__TENANT__STATE__ACTIVE);
}

/* ---- messages of others ---- */

/* What is in memory of the message's bytes, or why not. */
static enum fg_code load(struct fixture *f)
{
    struct fg_arena *arena = fg_arena_create(64 << 20);
    struct fg_access_registry *registry = NULL;
    ProtobufCMessage *copied;
    struct fg_buf bytes;

    fg_buf_init(&bytes, 32 << 20);
    fg_pb_write(&f->make.message.base, &bytes);
    assert_int_equal(fg_pb_read(fg_arena_copy(arena, fg_buf_slice(&bytes)),
                                &access__registry__descriptor, arena, &copied, &f->err),
                     FG_OK);
    fg_buf_done(&bytes);
    if (fg_access_registry_create((Access__Registry *)copied, arena, &registry, &f->err) != FG_OK)
        return f->err.code;
    fg_access_registry_unref(registry);
    return FG_OK;
}

/* Makes the message wrong in one place; `says` is part of the sentence. */
struct spoiling {
    const char *name, *says;
    void (*spoil)(struct fixture *f, Access__Token *token);
};

static char *text_of(struct fixture *f, const char *text)
{
    return fg_arena_text(f->arena, fg_cstr(text));
}

/* `n` times the same character. */
static char *long_text(struct fixture *f, size_t n)
{
    char *text = fg_arena_new(f->arena, char, n + 1);

    memset(text, 'n', n);
    return text;
}

#define SPOIL(name) static void name(struct fixture *f, Access__Token *token)

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
    token->tenants[0] = text_of(f, "a/b");
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
    token->name = text_of(f, "");
}
SPOIL(name_has_a_line_end)
{
    token->name = text_of(f, "a\nb");
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
    token->matchers = text_of(f, "{namespace=");
}
SPOIL(matchers_are_long)
{
    token->matchers = long_text(f, 5000);
}
SPOIL(matchers_with_another_scope)
{
    token->matchers = text_of(f, "{namespace=\"a\"}");
    token->scopes = FG_SCOPE_READ | FG_SCOPE_DELETE;
    (void)f;
}
SPOIL(label_without_push)
{
    token->tenant_label = fg_arena_new(f->arena, Access__TenantLabel, 1);
    access__tenant_label__init(token->tenant_label);
    token->tenant_label->name = text_of(f, "namespace");
    token->scopes = FG_SCOPE_READ;
}
SPOIL(label_of_a_foreign_tenant)
{
    token->tenant_label = fg_arena_new(f->arena, Access__TenantLabel, 1);
    access__tenant_label__init(token->tenant_label);
    token->tenant_label->name = text_of(f, "namespace");
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
    f->make.message.tenants[0]->id = text_of(f, "");
}
SPOIL(tenant_is_a_path)
{
    (void)token;
    f->make.message.tenants[0]->id = text_of(f, "..");
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
        struct fixture *f;

        print_message("  %s\n", spoilings[i].name);
        (void)set_up((void **)&f);
        tenant(f, "a");
        access_make_token(
            &f->make, &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = 1},
            text);
        assert_int_equal(load(f), FG_OK);
        spoilings[i].spoil(f, f->make.message.tokens[0]);
        assert_int_equal(load(f), FG_E_CORRUPT);
        assert_non_null(strstr(f->err.msg, "access/registry"));
        if (strstr(f->err.msg, spoilings[i].says) == NULL)
            fail_msg("%s", f->err.msg);
        (void)tear_down((void **)&f);
    }
}

/* A version after this one may add states, and this one goes on with the rest. */
static void an_unknown_state_damages_nothing(void **state)
{
    struct fixture *f = *state;

    tenant(f, "a");
    f->make.message.tenants[0]->state = (Access__Tenant__State)77;
    assert_int_equal(load(f), FG_OK);
}

static void thousands_are_found_by_their_ids(void **state)
{
    struct fixture *f = *state;
    struct fg_access_registry *registry;
    char text[FG_TOKEN_CHARS + 1];
    uint32_t at;

    for (unsigned i = 0; i < 2000; i++)
        tenant(f, fg_arena_printf(f->arena, "tenant-%u", i));
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
    struct fixture *f = *state;

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
    struct fixture *f = *state;
    const struct fg_access_change *change = &f->make.change;

    tenant(f, "a");
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

/* ---- deletion ---- */

static Access__Tenant *only_tenant(struct fixture *f)
{
    assert_int_equal(f->make.message.n_tenants, 1);
    return f->make.message.tenants[0];
}

static void bind(struct fixture *f, const char *tenants)
{
    Access__Binding binding;

    access__binding__init(&binding);
    binding.issuer = text_of(f, "https://login.example");
    binding.claim = text_of(f, "groups");
    binding.value = text_of(f, "dev");
    binding.role = text_of(f, "viewer");
    binding.tenants = text_of(f, tenants);
    assert_int_equal(fg_access_bind(&f->make.change, &binding, &f->err), FG_OK);
}

static void a_deletion_takes_what_is_for_the_tenant_alone(void **state)
{
    struct fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    char text[FG_TOKEN_CHARS + 1];

    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_E_NOT_FOUND);
    tenant(f, "a");
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
    assert_int_equal(load(f), FG_OK);
}

static void a_deletion_begins_and_ends_once(void **state)
{
    const struct fg_access_listed listed = {1, 2, 3, 4}, later = {9, 9, 9, 9};
    struct fixture *f = *state;
    struct fg_access_change *change = &f->make.change;

    tenant(f, "a");
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
    assert_int_equal(load(f), FG_OK);
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
    struct fixture *f = *state;
    struct fg_access_change *change = &f->make.change;

    tenant(f, "a");
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("a"), 1, FG_LIT("wrapped"), "file:1", &f->err), FG_OK);
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("a"), &f->err), FG_OK);
    assert_int_equal(fg_access_end_deletion(change, FG_LIT("a"), 0, &f->err), FG_OK);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_E_PRECONDITION);
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("a"), 2, FG_LIT("wrapped"), "file:1", &f->err), FG_OK);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("a"), &f->err), FG_OK);
}

static const int64_t KEPT_MS = FG_ACCESS_DELETED_KEPT_DAYS * INT64_C(86400000);

static void end_deletion(struct fixture *f, const char *id, int64_t now_ms)
{
    f->make.change.now_ms = now_ms;
    tenant(f, id);
    assert_int_equal(fg_access_delete_tenant(&f->make.change, fg_cstr(id), &f->err), FG_OK);
    assert_int_equal(fg_access_end_deletion(&f->make.change, fg_cstr(id), 0, &f->err), FG_OK);
}

static void tenants_that_were_deleted_long_ago_are_forgotten(void **state)
{
    static const char *const kept[] = {"active", "deleting", "late", "new"};
    struct fixture *f = *state;
    struct fg_access_change *change = &f->make.change;

    tenant(f, "shredded");
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("shredded"), 1, FG_LIT("wrapped"), "file:1", &f->err),
        FG_OK);
    end_deletion(f, "shredded", NOW_MS);
    end_deletion(f, "early", NOW_MS);
    tenant(f, "active");
    tenant(f, "deleting");
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("deleting"), &f->err), FG_OK);
    end_deletion(f, "late", NOW_MS + 1);
    change->now_ms = NOW_MS + KEPT_MS - 1;
    tenant(f, "new");
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
    assert_int_equal(load(f), FG_OK);
}

static void deleted_tenants_leave_room_for_others(void **state)
{
    struct fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    Access__Tenant **tenants;

    tenant(f, "a");
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

/* ---- people ---- */

static void a_binding_is_there_once(void **state)
{
    struct fixture *f = *state;
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
    struct fixture *f = *state;
    char issuer[] = "https://login.example", claim[] = "groups", role[] = "viewer", a[] = "a",
         value[16];
    Access__Binding binding;
    unsigned n = 0;

    access__binding__init(&binding);
    binding.issuer = issuer;
    binding.claim = claim;
    binding.value = value;
    binding.tenants = a;
    binding.role = role;
    do
        (void)snprintf(value, sizeof value, "%u", n++);
    while (fg_access_bind(&f->make.change, &binding, &f->err) == FG_OK);
    assert_int_equal(f->err.code, FG_E_LIMIT);
    assert_int_equal(f->make.message.n_bindings, n - 1);
}

static void ended_sessions_are_forgotten_after_a_day(void **state)
{
    struct fixture *f = *state;
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

/* ---- limits ---- */

static const char *yaml(struct fixture *f)
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
    struct fixture *f = *state;
    const struct fg_access_change *change = &f->make.change;

    tenant(f, "a");
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
    struct fixture *f = *state;
    char *large = fg_calloc(70000, 1);

    tenant(f, "a");
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
    struct fixture *f = *state;

    tenant(f, "a");
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"),
                                             fg_arena_printf(f->arena, "l%u", i), "1", &f->err),
                         FG_OK);
    assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"), "one-more", "1", &f->err),
                     FG_E_LIMIT);
    assert_int_equal(fg_access_set_limit(&f->make.change, FG_LIT("a"), "l99", "2", &f->err), FG_OK);
}

/* ---- tokens ---- */

static Access__Token *push_token(struct fixture *f, uint8_t seed, char text[FG_TOKEN_CHARS + 1])
{
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = seed},
                      text);
    return f->make.message.tokens[f->make.message.n_tokens - 1];
}

static bool is_valid(const Access__Token *token, const char *text, int64_t now_ms)
{
    struct fg_token read;

    assert_true(fg_token_read(fg_cstr(text), &read));
    return fg_access_token_is_valid(token, read.hash, now_ms);
}

/* The write may have been done although its answer was lost, so it is made again. */
static void a_token_is_created_once(void **state)
{
    struct fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1], other[FG_TOKEN_CHARS + 1], id[FG_TOKEN_ID_CHARS + 1];
    const Access__Token *token = push_token(f, 1, text);
    Access__Token again;
    Access__Secret secret = ACCESS__SECRET__INIT, *secrets[] = {&secret};
    struct fg_token made;

    (void)push_token(f, 1, text);
    assert_int_equal(f->make.message.n_tokens, 1);
    assert_string_equal(token->created_by, "test");
    assert_int_equal(token->created_ms, NOW_MS);
    assert_true(is_valid(token, text, NOW_MS));
    /* The same id with another secret is another token. */
    (void)snprintf(id, sizeof id, "%s", token->id);
    made = access_make_secret(9, id, other);
    secret.sha256 = (ProtobufCBinaryData){FG_TOKEN_HASH_BYTES, made.hash};
    again = *token;
    again.secrets = secrets;
    assert_int_equal(fg_access_create_token(&f->make.change, &again, &f->err), FG_E_EXISTS);
    assert_false(is_valid(token, other, NOW_MS));
}

/* Whoever asks is told at once; nothing of it is stored. */
static void a_token_that_cannot_be_is_not_created(void **state)
{
    struct fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1];
    Access__Token *token = push_token(f, 1, text), wrong;

    wrong = *token;
    wrong.id = fg_arena_printf(f->arena, "ABCDEFGH");
    wrong.matchers = fg_arena_printf(f->arena, "{a=");
    assert_int_equal(fg_access_create_token(&f->make.change, &wrong, &f->err), FG_E_INVALID);
    assert_non_null(strstr(f->err.msg, "matchers"));
    wrong.matchers = fg_arena_printf(f->arena, "{a=\"b\"}");
    wrong.scopes = FG_SCOPE_PUSH | FG_SCOPE_RULES;
    assert_int_equal(fg_access_create_token(&f->make.change, &wrong, &f->err), FG_E_INVALID);
    wrong.scopes = FG_SCOPE_PUSH | FG_SCOPE_READ;
    assert_int_equal(fg_access_create_token(&f->make.change, &wrong, &f->err), FG_OK);
    assert_int_equal(f->make.message.n_tokens, 2);
}

static void a_rotated_token_has_two_secrets_for_a_while(void **state)
{
    struct fixture *f = *state;
    char first[FG_TOKEN_CHARS + 1], second[FG_TOKEN_CHARS + 1], third[FG_TOKEN_CHARS + 1];
    Access__Token *token = push_token(f, 1, first);
    struct fg_slice id = fg_cstr(token->id);
    struct fg_token two = access_make_secret(2, token->id, second),
                    three = access_make_secret(3, token->id, third);

    for (unsigned i = 0; i < 2; i++) { /* again: the answer was lost */
        assert_int_equal(fg_access_rotate_token(&f->make.change, id, two.hash, 1000, &f->err),
                         FG_OK);
        f->make.change.now_ms += 100;
    }
    assert_int_equal(token->n_secrets, 2);
    assert_true(is_valid(token, first, NOW_MS + 999));
    assert_false(is_valid(token, first, NOW_MS + 1000));
    assert_true(is_valid(token, second, NOW_MS));
    assert_true(is_valid(token, second, NOW_MS + 400 * (int64_t)DAY_MS));
    /* The first one ends with the second rotation, however long it had. */
    assert_int_equal(fg_access_rotate_token(&f->make.change, id, three.hash, 0, &f->err), FG_OK);
    assert_int_equal(token->n_secrets, 2);
    assert_false(is_valid(token, first, NOW_MS + 200));
    assert_false(is_valid(token, second, NOW_MS + 200)); /* no overlap was wanted */
    assert_true(is_valid(token, third, NOW_MS + 200));
    assert_int_equal(load(f), FG_OK);
}

static void an_ended_token_is_not_rotated(void **state)
{
    struct fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1], other[FG_TOKEN_CHARS + 1];
    Access__Token *token = push_token(f, 1, text);
    struct fg_slice id = fg_cstr(token->id);
    struct fg_token next = access_make_secret(2, token->id, other);

    assert_int_equal(fg_access_rotate_token(&f->make.change, id, next.hash, -1, &f->err),
                     FG_E_INVALID);
    assert_int_equal(
        fg_access_rotate_token(&f->make.change, FG_LIT("00000000"), next.hash, 1, &f->err),
        FG_E_NOT_FOUND);
    token->expires_ms = NOW_MS;
    assert_int_equal(fg_access_rotate_token(&f->make.change, id, next.hash, 1, &f->err),
                     FG_E_PRECONDITION);
    token->expires_ms = 0;
    assert_int_equal(fg_access_revoke_token(&f->make.change, id, &f->err), FG_OK);
    assert_int_equal(fg_access_rotate_token(&f->make.change, id, next.hash, 1, &f->err),
                     FG_E_PRECONDITION);
}

static void an_overlap_of_ages_does_not_overflow(void **state)
{
    struct fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1], other[FG_TOKEN_CHARS + 1];
    Access__Token *token = push_token(f, 1, text);
    struct fg_token next = access_make_secret(2, token->id, other);

    assert_int_equal(
        fg_access_rotate_token(&f->make.change, fg_cstr(token->id), next.hash, INT64_MAX, &f->err),
        FG_OK);
    assert_true(is_valid(token, text, NOW_MS + 400 * (int64_t)DAY_MS));
}

static void a_revoked_token_is_over_for_good(void **state)
{
    struct fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1];
    Access__Token *token = push_token(f, 1, text);

    f->make.change.by = "first";
    assert_int_equal(fg_access_revoke_token(&f->make.change, fg_cstr(token->id), &f->err), FG_OK);
    f->make.change.by = "second";
    f->make.change.now_ms++;
    assert_int_equal(fg_access_revoke_token(&f->make.change, fg_cstr(token->id), &f->err), FG_OK);
    assert_string_equal(token->revoked_by, "first");
    assert_int_equal(token->revoked_ms, NOW_MS);
    assert_false(is_valid(token, text, NOW_MS - 1));
    assert_int_equal(fg_access_revoke_token(&f->make.change, FG_LIT("00000000"), &f->err),
                     FG_E_NOT_FOUND);
}

static void tokens_that_ended_long_ago_are_forgotten(void **state)
{
    struct fixture *f = *state;
    const int64_t long_ms = 400 * (int64_t)DAY_MS;
    char text[FG_TOKEN_CHARS + 1];
    Access__Token *ended = push_token(f, 1, text), *revoked = push_token(f, 2, text);

    (void)push_token(f, 3, text); /* this one goes on */
    ended->expires_ms = NOW_MS + 1;
    revoked->revoked_ms = NOW_MS + 2;
    f->make.change.now_ms = NOW_MS + long_ms;
    (void)push_token(f, 4, text);
    assert_int_equal(f->make.message.n_tokens, 4); /* a day less than that: still known */
    f->make.change.now_ms = NOW_MS + 1 + long_ms;
    (void)push_token(f, 5, text);
    assert_int_equal(f->make.message.n_tokens, 4);
    f->make.change.now_ms = NOW_MS + 2 + long_ms;
    (void)push_token(f, 6, text);
    assert_int_equal(f->make.message.n_tokens, 4);
}

static void an_admin_is_one_that_can_still_act(void **state)
{
    struct fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1];
    Access__Token *token;

    assert_false(fg_access_has_admin(&f->make.message, NOW_MS));
    (void)push_token(f, 1, text);
    assert_false(fg_access_has_admin(&f->make.message, NOW_MS));
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "*", .scopes = FG_SCOPE_ADMIN, .seed = 2},
                      text);
    token = f->make.message.tokens[1];
    assert_true(fg_access_has_admin(&f->make.message, NOW_MS));
    token->not_before_ms = NOW_MS + 1; /* later counts, too */
    assert_true(fg_access_has_admin(&f->make.message, NOW_MS));
    token->expires_ms = NOW_MS + 2;
    assert_true(fg_access_has_admin(&f->make.message, NOW_MS + 1));
    assert_false(fg_access_has_admin(&f->make.message, NOW_MS + 2));
    token->expires_ms = 0;
    token->revoked_ms = 1;
    assert_false(fg_access_has_admin(&f->make.message, NOW_MS));
}

/* An arena that is full is an answer, and the message in the bucket stays as it is. */
static void a_full_arena_is_a_limit(void **state)
{
    struct fixture *f = *state;
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

/* ---- scopes ---- */

static void scopes_have_names(void **state)
{
    static const struct {
        const char *text;
        unsigned scopes; /* 0: it is wrong */
    } cases[] = {
        {"push", FG_SCOPE_PUSH},
        {"read", FG_SCOPE_READ},
        {"forward", FG_SCOPE_FORWARD},
        {"debuginfo", FG_SCOPE_DEBUGINFO},
        {"rules", FG_SCOPE_RULES},
        {"share", FG_SCOPE_SHARE},
        {"delete", FG_SCOPE_DELETE},
        {"tenant-admin", FG_SCOPE_TENANT_ADMIN},
        {"admin", FG_SCOPE_ADMIN},
        {"metrics", FG_SCOPE_METRICS},
        {"all", FG_SCOPES_ALL},
        {"push,read", FG_SCOPE_PUSH | FG_SCOPE_READ},
        {" push , read ", FG_SCOPE_PUSH | FG_SCOPE_READ},
        {"push,push", FG_SCOPE_PUSH},
        {"", 0},
        {"push,,read", 0},
        {"Push", 0},
        {"write", 0},
        {"known", 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        unsigned scopes = 0;
        struct fg_buf names;

        print_message("  \"%s\"\n", cases[i].text);
        assert_int_equal(fg_access_read_scopes(fg_cstr(cases[i].text), &scopes, &f->err),
                         cases[i].scopes == 0 ? FG_E_INVALID : FG_OK);
        assert_int_equal(scopes, cases[i].scopes);
        if (scopes == 0)
            continue;
        fg_buf_init(&names, 256);
        fg_access_write_scopes(scopes, &names);
        assert_int_equal(fg_access_read_scopes(fg_buf_slice(&names), &scopes, &f->err), FG_OK);
        assert_int_equal(scopes, cases[i].scopes);
        fg_buf_done(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_says_what_cannot_be_is_corrupt),
        cmocka_unit_test_setup_teardown(an_unknown_state_damages_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(thousands_are_found_by_their_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tenant_is_created_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(states_go_one_way_to_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deletion_takes_what_is_for_the_tenant_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_deletion_begins_and_ends_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tenants_that_were_deleted_long_ago_are_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(deleted_tenants_leave_room_for_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tenant_whose_key_was_shredded_needs_a_new_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_binding_is_there_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bindings_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ended_sessions_are_forgotten_after_a_day, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(limits_are_set_replaced_and_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_is_one_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tenant_has_so_many_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_is_created_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_that_cannot_be_is_not_created, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rotated_token_has_two_secrets_for_a_while, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_ended_token_is_not_rotated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_overlap_of_ages_does_not_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_revoked_token_is_over_for_good, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tokens_that_ended_long_ago_are_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_admin_is_one_that_can_still_act, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_arena_is_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scopes_have_names, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
