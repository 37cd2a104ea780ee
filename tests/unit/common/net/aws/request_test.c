/* Requests as botocore 1.44.5, an implementation of others, signs them (SigV4Auth for kms in
 * eu-west-1), and addresses of services. */
#include "common/base/time.h"
#include "common/net/aws/endpoint.h"
#include "common/net/aws/request.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_BYTES = 64 * 1024 };

static const char body[] = "{\"KeyId\":\"alias/flamegrid\"}";

/* Compares the headers, each in a line. */
static void expect_headers(const char *token, const char *wanted)
{
    char access[] = "AKIAIOSFODNN7EXAMPLE";
    char secret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    char session[32], hash[FG_AWS_HASH_BYTES];
    const struct fg_aws_keys keys = {access, secret, session};
    const struct fg_aws_header headers[] = {{"x-amz-target", "TrentService.Encrypt"},
                                            {"content-type", "application/x-amz-json-1.1"}};
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf out;

    (void)snprintf(session, sizeof session, "%s", token);
    fg_aws_payload_hash(fg_cstr(body), hash);
    fg_buf_init(&out, SIZE_MAX);
    for (const char *const *line =
             fg_aws_request_headers(&(struct fg_aws_request){.method = "POST",
                                             .path = "/",
                                             .query = "",
                                             .host = "kms.eu-west-1.amazonaws.com",
                                             .region = "eu-west-1",
                                             .service = "kms",
                                             .headers = headers,
                                             .n_headers = FG_COUNT(headers),
                                             .payload_hash = hash},
                                    &keys, INT64_C(1369353600) * FG_SECOND_NS, arena);
         *line != NULL; line++)
        fg_buf_printf(&out, "%s\n", *line);
    fg_buf_putc(&out, '\0');
    assert_string_equal((char *)out.ptr, wanted);
    fg_buf_done(&out);
}

static void requests_are_signed(void **state)
{
    (void)state;
    expect_headers("",
                   "content-type: application/x-amz-json-1.1\n"
                   "host: kms.eu-west-1.amazonaws.com\n"
                   "x-amz-content-sha256: "
                   "36b9bef6f9ac1ca57a3599a17504ed612155ed7805f1b56d7fb62a3d02a4dee2\n"
                   "x-amz-date: 20130524T000000Z\n"
                   "x-amz-target: TrentService.Encrypt\n"
                   "authorization: AWS4-HMAC-SHA256 "
                   "Credential=AKIAIOSFODNN7EXAMPLE/20130524/eu-west-1/kms/aws4_request,"
                   "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-target,"
                   "Signature=b7d6a75b5a5b92534c2be3636e169c34a19312d4e4a8637e3dbfe188b2a2fabe\n");
    expect_headers(
        "session/token==",
        "content-type: application/x-amz-json-1.1\n"
        "host: kms.eu-west-1.amazonaws.com\n"
        "x-amz-content-sha256: "
        "36b9bef6f9ac1ca57a3599a17504ed612155ed7805f1b56d7fb62a3d02a4dee2\n"
        "x-amz-date: 20130524T000000Z\n"
        "x-amz-security-token: session/token==\n"
        "x-amz-target: TrentService.Encrypt\n"
        "authorization: AWS4-HMAC-SHA256 "
        "Credential=AKIAIOSFODNN7EXAMPLE/20130524/eu-west-1/kms/aws4_request,"
        "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token;"
        "x-amz-target,"
        "Signature=8e2daf6c97284bc18846a9dd9c15b52637a279cdf64773ef0c19019ac7b0757f\n");
}

static void services_have_addresses(void **state)
{
    char out[FG_AWS_ENDPOINT_BYTES];

    (void)state;
    fg_aws_endpoint("kms", "eu-west-1", out);
    assert_string_equal(out, "https://kms.eu-west-1.amazonaws.com");
    fg_aws_endpoint("s3", "cn-north-1", out);
    assert_string_equal(out, "https://s3.cn-north-1.amazonaws.com.cn");
}

static void expect_split(const char *endpoint, const char *scheme, const char *host)
{
    struct fg_slice found_scheme, found_host;
    struct fg_err err;

    if (scheme == NULL) {
        assert_int_equal(fg_aws_endpoint_split(endpoint, &found_scheme, &found_host, &err),
                         FG_E_INVALID);
        return;
    }
    assert_int_equal(fg_aws_endpoint_split(endpoint, &found_scheme, &found_host, &err), FG_OK);
    assert_true(fg_slice_is(found_scheme, scheme) && fg_slice_is(found_host, host));
}

static void addresses_are_split(void **state)
{
    (void)state;
    expect_split("https://kms.example", "https://", "kms.example");
    expect_split("https://kms.example:443/", "https://", "kms.example");
    expect_split("https://kms.example:80", "https://", "kms.example:80");
    expect_split("http://127.0.0.1:5000", "http://", "127.0.0.1:5000");
    expect_split("http://a:80", "http://", "a");
    expect_split("https://", NULL, NULL);
    expect_split("kms.example", NULL, NULL);
    expect_split("https://kms.example/path", NULL, NULL);
    expect_split("https://user@kms.example", NULL, NULL);
    expect_split("https://a\nb", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_signed),
        cmocka_unit_test(services_have_addresses),
        cmocka_unit_test(addresses_are_split),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
