/* XML from outside: what stores answer, what nobody should, and that neither costs much. */
#include "common/storage/bucket/s3_answer.h"
#include "common/storage/bucket/s3_xml.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- the reader ---- */

/* Events as text: "<a> text </a> .", or "!" where it is bad. */
static void expect_events(struct fg_slice in, const char *wanted)
{
    struct fg_s3_xml xml;
    struct fg_buf out;
    enum fg_s3_xml_event event;

    fg_buf_init(&out, SIZE_MAX);
    fg_s3_xml_init(&xml, in, 64);
    do {
        event = fg_s3_xml_next(&xml);
        if (event == S3_XML_OPEN)
            fg_buf_printf(&out, "<%.*s>", FG_S(fg_s3_xml_name(&xml)));
        else if (event == S3_XML_CLOSE)
            fg_buf_printf(&out, "%.*s</%.*s>", FG_S(fg_buf_slice(&xml.text)),
                          FG_S(fg_s3_xml_name(&xml)));
    } while (event == S3_XML_OPEN || event == S3_XML_CLOSE);
    fg_buf_puts(&out, event == S3_XML_END ? "." : "!");
    assert_int_equal(fg_s3_xml_next(&xml), event); /* and it stays so */
    fg_buf_putc(&out, '\0');
    assert_string_equal((char *)out.ptr, wanted);
    fg_buf_done(&out);
    fg_s3_xml_done(&xml);
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
    struct fg_s3_error error;

    (void)state;
    fg_s3_read_error(
        FG_LIT("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>"
               "<Message>The specified\nkey does not exist.</Message></Error>"),
        &error);
    assert_string_equal(error.code, "NoSuchKey");
    assert_string_equal(error.message, "The specified key does not exist.");
    fg_s3_read_error(FG_LIT("<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException"
                            "</Code><Message>m</Message></Error></ErrorResponse>"),
                     &error);
    assert_string_equal(error.code, "ExpiredTokenException");
    fg_s3_read_error(FG_LIT("<html><body>502 Bad Gateway</body></html>"), &error);
    assert_true(error.code[0] == '\0' && error.message[0] == '\0');
    fg_s3_read_error(FG_LIT("junk"), &error);
    assert_true(error.code[0] == '\0');
}

static void reads_fields(void **state)
{
    struct fg_err err;
    char out[8];

    (void)state;
    assert_int_equal(fg_s3_read_field(FG_LIT("<R><Id>abc</Id></R>"), "R", "Id", out, 8, &err),
                     FG_OK);
    assert_string_equal(out, "abc");
    assert_int_equal(fg_s3_read_field(FG_LIT("<R><Id>abc</Id>"), "R", "Id", out, 8, &err),
                     FG_E_CORRUPT);
    assert_int_equal(fg_s3_read_field(FG_LIT("<R><Id>12345678</Id></R>"), "R", "Id", out, 8, &err),
                     FG_E_CORRUPT);
    assert_int_equal(fg_s3_read_field(FG_LIT("<Q><Id>a</Id></Q>"), "R", "Id", out, 8, &err),
                     FG_E_CORRUPT);
    assert_int_equal(fg_s3_read_field(FG_LIT("<Q><R><Id>a</Id></R></Q>"), "R", "Id", out, 8, &err),
                     FG_E_CORRUPT);
}

#define LIST(inner) "<ListBucketResult>" inner "</ListBucketResult>"
#define OBJECT(key)                                                                                \
    "<Contents><Key>" key "</Key><LastModified>2024-02-29T12:34:56.789Z</LastModified>"            \
    "<Size>7</Size></Contents>"
#define FOLDER(prefix) "<CommonPrefixes><Prefix>" prefix "</Prefix></CommonPrefixes>"

static void expect_list(const char *xml, enum fg_code code, const char *wanted, const char *next)
{
    struct fg_bucket_request request = {.page_max = 1000, .name = ""};
    struct fg_buf out;
    struct fg_err err;

    fg_buf_init(&out, SIZE_MAX);
    assert_int_equal(fg_s3_read_list(fg_cstr(xml), FG_LIT("p/"), &request, &err), code);
    for (size_t i = 0; code == FG_OK && i < request.n_entries; i++) {
        fg_buf_printf(&out, "%s%s", i == 0 ? "" : " ", request.entries[i].name);
        if (!request.entries[i].folder) {
            assert_int_equal(request.entries[i].size_bytes, 7);
            assert_true(request.entries[i].modified_wall_ns == INT64_C(1709210096789000000));
        }
    }
    fg_buf_putc(&out, '\0');
    if (code == FG_OK) {
        assert_string_equal((char *)out.ptr, wanted);
        assert_true(next == NULL ? request.next == NULL : strcmp(request.next, next) == 0);
    }
    fg_buf_done(&out);
    fg_bucket_clear(&request);
}

static void reads_lists(void **state)
{
    static const char url[] =
        LIST(OBJECT("p/a%2Fb") OBJECT("p/a+b%2B%25") "<EncodingType>url</EncodingType>");

    (void)state;
    expect_list(LIST(""), FG_OK, "", NULL);
    expect_list(LIST("<IsTruncated>false</IsTruncated>"), FG_OK, "", NULL);
    expect_list(LIST(OBJECT("p/b") OBJECT("p/d") FOLDER("p/a/") FOLDER("p/c/")), FG_OK, "a/ b c/ d",
                NULL);
    expect_list(url, FG_OK, "a b+% a/b", NULL);
    expect_list(LIST(OBJECT("p/a+b%2B")), FG_OK, "a+b%2B", NULL);
    expect_list(LIST("<NextContinuationToken>t&amp;1</NextContinuationToken>"
                     "<IsTruncated>true</IsTruncated>" OBJECT("p/a")),
                FG_OK, "a", "t&1");
    /* not ours: another prefix, a marker of a folder, names that none of ours can be */
    expect_list(LIST(OBJECT("q/a") OBJECT("p/") OBJECT("p/x/") OBJECT("p/a//b") OBJECT("p/../x")
                         OBJECT("p/\n") OBJECT("p/ok")),
                FG_OK, "ok", NULL);
}

static void refuses_bad_lists(void **state)
{
    (void)state;
    expect_list("", FG_E_CORRUPT, NULL, NULL);
    expect_list("<html/>", FG_E_CORRUPT, NULL, NULL);
    expect_list("<ListBucketResult>" OBJECT("p/a"), FG_E_CORRUPT, NULL, NULL);
    expect_list(LIST("<IsTruncated>true</IsTruncated>"), FG_E_CORRUPT, NULL, NULL);
    expect_list(LIST("<Contents><Key>p/a</Key><Size>-1</Size></Contents>"), FG_E_CORRUPT, NULL,
                NULL);
    expect_list(LIST("<Contents><Key>p/a</Key><Size>x</Size></Contents>"), FG_E_CORRUPT, NULL,
                NULL);
    expect_list(LIST(OBJECT("p/a%zz") "<EncodingType>url</EncodingType>"), FG_E_CORRUPT, NULL,
                NULL);
    expect_list(LIST(OBJECT("p/a%2") "<EncodingType>url</EncodingType>"), FG_E_CORRUPT, NULL, NULL);
}

/* Twice as many as a page has. */
static void refuses_endless_lists(void **state)
{
    struct fg_bucket_request request = {.page_max = 1000, .name = ""};
    struct fg_buf xml;
    struct fg_err err;

    (void)state;
    fg_buf_init(&xml, SIZE_MAX);
    fg_buf_puts(&xml, "<ListBucketResult>");
    for (unsigned i = 0; i < 2 * FG_BUCKET_PAGE_MAX; i++)
        fg_buf_puts(&xml, OBJECT("p/a"));
    fg_buf_puts(&xml, "</ListBucketResult>");
    assert_int_equal(fg_s3_read_list(fg_buf_slice(&xml), FG_LIT("p/"), &request, &err),
                     FG_E_CORRUPT);
    fg_bucket_clear(&request);
    fg_buf_done(&xml);
}

static void reads_uploads(void **state)
{
    struct fg_s3_uploads uploads = {.arena = fg_arena_create(1 << 20)};
    struct fg_err err;

    (void)state;
    assert_int_equal(
        fg_s3_read_uploads(
            FG_LIT("<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>"
                   "<NextKeyMarker>b</NextKeyMarker><NextUploadIdMarker>2</NextUploadIdMarker>"
                   "<Upload><Key>a b</Key><UploadId>1</UploadId>"
                   "<Initiated>2024-02-29T12:34:56Z</Initiated></Upload>"
                   "<Upload><Key>b</Key><UploadId>2</UploadId></Upload>"
                   "</ListMultipartUploadsResult>"),
            &uploads, &err),
        FG_OK);
    assert_int_equal(uploads.n, 2);
    assert_string_equal(uploads.items[0].key, "a b");
    assert_string_equal(uploads.items[1].id, "2");
    assert_true(uploads.items[0].initiated_wall_ns == INT64_C(1709210096) * FG_SECOND_NS);
    assert_string_equal(uploads.next_key, "b");
    assert_string_equal(uploads.next_id, "2");
    assert_int_equal(fg_s3_read_uploads(FG_LIT("<ListMultipartUploadsResult><Upload><Key>a</Key>"
                                               "</Upload></ListMultipartUploadsResult>"),
                                        &uploads, &err),
                     FG_E_CORRUPT);
    assert_int_equal(fg_s3_read_uploads(FG_LIT("<a/>"), &uploads, &err), FG_E_CORRUPT);
    fg_arena_destroy(uploads.arena);
}

static void reads_roles(void **state)
{
    struct fg_s3_keys keys;
    struct fg_err err;
    int64_t end_ns;

    (void)state;
    assert_int_equal(
        fg_s3_read_role(
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
    assert_int_equal(fg_s3_read_role(FG_LIT("<A><Credentials><AccessKeyId>a</AccessKeyId>"
                                            "</Credentials></A>"),
                                     &keys, &end_ns, &err),
                     FG_E_CORRUPT);
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
    assert_true(fg_s3_read_time(FG_LIT("1970-01-01T00:00:00Z"), &ns) && ns == 0);
    assert_true(fg_s3_read_time(FG_LIT("2000-03-01T00:00:00.5Z"), &ns) &&
                ns == INT64_C(951868800) * FG_SECOND_NS + FG_SECOND_NS / 2);
    assert_true(fg_s3_read_time(FG_LIT("2024-12-31T23:59:59.123456789123Z"), &ns) &&
                ns == INT64_C(1735689599) * FG_SECOND_NS + 123456789);
    for (size_t i = 0; i < FG_COUNT(bad); i++)
        assert_false(fg_s3_read_time(fg_cstr(bad[i]), &ns));
}

static void reads_etags(void **state)
{
    struct fg_bucket_etag etag;
    char longest[200];

    (void)state;
    fg_s3_read_etag(FG_LIT("\"abc-2\""), &etag);
    assert_string_equal(etag.text, "abc-2");
    fg_s3_read_etag(FG_LIT("abc"), &etag);
    assert_string_equal(etag.text, "abc");
    fg_s3_read_etag(FG_LIT("W/\"abc\""), &etag);
    assert_string_equal(etag.text, "W/\"abc\"");
    fg_s3_read_etag(FG_LIT("\"a b\""), &etag);
    assert_string_equal(etag.text, "");
    memset(longest, 'x', sizeof longest);
    fg_s3_read_etag(fg_bytes(longest, sizeof longest), &etag);
    assert_string_equal(etag.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_elements),        cmocka_unit_test(refuses_what_is_none),
        cmocka_unit_test(reads_errors),          cmocka_unit_test(reads_fields),
        cmocka_unit_test(reads_lists),           cmocka_unit_test(refuses_bad_lists),
        cmocka_unit_test(refuses_endless_lists), cmocka_unit_test(reads_uploads),
        cmocka_unit_test(reads_roles),           cmocka_unit_test(reads_times),
        cmocka_unit_test(reads_etags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
