#include "common/base/hash.h"
#include "common/model/usage_day.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void days_are_those_of_utc(void **state)
{
    (void)state;
    assert_int_equal(fg_usage_day_of(0), 0);
    assert_int_equal(fg_usage_day_of(FG_USAGE_DAY_NS - 1), 0);
    assert_int_equal(fg_usage_day_of(FG_USAGE_DAY_NS), 1);
    assert_int_equal(fg_usage_day_of(-1), -1);
    assert_int_equal(fg_usage_day_of(-FG_USAGE_DAY_NS), -1);
    assert_int_equal(fg_usage_day_of(INT64_MIN), -106752);
    assert_int_equal(fg_usage_day_start_ns(2), 2 * FG_USAGE_DAY_NS);
    assert_true(fg_usage_day_start_ns(-106752) == INT64_MIN);
    assert_true(fg_usage_day_start_ns(INT32_MAX) == INT64_MAX);
}

static void dates_are_written_and_read(void **state)
{
    static const char *const wrong[] = {"",           "2026-11-2",  "2026-11-270", "2026-02-30",
                                        "2026-13-01", "2026-00-10", "2026/11/27",  "20261127xx",
                                        "1600-01-01", "2300-01-01", "2026-1x-01",  " 2026-1-01"};
    char text[FG_USAGE_DATE_BYTES];
    int32_t day;

    (void)state;
    for (int32_t k = -106751; k < 106751; k += 97) {
        fg_usage_day_write(k, text);
        assert_true(fg_usage_day_parse(fg_cstr(text), &day));
        assert_int_equal(day, k);
    }
    fg_usage_day_write(20784, text);
    assert_string_equal(text, "2026-11-27");
    assert_true(fg_usage_day_parse(FG_LIT("2024-02-29"), &day));
    for (size_t i = 0; i < FG_COUNT(wrong); i++)
        assert_false(fg_usage_day_parse(fg_cstr(wrong[i]), &day));
}

/* In steps and at once. */
static void stored_bytes_are_never_rounded(void **state)
{
    struct fg_usage_stored steps = {0, 0}, whole = {0, 0};

    (void)state;
    for (int i = 0; i < 1000; i++)
        fg_usage_stored_add(&steps, 123457, 97);
    fg_usage_stored_add(&whole, 123457, 97 * 1000);
    assert_int_equal(steps.byte_days, whole.byte_days);
    assert_int_equal(steps.byte_seconds, whole.byte_seconds);
    assert_int_equal(whole.byte_days * FG_USAGE_DAY_S + whole.byte_seconds,
                     UINT64_C(123457) * 97 * 1000);
    fg_usage_stored_add(&whole, UINT64_C(1) << 62, FG_USAGE_DAY_S); /* more than 63 bits of both */
    assert_int_equal(whole.byte_days, (UINT64_C(1) << 62) + steps.byte_days);
    fg_usage_stored_add(&whole, UINT64_MAX, UINT64_MAX);
    assert_int_equal(whole.byte_days, INT64_MAX);
}

static void put_row(struct fg_usage_day *day, const char *service, uint64_t n, uint64_t series,
                    struct fg_arena *arena)
{
    const struct fg_usage_row row = {fg_cstr(service), n, {n, 2 * n, 3 * n, 4 * n}, series};

    assert_true(fg_usage_day_add_row(day, &row, arena));
}

static void rows_are_sorted_and_add_up(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_usage_day day = {.day = 5}, copy, more = {.day = 5, .writes = 3};
    struct fg_usage_row total;

    (void)state;
    put_row(&day, "shop", 1, 4, arena);
    put_row(&day, "api", 10, 2, arena);
    put_row(&day, "shop", 100, 3, arena);
    assert_true(fg_usage_day_copy(&copy, &day, arena));
    put_row(&more, "web", 1000, 1, arena);
    more.queries = (struct fg_usage_queries){1, 2, 3, 4};
    more.stored.byte_seconds = FG_USAGE_DAY_S - 1;
    assert_true(fg_usage_day_add(&copy, &more, arena));
    assert_true(fg_usage_day_add(&copy, &more, arena));
    assert_int_equal(day.n_rows, 2); /* the copy has rows of its own */
    assert_int_equal(copy.n_rows, 3);
    assert_true(fg_slice_is(copy.rows[0].service, "api") &&
                fg_slice_is(copy.rows[1].service, "shop"));
    assert_int_equal(copy.rows[1].profiles, 101);
    assert_int_equal(copy.rows[1].series, 4);
    total = fg_usage_day_total(&copy);
    assert_int_equal(total.profiles, 2111);
    assert_true(fg_usage_eq(&total.usage, &(struct fg_usage){2111, 4222, 6333, 8444}));
    assert_int_equal(total.series, 7);
    assert_int_equal(copy.writes, 6);
    assert_int_equal(copy.queries.cpu_us, 8);
    assert_int_equal(copy.stored.byte_days, 1);
    assert_int_equal(copy.stored.byte_seconds, FG_USAGE_DAY_S - 2);
    assert_true(fg_usage_day_is_empty(&(struct fg_usage_day){.day = 9}));
    assert_false(fg_usage_day_is_empty(&copy));
    fg_arena_destroy(arena);
}

/* Against the slow form: a row after another. */
static void days_merge_as_rows_add_up(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < 500; round++) {
        struct fg_usage_day slow = {.day = 5}, fast = slow, parts[3] = {slow, slow, slow};
        struct fg_buf bytes[2];

        for (int part = 0; part < 3; part++) {
            for (uint64_t i = fg_mix64(random++) % 6; i-- > 0;) {
                char name[2] = {(char)('a' + fg_mix64(random++) % 5), '\0'};

                put_row(&parts[part], fg_mix64(random++) % 7 == 0 ? "" : name, i * 7, i, arena);
            }
            for (uint32_t i = 0; i < parts[part].n_rows; i++)
                assert_true(fg_usage_day_add_row(&slow, &parts[part].rows[i], arena));
            assert_true(fg_usage_day_add(&fast, &parts[part], arena));
        }
        for (int i = 0; i < 2; i++) {
            fg_buf_init(&bytes[i], SIZE_MAX);
            fg_usage_day_put(&bytes[i], i == 0 ? &slow : &fast);
        }
        assert_true(fg_slice_eq(fg_buf_slice(&bytes[0]), fg_buf_slice(&bytes[1])));
        for (int i = 0; i < 2; i++)
            fg_buf_done(&bytes[i]);
        fg_arena_reset(arena);
    }
    fg_arena_destroy(arena);
}

static void the_bytes_give_the_day_again(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_usage_day day = {.day = -3,
                               .stored = {INT64_MAX, FG_USAGE_DAY_S - 1},
                               .writes = 7,
                               .queries = {1, 2, INT64_MAX, 4}},
                        read;
    struct fg_buf bytes, again;
    struct fg_cur cur;

    (void)state;
    put_row(&day, "", 1, 0, arena);
    put_row(&day, "shop", 3, 9, arena);
    fg_buf_init(&bytes, 1 << 20);
    fg_buf_init(&again, 1 << 20);
    fg_usage_day_put(&bytes, &day);
    cur = fg_cur(fg_buf_slice(&bytes));
    read = fg_usage_day_get(&cur, arena);
    assert_true(fg_cur_end(&cur));
    assert_int_equal(read.day, -3);
    fg_usage_day_put(&again, &read);
    assert_true(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
    for (size_t len = 0; len < bytes.len; len++) { /* cut anywhere */
        cur = fg_cur(fg_slice_sub(fg_buf_slice(&bytes), 0, len));
        (void)fg_usage_day_get(&cur, arena);
        assert_true(cur.bad);
    }
    fg_buf_done(&bytes);
    fg_buf_done(&again);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_are_those_of_utc),
        cmocka_unit_test(dates_are_written_and_read),
        cmocka_unit_test(stored_bytes_are_never_rounded),
        cmocka_unit_test(rows_are_sorted_and_add_up),
        cmocka_unit_test(days_merge_as_rows_add_up),
        cmocka_unit_test(the_bytes_give_the_day_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
