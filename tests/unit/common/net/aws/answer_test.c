/* XML from outside: what nobody should answer, what STS does, and that neither costs much. */
#include "common/base/time.h"
#include "common/net/aws/answer.h"
#include "common/net/aws/xml.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- memory that is freed ---- */

#define SECRET "a-secret-of-sts"

static unsigned secrets_freed;

void __real_free(void *memory);
void __wrap_free(void *memory);

/* The linker gives our own code this one. */
void __wrap_free(void *memory)
{
    if (memory != NULL &&
        memmem(memory, malloc_usable_size(memory), SECRET, strlen(SECRET)) != NULL)
        secrets_freed++;
    __real_free(memory);
}

/* ---- the reader ---- */

/* Events as text: "<a> text </a> .", or "!" where it is bad. */
static void expect_events(struct fg_slice in, const char *wanted)
{
    struct fg_aws_xml xml;
    struct fg_buf out;
    enum fg_aws_xml_event event;

    fg_buf_init(&out, SIZE_MAX);
    fg_aws_xml_init(&xml, in, 64);
    do {
        event = fg_aws_xml_next(&xml);
        if (event == FG_AWS_XML_OPEN)
            fg_buf_printf(&out, "<%.*s>", FG_S(fg_aws_xml_name(&xml)));
        else if (event == FG_AWS_XML_CLOSE)
            fg_buf_printf(&out, "%.*s</%.*s>", FG_S(fg_buf_slice(&xml.text)),
                          FG_S(fg_aws_xml_name(&xml)));
    } while (event == FG_AWS_XML_OPEN || event == FG_AWS_XML_CLOSE);
    fg_buf_puts(&out, event == FG_AWS_XML_END ? "." : "!");
    assert_int_equal(fg_aws_xml_next(&xml), event); /* and it stays so */
    fg_buf_putc(&out, '\0');
    assert_string_equal((char *)out.ptr, wanted);
    fg_buf_done(&out);
    fg_aws_xml_done(&xml);
}

static void reads_elements(void **state)
{
    static const char *const cases[][2] = {
        {"<a/>", "<a></a>."},
        {"<a></a>", "<a></a>."},
        {" <?xml version=\"1.0\"?>\n<!-- x --><a>t</a>\n<!-- y -->", "<a>t</a>."},
        {"\xef\xbb\xbf<a>t</a>", "<a>t</a>."},
        {"<a><b>1</b><c/><b> 2 </b></a>", "<a><b>1</b><c></c><b> 2 </b></a>."},
        {"<x:a xmlns:x=\"http://a/\" y='>'><x:b>1</x:b></x:a >", "<a><b>1</b></a>."},
        {"<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#x1F600;</a>",
         "<a><>&\"'AB\xf0\x9f\x98\x80</a>."},
        {"<a>1<![CDATA[<b>&amp;]]>2<!-- 3 -->4</a>", "<a>1<b>&amp;24</a>."},
        {"<a b = \"1\" c='2' />", "<a></a>."},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        expect_events(fg_cstr(cases[i][0]), cases[i][1]);
}

static void refuses_what_is_none(void **state)
{
    static const char *const cases[][2] = {
        {"", "!"},
        {"text", "!"},
        {"<", "!"},
        {"<a", "!"},
        {"<a>", "<a>!"},
        {"<a></b>", "<a>!"},
        {"</a>", "!"},
        {"<a/><b/>", "<a></a>!"},
        {"<a/>text", "<a></a>!"},
        {"<a b></a>", "!"},
        {"<a b=c></a>", "!"},
        {"<a b=\"c></a>", "!"},
        {"<>", "!"},
        {"<a>&nbsp;</a>", "<a>!"},
        {"<a>&lt</a>", "<a>!"},
        {"<a>&#0;</a>", "<a>!"},
        {"<a>&#xD800;</a>", "<a>!"},
        {"<a>&#1114112;</a>", "<a>!"},
        {"<a>&#;</a>", "<a>!"},
        {"<a>&#x;</a>", "<a>!"},
        {"<a>\xff</a>", "<a>!"},
        {"<!DOCTYPE a [<!ENTITY b \"bbb\">]><a>&b;</a>", "!"},
        {"<a><![CDATA[x</a>", "<a>!"},
        {"<a><!-- x</a>", "<a>!"},
        {"<a>0123456789012345678901234567890123456789012345678901234567890123456789</a>", "<a>!"},
        {"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>",
         "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>!"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        expect_events(fg_cstr(cases[i][0]), cases[i][1]);
    expect_events(fg_bytes("<a>\0</a", 7), "<a>!");
}

/* ---- answers ---- */

static void reads_errors(void **state)
{
    struct fg_aws_error error;

    (void)state;
    fg_aws_read_error(
        FG_LIT("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>"
               "<Message>The specified\nkey does not exist.</Message></Error>"),
        &error);
    assert_string_equal(error.code, "NoSuchKey");
    assert_string_equal(error.message, "The specified key does not exist.");
    fg_aws_read_error(FG_LIT("<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException"
                             "</Code><Message>m</Message></Error></ErrorResponse>"),
                      &error);
    assert_string_equal(error.code, "ExpiredTokenException");
    fg_aws_read_error(FG_LIT("<html><body>502 Bad Gateway</body></html>"), &error);
    assert_true(error.code[0] == '\0' && error.message[0] == '\0');
    fg_aws_read_error(FG_LIT("junk"), &error);
    assert_true(error.code[0] == '\0');
}

static void reads_roles(void **state)
{
    struct fg_aws_keys keys;
    struct fg_err err;
    int64_t end_ns;

    (void)state;
    assert_int_equal(
        fg_aws_read_role(
            FG_LIT("<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
                   "<Credentials><SessionToken>t</SessionToken>"
                   "<SecretAccessKey>s</SecretAccessKey>"
                   "<Expiration>1970-01-01T00:00:10Z</Expiration>"
                   "<AccessKeyId>a</AccessKeyId></Credentials>"
                   "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"),
            &keys, &end_ns, &err),
        FG_OK);
    assert_string_equal(keys.access, "a");
    assert_string_equal(keys.secret, "s");
    assert_string_equal(keys.token, "t");
    assert_true(end_ns == 10 * FG_SECOND_NS);
    free(keys.access);
    free(keys.secret);
    free(keys.token);
    assert_int_equal(fg_aws_read_role(FG_LIT("<A><Credentials><AccessKeyId>a</AccessKeyId>"
                                             "</Credentials></A>"),
                                      &keys, &end_ns, &err),
                     FG_E_CORRUPT);
}

static void secrets_are_overwritten(void **state)
{
    /* The last one has nothing that it lacks. */
    static const char again[] = "<SecretAccessKey>" SECRET "2</SecretAccessKey>";
    static const char token[] = "<SessionToken>t</SessionToken>";
    static const char all[] =
        "<SessionToken>t</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration>"
        "</Credentials></A>";
    static const char *const ends[] = {"", again, token, all};

    (void)state;
    secrets_freed = 0;
    for (size_t i = 0; i < FG_COUNT(ends); i++) {
        bool good = i == FG_COUNT(ends) - 1;
        struct fg_aws_keys keys = {NULL, NULL, NULL};
        struct fg_buf xml;
        struct fg_err err;
        int64_t end_ns;

        fg_buf_init(&xml, SIZE_MAX);
        fg_buf_printf(&xml,
                      "<A><Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>%s"
                      "</SecretAccessKey>%s",
                      SECRET, ends[i]);
        assert_int_equal(fg_aws_read_role(fg_buf_slice(&xml), &keys, &end_ns, &err),
                         good ? FG_OK : FG_E_CORRUPT);
        if (good)
            assert_string_equal(keys.secret, SECRET);
        fg_aws_keys_done(&keys);
        assert_null(keys.secret);
        memset(xml.ptr, 0, xml.cap);
        fg_buf_done(&xml);
        assert_int_equal(secrets_freed, 0);
    }
}

static void signing_leaves_no_secret(void **state)
{
    const struct fg_aws_signable what = {.method = "GET",
                                         .path = "/",
                                         .query = "",
                                         .payload_hash = "",
                                         .date = "20130524T000000Z",
                                         .region = "r",
                                         .service = "s3"};
    char access[] = "a", secret[] = SECRET, token[] = "";
    const struct fg_aws_keys keys = {access, secret, token};
    struct fg_buf out;

    (void)state;
    secrets_freed = 0;
    fg_buf_init(&out, SIZE_MAX);
    fg_aws_sign(&what, &keys, &out);
    fg_buf_done(&out);
    assert_int_equal(secrets_freed, 0);
}

static void reads_times(void **state)
{
    static const char *const bad[] = {"",
                                      "2024-01-31",
                                      "2024-01-31T12:00:00",
                                      "2024-13-31T12:00:00Z",
                                      "2024-01-31T24:00:00Z",
                                      "1969-01-31T12:00:00Z",
                                      "2024-01-31 12:00:00Z",
                                      "2024-01-31T12:00:00+01:00",
                                      "9999-01-31T12:00:00Z",
                                      "2024-01-31T12:00:00.x"};
    int64_t ns;

    (void)state;
    assert_true(fg_aws_read_time(FG_LIT("1970-01-01T00:00:00Z"), &ns) && ns == 0);
    assert_true(fg_aws_read_time(FG_LIT("2000-03-01T00:00:00.5Z"), &ns) &&
                ns == INT64_C(951868800) * FG_SECOND_NS + FG_SECOND_NS / 2);
    assert_true(fg_aws_read_time(FG_LIT("2024-12-31T23:59:59.123456789123Z"), &ns) &&
                ns == INT64_C(1735689599) * FG_SECOND_NS + 123456789);
    for (size_t i = 0; i < FG_COUNT(bad); i++)
        assert_false(fg_aws_read_time(fg_cstr(bad[i]), &ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_elements),
        cmocka_unit_test(refuses_what_is_none),
        cmocka_unit_test(reads_errors),
        cmocka_unit_test(reads_roles),
        cmocka_unit_test(reads_times),
        cmocka_unit_test(secrets_are_overwritten),
        cmocka_unit_test(signing_leaves_no_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
