/* Which keys of a set may be used. */
#include "common/access/jwt/jwks.h"
#include "common/base/base64url.h"
#include "common/runtime/config.h"

#include <openssl/err.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Numbers that are keys: of RFC 7517 (A.1), RFC 8037 (A.2). */
#define EC_X "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4"
#define EC_Y "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"
#define EC   "\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\",\"y\":\"" EC_Y "\""
#define ED                                                                                         \
    "\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\""
#define RSA_N                                                                                      \
    "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_"      \
    "BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_"     \
    "FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-"            \
    "bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
#define RSA "\"kty\":\"RSA\",\"n\":\"" RSA_N "\",\"e\":\"AQAB\""

static struct fg_jwks *parse(const char *keys, struct fg_err *err)
{
    char text[4096];
    struct fg_jwks *set = NULL;

    (void)snprintf(text, sizeof text, "{\"keys\":[%s]}", keys);
    return fg_jwks_parse(fg_cstr(text), &set, err) == FG_OK ? set : NULL;
}

static unsigned algorithms(const struct fg_jwks *set, const char *kid)
{
    unsigned found = 0;

    for (unsigned algorithm = FG_JWT_RS256; algorithm <= FG_JWT_EDDSA; algorithm <<= 1)
        if (fg_jwks_find(set, fg_cstr(kid), algorithm) != NULL)
            found |= algorithm;
    return found;
}

static void a_key_says_what_it_verifies(void **state)
{
    static const struct {
        const char *key;
        unsigned algorithms;
    } cases[] = {
        {RSA, FG_JWT_RS256 | FG_JWT_PS256},
        {RSA ",\"alg\":\"RS256\"", FG_JWT_RS256},
        {RSA ",\"alg\":\"PS256\",\"use\":\"sig\",\"key_ops\":[\"verify\"]", FG_JWT_PS256},
        {RSA ",\"x5c\":[\"MII=\"],\"x5t\":\"abc\",\"new\":{\"a\":[1]}",
         FG_JWT_RS256 | FG_JWT_PS256},
        {EC, FG_JWT_ES256},
        {EC ",\"alg\":\"ES256\"", FG_JWT_ES256},
        {ED, FG_JWT_EDDSA},
        {ED ",\"alg\":\"EdDSA\",\"key_ops\":[\"sign\",\"verify\"]", FG_JWT_EDDSA},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_jwks) *set = NULL;
        char key[2000];
        struct fg_err err;

        (void)snprintf(key, sizeof key, "{\"kid\":\"k\",%s}", cases[i].key);
        print_message("  %zu\n", i);
        set = parse(key, &err);
        assert_non_null(set);
        assert_int_equal(algorithms(set, "k"), cases[i].algorithms);
        assert_int_equal(algorithms(set, "other"), 0);
    }
}

static void keys_that_fail_a_check_are_skipped(void **state)
{
    static const struct {
        const char *key, *why;
    } cases[] = {
        {"\"kty\":\"oct\",\"k\":\"AAAA\"", "type"},
        {"\"kty\":\"DSA\"", "type"},
        {"\"kty\":7", "type"},
        {"\"n\":\"" RSA_N "\",\"e\":\"AQAB\"", "type"},
        {RSA ",\"use\":\"enc\"", "verifying"},
        {RSA ",\"use\":[\"sig\"]", "verifying"},
        {RSA ",\"key_ops\":[\"encrypt\"]", "verifying"},
        {RSA ",\"key_ops\":[]", "verifying"},
        {RSA ",\"key_ops\":7", "verifying"},
        {RSA ",\"d\":\"AQAB\"", "private"},
        {RSA ",\"d\":null", "private"},
        {RSA ",\"alg\":\"HS256\"", "algorithm"},
        {RSA ",\"alg\":\"RS512\"", "algorithm"},
        {RSA ",\"alg\":\"ES256\"", "algorithm"},
        {RSA ",\"alg\":\"none\"", "algorithm"},
        {RSA ",\"alg\":7", "algorithm"},
        {EC ",\"alg\":\"RS256\"", "algorithm"},
        {ED ",\"alg\":\"ES256\"", "algorithm"},
        {"\"kty\":\"RSA\",\"e\":\"AQAB\"", "no n or e"},
        {"\"kty\":\"RSA\",\"n\":\"" RSA_N "\"", "no n or e"},
        {"\"kty\":\"RSA\",\"n\":\"" RSA_N "=\",\"e\":\"AQAB\"", "no n or e"},
        {"\"kty\":\"RSA\",\"n\":\"\",\"e\":\"AQAB\"", "no n or e"},
        {"\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"", "2048"},
        {"\"kty\":\"RSA\",\"n\":\"" RSA_N "\",\"e\":\"AQ\"", "exponent"},
        {"\"kty\":\"RSA\",\"n\":\"" RSA_N "\",\"e\":\"AA\"", "exponent"},
        {"\"kty\":\"RSA\",\"n\":\"" RSA_N "\",\"e\":\"AQAA\"", "exponent"},
        {"\"kty\":\"RSA\",\"n\":\"" RSA_N "\",\"e\":\"AQAAAAE\"", "2^32"},
        {"\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"" EC_X "\",\"y\":\"" EC_Y "\"", "P-256"},
        {"\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\"", "x or y"},
        {"\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_X "\",\"y\":\"AAAA\"", "x or y"},
        {"\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" EC_Y "\",\"y\":\"" EC_X "\"", "no point"},
        {"\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"" EC_X "\"", "Ed25519"},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"", "32 bytes"},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":"
         "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"",
         "anybody"},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":"
         "\"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA\"",
         "anybody"},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_"
         "AU\"",
         "anybody"},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"7f_______________________________________"
         "38\"",
         "anybody"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_jwks) *set = NULL;
        char keys[2000];
        struct fg_err err;

        /* Alone: why. Next to another one: only the other counts. */
        (void)snprintf(keys, sizeof keys, "{\"kid\":\"bad\",%s}", cases[i].key);
        assert_null(parse(keys, &err));
        print_message("  %s\n", err.msg);
        assert_int_equal(err.code, FG_E_DECODE);
        assert_non_null(strstr(err.msg, cases[i].why));
        assert_true(ERR_peek_error() == 0);
        (void)snprintf(keys, sizeof keys, "{\"kid\":\"bad\",%s},{\"kid\":\"good\"," ED "}",
                       cases[i].key);
        set = parse(keys, &err);
        assert_non_null(set);
        assert_int_equal(fg_jwks_count(set), 1);
        assert_int_equal(fg_jwks_skipped(set), 1);
        assert_int_equal(algorithms(set, "bad"), 0);
        assert_int_equal(algorithms(set, "good"), FG_JWT_EDDSA);
    }
}

static void the_first_key_of_a_kid_counts(void **state)
{
    struct fg_err err;
    fg_auto(fg_jwks) *set =
        parse("{\"kid\":\"k\"," RSA ",\"alg\":\"RS256\"},{\"kid\":\"k\"," EC "},"
              "{\"kid\":\"k\"," RSA "},{\"kid\":\"k\"," RSA "}",
              &err);
    const struct fg_jwk *rs, *ps;

    (void)state;
    assert_non_null(set);
    /* The third verifies what the first does not; nothing is left for the fourth. */
    assert_int_equal(fg_jwks_count(set), 3);
    assert_int_equal(fg_jwks_skipped(set), 1);
    rs = fg_jwks_find(set, FG_LIT("k"), FG_JWT_RS256);
    ps = fg_jwks_find(set, FG_LIT("k"), FG_JWT_PS256);
    assert_true(rs != NULL && ps != NULL && rs != ps);
    assert_int_equal(rs->algorithms, FG_JWT_RS256);
    assert_int_equal(ps->algorithms, FG_JWT_PS256);
    assert_non_null(fg_jwks_find(set, FG_LIT("k"), FG_JWT_ES256));
}

static void a_token_without_a_kid_has_the_only_key(void **state)
{
    struct fg_slice none = fg_bytes(NULL, 0);
    struct fg_err err;
    fg_auto(fg_jwks) *set =
        parse("{\"kid\":\"a\"," RSA ",\"alg\":\"RS256\"},{" RSA "},{" EC "}", &err);

    (void)state;
    assert_non_null(set);
    assert_null(fg_jwks_find(set, none, FG_JWT_RS256)); /* two verify it */
    assert_non_null(fg_jwks_find(set, none, FG_JWT_PS256));
    assert_non_null(fg_jwks_find(set, none, FG_JWT_ES256));
    assert_null(fg_jwks_find(set, none, FG_JWT_EDDSA));
    assert_null(
        fg_jwks_find(set, FG_LIT(""), FG_JWT_PS256)); /* a key without a kid has no kid "" */
}

static void texts_that_are_no_set_are_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "[]",
        "{}",
        "{\"keys\":{}}",
        "{\"keys\":7}",
        "{\"keys\":[]}",
        "{\"keys\":[7,[],null]}",
        "{\"keys\":[],\"keys\":[]}",
        "{\"keys\":[{\"kid\":\"a\",\"kid\":\"b\"}]}",
        "{\"keys\":[{}]} x",
    };
    struct fg_jwks *set = NULL;
    struct fg_err err;
    struct fg_buf text;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        assert_int_equal(fg_jwks_parse(fg_cstr(cases[i]), &set, &err), FG_E_DECODE);
        print_message("  %s\n", err.msg);
    }
    /* One key too many, and one byte. */
    fg_buf_init(&text, SIZE_MAX);
    fg_buf_puts(&text, "{\"keys\":[{" ED "}");
    for (unsigned i = 0; i < FG_JWKS_KEYS_MAX; i++)
        fg_buf_puts(&text, ",{\"kty\":\"x\"}");
    fg_buf_puts(&text, "]}");
    assert_int_equal(fg_jwks_parse(fg_buf_slice(&text), &set, &err), FG_E_DECODE);
    assert_non_null(strstr(err.msg, "64 keys"));
    fg_buf_clear(&text);
    fg_buf_puts(&text, "{\"keys\":[{" ED "}]}");
    while (text.len < FG_JWKS_MAX_BYTES)
        fg_buf_putc(&text, ' ');
    assert_int_equal(fg_jwks_parse(fg_buf_slice(&text), &set, &err), FG_OK);
    fg_jwks_unref(set);
    fg_buf_putc(&text, ' ');
    assert_int_equal(fg_jwks_parse(fg_buf_slice(&text), &set, &err), FG_E_TOO_LARGE);
    fg_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_says_what_it_verifies),
        cmocka_unit_test(keys_that_fail_a_check_are_skipped),
        cmocka_unit_test(the_first_key_of_a_kid_counts),
        cmocka_unit_test(a_token_without_a_kid_has_the_only_key),
        cmocka_unit_test(texts_that_are_no_set_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
