/* Requests in protobuf: they say the same as in JSON; cut short or damaged they are refused. */
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/otlp/decoded.h"
#include "tests/unit/proto/otlp/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void make_fixed64(struct fg_buf *out, unsigned field, uint64_t value)
{
    fg_buf_varint(out, field << 3 | 1);
    fg_buf_le64(out, value);
}

/* An AnyValue of text under `value`, with a key before it. */
static void make_text_attribute(struct fg_buf *out, unsigned field, const char *key,
                                const char *value)
{
    struct fg_buf any, attribute;

    fg_buf_init(&any, SIZE_MAX);
    fg_buf_init(&attribute, SIZE_MAX);
    make_bytes(&any, 1, fg_cstr(value));
    make_bytes(&attribute, 1, fg_cstr(key));
    make_message(&attribute, 2, &any);
    make_message(out, field, &attribute);
    fg_buf_done(&any);
    fg_buf_done(&attribute);
}

static void make_strings_of(struct fg_buf *dictionary, const char *const *strings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        make_bytes(dictionary, 5, fg_cstr(strings[i]));
}

/* The profile: two samples, one of them with everything not packed. */
static void make_profile(struct fg_buf *scope)
{
    struct fg_buf inner, profile;

    fg_buf_init(&inner, SIZE_MAX);
    fg_buf_init(&profile, SIZE_MAX);
    make_int(&inner, 1, 1);
    make_int(&inner, 2, 2);
    make_message(&profile, 1, &inner);
    make_int(&inner, 1, 1);
    make_bytes(&inner, 2, FG_LIT("\x01"));
    make_bytes(&inner, 4, FG_LIT("\x02\x03"));
    make_bytes(&inner, 77, FG_LIT("unknown"));
    make_message(&profile, 2, &inner);
    make_fixed64(&profile, 3, 5000);
    make_int(&profile, 4, 50);
    make_int(&inner, 1, 1);
    make_int(&inner, 2, 1);
    make_int(&inner, 4, 1);
    make_int(&inner, 4, 1);
    make_fixed64(&inner, 5, 1);
    make_message(&profile, 2, &inner);
    make_int(&inner, 1, 2);
    make_fixed64(&inner, 5, 1);
    make_fixed64(&inner, 5, 2);
    make_bytes(&inner, 5, FG_LIT("1234567812345678"));
    make_message(&profile, 2, &inner);
    make_int(&inner, 1, 3);
    make_int(&inner, 2, 4);
    make_message(&profile, 5, &inner);
    make_int(&profile, 6, 100);
    make_message(scope, 2, &profile);
    fg_buf_done(&inner);
    fg_buf_done(&profile);
}

/* The tables, in two parts as protobuf allows: the second has the stacks. */
static void make_dictionary(struct fg_buf *request)
{
    static const char *const strings[] = {"",     "samples", "count", "cpu", "nanoseconds",
                                          "main", "k"};
    struct fg_buf inner, entry, table;

    fg_buf_init(&inner, SIZE_MAX);
    fg_buf_init(&entry, SIZE_MAX);
    fg_buf_init(&table, SIZE_MAX);
    make_strings_of(&table, strings, FG_COUNT(strings));
    make_message(&table, 3, &entry);
    make_int(&entry, 1, 5);
    make_message(&table, 3, &entry);
    make_message(&table, 2, &entry);
    make_int(&inner, 1, 1);
    make_message(&entry, 3, &inner);
    make_message(&table, 2, &entry);
    make_message(&table, 6, &entry);
    make_int(&entry, 1, 6); /* the key; then value, then unit, which is no key */
    make_int(&inner, 3, 7);
    make_message(&entry, 2, &inner);
    make_int(&entry, 3, 1);
    make_message(&table, 6, &entry);
    make_message(request, 2, &table);
    make_message(&table, 7, &entry);
    make_bytes(&entry, 1, FG_LIT("\x01\x01"));
    make_message(&table, 7, &entry);
    make_int(&entry, 1, 1);
    make_message(&table, 7, &entry);
    make_message(request, 2, &table);
    fg_buf_done(&inner);
    fg_buf_done(&entry);
    fg_buf_done(&table);
}

static void make_request(struct fg_buf *request)
{
    struct fg_buf inner, scope, resource;

    fg_buf_init(&inner, SIZE_MAX);
    fg_buf_init(&scope, SIZE_MAX);
    fg_buf_init(&resource, SIZE_MAX);
    make_profile(&scope);
    make_message(&resource, 2, &scope);
    make_text_attribute(&inner, 1, "service.name", "shop");
    make_message(&resource, 1, &inner);
    make_message(request, 1, &resource);
    make_dictionary(request);
    fg_buf_done(&inner);
    fg_buf_done(&scope);
    fg_buf_done(&resource);
}

static void protobuf(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_PROTOBUF);
    struct decoded decoded = {0};
    struct fg_buf bytes;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    decode_by(&decoded, fg_buf_slice(&bytes), &request);
    decoded_expect_text(
        &decoded,
        LABELS("__name__=\"process_cpu\", __otel__=\"true\", k=\"7\", "
               "service.name=\"shop\", service_name=\"shop\"") "main;main 700\n" HEAD "main 400\n");
    decoded_done(&decoded);
    fg_buf_done(&bytes);
}

/* Cut anywhere it is refused, or what came before is there; and nothing is read beyond the cut. */
static void every_cut_is_refused(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_PROTOBUF);
    struct fg_buf bytes;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        struct decoded decoded = {0};
        uint8_t *copy = fg_malloc(len + 1);

        memcpy(copy, bytes.ptr, len);
        copy = fg_realloc(copy, FG_MAX(len, 1)); /* so that the sanitizer sees one byte more */
        decode_by(&decoded, fg_bytes(copy, len), &request);
        assert_int_not_equal(decoded.code, FG_OK);
        decoded_done(&decoded);
        free(copy);
    }
    fg_buf_done(&bytes);
}

/* Inside a profile a cut is that profile's fault. */
static void malformed_input_is_refused(void **state)
{
    static const struct {
        const char *path; /* fields from the request down, then what stands there */
        const char *bytes, *why;
    } cases[] = {
        {"\x01", "\x0a\x05", "profiles cannot be read"},
        {"\x01\x02", "\x12\x05", "profiles cannot be read"},
        {"\x02", "\x0a\x05", "the dictionary cannot be read"},
        {"\x01\x02\x02", "\x08", "resource 0, scope 0, profile 0: cannot be read"},
        {"\x01\x02\x02\x01", "\x08", "its type cannot be read"},
        {"\x01\x02\x02\x05", "\x08", "its type cannot be read"},
    };
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_PROTOBUF);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct decoded decoded = {0};
        struct fg_buf bytes, outer;

        fg_buf_init(&bytes, SIZE_MAX);
        fg_buf_init(&outer, SIZE_MAX);
        fg_buf_puts(&bytes, cases[i].bytes);
        for (size_t k = strlen(cases[i].path); k > 0; k--) {
            fg_buf_clear(&outer);
            make_bytes(&outer, (unsigned)cases[i].path[k - 1], fg_buf_slice(&bytes));
            fg_buf_clear(&bytes);
            fg_buf_put(&bytes, fg_buf_slice(&outer));
        }
        if (cases[i].path[0] == 1)
            make_bytes(&bytes, 2, FG_LIT(""));
        decode_by(&decoded, fg_buf_slice(&bytes), &request);
        assert_int_equal(decoded.code, FG_E_DECODE);
        if (strstr(decoded.err.msg, cases[i].why) == NULL)
            print_message("%zu: %s\n", i, decoded.err.msg);
        assert_non_null(strstr(decoded.err.msg, cases[i].why));
        decoded_done(&decoded);
        fg_buf_done(&bytes);
        fg_buf_done(&outer);
    }
}

static void text_that_is_not_utf8(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_PROTOBUF);
    struct decoded decoded = {0};
    struct fg_buf bytes;
    uint8_t *main_name;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    main_name = memmem(bytes.ptr, bytes.len, "main", 4);
    main_name[1] = 0xff;
    decode_by(&decoded, fg_buf_slice(&bytes), &request);
    assert_int_equal(decoded.code, FG_E_INVALID);
    assert_non_null(strstr(decoded.err.msg, "function 1: string 5 of the dictionary is not UTF-8"));
    decoded_done(&decoded);
    fg_buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(protobuf),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(malformed_input_is_refused),
        cmocka_unit_test(text_that_is_not_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
