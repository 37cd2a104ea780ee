/* Tests changes of tokens in the registry, and the names of scopes. */
#include "common/access/registry/tenant_deletion.h"
#include "common/access/registry/tenant_keys_change.h"
#include "common/base/str.h"
#include "common/net/guard.h"
#include "tests/unit/common/access/registry/registry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static Access__Token *push_token(struct registry_fixture *f, uint8_t seed,
                                 char text[FG_TOKEN_CHARS + 1])
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
    struct registry_fixture *f = *state;
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

/* The request fails at once, and nothing of it is stored. */
static void a_token_that_cannot_be_is_not_created(void **state)
{
    struct registry_fixture *f = *state;
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
    struct registry_fixture *f = *state;
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
    assert_int_equal(registry_load(f), FG_OK);
}

static void an_ended_token_is_not_rotated(void **state)
{
    struct registry_fixture *f = *state;
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
    struct registry_fixture *f = *state;
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
    struct registry_fixture *f = *state;
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
    struct registry_fixture *f = *state;
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

/* ---- room ---- */

enum { LABEL_BYTES = 16000 }; /* of a large tenant_label */

/* Creates a token of a tenant with a large label; FG_E_LIMIT: there is no room. */
static enum fg_code create_large(struct registry_fixture *f, const char *tenant, uint32_t seed)
{
    char text[FG_TOKEN_CHARS + 1];
    struct fg_token made = access_make_secret(seed, NULL, text);
    Access__Secret secret = ACCESS__SECRET__INIT, *secrets[] = {&secret};
    Access__TenantLabel label = ACCESS__TENANT_LABEL__INIT;
    char *tenants[] = {registry_text(f, tenant)};
    Access__Token token;

    access__token__init(&token);
    secret.sha256 = (ProtobufCBinaryData){FG_TOKEN_HASH_BYTES, made.hash};
    label.name = label.prefix = registry_text(f, "namespace");
    label.prefix = fg_arena_printf(f->arena, "%0*d", LABEL_BYTES, 0);
    token.id = made.id;
    token.name = registry_text(f, "large");
    token.n_tenants = 1;
    token.tenants = tenants;
    token.scopes = FG_SCOPE_PUSH;
    token.n_secrets = 1;
    token.secrets = secrets;
    token.tenant_label = &label;
    return fg_access_create_token(&f->make.change, &token, &f->err);
}

/* Creates such tokens until there is no room; returns how many. */
static unsigned fill(struct registry_fixture *f, const char *tenant, uint32_t *seed)
{
    unsigned n = 0;

    while (create_large(f, tenant, (*seed)++) == FG_OK)
        n++;
    assert_int_equal(f->err.code, FG_E_LIMIT);
    return n;
}

static size_t size_of(const struct registry_fixture *f)
{
    return protobuf_c_message_get_packed_size(&f->make.message.base);
}

static void a_label_is_bounded(void **state)
{
    struct registry_fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1];
    Access__TenantLabel label = ACCESS__TENANT_LABEL__INIT;
    Access__TenantOfValue value = ACCESS__TENANT_OF_VALUE__INIT, *values[1000];
    Access__Token token = *push_token(f, 1, text);

    token.id = registry_text(f, "ABCDEFGH");
    token.tenant_label = &label;
    label.name = fg_arena_printf(f->arena, "%0*d", FG_ACCESS_NAME_MAX_BYTES + 1, 0);
    assert_int_equal(fg_access_create_token(&f->make.change, &token, &f->err), FG_E_INVALID);
    label.name = registry_text(f, "namespace");
    label.prefix = fg_arena_printf(f->arena, "%0*d", 16 * 1024, 0);
    assert_int_equal(fg_access_create_token(&f->make.change, &token, &f->err), FG_E_INVALID);
    label.prefix = registry_text(f, "");
    value.value = registry_text(f, "team-of-the-values");
    value.tenant = registry_text(f, "a");
    for (size_t i = 0; i < FG_COUNT(values); i++)
        values[i] = &value;
    label.tenants = values;
    label.n_tenants = FG_COUNT(values);
    assert_int_equal(fg_access_create_token(&f->make.change, &token, &f->err), FG_E_INVALID);
    assert_non_null(strstr(f->err.msg, "tenant_label has at most"));
    label.n_tenants = 400;
    assert_int_equal(fg_access_create_token(&f->make.change, &token, &f->err), FG_OK);
    /* One that was stored before there was a bound is still good. */
    f->make.message.tokens[1]->tenant_label->prefix =
        fg_arena_printf(f->arena, "%0*d", 100 * 1024, 0);
    assert_int_equal(registry_load(f), FG_OK);
}

/* Its tenant-admins have a share; the cluster's admins are not bound by it. */
static void a_tenant_has_a_share_of_the_registry(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    uint32_t seed = 1;
    unsigned n;
    char id[FG_TOKEN_ID_CHARS + 1];

    change->bounded = true;
    n = fill(f, "a", &seed);
    assert_in_range(n, 50, FG_ACCESS_TENANT_MAX_BYTES / LABEL_BYTES);
    assert_non_null(strstr(f->err.msg, "tenant \"a\" has "));
    assert_int_equal(create_large(f, "b", seed++), FG_OK);
    change->bounded = false;
    assert_int_equal(create_large(f, "a", seed++), FG_OK);
    change->bounded = true;
    assert_int_equal(create_large(f, "a", seed++), FG_E_LIMIT);
    /* Those that have ended make room, not for a day but at once. */
    (void)snprintf(id, sizeof id, "%s", f->make.message.tokens[3]->id);
    for (size_t i = 3; i < 5; i++)
        assert_int_equal(
            fg_access_revoke_token(change, fg_cstr(f->make.message.tokens[i]->id), &f->err), FG_OK);
    change->now_ms++;
    assert_int_equal(create_large(f, "a", seed++), FG_OK);
    for (size_t i = 0; i < f->make.message.n_tokens; i++)
        assert_string_not_equal(f->make.message.tokens[i]->id, id);
    assert_int_equal(registry_load(f), FG_OK);
}

/* However small they are. */
static void tokens_of_a_tenant_are_counted(void **state)
{
    struct registry_fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1];
    Access__Token *many[FG_ACCESS_TENANT_TOKENS_MAX], *other, made = *push_token(f, 1, text);

    for (size_t i = 0; i < FG_COUNT(many); i++)
        many[i] = f->make.message.tokens[0];
    f->make.message.tokens = many;
    f->make.message.n_tokens = FG_COUNT(many);
    f->make.change.bounded = true;
    made.id = registry_text(f, "ABCDEFGH");
    assert_int_equal(fg_access_create_token(&f->make.change, &made, &f->err), FG_E_LIMIT);
    other = fg_arena_new(f->arena, Access__Token, 1);
    *other = *many[0];
    other->id = registry_text(f, "HGFEDCBA");
    other->revoked_ms = NOW_MS;
    many[7] = other;
    assert_int_equal(fg_access_create_token(&f->make.change, &made, &f->err), FG_OK);
    assert_int_equal(f->make.message.n_tokens, FG_COUNT(many));
    assert_ptr_equal(f->make.message.tokens[7], many[8]);
}

/* The tenant-admins of all tenants together leave room for admins, and these for what ends access
 * and for keys. */
static void a_full_registry_can_still_be_governed(void **state)
{
    struct registry_fixture *f = *state;
    struct fg_access_change *change = &f->make.change;
    char text[FG_TOKEN_CHARS + 1];
    uint32_t seed = 10;

    registry_add_tenant(f, "t0");
    registry_add_tenant(f, "t1");
    /* What others have. */
    push_token(f, 1, text)->matchers = fg_arena_printf(
        f->arena, "%0*d", FG_ACCESS_REGISTRY_MAX_BYTES - 5 * (FG_ACCESS_RESERVED_BYTES / 2), 0);
    change->bounded = true;
    assert_true(fill(f, "t0", &seed) > 0);
    assert_non_null(strstr(f->err.msg, "the registry of access is full"));
    change->bounded = false;
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("new"), &f->err), FG_OK);
    assert_true(fill(f, "new", &seed) > 0);
    assert_non_null(strstr(f->err.msg, "the registry of access is full"));
    assert_in_range(size_of(f), FG_ACCESS_REGISTRY_MAX_BYTES - 2 * FG_ACCESS_RESERVED_BYTES,
                    FG_ACCESS_REGISTRY_MAX_BYTES - FG_ACCESS_RESERVED_BYTES);
    assert_int_equal(
        fg_access_set_tenant_state(change, FG_LIT("t0"), ACCESS__TENANT__STATE__SUSPENDED, &f->err),
        FG_OK);
    assert_int_equal(
        fg_tenant_key_add(change, FG_LIT("new"), 1, FG_LIT("wrapped"), "file:1", &f->err), FG_OK);
    assert_int_equal(fg_access_delete_tenant(change, FG_LIT("t1"), &f->err), FG_OK);
    assert_true(size_of(f) <= FG_ACCESS_REGISTRY_MAX_BYTES);
    for (size_t i = 0; i < f->make.message.n_tokens; i++)
        assert_int_equal(
            fg_access_revoke_token(change, fg_cstr(f->make.message.tokens[i]->id), &f->err), FG_OK);
    assert_true(size_of(f) <= FG_ACCESS_REGISTRY_MAX_BYTES);
    change->now_ms++;
    assert_int_equal(create_large(f, "new", seed++), FG_OK);
    assert_int_equal(fg_access_create_tenant(change, FG_LIT("newer"), &f->err), FG_OK);
}

/* Revocations of thousands of tokens may add more than what is reserved. */
static void a_registry_that_would_be_too_large_forgets_what_has_ended(void **state)
{
    struct registry_fixture *f = *state;
    char text[FG_TOKEN_CHARS + 1];
    Access__Token *first = push_token(f, 1, text), *second = push_token(f, 2, text);
    char *large = fg_arena_printf(f->arena, "%0*d", FG_ACCESS_REGISTRY_MAX_BYTES / 2, 0);

    (void)push_token(f, 3, text);
    first->revoked_by = second->revoked_by = large;
    fg_access_fit(&f->make.change); /* nothing has ended */
    assert_int_equal(f->make.message.n_tokens, 3);
    first->revoked_ms = NOW_MS;
    second->revoked_ms = NOW_MS - 1;
    fg_access_fit(&f->make.change);
    assert_int_equal(f->make.message.n_tokens, 2);
    assert_ptr_equal(f->make.message.tokens[0], first);
    assert_true(size_of(f) <= FG_ACCESS_REGISTRY_MAX_BYTES);
}

static void an_admin_is_one_that_can_still_act(void **state)
{
    struct registry_fixture *f = *state;
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
    struct registry_fixture *f = *state;

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

#define WITH(test) cmocka_unit_test_setup_teardown(test, registry_set_up, registry_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_token_is_created_once),
        WITH(a_token_that_cannot_be_is_not_created),
        WITH(a_rotated_token_has_two_secrets_for_a_while),
        WITH(an_ended_token_is_not_rotated),
        WITH(an_overlap_of_ages_does_not_overflow),
        WITH(a_revoked_token_is_over_for_good),
        WITH(tokens_that_ended_long_ago_are_forgotten),
        WITH(a_label_is_bounded),
        WITH(a_tenant_has_a_share_of_the_registry),
        WITH(tokens_of_a_tenant_are_counted),
        WITH(a_full_registry_can_still_be_governed),
        WITH(a_registry_that_would_be_too_large_forgets_what_has_ended),
        WITH(an_admin_is_one_that_can_still_act),
        WITH(scopes_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
