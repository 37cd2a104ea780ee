/* Signatures that others have published: the examples of "Authenticating Requests: Using the
 * Authorization Header (AWS Signature Version 4)", Amazon S3 API reference. */
#include "common/base/time.h"
#include "common/net/aws/sign.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char date[] = "20130524T000000Z";
static const char host[] = "examplebucket.s3.amazonaws.com";

static void expect(const struct fg_aws_signable *what, const char *names, const char *signature)
{
    char access[] = "AKIAIOSFODNN7EXAMPLE";
    char secret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    const struct fg_aws_keys keys = {access, secret, NULL};
    char wanted[1024];
    struct fg_buf out;

    (void)snprintf(wanted, sizeof wanted,
                   "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                   "aws4_request,SignedHeaders=%s,Signature=%s",
                   names, signature);
    fg_buf_init(&out, SIZE_MAX);
    fg_aws_sign(what, &keys, &out);
    fg_buf_putc(&out, '\0');
    assert_string_equal((char *)out.ptr, wanted);
    fg_buf_done(&out);
}

static void get_object(void **state)
{
    const struct fg_aws_header headers[] = {{"host", host},
                                            {"range", "bytes=0-9"},
                                            {"x-amz-content-sha256", empty},
                                            {"x-amz-date", date}};

    (void)state;
    expect(&(struct fg_aws_signable){"GET", "/test.txt", "", headers, FG_COUNT(headers), empty,
                                     date, "us-east-1", "s3"},
           "host;range;x-amz-content-sha256;x-amz-date",
           "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void put_object(void **state)
{
    static const char hash[] = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    const struct fg_aws_header headers[] = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                            {"host", host},
                                            {"x-amz-content-sha256", hash},
                                            {"x-amz-date", date},
                                            {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};

    (void)state;
    expect(&(struct fg_aws_signable){"PUT", "/test%24file.text", "", headers, FG_COUNT(headers),
                                     hash, date, "us-east-1", "s3"},
           "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
           "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void queries(void **state)
{
    const struct fg_aws_header headers[] = {
        {"host", host}, {"x-amz-content-sha256", empty}, {"x-amz-date", date}};
    static const char names[] = "host;x-amz-content-sha256;x-amz-date";

    (void)state;
    expect(&(struct fg_aws_signable){"GET", "/", "lifecycle=", headers, FG_COUNT(headers), empty,
                                     date, "us-east-1", "s3"},
           names, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    expect(&(struct fg_aws_signable){"GET", "/", "max-keys=2&prefix=J", headers, FG_COUNT(headers),
                                     empty, date, "us-east-1", "s3"},
           names, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void dates(void **state)
{
    char out[FG_AWS_DATE_BYTES];

    (void)state;
    fg_aws_date(INT64_C(1369353600) * FG_SECOND_NS, out);
    assert_string_equal(out, date);
    fg_aws_date(INT64_C(951827696) * FG_SECOND_NS + 999, out);
    assert_string_equal(out, "20000229T123456Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_object),
        cmocka_unit_test(put_object),
        cmocka_unit_test(queries),
        cmocka_unit_test(dates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
