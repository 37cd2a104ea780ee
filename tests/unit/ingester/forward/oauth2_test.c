/* The request for a token of OAuth 2, and answers to it. */
#include "common/base/time.h"
#include "ingester/forward/oauth2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* Sets the content of a file. */
static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* RFC 6749 2.3.1: id and secret are encoded as in a form before they become Basic. */
static void secret_is_read_each_time_and_encoded(void **state)
{
    static const struct {
        const char *content, *header; /* NULL: refused */
    } cases[] = {
        /* agent%201:s3cret%2F%2B%3A%20%25 */
        {"s3cret/+: %\n", "Authorization: Basic YWdlbnQlMjAxOnMzY3JldCUyRiUyQiUzQSUyMCUyNQ=="},
        /* agent%201:other */
        {"other", "Authorization: Basic YWdlbnQlMjAxOm90aGVy"},
        {" \n", NULL},
        {"", NULL},
    };
    char path[] = "/tmp/oauth2_test.XXXXXX", yaml[200];
    struct ing_oauth2 oauth2;
    struct fg_buf header;
    struct fg_err err;

    (void)state;
    assert_int_equal(close(mkstemp(path)), 0);
    (void)snprintf(yaml, sizeof yaml,
                   "{token_url: 'https://i', client_id: 'agent 1', client_secret_file: '%s'}",
                   path);
    assert_int_equal(ing_oauth2_read(yaml, &oauth2, &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        write_file(path, cases[i].content);
        fg_buf_init(&header, SIZE_MAX);
        if (cases[i].header == NULL) {
            assert_int_equal(ing_oauth2_authorization(&oauth2, &header, &err), FG_E_INVALID);
        } else {
            assert_int_equal(ing_oauth2_authorization(&oauth2, &header, &err), FG_OK);
            assert_string_equal((const char *)header.ptr, cases[i].header);
        }
        fg_buf_done(&header);
    }
    (void)unlink(path);
    fg_buf_init(&header, SIZE_MAX);
    assert_int_equal(ing_oauth2_authorization(&oauth2, &header, &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, path));
    fg_buf_done(&header);
    ing_oauth2_done(&oauth2);
}

static void answers_are_taken_or_refused(void **state)
{
    static const struct {
        unsigned status;
        const char *body;
        enum fg_code code;
        int64_t seconds;
    } cases[] = {
        {200, "{\"access_token\":\"abc.d-e_f\",\"token_type\":\"Bearer\",\"expires_in\":60}", FG_OK,
         60},
        {200, "{\"access_token\":\"abc.d-e_f\",\"token_type\":\"bearer\"}", FG_OK, 300},
        {200, "{\"access_token\":\"abc.d-e_f\",\"token_type\":\"bearer\",\"expires_in\":-1}", FG_OK,
         300},
        {200,
         "{\"access_token\":\"abc.d-e_f\",\"token_type\":\"bearer\","
         "\"expires_in\":9223372036854775807}",
         FG_OK, 86400},
        {200, "{\"access_token\":\"\",\"token_type\":\"bearer\"}", FG_E_UNAVAILABLE, 0},
        {200, "{\"access_token\":\"a\\r\\nX: y\",\"token_type\":\"bearer\"}", FG_E_UNAVAILABLE, 0},
        {200, "{\"access_token\":\"abc\",\"token_type\":\"mac\"}", FG_E_UNAVAILABLE, 0},
        {200, "{\"access_token\":7,\"token_type\":\"bearer\"}", FG_E_UNAVAILABLE, 0},
        {200, "<html>", FG_E_UNAVAILABLE, 0},
        {200, "", FG_E_UNAVAILABLE, 0},
        {400, "{\"error\":\"invalid_scope\"}", FG_E_DENIED, 0},
        {401, "{\"error\":\"invalid_client\"}", FG_E_DENIED, 0},
        {401, "", FG_E_DENIED, 0},
        {400, "<html>a proxy</html>", FG_E_UNAVAILABLE, 0},
        {404, "", FG_E_UNAVAILABLE, 0},
        {429, "{\"error\":\"slow_down\"}", FG_E_UNAVAILABLE, 0},
        {503, "", FG_E_UNAVAILABLE, 0},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        int64_t lifetime_ns = 0;
        struct fg_buf header;
        struct fg_err err;

        print_message("  %u %s\n", cases[i].status, cases[i].body);
        fg_buf_init(&header, SIZE_MAX);
        assert_int_equal(
            ing_oauth2_answer(cases[i].status, fg_cstr(cases[i].body), &header, &lifetime_ns, &err),
            cases[i].code);
        if (cases[i].code == FG_OK) {
            assert_string_equal((const char *)header.ptr, "Authorization: Bearer abc.d-e_f");
            assert_int_equal(lifetime_ns, cases[i].seconds * FG_SECOND_NS);
        } else {
            assert_int_equal(header.len, 0);
        }
        fg_buf_done(&header);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secret_is_read_each_time_and_encoded),
        cmocka_unit_test(answers_are_taken_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
