/* Sums saturate, differences wrap; neither is undefined, which the sanitizer watches. */
#include "common/base/value.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void sums_saturate(void **state)
{
    static const struct {
        int64_t a, b, sum, difference;
    } cases[] = {
        {0, 0, 0, 0},
        {3, 4, 7, -1},
        {INT64_MAX, 0, INT64_MAX, INT64_MAX},
        {INT64_MAX - 1, 1, INT64_MAX, INT64_MAX - 2},
        {INT64_MAX, 1, INT64_MAX, INT64_MAX - 1},
        {1, INT64_MAX, INT64_MAX, 1 - INT64_MAX},
        {INT64_MAX, INT64_MAX, INT64_MAX, 0},
        {INT64_MIN, -1, INT64_MIN, INT64_MIN + 1},
        {INT64_MIN, INT64_MIN, INT64_MIN, 0},
        {INT64_MIN, INT64_MAX, -1, INT64_MIN},
        {INT64_MAX, INT64_MIN, -1, INT64_MAX},
        {0, INT64_MIN, INT64_MIN, INT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        uint64_t sum = (uint64_t)cases[i].a;

        print_message("  case %zu\n", i);
        assert_int_equal(fg_value_add(cases[i].a, cases[i].b), cases[i].sum);
        assert_int_equal(fg_value_sub(cases[i].a, cases[i].b), cases[i].difference);
        fg_value_sum(&sum, (uint64_t)cases[i].b);
        assert_int_equal(sum, cases[i].sum);
    }
}

static void products_saturate(void **state)
{
    static const struct {
        int64_t a;
        uint64_t factor;
        int64_t want;
    } cases[] = {
        {0, UINT64_MAX, 0},
        {3, 4, 12},
        {-3, 4, -12},
        {INT64_MAX, 1, INT64_MAX},
        {INT64_MAX / 2, 3, INT64_MAX},
        {1, UINT64_MAX, INT64_MAX},
        {-1, UINT64_MAX, INT64_MIN},
        {INT64_MIN, 2, INT64_MIN},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  case %zu\n", i);
        assert_int_equal(fg_value_mul(cases[i].a, cases[i].factor), cases[i].want);
    }
}

/* What is encoded as a difference comes back, however far apart the two are. */
static void differences_wrap(void **state)
{
    static const int64_t values[] = {0, 1, -1, 1700000000, INT64_MAX, INT64_MIN, INT64_MAX - 1};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(values); i++)
        for (size_t k = 0; k < FG_COUNT(values); k++)
            assert_int_equal(fg_wrap_add(values[k], fg_wrap_sub(values[i], values[k])), values[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_saturate),
        cmocka_unit_test(products_saturate),
        cmocka_unit_test(differences_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
