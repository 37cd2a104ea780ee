#include "common/base/str.h"
#include "proto/jfr/read.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define REPLACED "\xef\xbf\xbd"

struct text_case {
    const char *name, *in;
    size_t len;
    const char *want; /* NULL: bad */
};

/* clang-format off */
static const struct text_case compressed[] = {
    {"null",                 "\x00", 1, ""},
    {"empty",                "\x01", 1, ""},
    {"UTF-8",                "\x03\x05" "h\xc3\xa9" "lo", 7, "h\xc3\xa9lo"},
    {"four bytes",           "\x03\x04\xf0\x9f\x94\xa5", 6, "\xf0\x9f\x94\xa5"},
    {"a pair of surrogates", "\x03\x06\xed\xa0\xbd\xed\xb4\xa5", 8, "\xf0\x9f\x94\xa5"},
    {"half a pair",          "\x03\x04\xed\xa0\xbd" "x", 6, REPLACED "x"},
    {"half a pair at the end", "\x03\x03\xed\xa0\xbd", 5, REPLACED},
    {"the other half",       "\x03\x04\xed\xb4\xa5" "x", 6, REPLACED "x"},
    {"two first halves",     "\x03\x06\xed\xa0\xbd\xed\xa0\xbd", 8, REPLACED REPLACED},
    {"half, then four bytes", "\x03\x07\xed\xa0\xbd\xf0\x9f\x94\xa5", 9, REPLACED "\xf0\x9f\x94\xa5"},
    {"no UTF-8",             "\x03\x04" "a\xff" "b\x80", 6, "a" REPLACED "b" REPLACED},
    {"sequence cut short",   "\x03\x03" "a\xe2\x82", 5, "a" REPLACED REPLACED},
    {"cut by another",       "\x03\x03\xe2" "ab", 5, REPLACED "ab"},
    {"above Unicode",        "\x03\x04\xf4\x90\x80\x80", 6, REPLACED REPLACED REPLACED REPLACED},
    {"UTF-16",               "\x04\x03" "a\xe9\x01\xac\x41", 7, "a\xc3\xa9\xe2\x82\xac"},
    {"UTF-16 pair",          "\x04\x02\xbd\xb0\x03\xa5\xba\x03", 8, "\xf0\x9f\x94\xa5"},
    {"UTF-16 half",          "\x04\x02\xbd\xb0\x03" "x", 6, REPLACED "x"},
    {"UTF-16 too large",     "\x04\x01\x80\x80\x04", 5, REPLACED},
    {"Latin-1",              "\x05\x03" "a\xe9z", 5, "a\xc3\xa9z"},
    {"no kind",              "", 0, NULL},
    {"unknown kind",         "\x06\x01" "a", 3, NULL},
    {"UTF-8 cut short",      "\x03\x05" "abc", 5, NULL},
    {"UTF-16 cut short",     "\x04\x03" "ab", 4, NULL},
    {"Latin-1 cut short",    "\x05\x05" "abc", 5, NULL},
    {"constant cut short",   "\x02", 1, NULL},
};

static const struct text_case fixed[] = {
    {"UTF-8",            "\x03\0\0\0\x02" "ab", 7, "ab"},
    {"UTF-16",           "\x04\0\0\0\x02\0\xe9\x20\xac", 9, "\xc3\xa9\xe2\x82\xac"},
    {"Latin-1",          "\x05\0\0\0\x01\xe9", 6, "\xc3\xa9"},
    {"UTF-16 cut short", "\x04\0\0\0\x02\0\xe9\x20", 8, NULL},
};
/* clang-format on */

/* What is left of the input after a string, by reading and by skipping it, is the same. */
static void check_text(const struct text_case *text, bool fixed_width)
{
    struct fg_jfr_body body = {fg_bytes(text->in, text->len), fixed_width};
    struct fg_jfr_cur read = fg_jfr_cur(&body, 0, UINT32_MAX), skip = read;
    struct fg_buf out;

    print_message("  %s\n", text->name);
    fg_buf_init(&out, SIZE_MAX);
    assert_true(fg_jfr_text(&read, &out) == JFR_NO_CONSTANT || text->want == NULL);
    fg_jfr_text_skip(&skip);
    assert_int_equal(read.in.bad, text->want == NULL);
    assert_int_equal(skip.in.bad, text->want == NULL);
    assert_int_equal(read.in.left, 0);
    assert_int_equal(skip.in.left, 0);
    assert_true(fg_utf8_valid(fg_buf_slice(&out)));
    if (text->want != NULL)
        assert_true(fg_slice_is(fg_buf_slice(&out), text->want));
    fg_buf_done(&out);
}

static void strings_become_utf8(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(compressed); i++)
        check_text(&compressed[i], false);
    for (size_t i = 0; i < FG_COUNT(fixed); i++)
        check_text(&fixed[i], true);
}

static void constants_are_named(void **state)
{
    struct fg_jfr_body body = {FG_LIT("\x02\xac\x02\x01"), false};
    struct fg_jfr_cur cur = fg_jfr_cur(&body, 0, UINT32_MAX);
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, SIZE_MAX);
    assert_int_equal(fg_jfr_text(&cur, &out), 300);
    assert_int_equal(out.len, 0);
    assert_int_equal(fg_jfr_position(&cur), 3);
    cur = fg_jfr_cur(&body, 0, UINT32_MAX);
    fg_jfr_text_skip(&cur);
    assert_int_equal(fg_jfr_position(&cur), 3);
    fg_buf_done(&out);
}

static void positions_are_those_of_the_chunk(void **state)
{
    struct fg_jfr_body body = {FG_LIT("\x01\x02\x03\x04\x05"), false};
    struct fg_jfr_cur cur = fg_jfr_cur(&body, 1, 4);

    (void)state;
    assert_int_equal(fg_jfr_position(&cur), 1);
    assert_int_equal(fg_jfr_long(&cur), 2);
    assert_int_equal(fg_jfr_position(&cur), 2);
    assert_int_equal(fg_jfr_int(&cur), 3);
    assert_int_equal(fg_jfr_int(&cur), 4);
    assert_int_equal(fg_jfr_int(&cur), 0);
    assert_true(cur.in.bad);
    cur = fg_jfr_cur(&body, 77, 99);
    assert_int_equal(fg_jfr_int(&cur), 0);
    assert_true(cur.in.bad);
}

static void counts_are_no_more_than_bytes(void **state)
{
    struct fg_jfr_body body = {FG_LIT("\x03xyz"), false};
    struct fg_jfr_cur cur = fg_jfr_cur(&body, 0, UINT32_MAX);

    (void)state;
    assert_int_equal(fg_jfr_count(&cur), 3);
    cur = fg_jfr_cur(&body, 0, 3);
    assert_int_equal(fg_jfr_count(&cur), 0);
    assert_true(cur.in.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_become_utf8),
        cmocka_unit_test(constants_are_named),
        cmocka_unit_test(positions_are_those_of_the_chunk),
        cmocka_unit_test(counts_are_no_more_than_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
