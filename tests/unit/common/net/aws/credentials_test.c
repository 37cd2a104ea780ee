/* Keys of a role, from an STS that gives some, and one that gives none. */
#include "common/net/aws/credentials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct fg_clock_manual clock;
    struct fg_aws_sources sources;
    struct fg_aws_credentials credentials;
    char token_file[64];
    bool refuses; /* STS */
    unsigned asked;
    size_t asked_bytes; /* the last body */
    struct fg_err err;
};

/* STS. Its keys end in the year 2100. */
static void answer(void *arg, struct fg_client_request *http)
{
    struct fixture *f = arg;

    f->asked++;
    f->asked_bytes = http->body.len;
    http->code = FG_OK;
    http->status = f->refuses ? 400 : 200;
    fg_buf_init(&http->answer, http->body_max_bytes);
    fg_buf_puts(&http->answer, f->refuses
                                   ? "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no"
                                     "</Message></Error></ErrorResponse>"
                                   : "<A><Credentials><AccessKeyId>ASIA</AccessKeyId>"
                                     "<SecretAccessKey>s</SecretAccessKey><SessionToken>t"
                                     "</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration>"
                                     "</Credentials></A>");
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    int fd;

    (void)snprintf(f->token_file, sizeof f->token_file, "/tmp/credentials_test_XXXXXX");
    fd = mkstemp(f->token_file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "token\n", 6), 6);
    (void)close(fd);
    fg_clock_manual_init(&f->clock, 0);
    f->sources = (struct fg_aws_sources){
        .access_key = "",
        .secret_key = "",
        .session_token = "",
        .access_key_file = "",
        .secret_key_file = "",
        .session_token_file = "",
        .role_arn = "arn:aws:iam::1:role/r",
        .web_identity_token_file = f->token_file,
        .role_session_name = "test",
        .sts_endpoint = "http://sts",
    };
    assert_int_equal(
        fg_aws_credentials_init(&f->credentials,
                                &(struct fg_aws_credentials_config){.sources = &f->sources,
                                                                    .region = "r",
                                                                    .user = "a test",
                                                                    .clock = &f->clock.clock,
                                                                    .ask = answer,
                                                                    .arg = f},
                                &f->err),
        FG_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_aws_credentials_done(&f->credentials);
    (void)unlink(f->token_file);
    free(f);
    return 0;
}

/* What a request does that needs keys. Returns whether it has some then. */
static bool need_keys(struct fixture *f)
{
    struct fg_err err = {0};
    enum fg_code code;

    if (!fg_aws_credentials_due(&f->credentials))
        return fg_aws_credentials_valid(&f->credentials);
    code = fg_aws_credentials_look(&f->credentials, &err);
    return fg_aws_credentials_looked(&f->credentials, code, &err);
}

static void keys_of_a_role_are_kept(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++)
        assert_true(need_keys(f));
    assert_int_equal(f->asked, 1);
    assert_string_equal(f->credentials.keys.access, "ASIA");
    /* The service refuses them: others at once. */
    assert_true(fg_aws_credentials_renew(&f->credentials, f->credentials.generation));
    assert_true(need_keys(f));
    assert_int_equal(f->asked, 2);
}

static void sts_that_gives_no_keys_is_asked_once_a_second(void **state)
{
    struct fixture *f = *state;

    f->refuses = true;
    for (unsigned second = 1; second < 4; second++) {
        for (unsigned i = 0; i < 100; i++) {
            assert_false(need_keys(f));
            assert_int_equal(f->credentials.err.code, FG_E_DENIED);
            fg_clock_manual_advance(&f->clock, 9 * FG_MS_NS);
        }
        assert_int_equal(f->asked, second);
        fg_clock_manual_advance(&f->clock, 100 * FG_MS_NS);
    }
    f->refuses = false;
    assert_true(need_keys(f));
}

static void keys_are_used_to_their_end_while_sts_gives_no_others(void **state)
{
    const int64_t end_wall_ns = INT64_C(4102444800) * FG_SECOND_NS;
    struct fixture *f = *state;

    assert_true(need_keys(f));
    f->refuses = true;
    fg_clock_manual_advance(&f->clock, end_wall_ns - 2 * FG_MINUTE_NS);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(need_keys(f));
        fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    }
    assert_int_equal(f->asked, 3);
    fg_clock_manual_advance(&f->clock, 2 * FG_MINUTE_NS);
    assert_false(need_keys(f));
}

static void write_token(const struct fixture *f, size_t len)
{
    FILE *file = fopen(f->token_file, "we");

    assert_non_null(file);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(fputc('a', file), 'a');
    assert_int_equal(fclose(file), 0);
}

static void tokens_are_sent_whole_or_not_at_all(void **state)
{
    enum { LONGEST_BYTES = 20000 }; /* that STS takes */
    struct fixture *f = *state;

    write_token(f, LONGEST_BYTES);
    assert_true(need_keys(f));
    assert_in_range(f->asked_bytes, LONGEST_BYTES + 1, LONGEST_BYTES + 1000);
    write_token(f, 3 * LONGEST_BYTES);
    assert_true(fg_aws_credentials_renew(&f->credentials, f->credentials.generation));
    assert_false(need_keys(f));
    assert_int_equal(f->asked, 1);
    assert_int_equal(f->credentials.err.code, FG_E_INVALID);
    assert_non_null(strstr(f->credentials.err.msg, f->token_file));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_of_a_role_are_kept),
        TEST(sts_that_gives_no_keys_is_asked_once_a_second),
        TEST(keys_are_used_to_their_end_while_sts_gives_no_others),
        TEST(tokens_are_sent_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
