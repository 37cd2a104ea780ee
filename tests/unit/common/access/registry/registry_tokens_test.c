/* Tests changes of tokens in the registry, and the names of scopes. */
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
        WITH(an_admin_is_one_that_can_still_act),
        WITH(scopes_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
