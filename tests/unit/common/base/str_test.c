#include "common/base/str.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void parse_u64(void **state)
{
    static const struct {
        const char *in;
        bool ok;
        uint64_t want;
    } cases[] = {
        {"0", true, 0},
        {"007", true, 7},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0x10", false, 0},
        {"1/", false, 0},
        {"1:", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        uint64_t got = 0;

        print_message("  \"%s\"\n", cases[i].in);
        assert_int_equal(fg_parse_u64(fg_cstr(cases[i].in), &got), cases[i].ok);
        assert_true(got == cases[i].want);
    }
}

static void parse_i64(void **state)
{
    static const struct {
        const char *in;
        bool ok;
        int64_t want;
    } cases[] = {
        {"-0", true, 0},
        {"+5", true, 5},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"-", false, 0},
        {"+", false, 0},
        {"+-5", false, 0},
        {"--5", false, 0},
        {"", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        int64_t got = 0;

        print_message("  \"%s\"\n", cases[i].in);
        assert_int_equal(fg_parse_i64(fg_cstr(cases[i].in), &got), cases[i].ok);
        assert_true(got == cases[i].want);
    }
}

static void parse_f64(void **state)
{
    static const struct {
        const char *in;
        bool ok;
        double want;
    } cases[] = {
        {"1.5", true, 1.5},  {"-2e3", true, -2000}, {".5", true, 0.5},   {"1e308", true, 1e308},
        {"1e309", false, 0}, {"", false, 0},        {"inf", false, 0},   {"nan", false, 0},
        {"0x1p3", false, 0}, {"1.5 ", false, 0},    {"1.2.3", false, 0}, {"e5", false, 0},
    };
    double got = 0;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        got = 0;
        print_message("  \"%s\"\n", cases[i].in);
        assert_int_equal(fg_parse_f64(fg_cstr(cases[i].in), &got), cases[i].ok);
        assert_memory_equal(&got, &cases[i].want, sizeof got);
    }
    assert_false(fg_parse_f64(fg_bytes("1\0", 2), &got));
}

static void hexadecimal_is_parsed_and_written(void **state)
{
    uint8_t bytes[3];
    struct fg_buf buf;

    (void)state;
    assert_true(fg_parse_hex(FG_LIT("00aFf9"), bytes, 3));
    assert_memory_equal(bytes, "\x00\xaf\xf9", 3);
    assert_false(fg_parse_hex(FG_LIT("00aFf"), bytes, 3));
    assert_false(fg_parse_hex(FG_LIT("00aFf99"), bytes, 3));
    assert_false(fg_parse_hex(FG_LIT("00aFg9"), bytes, 3));
    assert_false(fg_parse_hex(FG_LIT("00aF/9"), bytes, 3));
    fg_buf_init(&buf, 6);
    fg_buf_hex(&buf, (const uint8_t *)"\x00\xaf\xf9", 3);
    assert_true(fg_slice_is(fg_buf_slice(&buf), "00aff9"));
    fg_buf_done(&buf);
}

static void base64(void **state)
{
    static const struct {
        const char *in, *want;
        bool good;
    } cases[] = {
        {"", "", true},
        {"Zg==", "f", true},
        {"Zg", "f", true},
        {"Zm8=", "fo", true},
        {"Zm9v", "foo", true},
        {"Zm9vYg", "foob", true},
        {"+/+/", "\xfb\xff\xbf", true},
        {"-_-_", "\xfb\xff\xbf", true},
        {"Z", "", false},
        {"Zm9vZ", "", false},
        {"Zm 9", "", false},
        {"Zm9\x80", "", false},
        {"=Zg", "", false},
    };
    uint8_t bytes[16];
    size_t len = 0;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        bool good = fg_parse_base64(fg_cstr(cases[i].in), bytes, &len);

        assert_int_equal(good, cases[i].good);
        if (good)
            assert_true(fg_slice_is(fg_bytes(bytes, len), cases[i].want));
    }
}

static void decimal(void **state)
{
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 200);
    fg_buf_u64(&buf, 0);
    fg_buf_putc(&buf, ' ');
    fg_buf_u64(&buf, UINT64_MAX);
    fg_buf_putc(&buf, ' ');
    fg_buf_i64(&buf, INT64_MIN);
    fg_buf_putc(&buf, ' ');
    fg_buf_i64(&buf, -1);
    fg_buf_putc(&buf, ' ');
    fg_buf_i64(&buf, INT64_MAX);
    assert_true(fg_slice_is(fg_buf_slice(&buf),
                            "0 18446744073709551615 -9223372036854775808 -1 9223372036854775807"));
    fg_buf_done(&buf);
}

/* RFC 3629, and the first and last of every form. */
static void utf8(void **state)
{
    static const struct {
        const char *name, *in;
        bool valid;
    } cases[] = {
        {"empty", "", true},
        {"ascii", "hello, world", true},
        {"two bytes, least", "\xc2\x80", true},
        {"two bytes, overlong", "\xc1\xbf", false},
        {"three bytes, least", "\xe0\xa0\x80", true},
        {"three bytes, overlong", "\xe0\x9f\xbf", false},
        {"before surrogates", "\xed\x9f\xbf", true},
        {"first surrogate", "\xed\xa0\x80", false},
        {"last surrogate", "\xed\xbf\xbf", false},
        {"after surrogates", "\xee\x80\x80", true},
        {"four bytes, least", "\xf0\x90\x80\x80", true},
        {"four bytes, overlong", "\xf0\x8f\xbf\xbf", false},
        {"U+10FFFF", "\xf4\x8f\xbf\xbf", true},
        {"U+110000", "\xf4\x90\x80\x80", false},
        {"f5", "\xf5\x80\x80\x80", false},
        {"lone continuation", "\x80", false},
        {"cut short", "abc\xe2\x82", false},
        {"continuation missing", "\xe2\x28\xa1", false},
        {"bad after eight good bytes", "12345678\xff", false},
        {"bad as the eighth byte", "1234567\xff", false},
        {"good across eight bytes",
         "1234567\xc3\xa4"
         "1234567",
         true},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        assert_int_equal(fg_utf8_valid(fg_cstr(cases[i].in)), cases[i].valid);
    }
    assert_true(fg_utf8_valid(fg_bytes(NULL, 0)));
}

/* Every character there is comes back from its bytes; nothing else does. */
static void utf8_characters(void **state)
{
    uint8_t bytes[FG_UTF8_RUNE_MAX_BYTES];
    size_t len;

    (void)state;
    for (uint32_t rune = 0, got; rune <= 0x10ffff; rune++) {
        bool surrogate = rune >= 0xd800 && rune < 0xe000;
        size_t put = fg_utf8_put(rune, bytes);

        assert_int_equal(fg_utf8_next(fg_bytes(bytes, put), &got, &len), !surrogate);
        if (surrogate)
            continue;
        assert_int_equal(got, rune);
        assert_int_equal(len, put);
        assert_false(fg_utf8_next(fg_bytes(bytes, put - 1), &got, &len));
    }
}

static void json_text_is_escaped(void **state)
{
    static const struct {
        const char *in;
        size_t len;
        const char *want;
    } cases[] = {
        {"", 0, ""},
        {"plain", 5, "plain"},
        {"a\"b\\c", 5, "a\\\"b\\\\c"},
        {"\n\t\r", 3, "\\n\\t\\r"},
        {"\0\x01\x1f\x7f", 4, "\\u0000\\u0001\\u001f\\u007f"},
        {"\xc3\xa4", 2, "\xc3\xa4"},
        {"\xf0\x9f\x94\xa5!", 5, "\xf0\x9f\x94\xa5!"},
        {"\xff", 1, "\\ufffd"},
        {"a\xe2\x82z", 4, "a\\ufffd\\ufffdz"},
        {"\xc3", 1, "\\ufffd"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf buf;

        print_message("  %s\n", cases[i].want);
        fg_buf_init(&buf, 100);
        fg_buf_json(&buf, fg_bytes(cases[i].in, cases[i].len));
        assert_true(fg_slice_is(fg_buf_slice(&buf), cases[i].want));
        fg_buf_done(&buf);
    }
}

static void url_and_html(void **state)
{
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 200);
    fg_buf_url(&buf, FG_LIT("a-B.9_~ {k=\"v\"}&+%\xc3\xa4\0"));
    assert_true(fg_slice_is(fg_buf_slice(&buf), "a-B.9_~%20%7Bk%3D%22v%22%7D%26%2B%25%C3%A4%00"));
    fg_buf_clear(&buf);
    fg_buf_html(&buf, FG_LIT("<a href=\"x\">'&amp;\xc3\xa4"));
    assert_true(
        fg_slice_is(fg_buf_slice(&buf), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;\xc3\xa4"));
    fg_buf_done(&buf);
}

static void trim(void **state)
{
    (void)state;
    assert_true(fg_slice_is(fg_trim(FG_LIT(" \t\r\n a b \v\f")), "a b"));
    assert_true(fg_slice_is(fg_trim(FG_LIT("  ")), ""));
    assert_true(fg_slice_is(fg_trim(fg_bytes(NULL, 0)), ""));
}

static void nocase(void **state)
{
    (void)state;
    assert_true(fg_slice_is_nocase(FG_LIT("Content-TYPE"), "content-type"));
    assert_false(fg_slice_is_nocase(FG_LIT("content-typ"), "content-type"));
    assert_false(fg_slice_is_nocase(FG_LIT("content@type"), "content-type"));
    assert_true(fg_slice_is_nocase(fg_bytes(NULL, 0), ""));
    assert_false(fg_slice_is_nocase(fg_bytes("a\0b", 3), "a"));
}

static void edit_distance(void **state)
{
    static const struct {
        const char *a, *b;
        size_t want;
    } cases[] = {
        {"", "", 0},      {"", "abc", 3},  {"ingestor", "ingester", 1}, {"kitten", "sitting", 3},
        {"abc", "bc", 1}, {"ab", "ba", 2}, {"same", "same", 0},
    };
    uint8_t longer[200] = {0};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s %s\n", cases[i].a, cases[i].b);
        assert_int_equal(fg_edit_distance(fg_cstr(cases[i].a), fg_cstr(cases[i].b)), cases[i].want);
        assert_int_equal(fg_edit_distance(fg_cstr(cases[i].b), fg_cstr(cases[i].a)), cases[i].want);
    }
    assert_int_equal(fg_edit_distance(fg_bytes(longer, 127), fg_bytes(longer, 127)), 0);
    assert_int_equal(fg_edit_distance(fg_bytes(longer, 200), FG_LIT("a")), 200);
}

static void nearest(void **state)
{
    static const char *const known[] = {"replace", "keep", "keepequal"};

    (void)state;
    assert_string_equal(fg_nearest(FG_LIT("replcae"), known, FG_COUNT(known)), "replace");
    assert_string_equal(fg_nearest(FG_LIT("keeep"), known, FG_COUNT(known)), "keep");
    assert_string_equal(fg_nearest(FG_LIT("keep_equal"), known, FG_COUNT(known)), "keepequal");
    assert_null(fg_nearest(FG_LIT("hashmod"), known, FG_COUNT(known)));
    assert_null(fg_nearest(FG_LIT("keep"), known, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_u64),
        cmocka_unit_test(parse_i64),
        cmocka_unit_test(parse_f64),
        cmocka_unit_test(hexadecimal_is_parsed_and_written),
        cmocka_unit_test(base64),
        cmocka_unit_test(decimal),
        cmocka_unit_test(utf8),
        cmocka_unit_test(utf8_characters),
        cmocka_unit_test(json_text_is_escaped),
        cmocka_unit_test(trim),
        cmocka_unit_test(nocase),
        cmocka_unit_test(edit_distance),
        cmocka_unit_test(url_and_html),
        cmocka_unit_test(nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
