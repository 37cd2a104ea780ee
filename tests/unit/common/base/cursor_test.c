#include "common/base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void varints_are_read_and_bad_ones_refused(void **state)
{
    /* clang-format off */
    static const struct {
        const char *name, *in;
        size_t len;
        uint64_t want;
        size_t left;
        bool bad;
    } cases[] = {
        {"one byte",               "\x7f", 1, 127, 0, false},
        {"two bytes",              "\xac\x02", 2, 300, 0, false},
        {"leaves what follows",    "\x01\x02", 2, 1, 1, false},
        {"longer than needed",     "\x80\x00", 2, 0, 0, false},
        {"largest",                "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX, 0, false},
        {"bit 64",                 "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 0, 0, true},
        {"bit 70 set by the flag", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11, 0, 0, true},
        {"eleven bytes",           "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, 0, 0, true},
        {"empty",                  "", 0, 0, 0, true},
        {"runs past the end",      "\x80", 1, 0, 0, true},
        {"nine bytes and the end", "\x80\x80\x80\x80\x80\x80\x80\x80\x80", 9, 0, 0, true},
        {"three, others follow",   "\xe5\x8e\x26\xff\xff\xff\xff\xff\xff", 9, 624485, 6, false},
        {"eight, others follow",   "\x81\x82\x84\x88\x90\xa0\xc0\x7f\xff", 9, 0xff010101010101, 1, false},
        {"nine, others follow",    "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xff", 10, INT64_MAX, 1, false},
        {"longer, others follow",  "\x81\x80\x80\x00\x01\x02\x03\x04", 8, 1, 4, false},
    };
    /* clang-format on */

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_cur cur = fg_cur(fg_bytes(cases[i].in, cases[i].len));

        print_message("  %s\n", cases[i].name);
        assert_true(fg_cur_varint(&cur) == cases[i].want);
        assert_int_equal(cur.bad, cases[i].bad);
        assert_int_equal(cur.left, cases[i].left);
    }
}

static void nine_byte_varints_are_read(void **state)
{
    /* clang-format off */
    static const struct {
        const char *name, *in;
        size_t len;
        uint64_t want;
        size_t left;
        bool bad;
    } cases[] = {
        {"one byte",            "\x7f", 1, 127, 0, false},
        {"two bytes",           "\xac\x02", 2, 300, 0, false},
        {"leaves what follows", "\x81\x82\x03\x04", 4, 1 | 2 << 7 | 3 << 14, 1, false},
        {"eight bytes",         "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, (UINT64_C(1) << 56) - 1, 0, false},
        {"minus one",           "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9, UINT64_MAX, 0, false},
        {"ninth byte has eight bits", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10, UINT64_C(1) << 63, 1, false},
        {"empty",               "", 0, 0, 0, true},
        {"runs past the end",   "\x80\x80\x80", 3, 0, 0, true},
        {"eight and the end",   "\x80\x80\x80\x80\x80\x80\x80\x80", 8, 0, 0, true},
    };
    /* clang-format on */

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_cur cur = fg_cur(fg_bytes(cases[i].in, cases[i].len));

        print_message("  %s\n", cases[i].name);
        assert_true(fg_cur_varint9(&cur) == cases[i].want);
        assert_int_equal(cur.bad, cases[i].bad);
        assert_int_equal(cur.left, cases[i].left);
    }
}

/* From all short numbers to nearly all of nine bytes. */
static void draw_bytes(uint64_t *random, unsigned share, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        *random = *random * UINT64_C(6364136223846793005) + 1;
        bytes[i] = (uint8_t)((*random >> 33 & 0x7f) | ((*random >> 50) % 16 < share ? 0x80u : 0));
    }
}

static void assert_same(const struct fg_cur *a, const struct fg_cur *b)
{
    assert_int_equal(a->bad, b->bad);
    assert_int_equal(a->left, b->left);
    if (!a->bad)
        assert_ptr_equal(a->ptr, b->ptr);
}

/* Skipping many is as reading them one by one, whatever the bytes. */
static void skipping_moves_as_far_as_reading(void **state)
{
    uint64_t random = 1;
    uint8_t bytes[100];

    (void)state;
    for (unsigned round = 0; round < 40000; round++) {
        bool nine = round % 2 == 0;
        size_t len = round / 2 % (sizeof bytes + 1);
        struct fg_cur slow = fg_cur(fg_bytes(bytes, len)), fast = slow;
        uint64_t count;

        draw_bytes(&random, round / 2500, bytes, len);
        count = (random >> 40) % 40;
        for (uint64_t i = 0; i < count; i++)
            (void)(nine ? fg_cur_varint9(&slow) : fg_cur_varint(&slow));
        (nine ? fg_cur_skip_varint9 : fg_cur_skip_varints)(&fast, count);
        assert_same(&fast, &slow);
    }
}

/* And so is reading many at once. */
static void varints_at_once_equal_varints_one_by_one(void **state)
{
    uint64_t random = 2, numbers[40];
    uint8_t bytes[100];

    (void)state;
    for (unsigned round = 0; round < 40000; round++) {
        size_t len = round % (sizeof bytes + 1);
        struct fg_cur slow = fg_cur(fg_bytes(bytes, len)), fast = slow;
        uint64_t count;

        draw_bytes(&random, round / 2500, bytes, len);
        count = (random >> 40) % FG_COUNT(numbers);
        fg_cur_varints(&fast, numbers, count);
        for (uint64_t i = 0; i < count; i++)
            assert_true(numbers[i] == fg_cur_varint(&slow));
        assert_same(&fast, &slow);
    }
}

static void an_error_sticks(void **state)
{
    struct fg_cur cur = fg_cur(FG_LIT("\x05"
                                      "abcdefgh"));

    (void)state;
    assert_int_equal(fg_cur_take(&cur, 10).len, 0);
    assert_true(cur.bad);
    assert_false(fg_cur_more(&cur));
    assert_int_equal(fg_cur_u8(&cur), 0);
    assert_int_equal(fg_cur_varint(&cur), 0);
    assert_int_equal(fg_cur_le32(&cur), 0);
    assert_int_equal(fg_cur_take(&cur, 0).len, 0);
    assert_false(fg_cur_end(&cur));
}

static void take_is_bounded_by_the_input(void **state)
{
    struct fg_cur cur = fg_cur(FG_LIT("\x03"
                                      "abcde"));

    (void)state;
    assert_true(fg_slice_is(fg_cur_lenbytes(&cur), "abc"));
    assert_false(fg_cur_end(&cur)); /* something is left over */
    assert_true(fg_slice_is(fg_cur_take(&cur, 2), "de"));
    assert_true(fg_cur_end(&cur));
    assert_int_equal(fg_cur_take(&cur, 0).len, 0);
    assert_true(fg_cur_end(&cur));
    assert_int_equal(fg_cur_take(&cur, UINT64_MAX).len, 0);
    assert_true(cur.bad);
}

static void an_empty_input_may_be_null(void **state)
{
    struct fg_cur cur = fg_cur(fg_bytes(NULL, 0));

    (void)state;
    assert_int_equal(fg_cur_take(&cur, 0).len, 0);
    assert_true(fg_cur_end(&cur));
    assert_int_equal(fg_cur_u8(&cur), 0);
    assert_true(cur.bad);
}

static void fixed_width_integers_are_read(void **state)
{
    struct fg_cur cur = fg_cur(FG_LIT("\x04\x03\x02\x01"
                                      "\x18\x17\x16\x15\x14\x13\x12\x11"
                                      "\xa1\xb2"
                                      "\xa1\xb2\xc3\xd4"
                                      "\xf1\xe2\xd3\xc4\xb5\xa6\x97\x88"
                                      "\x01\x02\x03"));

    (void)state;
    assert_true(fg_cur_le32(&cur) == 0x01020304);
    assert_true(fg_cur_le64(&cur) == UINT64_C(0x1112131415161718));
    assert_true(fg_cur_be16(&cur) == 0xa1b2);
    assert_true(fg_cur_be32(&cur) == 0xa1b2c3d4);
    assert_true(fg_cur_be64(&cur) == UINT64_C(0xf1e2d3c4b5a69788));
    assert_false(cur.bad);
    assert_int_equal(fg_cur_be32(&cur), 0); /* three of four bytes */
    assert_true(cur.bad);
}

static void counts_are_bounded_by_the_input(void **state)
{
    static const struct {
        const char *name, *in;
        size_t len, min_bytes;
        uint64_t want;
        bool bad;
    } cases[] = {
        {"exactly as many", "\x02xxxxxx", 7, 3, 2, false},
        {"one too many", "\x03xxxxxxxx", 9, 3, 0, true},
        {"none", "\x00", 1, 1000, 0, false},
        {"huge", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", 11, 1, 0, true},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_cur cur = fg_cur(fg_bytes(cases[i].in, cases[i].len));

        print_message("  %s\n", cases[i].name);
        assert_true(fg_cur_count(&cur, cases[i].min_bytes) == cases[i].want);
        assert_int_equal(cur.bad, cases[i].bad);
    }
}

static void unknown_protobuf_fields_are_skipped(void **state)
{
    static const struct {
        const char *name;
        uint64_t tag;
        const char *in;
        size_t len, left;
        bool bad;
    } cases[] = {
        {"varint", FG_PB_TAG(1, FG_PB_VARINT), "\x80\x01z", 3, 1, false},
        {"64 bits", FG_PB_TAG(1, FG_PB_I64), "12345678z", 9, 1, false},
        {"bytes", FG_PB_TAG(1, FG_PB_LEN), "\x02xyz", 4, 1, false},
        {"32 bits", FG_PB_TAG(1, FG_PB_I32), "1234z", 5, 1, false},
        {"group start", FG_PB_TAG(1, 3), "zz", 2, 0, true},
        {"group end", FG_PB_TAG(1, 4), "zz", 2, 0, true},
        {"type 6", FG_PB_TAG(1, 6), "zz", 2, 0, true},
        {"type 7", FG_PB_TAG(1, 7), "zz", 2, 0, true},
        {"bytes past the end", FG_PB_TAG(1, FG_PB_LEN), "\x05xyz", 4, 0, true},
        {"7 of 64 bits", FG_PB_TAG(1, FG_PB_I64), "1234567", 7, 0, true},
    };

    (void)state;
    assert_int_equal(FG_PB_TAG(4, FG_PB_LEN), 0x22);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_cur cur = fg_cur(fg_bytes(cases[i].in, cases[i].len));

        print_message("  %s\n", cases[i].name);
        fg_pb_skip(&cur, cases[i].tag);
        assert_int_equal(cur.left, cases[i].left);
        assert_int_equal(cur.bad, cases[i].bad);
    }
}

/* Field 1 packed, then one by one, then packed again: all its numbers in order. */
static void repeated_numbers_come_packed_or_not(void **state)
{
    static const char in[] = "\x0a\x03\x01\xac\x02" /* 1, 300 */
                             "\x08\x85\x01"         /* 133 */
                             "\x0a\x00\x08\x07";    /* nothing; 7 */
    static const uint64_t want[] = {1, 300, 133, 7};
    struct fg_cur cur = fg_cur(fg_bytes(in, sizeof in - 1));
    size_t n = 0;

    (void)state;
    while (fg_cur_more(&cur)) {
        struct fg_cur numbers = fg_cur(fg_pb_varints(&cur, fg_cur_varint(&cur)));

        while (fg_cur_more(&numbers))
            assert_int_equal(fg_cur_varint(&numbers), want[n++]);
        assert_true(fg_cur_end(&numbers));
    }
    assert_true(fg_cur_end(&cur));
    assert_int_equal(n, FG_COUNT(want));
    cur = fg_cur(FG_LIT("\x85"));
    assert_int_equal(fg_pb_varints(&cur, FG_PB_TAG(1, FG_PB_VARINT)).len, 0);
    assert_true(cur.bad);
    cur = fg_cur(FG_LIT("\x03\x01"));
    assert_int_equal(fg_pb_varints(&cur, FG_PB_TAG(1, FG_PB_LEN)).len, 0);
    assert_true(cur.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints_are_read_and_bad_ones_refused),
        cmocka_unit_test(nine_byte_varints_are_read),
        cmocka_unit_test(skipping_moves_as_far_as_reading),
        cmocka_unit_test(varints_at_once_equal_varints_one_by_one),
        cmocka_unit_test(an_error_sticks),
        cmocka_unit_test(take_is_bounded_by_the_input),
        cmocka_unit_test(an_empty_input_may_be_null),
        cmocka_unit_test(fixed_width_integers_are_read),
        cmocka_unit_test(counts_are_bounded_by_the_input),
        cmocka_unit_test(unknown_protobuf_fields_are_skipped),
        cmocka_unit_test(repeated_numbers_come_packed_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
