/* Cookies that we have sealed can be opened for a while; all others cannot. */
#include "common/access/people/sealed_cookie.h"

#include <openssl/err.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_BYTES = 64 * 1024 };

static const int64_t NOW_S = 1800000000;

struct fixture {
    struct fg_cookie_keys keys;
    struct fg_buf cookie;
    struct fg_claim claims[2];
    struct fg_session session;
    struct fg_login login;
    struct fg_arena *arena;
};

static const uint8_t nonce[FG_COOKIE_NONCE_BYTES] = {1, 2, 3};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create(ARENA_BYTES);
    fg_buf_init(&f->cookie, 10000);
    f->keys.n = 2;
    for (unsigned i = 0; i < 2; i++) {
        f->keys.list[i].id = 7 + i;
        memset(f->keys.list[i].key.bytes, (int)(0x40 + i), FG_SEAL_KEY_BYTES);
    }
    f->claims[0] = (struct fg_claim){FG_LIT("groups"), FG_LIT("dev")};
    f->claims[1] = (struct fg_claim){FG_LIT("/a/b"), FG_LIT("")};
    f->session = (struct fg_session){.issuer = FG_LIT("https://i"),
                                     .subject = FG_LIT("user-1"),
                                     .name = FG_LIT("Ada"),
                                     .issued_s = NOW_S,
                                     .used_s = NOW_S,
                                     .csrf = {9, 8, 7},
                                     .claims = f->claims,
                                     .n_claims = 2};
    f->login = (struct fg_login){.state = {1},
                                 .nonce = {2},
                                 .verifier = {3},
                                 .begun_s = NOW_S,
                                 .return_path = FG_LIT("/ui/?a=b")};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_buf_done(&f->cookie);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

static void seal(struct fixture *f)
{
    struct fg_err err;

    fg_buf_clear(&f->cookie);
    assert_int_equal(fg_session_seal(&f->session, &f->keys, nonce, &f->cookie, &err), FG_OK);
    assert_true(f->cookie.len <= FG_COOKIE_MAX_BYTES);
}

static enum fg_code open_at(struct fixture *f, int64_t now_s, struct fg_session *session)
{
    struct fg_err err;

    fg_arena_reset(f->arena);
    return fg_session_open(fg_buf_slice(&f->cookie), &f->keys, now_s, f->arena, session, &err);
}

static void a_session_comes_back_whole(void **state)
{
    struct fixture *f = *state;
    struct fg_session got;

    seal(f);
    assert_int_equal(open_at(f, NOW_S + 10, &got), FG_OK);
    assert_true(fg_slice_is(got.issuer, "https://i"));
    assert_true(fg_slice_is(got.subject, "user-1"));
    assert_true(fg_slice_is(got.name, "Ada"));
    assert_int_equal(got.issued_s, NOW_S);
    assert_int_equal(got.used_s, NOW_S);
    assert_memory_equal(got.csrf, f->session.csrf, sizeof got.csrf);
    assert_int_equal(got.n_claims, 2);
    assert_true(fg_slice_is(got.claims[0].path, "groups"));
    assert_true(fg_slice_is(got.claims[0].value, "dev"));
    assert_true(fg_slice_is(got.claims[1].path, "/a/b"));
    assert_int_equal(got.claims[1].value.len, 0);
}

static void nothing_of_it_can_be_read(void **state)
{
    struct fixture *f = *state;

    seal(f);
    assert_int_equal(fg_slice_search(fg_buf_slice(&f->cookie), "user"), SIZE_MAX);
    assert_int_equal(fg_slice_search(fg_buf_slice(&f->cookie), "dXNlci0x"), SIZE_MAX);
}

static void a_changed_cookie_is_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_session got;

    seal(f);
    for (size_t i = 0; i < f->cookie.len; i++) {
        uint8_t was = f->cookie.ptr[i];

        f->cookie.ptr[i] = was == 'A' ? 'B' : 'A';
        assert_int_not_equal(open_at(f, NOW_S, &got), FG_OK);
        f->cookie.ptr[i] = was;
    }
    for (size_t len = f->cookie.len; len-- > 0;) {
        f->cookie.len = len;
        assert_int_not_equal(open_at(f, NOW_S, &got), FG_OK);
    }
    assert_true(ERR_peek_error() == 0);
}

static void a_session_ends(void **state)
{
    static const struct {
        int64_t issued_s, used_s; /* before now */
        bool open, due;
    } cases[] = {
        {0, 0, true, false},
        {-60, -60, true, false},
        {-61, 0, false, false},
        {0, -61, false, false},
        {3600, 299, true, false},
        {3600, 300, true, true},
        {8 * 3600, 8 * 3600 - 1, true, true},
        {8 * 3600, 8 * 3600, false, false},
        {24 * 3600 - 1, 0, true, false},
        {24 * 3600, 0, false, false},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_session got;

        f->session.issued_s = NOW_S - cases[i].issued_s;
        f->session.used_s = NOW_S - cases[i].used_s;
        seal(f);
        print_message("  %zu\n", i);
        assert_int_equal(open_at(f, NOW_S, &got), cases[i].open ? FG_OK : FG_E_DENIED);
        if (cases[i].open)
            assert_int_equal(fg_session_is_due(&got, NOW_S), cases[i].due);
    }
}

static void keys_take_turns(void **state)
{
    struct fixture *f = *state;
    struct fg_cookie_key old = f->keys.list[0];
    struct fg_session got;
    struct fg_err err;

    seal(f);
    /* A new key seals, the old one still opens. */
    f->keys.list[1] = old;
    f->keys.list[0].id = 9;
    memset(f->keys.list[0].key.bytes, 0x55, FG_SEAL_KEY_BYTES);
    assert_int_equal(open_at(f, NOW_S, &got), FG_OK);
    /* Then it is gone. */
    f->keys.n = 1;
    assert_int_equal(open_at(f, NOW_S, &got), FG_E_NOT_FOUND);
    /* Another key under the same number opens nothing. */
    f->keys.list[0].id = old.id;
    assert_int_equal(open_at(f, NOW_S, &got), FG_E_DENIED);
    f->keys.n = 0;
    assert_int_equal(fg_session_seal(&f->session, &f->keys, nonce, &f->cookie, &err),
                     FG_E_UNAVAILABLE);
}

static void a_login_is_no_session(void **state)
{
    struct fixture *f = *state;
    struct fg_session session;
    struct fg_login login;
    struct fg_err err;

    assert_int_equal(fg_login_seal(&f->login, &f->keys, nonce, &f->cookie, &err), FG_OK);
    assert_int_equal(open_at(f, NOW_S, &session), FG_E_DENIED);
    assert_int_equal(fg_login_open(fg_buf_slice(&f->cookie), &f->keys, NOW_S + FG_LOGIN_MAX_S - 1,
                                   f->arena, &login, &err),
                     FG_OK);
    assert_memory_equal(login.state, f->login.state, sizeof login.state);
    assert_memory_equal(login.nonce, f->login.nonce, sizeof login.nonce);
    assert_memory_equal(login.verifier, f->login.verifier, sizeof login.verifier);
    assert_true(fg_slice_is(login.return_path, "/ui/?a=b"));
    assert_int_equal(fg_login_open(fg_buf_slice(&f->cookie), &f->keys, NOW_S + FG_LOGIN_MAX_S,
                                   f->arena, &login, &err),
                     FG_E_DENIED);
    assert_int_equal(
        fg_login_open(fg_buf_slice(&f->cookie), &f->keys, NOW_S - 61, f->arena, &login, &err),
        FG_E_DENIED);
    seal(f);
    assert_int_equal(
        fg_login_open(fg_buf_slice(&f->cookie), &f->keys, NOW_S, f->arena, &login, &err),
        FG_E_DENIED);
}

/* Never a cookie that a browser would drop without a word. */
static void too_many_claims_are_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_claim claims[FG_ACCESS_CLAIMS_MAX];
    char value[32];
    enum fg_code code = FG_OK;
    struct fg_err err;
    uint32_t n = 0;

    memset(value, 'v', sizeof value);
    for (; code == FG_OK && n < FG_COUNT(claims); n++) {
        claims[n] = (struct fg_claim){FG_LIT("groups"), fg_bytes(value, sizeof value)};
        f->session.claims = claims;
        f->session.n_claims = n;
        fg_buf_clear(&f->cookie);
        code = fg_session_seal(&f->session, &f->keys, nonce, &f->cookie, &err);
        assert_true(code == FG_E_TOO_LARGE || f->cookie.len <= FG_COOKIE_MAX_BYTES);
    }
    assert_int_equal(code, FG_E_TOO_LARGE);
    assert_true(n > 50);
}

static void the_csrf_value_is_compared(void **state)
{
    struct fixture *f = *state;

    assert_true(fg_session_has_csrf(&f->session, FG_LIT("09080700000000000000000000000000")));
    assert_false(fg_session_has_csrf(&f->session, FG_LIT("09080700000000000000000000000001")));
    assert_false(fg_session_has_csrf(&f->session, FG_LIT("090807")));
    assert_false(fg_session_has_csrf(&f->session, fg_bytes(NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_session_comes_back_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_of_it_can_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_cookie_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_login_is_no_session, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_claims_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_csrf_value_is_compared, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
