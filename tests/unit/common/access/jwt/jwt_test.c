/* The corpus of tokens that an independent library has signed (tests/access/corpus.py). */
#include "common/access/jwt/jwt.h"
#include "common/base/str.h"
#include "common/runtime/config.h"

#include <openssl/err.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t NOW_S = 1800000000;

struct fixture {
    struct fg_buf keys_text, tokens;
    struct fg_jwks *keys;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    fg_buf_init(&f->keys_text, 1 << 20);
    fg_buf_init(&f->tokens, 1 << 20);
    assert_int_equal(
        fg_conf_read_file(FG_SOURCE_DIR "/tests/data/access/keys.json", &f->keys_text, &err),
        FG_OK);
    assert_int_equal(
        fg_conf_read_file(FG_SOURCE_DIR "/tests/data/access/tokens.tsv", &f->tokens, &err), FG_OK);
    assert_int_equal(fg_jwks_parse(fg_buf_slice(&f->keys_text), &f->keys, &err), FG_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_jwks_unref(f->keys);
    fg_buf_done(&f->keys_text);
    fg_buf_done(&f->tokens);
    free(f);
    return 0;
}

static enum fg_code verify(const struct fixture *f, struct fg_slice token, struct fg_slice nonce,
                           struct fg_arena *arena, struct fg_jwt_verified *verified,
                           struct fg_err *err)
{
    struct fg_jwt_rules rules = {.issuer = "https://issuer.example",
                                 .audience = "flamegrid",
                                 .nonce = nonce,
                                 .now_s = NOW_S};
    struct fg_jwt jwt;

    if (fg_jwt_parse(token, arena, &jwt, err) != FG_OK)
        return err->code;
    return fg_jwt_verify(&jwt, f->keys, &rules, arena, verified, err);
}

static struct fg_slice take(struct fg_slice *rest, uint8_t end)
{
    size_t len = fg_slice_find(*rest, end);
    struct fg_slice taken = fg_slice_sub(*rest, 0, len);

    *rest = len == SIZE_MAX ? fg_bytes(NULL, 0) : fg_slice_sub(*rest, len + 1, rest->len);
    return taken;
}

/* The token of that name in the corpus. */
static struct fg_slice token_of(const struct fixture *f, const char *name)
{
    struct fg_slice rest = fg_buf_slice(&f->tokens);

    while (rest.len > 0) {
        struct fg_slice line = take(&rest, '\n');

        if (!fg_slice_is(take(&line, '\t'), name))
            continue;
        (void)take(&line, '\t');
        (void)take(&line, '\t');
        return line;
    }
    fail_msg("the corpus has no token \"%s\"", name);
    return rest;
}

static void the_corpus_is_judged_as_it_says(void **state)
{
    const struct fixture *f = *state;
    struct fg_slice rest = fg_buf_slice(&f->tokens);
    unsigned n[3] = {0};

    while (rest.len > 0) {
        fg_auto(fg_arena) *arena = fg_arena_create(FG_JWT_ARENA_BYTES);
        struct fg_slice line = take(&rest, '\n'), name = take(&line, '\t'),
                        verdict = take(&line, '\t'), why = take(&line, '\t');
        struct fg_jwt_verified verified;
        struct fg_err err = {.code = FG_OK};
        enum fg_code code = verify(f, line, fg_bytes(NULL, 0), arena, &verified, &err);
        char wanted[100];

        print_message("  %.*s: %s\n", FG_S(name), code == FG_OK ? "ok" : err.msg);
        if (fg_slice_is(verdict, "ok")) {
            assert_int_equal(code, FG_OK);
            assert_true(fg_slice_is(verified.subject, "user-1"));
            n[0]++;
            continue;
        }
        assert_true(fg_slice_is(verdict, "denied") || fg_slice_is(verdict, "unknown"));
        assert_int_equal(code, fg_slice_is(verdict, "denied") ? FG_E_DENIED : FG_E_NOT_FOUND);
        (void)snprintf(wanted, sizeof wanted, "%.*s", FG_S(why));
        assert_non_null(strstr(err.msg, wanted));
        assert_true(ERR_peek_error() == 0);
        n[fg_slice_is(verdict, "denied") ? 1 : 2]++;
    }
    assert_true(n[0] >= 15 && n[1] >= 80 && n[2] >= 10);
}

/* Any other character somewhere in a token that passes makes it fail. */
static void every_character_counts(void **state)
{
    static const char *const names[] = {"RS256", "PS256", "ES256", "EdDSA"};
    const struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(names); i++) {
        struct fg_slice token = token_of(f, names[i]);
        uint8_t *copy = fg_malloc(token.len);

        memcpy(copy, token.ptr, token.len);
        for (size_t at = 0; at < token.len; at++) {
            fg_auto(fg_arena) *arena = fg_arena_create(FG_JWT_ARENA_BYTES);
            struct fg_jwt_verified verified;
            struct fg_err err;

            copy[at] = token.ptr[at] == 'A' ? 'B' : 'A';
            assert_int_not_equal(
                verify(f, fg_bytes(copy, token.len), fg_bytes(NULL, 0), arena, &verified, &err),
                FG_OK);
            assert_int_not_equal(
                verify(f, fg_bytes(token.ptr, at), fg_bytes(NULL, 0), arena, &verified, &err),
                FG_OK);
            copy[at] = token.ptr[at];
        }
        free(copy);
    }
}

/* An access token is no ID token: a login needs the nonce that it began with. */
static void a_login_needs_its_nonce(void **state)
{
    const struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(FG_JWT_ARENA_BYTES);
    struct fg_jwt_verified verified;
    struct fg_err err;

    assert_int_equal(verify(f, token_of(f, "RS256"), FG_LIT("n1"), arena, &verified, &err),
                     FG_E_DENIED);
    assert_non_null(strstr(err.msg, "nonce"));
    assert_int_equal(verify(f, token_of(f, "nonce n1"), FG_LIT("n1"), arena, &verified, &err),
                     FG_OK);
    assert_int_equal(verify(f, token_of(f, "nonce n1"), FG_LIT("n2"), arena, &verified, &err),
                     FG_E_DENIED);
    assert_int_equal(
        verify(f, token_of(f, "nonce n1, azp is another's"), FG_LIT("n1"), arena, &verified, &err),
        FG_E_DENIED);
    assert_non_null(strstr(err.msg, "azp"));
}

/* Trouble of our own is not the token's fault. */
static void a_small_arena_is_a_limit(void **state)
{
    const struct fixture *f = *state;
    struct fg_slice token = token_of(f, "RS256");
    bool passed = false;

    for (size_t bytes = 16; bytes < 16384 && !passed; bytes += 16) {
        fg_auto(fg_arena) *arena = fg_arena_create(bytes);
        struct fg_jwt jwt;
        struct fg_err err;
        enum fg_code code = fg_jwt_parse(token, arena, &jwt, &err);

        passed = code == FG_OK;
        if (!passed)
            assert_int_equal(code, FG_E_LIMIT);
    }
    assert_true(passed);
}

static void only_three_parts_look_like_a_token(void **state)
{
    static const struct {
        const char *text;
        bool is;
    } cases[] = {{"a.b.c", true},
                 {"eyJ-_9.eyJ.sig", true},
                 {"fgt_abcdefgh_123", false},
                 {"a.b", false},
                 {"a..c", false},
                 {".b.c", false},
                 {"a.b.", false},
                 {"a.b.c.d", false},
                 {"a.b.c=", false},
                 {"a. b.c", false},
                 {"", false},
                 {"...", false}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].text);
        assert_int_equal(fg_jwt_is_form(fg_cstr(cases[i].text)), cases[i].is);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_corpus_is_judged_as_it_says),
        cmocka_unit_test(every_character_counts),
        cmocka_unit_test(a_login_needs_its_nonce),
        cmocka_unit_test(a_small_arena_is_a_limit),
        cmocka_unit_test(only_three_parts_look_like_a_token),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
