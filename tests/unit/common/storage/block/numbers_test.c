/* Numbers in two streams, columns of values: what goes in comes out; damage is refused. */
#include "common/base/hash.h"
#include "common/storage/block/column.h"
#include "common/storage/block/numbers.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { COUNT_MAX = 200 };

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

/* With the bytes behind them that a reader may look at, and no more. */
static struct fg_slice with_room(const struct fg_buf *bytes, uint8_t **ret_copy)
{
    *ret_copy = fg_calloc(bytes->len + FG_BLOCK_NUMBERS_BEHIND, 1);
    if (bytes->len > 0)
        memcpy(*ret_copy, bytes->ptr, bytes->len);
    return fg_bytes(*ret_copy, bytes->len);
}

static void numbers_are_read_back(void **state)
{
    static const uint64_t edges[] = {0,     1,          255,        256,       65535,
                                     65536, UINT32_MAX, 1ull << 32, UINT64_MAX};
    uint64_t numbers[COUNT_MAX], out[COUNT_MAX + FG_BLOCK_NUMBERS_SPARE], random = 1;

    (void)state;
    for (uint32_t count = 0; count <= COUNT_MAX; count += 1 + count / 10) {
        for (size_t limit = 1; limit <= FG_COUNT(edges); limit++) {
            struct fg_buf bits, bytes;
            struct fg_slice in;
            uint8_t *copy;
            bool wide;

            for (uint32_t i = 0; i < count; i++)
                numbers[i] = edges[next_random(&random) % limit];
            wide = fg_block_numbers_wide(numbers, count);
            fg_buf_init(&bits, 1 << 16);
            fg_buf_init(&bytes, 1 << 16);
            fg_block_numbers_put(numbers, count, wide, &bits, &bytes);
            in = with_room(&bytes, &copy);
            assert_int_equal(bits.len, fg_block_bits_bytes(count));
            assert_true(fg_block_numbers_get(fg_buf_slice(&bits), in, count, wide, out));
            assert_memory_equal(out, numbers, count * sizeof *out);
            if (in.len > 0)
                assert_false(fg_block_numbers_get(
                    fg_buf_slice(&bits), fg_slice_sub(in, 0, in.len - 1), count, wide, out));
            free(copy);
            fg_buf_done(&bits);
            fg_buf_done(&bytes);
        }
    }
}

static void ranks_are_read_back(void **state)
{
    static const uint32_t ranks[] = {0, 1, 5, 261, 262, 66000, 131537, 20000000};
    uint32_t out[FG_COUNT(ranks) + FG_BLOCK_NUMBERS_SPARE];

    (void)state;
    for (uint32_t count = 0; count <= FG_COUNT(ranks); count++) {
        uint32_t limit = count == 0 ? 0 : ranks[count - 1] + 1;
        struct fg_buf bits, bytes;
        struct fg_slice in;
        uint8_t *copy;

        fg_buf_init(&bits, 1 << 16);
        fg_buf_init(&bytes, 1 << 16);
        fg_block_ranks_put(ranks, count, &bits, &bytes);
        in = with_room(&bytes, &copy);
        assert_true(fg_block_ranks_get(fg_buf_slice(&bits), in, count, limit, out));
        assert_memory_equal(out, ranks, count * sizeof *out);
        if (count > 0)
            assert_false(fg_block_ranks_get(fg_buf_slice(&bits), in, count, limit - 1, out));
        free(copy);
        fg_buf_done(&bits);
        fg_buf_done(&bytes);
    }
}

static void codes_after_the_last_number_are_refused(void **state)
{
    const uint8_t bits[] = {0x10}, bytes[1 + FG_BLOCK_NUMBERS_BEHIND] = {7};
    uint64_t out[4];

    (void)state;
    assert_true(fg_block_numbers_get(fg_bytes(bits, 1), fg_bytes(bytes, 1), 3, false, out));
    assert_int_equal(out[2], 7);
    assert_false(fg_block_numbers_get(fg_bytes(bits, 1), fg_bytes(bytes, 1), 2, false, out));
}

static const struct {
    const char *name;
    uint64_t before[3], earlier[3], values[3];
    enum fg_block_column_kind kind;
    uint64_t scale;
} columns[] = {
    {"nothing", {1, 2, 3}, {0}, {0, 0, 0}, FG_BLOCK_COLUMN_ZERO, 0},
    {"a period", {0}, {0}, {300, 100, 0}, FG_BLOCK_COLUMN_SCALED, 100},
    {"a multiple", {0}, {1, 2, 0}, {48, 96, 0}, FG_BLOCK_COLUMN_MULTIPLE, 48},
    {"no multiple, for one is not", {0}, {1, 2, 0}, {48, 96, 48}, FG_BLOCK_COLUMN_SCALED, 48},
    {"what it was and a little", {9000, 70, 5}, {0}, {9008, 70, 5}, FG_BLOCK_COLUMN_DELTA, 8},
    {"less than it was", {900, 70, 5}, {0}, {899, 70, 5}, FG_BLOCK_COLUMN_DELTA, 1},
    {"half of all numbers away",
     {0, 1ull << 63, 0},
     {0},
     {1ull << 63, 1ull << 63, 0},
     FG_BLOCK_COLUMN_SCALED,
     1ull << 63},
    {"as far away as can be, each way",
     {1ull << 63, 5, UINT64_MAX},
     {0},
     {0, 5, UINT64_MAX},
     FG_BLOCK_COLUMN_DELTA,
     1ull << 63},
};

static void columns_are_read_back(void **state)
{
    (void)state;
    for (size_t c = 0; c < FG_COUNT(columns); c++) {
        uint64_t numbers[3] = {0}, got[3];
        struct fg_block_column column = fg_block_column_choose(
            columns[c].values, 3, columns[c].earlier, 3, 1, columns[c].before);

        print_message("  %s\n", columns[c].name);
        assert_int_equal(column.kind, columns[c].kind);
        assert_true(column.scale == columns[c].scale);
        if (!fg_block_column_has_numbers(&column))
            continue;
        fg_block_column_numbers(&column, columns[c].values, 3, columns[c].before, numbers);
        fg_block_column_values(&column, 3, numbers, got);
        for (size_t i = 0; i < 3; i++)
            assert_true(got[i] +
                            (column.kind == FG_BLOCK_COLUMN_DELTA ? columns[c].before[i] : 0) ==
                        columns[c].values[i]);
    }
}

static void bad_heads_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool delta, good;
    } heads[] = {
        {"\x00", 1, false, true},
        {"\x10", 1, false, false},
        {"\x01\x05", 2, false, true},
        {"\x11\x05", 2, false, true},
        {"\x01\x00", 2, false, false},
        {"\x02\x01\x05", 3, false, true},
        {"\x02\x02\x05", 3, false, false},
        {"\x12\x01\x05", 3, false, false},
        {"\x03\x01", 2, false, false},
        {"\x03\x01", 2, true, true},
        {"\x04\x01", 2, true, false},
        {"\x01", 1, true, false},
        {"", 0, true, false},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(heads); i++) {
        struct fg_cur cur = fg_cur(fg_bytes(heads[i].bytes, heads[i].len));
        struct fg_block_column column;

        print_message("  %zu\n", i);
        assert_int_equal(fg_block_column_get_head(&cur, 2, heads[i].delta, &column), heads[i].good);
        if (heads[i].good)
            assert_true(fg_cur_end(&cur));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_back),
        cmocka_unit_test(ranks_are_read_back),
        cmocka_unit_test(codes_after_the_last_number_are_refused),
        cmocka_unit_test(columns_are_read_back),
        cmocka_unit_test(bad_heads_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
