#include "common/base/buf.h"
#include "common/net/multipart.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TYPE "multipart/form-data; boundary=xx"

/* Reads all parts; writes "name[!filename][ (type)]=data|" for each. */
static enum fg_code read_all(struct fg_slice type, struct fg_slice body, struct fg_buf *out,
                             struct fg_err *err)
{
    struct fg_multipart form;
    struct fg_multipart_part part;

    if (fg_multipart_init(&form, type, body, err) != FG_OK)
        return err->code;
    for (;;) {
        if (fg_multipart_next(&form, &part, err) != FG_OK)
            return err->code;
        if (form.ended)
            return FG_OK;
        fg_buf_put(out, part.name);
        if (part.is_file) {
            fg_buf_putc(out, '!');
            fg_buf_put(out, part.filename);
        }
        if (part.content_type.ptr != NULL)
            fg_buf_printf(out, " (%.*s)", FG_S(part.content_type));
        fg_buf_putc(out, '=');
        fg_buf_put(out, part.data);
        fg_buf_putc(out, '|');
    }
}

static const struct {
    const char *name, *type, *body;
    enum fg_code code;
    const char *want;
} cases[] = {
    {"one field", TYPE,
     "--xx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--xx--\r\n", FG_OK,
     "a=value|"},
    {"file with type", TYPE,
     "--xx\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"p.pprof\"\r\n"
     "Content-Type: application/octet-stream\r\n\r\n\r\n--x\r\n--xxx\r\n--xx--",
     FG_OK, "profile!p.pprof (application/octet-stream)=\r\n--x\r\n--xxx|"},
    {"empty filename is a file", TYPE,
     "--xx\r\ncontent-disposition: form-data; filename=\"\"; name=p\r\n\r\nd\r\n--xx--", FG_OK,
     "p!=d|"},
    {"two parts, preamble, epilogue, bare LF", TYPE,
     "hello\n--xx  \nContent-Disposition: form-data; name=a\n\n1\n--xx\n"
     "Content-Disposition: form-data; name=b\n\n2\n--xx-- \nbye",
     FG_OK, "a=1|b=2|"},
    {"no data", TYPE, "--xx\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--xx--", FG_OK,
     "a=|"},
    {"no data, no line end for it", TYPE,
     "--xx\r\nContent-Disposition: form-data; name=a\r\n\r\n--xx--", FG_OK, "a=|"},
    {"no headers", TYPE, "--xx\r\n\r\nd\r\n--xx--", FG_OK, "=d|"},
    {"no parts", TYPE, "--xx--\r\n", FG_OK, ""},
    {"quoted boundary", "Multipart/Form-Data; charset=x; boundary=\"x x\"",
     "--x x\r\nContent-Disposition: form-data; name=\"a;b\"\r\n\r\nd\r\n--x x--", FG_OK, "a;b=d|"},
    {"another disposition", TYPE,
     "--xx\r\nContent-Disposition: attachment; name=a\r\n\r\nd\r\n--xx--", FG_OK, "=d|"},
    {"boundary in the middle of a line", TYPE,
     "--xx\r\nContent-Disposition: form-data; name=a\r\n\r\nz--xx--\r\n--xx--", FG_OK,
     "a=z--xx--|"},
    {"no boundary in the header", "multipart/form-data", "--xx--", FG_E_INVALID, NULL},
    {"empty boundary", "multipart/form-data; boundary=", "----", FG_E_INVALID, NULL},
    {"boundary with odd bytes", "multipart/form-data; boundary=a\tb", "--a\tb--", FG_E_INVALID,
     NULL},
    {"boundary too long",
     "multipart/form-data; boundary="
     "0123456789012345678901234567890123456789012345678901234567890123456789x",
     "--", FG_E_INVALID, NULL},
    {"another type", "text/plain; boundary=xx", "--xx--", FG_E_INVALID, NULL},
    {"no boundary in the body", TYPE, "data", FG_E_INVALID, NULL},
    {"empty body", TYPE, "", FG_E_INVALID, NULL},
    {"no end", TYPE, "--xx\r\nContent-Disposition: form-data; name=a\r\n\r\ndata", FG_E_INVALID,
     NULL},
    {"headers without end", TYPE, "--xx\r\nContent-Disposition: form-data; name=a\r\n--xx--",
     FG_E_INVALID, NULL},
    {"header without colon", TYPE, "--xx\r\nContent-Disposition\r\n\r\nd\r\n--xx--", FG_E_INVALID,
     NULL},
    {"folded header", TYPE, "--xx\r\nContent-Disposition: form-data;\r\n name=a\r\n\r\nd\r\n--xx--",
     FG_E_INVALID, NULL},
    {"two dispositions", TYPE,
     "--xx\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; "
     "name=b\r\n\r\nd\r\n--xx--",
     FG_E_INVALID, NULL},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_err err;
        struct fg_buf out;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&out, 65536);
        assert_int_equal(read_all(fg_cstr(cases[i].type), fg_cstr(cases[i].body), &out, &err),
                         cases[i].code);
        fg_buf_putc(&out, '\0');
        if (cases[i].want != NULL)
            assert_string_equal((char *)out.ptr, cases[i].want);
        fg_buf_done(&out);
    }
}

/* A valid body, cut short at every byte, is refused or (within the last line) complete. */
static void test_truncated(void **state)
{
    const char *body = "--xx\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--xx--";

    (void)state;
    for (size_t len = 0; len < strlen(body); len++) {
        /* A copy of exactly that size: the sanitizer sees a read beyond it. */
        uint8_t *copy = fg_malloc(FG_MAX(len, 1));
        struct fg_err err;
        struct fg_buf out;

        memcpy(copy, body, len);
        fg_buf_init(&out, 65536);
        assert_int_equal(read_all(FG_LIT(TYPE), fg_bytes(copy, len), &out, &err), FG_E_INVALID);
        fg_buf_done(&out);
        free(copy);
    }
}

static void test_limits(void **state)
{
    struct fg_buf body, out;
    struct fg_err err;

    (void)state;
    fg_buf_init(&body, 1 << 20);
    fg_buf_init(&out, 1 << 20);
    for (int i = 0; i <= FG_MULTIPART_PARTS_MAX; i++)
        fg_buf_puts(&body, "--xx\r\n\r\nd\r\n");
    fg_buf_puts(&body, "--xx--");
    assert_int_equal(read_all(FG_LIT(TYPE), fg_buf_slice(&body), &out, &err), FG_E_LIMIT);

    fg_buf_clear(&body);
    fg_buf_puts(&body, "--xx\r\nX: ");
    for (int i = 0; i < FG_MULTIPART_HEAD_MAX_BYTES; i++)
        fg_buf_putc(&body, 'x');
    fg_buf_puts(&body, "\r\n\r\nd\r\n--xx--");
    assert_int_equal(read_all(FG_LIT(TYPE), fg_buf_slice(&body), &out, &err), FG_E_LIMIT);
    fg_buf_done(&body);
    fg_buf_done(&out);
}

static void test_header_param(void **state)
{
    static const struct {
        const char *value, *name, *want; /* want NULL: not there */
    } params[] = {
        {"form-data; name=\"a\\\"b\"; x=y", "x", "y"},
        {"form-data; name=\"a\\\"b\"; x=y", "name", "a\\\"b"},
        {"form-data ; NAME = v ", "name", "v"},
        {"form-data; flag; name=v", "name", "v"},
        {"form-data; name=\"open", "name", NULL},
        {"form-data; name=\"a\"junk; b=c", "b", NULL},
        {"form-data; xname=\"; name=v\"", "name", NULL},
        {"form-data", "name", NULL},
        {"", "name", NULL},
        {"name=v", "name", NULL},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(params); i++) {
        struct fg_slice got = fg_header_param(fg_cstr(params[i].value), params[i].name);

        print_message("  %s\n", params[i].value);
        assert_int_equal(got.ptr == NULL, params[i].want == NULL);
        if (params[i].want != NULL)
            assert_true(fg_slice_is(got, params[i].want));
    }
}

/* Minutes, if each of them is a walk over all of the rest. */
static void test_header_of_many_semicolons(void **state)
{
    enum { LEN = 8 * 1024 * 1024 };
    char *header = fg_malloc(LEN);

    (void)state;
    memset(header, ';', LEN);
    assert_null(fg_header_param(fg_bytes(header, LEN), "name").ptr);
    free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_header_param),
        cmocka_unit_test(test_header_of_many_semicolons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
