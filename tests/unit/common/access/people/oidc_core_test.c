/* What a log-in sends, and what of the answers it believes. */
#include "common/access/people/oidc_core.h"
#include "common/base/str.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_BYTES = 64 * 1024 };

/* The verifier and its challenge are those of RFC 7636, appendix B. */
static struct fg_login login(void)
{
    struct fg_login made = {
        .state = {1},
        .nonce = {2},
        .verifier = {116, 24,  223, 180, 151, 153, 224, 37,  79, 250, 96, 125, 216, 173, 187, 186,
                     22,  212, 37,  77,  105, 214, 191, 240, 91, 88,  5,  88,  83,  132, 141, 121},
        .return_path = FG_LIT("/"),
    };

    return made;
}

static const struct fg_oidc_client client = {"flame grid", "s:/+", "https://f/auth/callback"};

static const char *text_of(struct fg_buf *buf)
{
    fg_buf_putc(buf, 0);
    assert_false(buf->full);
    return (const char *)buf->ptr;
}

static void only_paths_of_this_server_are_returned_to(void **state)
{
    static const char *const good[] = {"/", "/ui/", "/ui/?a=b&c=%2F%2Fd", "/a//b", "/?x=https://e"};
    static const char *const bad[] = {"",      "ui",     "//e",       "/\\e",        "\\/e",
                                      "http:", "/a\tb",  "/a\r\nb",   "/a b",        "https://e/",
                                      "/\x80", "/\x01a", "/a\\..\\b", "javascript:x"};
    char path[FG_LOGIN_RETURN_MAX_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(good); i++)
        assert_true(fg_slice_is(fg_oidc_return_path(fg_cstr(good[i])), good[i]));
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        print_message("  %s\n", bad[i]);
        assert_true(fg_slice_is(fg_oidc_return_path(fg_cstr(bad[i])), "/"));
    }
    assert_true(fg_slice_is(fg_oidc_return_path(fg_bytes(NULL, 0)), "/"));
    memset(path, 'a', sizeof path);
    path[0] = '/';
    assert_int_equal(fg_oidc_return_path(fg_bytes(path, sizeof path - 1)).len, sizeof path - 1);
    assert_int_equal(fg_oidc_return_path(fg_bytes(path, sizeof path)).len, 1);
}

static void the_log_in_has_state_nonce_and_challenge(void **state)
{
    const struct fg_discovery discovery = {.authorization = "https://i/auth?tenant=a"};
    struct fg_login made = login();
    struct fg_buf url;

    (void)state;
    fg_buf_init(&url, 4096);
    fg_oidc_authorization_url(&discovery, &client, "openid groups", &made, &url);
    assert_string_equal(text_of(&url),
                        "https://i/auth?tenant=a&response_type=code&client_id=flame%20grid"
                        "&redirect_uri=https%3A%2F%2Ff%2Fauth%2Fcallback&scope=openid%20groups"
                        "&state=AQAAAAAAAAAAAAAAAAAAAA&nonce=AgAAAAAAAAAAAAAAAAAAAA"
                        "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
                        "&code_challenge_method=S256");
    fg_buf_done(&url);
}

static void the_exchange_shows_the_secret_as_the_provider_wants(void **state)
{
    struct fg_discovery discovery = {.token = "https://i/token"};
    struct fg_login made = login();
    struct fg_buf body, authorization;

    (void)state;
    fg_buf_init(&body, 4096);
    fg_buf_init(&authorization, 4096);
    fg_oidc_token_request(&discovery, &client, &made, FG_LIT("c/+ ode"), &body, &authorization);
    assert_string_equal(text_of(&body),
                        "grant_type=authorization_code&code=c%2F%2B%20ode"
                        "&redirect_uri=https%3A%2F%2Ff%2Fauth%2Fcallback"
                        "&code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    /* "flame%20grid:s%3A%2F%2B" */
    assert_string_equal(text_of(&authorization), "Basic ZmxhbWUlMjBncmlkOnMlM0ElMkYlMkI=");
    fg_buf_clear(&body);
    fg_buf_clear(&authorization);
    discovery.secret_in_body = true;
    fg_oidc_token_request(&discovery, &client, &made, FG_LIT("c"), &body, &authorization);
    assert_non_null(strstr(text_of(&body), "&client_id=flame%20grid&client_secret=s%3A%2F%2B"));
    assert_int_equal(authorization.len, 0);
    fg_buf_done(&body);
    fg_buf_done(&authorization);
}

static void answers_are_believed_if_they_are_one(void **state)
{
    static const struct {
        unsigned status;
        const char *answer;
        enum fg_code code;
        const char *why;
    } cases[] = {
        {200, "{\"access_token\":\"x\",\"id_token\":\"a.b.c\"}", FG_OK, NULL},
        {200, "{\"access_token\":\"x\"}", FG_E_UNAVAILABLE, "no ID token"},
        {200, "{\"id_token\":7}", FG_E_UNAVAILABLE, "no ID token"},
        {200, "{\"id_token\":\"a\",\"id_token\":\"b\"}", FG_E_UNAVAILABLE, "no JSON"},
        {200, "<html>", FG_E_UNAVAILABLE, "no JSON"},
        {200, "", FG_E_UNAVAILABLE, "no JSON"},
        {400, "{\"error\":\"invalid_grant\",\"error_description\":\"used\"}", FG_E_DENIED,
         "400: invalid_grant used"},
        {401, "{\"error\":\"invalid_client\",\"id_token\":\"a.b.c\"}", FG_E_DENIED,
         "invalid_client"},
        {500, "{}", FG_E_UNAVAILABLE, "500: no reason"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
        struct fg_slice token = fg_bytes(NULL, 0);
        struct fg_err err;

        assert_int_equal(
            fg_oidc_id_token(cases[i].status, fg_cstr(cases[i].answer), arena, &token, &err),
            cases[i].code);
        if (cases[i].code == FG_OK)
            assert_true(fg_slice_is(token, "a.b.c"));
        else
            assert_non_null(strstr(err.msg, cases[i].why));
    }
}

static void a_person_has_a_name(void **state)
{
    static const struct {
        const char *claims, *name;
    } cases[] = {
        {"{\"name\":\"Ada L\",\"email\":\"a@e\"}", "Ada L"},
        {"{\"name\":\"\",\"preferred_username\":\"ada\"}", "ada"},
        {"{\"name\":7,\"email\":\"a@e\"}", "a@e"},
        {"{}", ""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);

        assert_true(fg_slice_is(fg_oidc_name(fg_cstr(cases[i].claims), arena), cases[i].name));
    }
}

static void the_state_is_compared_whole(void **state)
{
    struct fg_login made = login();

    (void)state;
    assert_true(fg_oidc_is_state(&made, FG_LIT("AQAAAAAAAAAAAAAAAAAAAA")));
    assert_false(fg_oidc_is_state(&made, FG_LIT("AQAAAAAAAAAAAAAAAAAAAB")));
    assert_false(fg_oidc_is_state(&made, FG_LIT("AQAAAAAAAAAAAAAAAAAAAQ")));
    assert_false(fg_oidc_is_state(&made, FG_LIT("AQ")));
    assert_false(fg_oidc_is_state(&made, FG_LIT("")));
    assert_false(fg_oidc_is_state(&made, fg_bytes(NULL, 0)));
}

static void a_log_out_goes_to_the_provider_if_it_has_one(void **state)
{
    struct fg_discovery discovery = {.end_session = NULL};
    struct fg_buf url;

    (void)state;
    fg_buf_init(&url, 4096);
    fg_oidc_logout_url(&discovery, &client, "https://f", &url);
    assert_int_equal(url.len, 0);
    discovery.end_session = "https://i/end";
    fg_oidc_logout_url(&discovery, &client, "https://f", &url);
    assert_string_equal(
        text_of(&url),
        "https://i/end?client_id=flame%20grid&post_logout_redirect_uri=https%3A%2F%2Ff");
    fg_buf_done(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_paths_of_this_server_are_returned_to),
        cmocka_unit_test(the_log_in_has_state_nonce_and_challenge),
        cmocka_unit_test(the_exchange_shows_the_secret_as_the_provider_wants),
        cmocka_unit_test(answers_are_believed_if_they_are_one),
        cmocka_unit_test(a_person_has_a_name),
        cmocka_unit_test(the_state_is_compared_whole),
        cmocka_unit_test(a_log_out_goes_to_the_provider_if_it_has_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
