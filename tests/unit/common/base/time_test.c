#include "common/base/time.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_real_clock_moves(void **state)
{
    struct fg_clock *clock = fg_clock_real();
    struct timespec pause = {0, 2 * FG_MS_NS};
    int64_t mono_ns = fg_mono_ns(clock);

    (void)state;
    assert_ptr_equal(clock, fg_clock_real());
    assert_int_equal(nanosleep(&pause, NULL), 0);
    assert_true(fg_mono_ns(clock) - mono_ns >= 2 * FG_MS_NS);
    /* After 2023 and before 2200: nanoseconds since 1970, not something else. */
    assert_true(fg_wall_ns(clock) > INT64_C(1672531200) * FG_SECOND_NS);
    assert_true(fg_wall_ns(clock) < INT64_C(7258118400) * FG_SECOND_NS);
}

static void the_manual_clock_stands_still(void **state)
{
    struct fg_clock_manual manual;

    (void)state;
    fg_clock_manual_init(&manual, 5 * FG_MINUTE_NS);
    assert_true(fg_wall_ns(&manual.clock) == 5 * FG_MINUTE_NS);
    assert_true(fg_mono_ns(&manual.clock) == 0);
    fg_clock_manual_advance(&manual, FG_HOUR_NS);
    assert_true(fg_wall_ns(&manual.clock) == 65 * FG_MINUTE_NS);
    assert_true(fg_mono_ns(&manual.clock) == INT64_C(3600000000000));
}

static void a_grid_point_covers_times_up_to_itself(void **state)
{
    static const struct {
        int64_t start_ns, step_ns, time_ns;
        uint64_t want;
    } cases[] = {
        {100, 10, INT64_MIN, 0}, {100, 10, 100, 0}, {100, 10, 101, 1},
        {100, 10, 110, 1},       {100, 10, 111, 2}, {INT64_MIN, 1, INT64_MAX, UINT64_MAX},
        {0, INT64_MAX, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        assert_true(fg_time_grid(cases[i].start_ns, cases[i].step_ns, cases[i].time_ns) ==
                    cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_clock_moves),
        cmocka_unit_test(the_manual_clock_stands_still),
        cmocka_unit_test(a_grid_point_covers_times_up_to_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
