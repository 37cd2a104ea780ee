#include "common/base/buf.h"
#include "common/base/crc32c.h"
#include "common/storage/store/log_scan.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { HEADER_BYTES = 7, FULL = 1, FIRST, MIDDLE, LAST };

/* ---- writing a log as RocksDB does ---- */

static uint32_t mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/* A batch begins with its sequence number; other bytes follow from where they are. */
static uint64_t sequence;

static void put_fragment(struct fg_buf *log, uint8_t type, size_t len)
{
    struct fg_buf checked;

    fg_buf_init(&checked, 1 << 20);
    fg_buf_putc(&checked, type);
    for (size_t i = 0; i < len; i++)
        fg_buf_putc(&checked, (uint8_t)(i < 8 && type <= FIRST && sequence != 0 ? sequence >> 8 * i
                                                                                : log->len + i));
    fg_buf_le32(log, mask(fg_crc32c(fg_buf_slice(&checked))));
    fg_buf_putc(log, (uint8_t)len);
    fg_buf_putc(log, (uint8_t)(len >> 8));
    fg_buf_put(log, fg_buf_slice(&checked));
    fg_buf_done(&checked);
}

static void put_record(struct fg_buf *log, size_t len)
{
    bool begins = true, ends = false;

    while (!ends) {
        size_t room = FG_LOG_BLOCK_BYTES - log->len % FG_LOG_BLOCK_BYTES, part;

        for (; room < HEADER_BYTES; room = FG_LOG_BLOCK_BYTES - log->len % FG_LOG_BLOCK_BYTES)
            fg_buf_putc(log, 0);
        part = FG_MIN(len, room - HEADER_BYTES);
        ends = part == len;
        put_fragment(log, begins ? (ends ? FULL : FIRST) : ends ? LAST : MIDDLE, part);
        len -= part;
        begins = false;
    }
}

static void put_batch(struct fg_buf *log, uint64_t number, size_t len)
{
    sequence = number;
    put_record(log, len);
    sequence = 0;
}

/* ---- reading it ---- */

static enum fg_log_verdict scan(const struct fg_buf *log, size_t len, uint64_t *ret_end)
{
    struct fg_log_scan scan = {0};

    for (size_t at = 0; at < len; at += FG_LOG_BLOCK_BYTES)
        fg_log_scan_block(&scan, fg_slice_sub(fg_buf_slice(log), at,
                                              FG_MIN(len - at, (size_t)FG_LOG_BLOCK_BYTES)));
    assert_int_equal(scan.at, len);
    *ret_end = scan.end;
    return fg_log_scan_verdict(&scan);
}

static void expect(const struct fg_buf *log, size_t len, enum fg_log_verdict verdict, uint64_t end)
{
    uint64_t found;

    assert_int_equal(scan(log, len, &found), verdict);
    assert_int_equal(found, end);
}

/* Records that meet the ends of blocks in all ways. */
static const size_t sizes[] = {0,     1,     100,   FG_LOG_BLOCK_BYTES - 3 * HEADER_BYTES - 101,
                               5,     32000, 33000, 3 * FG_LOG_BLOCK_BYTES,
                               32700, 60,    7,     100000};

static size_t put_all(struct fg_buf *log, uint64_t ends[FG_COUNT(sizes)])
{
    for (size_t i = 0; i < FG_COUNT(sizes); i++) {
        put_record(log, sizes[i]);
        ends[i] = log->len;
    }
    return log->len;
}

/* ---- cases ---- */

static void a_whole_log_is_whole(void **state)
{
    uint64_t ends[FG_COUNT(sizes)];
    struct fg_buf log;

    (void)state;
    fg_buf_init(&log, 1 << 20);
    expect(&log, 0, FG_LOG_WHOLE, 0);
    put_all(&log, ends);
    for (size_t i = 0; i < FG_COUNT(sizes); i++)
        expect(&log, ends[i], FG_LOG_WHOLE, ends[i]);
    fg_buf_done(&log);
}

/* Wherever it is cut: what is in front of the record that is cut is there. */
static void a_cut_log_ends_with_the_last_whole_record(void **state)
{
    uint64_t ends[FG_COUNT(sizes)];
    struct fg_buf log;
    size_t whole = 0, len;

    (void)state;
    fg_buf_init(&log, 1 << 20);
    len = put_all(&log, ends);
    for (size_t cut = 0; cut <= len; cut += cut % 37 == 0 ? 1 : 13) {
        uint64_t end = 0, found;

        for (whole = 0; whole < FG_COUNT(sizes) && ends[whole] <= cut; whole++)
            end = ends[whole];
        assert_int_not_equal(scan(&log, cut, &found), FG_LOG_DAMAGED);
        assert_int_equal(found, end);
        assert_int_equal(scan(&log, cut, &found), cut == end ? FG_LOG_WHOLE : FG_LOG_TORN);
    }
    fg_buf_done(&log);
}

/* In the last record it is torn, in any other one it is damage: that one was synced. */
static void a_flipped_byte_is_damage_unless_it_is_in_the_last_record(void **state)
{
    uint64_t ends[FG_COUNT(sizes)];
    struct fg_buf log;
    size_t len;

    (void)state;
    fg_buf_init(&log, 1 << 20);
    len = put_all(&log, ends);
    for (size_t record = 1; record < FG_COUNT(sizes); record++) {
        uint64_t begin = ends[record - 1];
        bool last = record == FG_COUNT(sizes) - 1;

        /* A length that is wrong may hide the record behind it, and only that. */
        for (uint64_t at = ends[record] - FG_MIN(sizes[record], (size_t)20); at < ends[record];
             at++) {
            log.ptr[at] ^= 0x10;
            expect(&log, len, last ? FG_LOG_TORN : FG_LOG_DAMAGED, begin);
            log.ptr[at] ^= 0x10;
        }
    }
    fg_buf_done(&log);
}

/* A file that was made longer before its bytes came. */
static void zeros_behind_the_last_record_are_torn(void **state)
{
    struct fg_buf log;
    uint64_t end;

    (void)state;
    fg_buf_init(&log, 1 << 20);
    put_record(&log, 1000);
    put_record(&log, 40000);
    end = log.len;
    while (log.len < 3 * FG_LOG_BLOCK_BYTES)
        fg_buf_putc(&log, 0);
    expect(&log, end + 1, FG_LOG_TORN, end);
    expect(&log, end + 100, FG_LOG_TORN, end);
    expect(&log, log.len, FG_LOG_TORN, end);
    fg_buf_done(&log);
}

/* Pages of one record that were written in another order: its end is there, its middle is not. */
static void a_hole_in_the_last_record_counts_as_torn(void **state)
{
    struct fg_buf log;
    uint64_t end;

    (void)state;
    fg_buf_init(&log, 1 << 20);
    put_record(&log, 1000);
    end = log.len;
    put_record(&log, 5 * FG_LOG_BLOCK_BYTES);
    memset(log.ptr + 2 * FG_LOG_BLOCK_BYTES, 0, FG_LOG_BLOCK_BYTES);
    expect(&log, log.len, FG_LOG_TORN, end);
    put_record(&log, 10); /* but it was synced when the next one was begun */
    expect(&log, log.len, FG_LOG_DAMAGED, end);
    fg_buf_done(&log);
}

/* A record that begins in another one, or goes on with none, was never written so. */
static void fragments_out_of_order_are_damage(void **state)
{
    static const struct {
        const char *name;
        uint8_t types[3];
        enum fg_log_verdict verdict;
    } cases[] = {
        {"begins twice", {FIRST, FIRST, LAST}, FG_LOG_DAMAGED},
        {"whole within another", {FIRST, FULL, LAST}, FG_LOG_DAMAGED},
        {"a middle alone", {MIDDLE, 0, 0}, FG_LOG_TORN},
        {"an end alone", {LAST, 0, 0}, FG_LOG_TORN},
        {"an end alone, and more", {LAST, FULL, 0}, FG_LOG_DAMAGED},
        {"no end", {FIRST, MIDDLE, 0}, FG_LOG_TORN},
        {"of no type", {9, 0, 0}, FG_LOG_TORN},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf log;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&log, 1 << 20);
        for (size_t n = 0; n < FG_COUNT(cases[i].types) && cases[i].types[n] != 0; n++)
            put_fragment(&log, cases[i].types[n], 50);
        expect(&log, log.len, cases[i].verdict, 0);
        fg_buf_done(&log);
    }
}

/* What a write that failed has left is cut off like what a crash has. */
static void records_behind_the_last_acknowledged_are_torn(void **state)
{
    static const struct {
        uint64_t sequence_max;
        enum fg_log_verdict verdict;
        unsigned whole; /* records */
    } cases[] = {{0, FG_LOG_WHOLE, 3},  {1000, FG_LOG_WHOLE, 3}, {300, FG_LOG_WHOLE, 3},
                 {299, FG_LOG_TORN, 2}, {200, FG_LOG_TORN, 2},   {199, FG_LOG_DAMAGED, 1},
                 {5, FG_LOG_DAMAGED, 0}};
    uint64_t ends[4] = {0};
    struct fg_buf log;

    (void)state;
    fg_buf_init(&log, 1 << 20);
    for (unsigned i = 0; i < 3; i++) { /* the second one spans blocks */
        put_batch(&log, (i + 1) * UINT64_C(100), i == 1 ? 2 * FG_LOG_BLOCK_BYTES : 50);
        ends[i + 1] = log.len;
    }
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_log_scan scan = {.sequence_max = cases[i].sequence_max};

        for (size_t at = 0; at < log.len; at += FG_LOG_BLOCK_BYTES)
            fg_log_scan_block(&scan, fg_slice_sub(fg_buf_slice(&log), at, FG_LOG_BLOCK_BYTES));
        assert_int_equal(fg_log_scan_verdict(&scan), cases[i].verdict);
        assert_int_equal(scan.end, ends[cases[i].whole]);
    }
    fg_buf_done(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_log_is_whole),
        cmocka_unit_test(a_cut_log_ends_with_the_last_whole_record),
        cmocka_unit_test(a_flipped_byte_is_damage_unless_it_is_in_the_last_record),
        cmocka_unit_test(zeros_behind_the_last_record_are_torn),
        cmocka_unit_test(a_hole_in_the_last_record_counts_as_torn),
        cmocka_unit_test(fragments_out_of_order_are_damage),
        cmocka_unit_test(records_behind_the_last_acknowledged_are_torn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
