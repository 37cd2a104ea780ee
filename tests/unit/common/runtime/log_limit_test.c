#include "common/base/time.h"
#include "common/runtime/log_limit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char noisy[] = "noisy", other[] = "other";

static struct fg_log_limit limit; /* large for a stack */
static const int64_t START_NS = 1000 * FG_SECOND_NS;

static int clear(void **state)
{
    (void)state;
    limit = (struct fg_log_limit){0};
    return 0;
}

static unsigned admitted(const char *msg, enum fg_log_level level, unsigned lines, int64_t from_ns,
                         int64_t every_ns)
{
    unsigned n = 0;

    for (unsigned i = 0; i < lines; i++)
        n += fg_log_limit_admit(&limit, msg, level, from_ns + i * every_ns);
    return n;
}

static void after_a_burst_ten_lines_a_second_are_admitted(void **state)
{
    (void)state;
    assert_int_equal(admitted(noisy, FG_LOG_WARN, 250, START_NS, 0), 100);
    assert_int_equal(admitted(other, FG_LOG_WARN, 1, START_NS, 0), 1);
    /* A thousand a second for an hour. */
    assert_int_equal(admitted(noisy, FG_LOG_WARN, 3600 * 1000, START_NS + FG_MS_NS, FG_MS_NS),
                     3600 * 10);
    /* Ten seconds of silence, and there may be a burst again. */
    assert_int_equal(
        admitted(noisy, FG_LOG_WARN, 250, START_NS + 3600 * FG_SECOND_NS + 10 * FG_SECOND_NS, 0),
        100);
}

static void debug_lines_may_be_ten_times_as_frequent(void **state)
{
    (void)state;
    assert_int_equal(admitted(noisy, FG_LOG_DEBUG, 250, START_NS, 0), 100);
    assert_int_equal(admitted(noisy, FG_LOG_DEBUG, 10 * 1000, START_NS + FG_MS_NS, FG_MS_NS),
                     10 * 100);
}

static void suppressed_lines_are_reported_a_second_later(void **state)
{
    struct fg_log_speaker owing;

    (void)state;
    (void)admitted(noisy, FG_LOG_WARN, 250, START_NS, 0);
    (void)admitted(other, FG_LOG_INFO, 101, START_NS + FG_MS_NS, 0);
    assert_false(fg_log_limit_take_owing(&limit, START_NS + FG_SECOND_NS - 1, &owing));
    assert_true(fg_log_limit_take_owing(&limit, START_NS + FG_SECOND_NS, &owing));
    assert_ptr_equal(owing.msg, noisy);
    assert_int_equal(owing.level, FG_LOG_WARN);
    assert_int_equal(owing.left_out, 150);
    assert_false(fg_log_limit_take_owing(&limit, START_NS + FG_SECOND_NS, &owing));
    assert_true(fg_log_limit_take_owing(&limit, START_NS + FG_SECOND_NS + FG_MS_NS, &owing));
    assert_ptr_equal(owing.msg, other);
    assert_int_equal(owing.left_out, 1);
    assert_false(fg_log_limit_take_owing(&limit, START_NS + FG_MINUTE_NS, &owing));
}

/* More messages than there is room for: those without a place are not limited, as they were never
 * many. */
static void a_full_table_limits_nothing(void **state)
{
    static const char names[FG_LOG_SPEAKERS + 1];

    (void)state;
    for (size_t i = 0; i < FG_LOG_SPEAKERS; i++)
        assert_int_equal(admitted(&names[i], FG_LOG_WARN, 101, START_NS, 0), 100);
    assert_int_equal(admitted(&names[FG_LOG_SPEAKERS], FG_LOG_WARN, 101, START_NS, 0), 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(after_a_burst_ten_lines_a_second_are_admitted, clear),
        cmocka_unit_test_setup(debug_lines_may_be_ten_times_as_frequent, clear),
        cmocka_unit_test_setup(suppressed_lines_are_reported_a_second_later, clear),
        cmocka_unit_test_setup(a_full_table_limits_nothing, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
