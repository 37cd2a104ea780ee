/* A binary search finds the same place as looking at each item. */
#include "common/base/def.h"
#include "common/base/search.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint32_t slow(const uint32_t *sorted, uint32_t from, uint32_t to, uint32_t wanted)
{
    while (from < to && sorted[from] < wanted)
        from++;
    return from;
}

static void place_is_that_of_a_linear_search(void **state)
{
    uint32_t sorted[33];

    (void)state;
    for (uint32_t i = 0; i < FG_COUNT(sorted); i++)
        sorted[i] = i / 3 * 2; /* several are equal, and every second number is missing */
    for (uint32_t from = 0; from <= FG_COUNT(sorted); from++)
        for (uint32_t to = from; to <= FG_COUNT(sorted); to++)
            for (uint32_t wanted = 0; wanted < 25; wanted++)
                assert_int_equal(fg_lower_bound(i, from, to, sorted[i] < wanted),
                                 slow(sorted, from, to, wanted));
}

static void greatest_number_is_no_overflow(void **state)
{
    uint32_t to = UINT32_MAX;

    (void)state;
    assert_int_equal(fg_lower_bound(i, 0, to, i < UINT32_MAX - 1), UINT32_MAX - 1);
    assert_int_equal(fg_lower_bound(i, 0, to, true), UINT32_MAX);
    assert_int_equal(fg_lower_bound(i, 5, to, false), 5);
}

static void arguments_are_evaluated_once(void **state)
{
    unsigned begun = 0, ended = 0;
    size_t at;

    (void)state;
    at = fg_lower_bound(i, (size_t)begun++, (size_t)(100 + ended++), i < 42);
    assert_int_equal(at, 42);
    assert_int_equal(begun, 1);
    assert_int_equal(ended, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_is_that_of_a_linear_search),
        cmocka_unit_test(greatest_number_is_no_overflow),
        cmocka_unit_test(arguments_are_evaluated_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
