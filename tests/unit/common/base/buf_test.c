#include "common/base/buf.h"
#include "common/base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_maximum_is_exact(void **state)
{
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 5);
    assert_null(buf.ptr);
    fg_buf_puts(&buf, "abcde");
    assert_false(buf.full);
    assert_true(fg_slice_is(fg_buf_slice(&buf), "abcde"));
    fg_buf_append(&buf, NULL, 0);
    assert_false(buf.full);
    fg_buf_putc(&buf, 'f');
    assert_true(buf.full);
    assert_int_equal(buf.len, 5);
    fg_buf_done(&buf);
}

static void nothing_is_appended_after_the_first_miss(void **state)
{
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 4);
    fg_buf_puts(&buf, "ab");
    fg_buf_puts(&buf, "toolong");
    assert_true(buf.full);
    fg_buf_puts(&buf, "c"); /* would fit, but after a hole */
    assert_true(fg_slice_is(fg_buf_slice(&buf), "ab"));
    assert_false(fg_buf_reserve(&buf, 1));
    fg_buf_clear(&buf);
    assert_false(buf.full);
    fg_buf_puts(&buf, "wxyz");
    assert_true(fg_slice_is(fg_buf_slice(&buf), "wxyz"));
    fg_buf_done(&buf);
    assert_null(buf.ptr);
    assert_int_equal(buf.max_bytes, 4); /* done leaves it usable */
}

static void printf_fills_up_to_the_maximum(void **state)
{
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 6);
    fg_buf_printf(&buf, "%d", 12);
    fg_buf_printf(&buf, "%s", "3456");
    assert_false(buf.full);
    assert_true(fg_slice_is(fg_buf_slice(&buf), "123456"));
    fg_buf_printf(&buf, "%s", "");
    assert_false(buf.full);
    fg_buf_printf(&buf, "%c", 'x');
    assert_true(buf.full);
    assert_int_equal(buf.len, 6);
    fg_buf_done(&buf);
}

static void growing_keeps_the_content(void **state)
{
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 100000);
    for (unsigned i = 0; i < 100000; i++)
        fg_buf_putc(&buf, (uint8_t)(i * 7));
    assert_false(buf.full);
    assert_true(buf.cap <= 100000);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(buf.ptr[i], (uint8_t)(i * 7));
    fg_buf_done(&buf);
}

static void varints_are_leb128(void **state)
{
    static const struct {
        const char *name;
        uint64_t value;
        const char *bytes;
        size_t len;
    } cases[] = {
        {"zero", 0, "\x00", 1},
        {"largest of one byte", 127, "\x7f", 1},
        {"least of two", 128, "\x80\x01", 2},
        {"300, the documentation's example", 300, "\xac\x02", 2},
        {"2^63", UINT64_C(1) << 63, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10},
        {"largest", UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf buf;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&buf, 16);
        fg_buf_varint(&buf, cases[i].value);
        assert_true(fg_slice_eq(fg_buf_slice(&buf), fg_bytes(cases[i].bytes, cases[i].len)));
        fg_buf_done(&buf);
    }
}

static void zigzag_keeps_small_numbers_small(void **state)
{
    static const struct {
        int64_t value;
        uint64_t coded;
    } cases[] = {
        {0, 0}, {-1, 1}, {1, 2}, {-2, 3}, {INT64_MAX, UINT64_MAX - 1}, {INT64_MIN, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf buf;
        struct fg_cur cur;

        assert_true(fg_zigzag(cases[i].value) == cases[i].coded);
        assert_true(fg_unzigzag(cases[i].coded) == cases[i].value);
        fg_buf_init(&buf, 16);
        fg_buf_zigzag(&buf, cases[i].value);
        cur = fg_cur(fg_buf_slice(&buf));
        assert_true(fg_cur_zigzag(&cur) == cases[i].value);
        assert_true(fg_cur_end(&cur));
        fg_buf_done(&buf);
    }
}

static void fixed_width_integers_have_their_byte_order(void **state)
{
    static const char want[] = "\x04\x03\x02\x01"
                               "\x18\x17\x16\x15\x14\x13\x12\x11"
                               "\xa1\xb2"
                               "\xa1\xb2\xc3\xd4"
                               "\xf1\xe2\xd3\xc4\xb5\xa6\x97\x88"
                               "\x02xy";
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 64);
    fg_buf_le32(&buf, 0x01020304);
    fg_buf_le64(&buf, UINT64_C(0x1112131415161718));
    fg_buf_be16(&buf, 0xa1b2);
    fg_buf_be32(&buf, 0xa1b2c3d4);
    fg_buf_be64(&buf, UINT64_C(0xf1e2d3c4b5a69788));
    fg_buf_lenbytes(&buf, FG_LIT("xy"));
    assert_int_equal(buf.len, sizeof want - 1);
    assert_memory_equal(buf.ptr, want, sizeof want - 1);
    fg_buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_maximum_is_exact),
        cmocka_unit_test(nothing_is_appended_after_the_first_miss),
        cmocka_unit_test(printf_fills_up_to_the_maximum),
        cmocka_unit_test(growing_keeps_the_content),
        cmocka_unit_test(varints_are_leb128),
        cmocka_unit_test(zigzag_keeps_small_numbers_small),
        cmocka_unit_test(fixed_width_integers_have_their_byte_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
