/* What an issuer publishes is believed only if it is its own, and only URLs that may be called. */
#include "common/access/jwt/discovery.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void urls_that_must_not_be_called_have_a_fault(void **state)
{
    static const struct {
        const char *url, *fault; /* NULL: none */
    } cases[] = {
        {"https://a.example", NULL},
        {"https://a.example:8443/x?y=z", NULL},
        {"http://127.0.0.1:9/x", NULL},
        {"http://localhost", NULL},
        {"http://[::1]:9/", NULL},
        {"http://a.example/", "loopback"},
        {"http://127.0.0.1.a.example/", "loopback"},
        {"http://localhost.a.example/", "loopback"},
        {"ftp://a.example/", "not https"},
        {"//a.example/", "not https"},
        {"file:///etc/passwd", "not https"},
        {"HTTPS://a.example/", "not https"},
        {"", "not https"},
        {"https://", "no host"},
        {"https:///x", "no host"},
        {"https://:443/", "no host"},
        {"https://a@b.example/", "user name"},
        {"http://127.0.0.1@b.example/", "user name"},
        {"https://a.example/#x", "fragment"},
        {"https://a.example/ x", "character"},
        {"https://a.example/\r\nX: y", "character"},
        {"https://a.example\\@b/", "character"},
        {"https://\xc3\xa4.example/", "character"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        const char *fault = fg_access_url_fault(fg_cstr(cases[i].url));

        print_message("  %s: %s\n", cases[i].url, fault == NULL ? "ok" : fault);
        assert_int_equal(fault == NULL, cases[i].fault == NULL);
        if (fault != NULL)
            assert_non_null(strstr(fault, cases[i].fault));
    }
}

static void origins_are_compared_whole(void **state)
{
    (void)state;
    assert_true(fg_access_url_same_origin(FG_LIT("https://a/x"), FG_LIT("https://A?y")));
    assert_false(fg_access_url_same_origin(FG_LIT("https://a/x"), FG_LIT("http://a/x")));
    assert_false(fg_access_url_same_origin(FG_LIT("https://a/x"), FG_LIT("https://a:1/x")));
    assert_false(fg_access_url_same_origin(FG_LIT("https://a/x"), FG_LIT("https://a.b/x")));
    assert_false(fg_access_url_same_origin(FG_LIT("a"), FG_LIT("a")));
}

static void documents_of_others_are_refused(void **state)
{
    static const struct {
        const char *text, *why; /* NULL: it is fine */
    } cases[] = {
        {"{\"issuer\":\"https://i\",\"jwks_uri\":\"https://i/keys\"}", NULL},
        {"{\"issuer\":\"https://i/\",\"jwks_uri\":\"https://i/keys\"}", "of the issuer"},
        {"{\"issuer\":\"https://j\",\"jwks_uri\":\"https://i/keys\"}", "of the issuer"},
        {"{\"issuer\":[\"https://i\"],\"jwks_uri\":\"https://i/keys\"}", "names no issuer"},
        {"{\"jwks_uri\":\"https://i/keys\"}", "names no issuer"},
        {"{\"issuer\":\"https://i\"}", "no jwks_uri"},
        {"{\"issuer\":\"https://i\",\"jwks_uri\":\"http://i/keys\"}", "jwks_uri is not https"},
        {"{\"issuer\":\"https://i\",\"jwks_uri\":\"https://i/\\u0000x\"}", "jwks_uri has a char"},
        {"{\"issuer\":\"https://i\",\"jwks_uri\":7}", "jwks_uri is no text"},
        {"{\"issuer\":\"https://i\",\"jwks_uri\":\"https://i/k\",\"token_endpoint\":\"file:///x\"}",
         "token_endpoint is not https"},
        {"{\"issuer\":\"https://i\",\"issuer\":\"https://i\",\"jwks_uri\":\"https://i/keys\"}",
         "two members"},
        {"[]", "object"},
        {"<html>", "value"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(FG_DISCOVERY_ARENA_BYTES);
        struct fg_discovery discovery;
        struct fg_err err;
        enum fg_code code =
            fg_discovery_parse(fg_cstr(cases[i].text), "https://i", arena, &discovery, &err);

        print_message("  %s\n", code == FG_OK ? "ok" : err.msg);
        assert_int_equal(code, cases[i].why == NULL ? FG_OK : FG_E_DECODE);
        if (cases[i].why != NULL)
            assert_non_null(strstr(err.msg, cases[i].why));
    }
}

static void everything_that_is_needed_is_found(void **state)
{
    static const char text[] =
        "{\"issuer\":\"https://i\",\"jwks_uri\":\"https://i/k\","
        "\"authorization_endpoint\":\"https://i/a\",\"token_endpoint\":\"https://i/t\","
        "\"end_session_endpoint\":null,\"device_authorization_endpoint\":\"https://i/d\","
        "\"token_endpoint_auth_methods_supported\":[\"private_key_jwt\",\"client_secret_post\"]}";
    fg_auto(fg_arena) *arena = fg_arena_create(FG_DISCOVERY_ARENA_BYTES);
    struct fg_discovery discovery;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_discovery_parse(fg_cstr(text), "https://i", arena, &discovery, &err),
                     FG_OK);
    assert_string_equal(discovery.keys, "https://i/k");
    assert_string_equal(discovery.authorization, "https://i/a");
    assert_string_equal(discovery.token, "https://i/t");
    assert_string_equal(discovery.device, "https://i/d");
    assert_null(discovery.end_session);
    assert_true(discovery.secret_in_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_that_must_not_be_called_have_a_fault),
        cmocka_unit_test(origins_are_compared_whole),
        cmocka_unit_test(documents_of_others_are_refused),
        cmocka_unit_test(everything_that_is_needed_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
