/* XML from outside: what stores answer, and what nobody should. */
#include "common/storage/bucket/s3_answer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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
    expect_list(LIST("<NextContinuationToken>t</NextContinuationToken>"
                     "<NextContinuationToken>u</NextContinuationToken>"
                     "<IsTruncated>true</IsTruncated>"),
                FG_E_CORRUPT, NULL, NULL);
}

/* As many as fit an answer: more than the memory of a page. */
static void refuses_many_tokens(void **state)
{
    enum { ANSWER_BYTES = 4 << 20, TOKEN_BYTES = 16000 };
    struct fg_bucket_request request = {.page_max = 1000, .name = ""};
    char token[TOKEN_BYTES + 1];
    struct fg_buf xml;
    struct fg_err err;

    (void)state;
    memset(token, 't', TOKEN_BYTES);
    token[TOKEN_BYTES] = '\0';
    fg_buf_init(&xml, SIZE_MAX);
    fg_buf_puts(&xml, "<ListBucketResult>");
    while (xml.len + 2 * TOKEN_BYTES < ANSWER_BYTES) {
        fg_buf_puts(&xml, "<NextContinuationToken>");
        fg_buf_puts(&xml, token);
        fg_buf_puts(&xml, "</NextContinuationToken>");
    }
    fg_buf_puts(&xml, "</ListBucketResult>");
    assert_int_equal(fg_s3_read_list(fg_buf_slice(&xml), FG_LIT("p/"), &request, &err),
                     FG_E_CORRUPT);
    fg_bucket_clear(&request);
    fg_buf_done(&xml);
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
        cmocka_unit_test(reads_fields),          cmocka_unit_test(reads_lists),
        cmocka_unit_test(refuses_bad_lists),     cmocka_unit_test(refuses_many_tokens),
        cmocka_unit_test(refuses_endless_lists), cmocka_unit_test(reads_uploads),
        cmocka_unit_test(reads_etags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
