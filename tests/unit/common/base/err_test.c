#include "common/base/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void wrap_puts_context_before_the_sentence(void **state)
{
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_fail(&err, FG_E_CORRUPT, "crc %08x", 0x1f2eu), FG_E_CORRUPT);
    assert_string_equal(err.msg, "crc 00001f2e");
    assert_int_equal(fg_wrap(&err, "block %s", "acme/1"), FG_E_CORRUPT);
    assert_string_equal(err.msg, "block acme/1: crc 00001f2e");
    assert_int_equal(err.code, FG_E_CORRUPT);
}

static void long_sentences_are_cut_at_the_end(void **state)
{
    char longer[FG_ERR_MSG_MAX_BYTES * 2];
    struct fg_err err;

    (void)state;
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    (void)fg_fail(&err, FG_E_INVALID, "%s", longer);
    assert_int_equal(strlen(err.msg), FG_ERR_MSG_MAX_BYTES - 1);
    (void)fg_wrap(&err, "ctx");
    assert_int_equal(strlen(err.msg), FG_ERR_MSG_MAX_BYTES - 1);
    assert_memory_equal(err.msg, "ctx: xxx", 8);
    (void)fg_wrap(&err, "%s", longer);
    assert_int_equal(strlen(err.msg), FG_ERR_MSG_MAX_BYTES - 1);
    assert_null(strchr(err.msg, ':'));
    (void)fg_fail_errno(&err, ENOENT, "%s", longer);
    assert_int_equal(strlen(err.msg), FG_ERR_MSG_MAX_BYTES - 1);
}

static void errno_becomes_a_code(void **state)
{
    static const struct {
        int errnum;
        enum fg_code code;
        const char *msg;
    } cases[] = {
        {ENOENT, FG_E_NOT_FOUND, "/x: No such file or directory"},
        {EEXIST, FG_E_EXISTS, "/x: File exists"},
        {EACCES, FG_E_DENIED, "/x: Permission denied"},
        {ENOSPC, FG_E_NO_SPACE, "/x: No space left on device"},
        {EIO, FG_E_INTERNAL, "/x: Input/output error"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_err err;

        assert_int_equal(fg_fail_errno(&err, cases[i].errnum, "/%c", 'x'), cases[i].code);
        assert_int_equal(err.code, cases[i].code);
        assert_string_equal(err.msg, cases[i].msg);
    }
}

/* The numbers of other people's protocols: gRPC "Status codes", Connect "Error codes". */
static void codes_have_their_names_and_statuses(void **state)
{
    static const struct {
        enum fg_code code;
        const char *name;
        unsigned http, grpc;
        bool retry;
    } cases[] = {
        {FG_OK, "ok", 200, 0, false},
        {FG_E_INVALID, "invalid_argument", 400, 3, false},
        {FG_E_LIMIT, "resource_exhausted", 429, 8, true},
        {FG_E_UNAVAILABLE, "unavailable", 503, 14, true},
        {FG_E_CORRUPT, "data_loss", 500, 15, false},
        {FG_E_DECODE, "unknown", 422, 2, false},
        {FG_E_TOO_LARGE, "invalid_argument", 413, 3, false},
        {FG_E_NO_SPACE, "resource_exhausted", 507, 8, true},
        {FG_E_TOO_MUCH, "resource_exhausted", 429, 8, false},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        assert_string_equal(fg_code_name(cases[i].code), cases[i].name);
        assert_int_equal(fg_code_http(cases[i].code), cases[i].http);
        assert_int_equal(fg_code_grpc(cases[i].code), cases[i].grpc);
        assert_int_equal(fg_code_retry(cases[i].code), cases[i].retry);
    }
    assert_int_equal(fg_code_from_grpc(0), FG_OK);
    assert_int_equal(fg_code_from_grpc(2), FG_E_UNKNOWN); /* not FG_E_DECODE, which shares it */
    assert_int_equal(fg_code_from_grpc(3), FG_E_INVALID);
    assert_int_equal(fg_code_from_grpc(8), FG_E_LIMIT);
    assert_int_equal(fg_code_from_grpc(16), FG_E_NO_TENANT);
    assert_int_equal(fg_code_from_grpc(11), FG_E_UNKNOWN);
    assert_int_equal(fg_code_from_grpc(99), FG_E_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrap_puts_context_before_the_sentence),
        cmocka_unit_test(long_sentences_are_cut_at_the_end),
        cmocka_unit_test(errno_becomes_a_code),
        cmocka_unit_test(codes_have_their_names_and_statuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
