/* Sums by value against a slow list, in any order of values. */
#include "common/base/str.h"
#include "querier/value_totals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { VALUES = 40, ADDS = 200, ROUNDS = 400 };

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = fg_mix64(*random + 1);
    return *random % below;
}

/* The texts v00 to v39. */
static struct fg_slice text_of(unsigned i)
{
    static char texts[VALUES][8];

    (void)snprintf(texts[i], sizeof texts[i], "v%02u", i);
    return fg_cstr(texts[i]);
}

static void each_value_gets_what_was_added(void **state)
{
    uint64_t random = 18;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct qry_label_value values[VALUES];
        int64_t sums[VALUES], want[VALUES] = {0};
        unsigned numbers[VALUES], next = 0, step = (unsigned)draw(&random, 3);
        struct qry_value_totals totals = {.values = values, .totals = sums};

        /* Each second value is in the list, none, or all. */
        for (unsigned i = 0; i < VALUES; i++)
            if (draw(&random, 2) < round % 3) {
                numbers[totals.n] = i;
                values[totals.n++] = (struct qry_label_value){.text = text_of(i)};
            }
        qry_value_totals_clear(&totals);
        for (unsigned i = 0; i < ADDS; i++) {
            int64_t sum = (int64_t)draw(&random, 100) - 20;

            /* In order with steps of 1 or 2, or in any. */
            next = step == 0 ? (unsigned)draw(&random, VALUES) : (next + step) % VALUES;
            qry_value_totals_add(&totals, text_of(next), sum);
            want[next] += sum;
        }
        for (size_t i = 0; i < totals.n; i++)
            assert_int_equal(sums[i], want[numbers[i]]);
        assert_int_equal(totals.total, 0);
    }
}

static void sums_stay_at_the_greatest_number(void **state)
{
    struct qry_label_value values[] = {{.text = FG_LIT("a")}};
    int64_t sum = 0;
    struct qry_value_totals totals = {.values = values, .n = 1, .totals = &sum};

    (void)state;
    qry_value_totals_add(&totals, FG_LIT("a"), INT64_MAX);
    qry_value_totals_add(&totals, FG_LIT("a"), 1);
    assert_true(sum == INT64_MAX);
    qry_value_totals_clear(&totals);
    assert_true(sum == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_gets_what_was_added),
        cmocka_unit_test(sums_stay_at_the_greatest_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
