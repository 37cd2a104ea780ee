#include "deploy/cli/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct cli_cost_prices s3 = {CLI_COST_GB_MONTH, CLI_COST_THOUSAND_WRITES,
                                          CLI_COST_THOUSAND_READS};

static void about(double got, double wanted)
{
    if (fabs(got - wanted) > 1e-9 * fabs(wanted) + 1e-12)
        fail_msg("%.12f, not %.12f", got, wanted);
}

static void a_gigabyte_for_a_month_is_its_price(void **state)
{
    /* 730 hours: 30 days and 10 hours. */
    const uint64_t gb = UINT64_C(1) << 30;
    const struct cli_cost_used used = {.days = 31,
                                       .stored_byte_days = 30 * gb,
                                       .stored_byte_seconds = 10 * 3600 * gb,
                                       .writes = 2000,
                                       .reads = 10000};
    struct cli_cost cost = cli_cost_of(&s3, &used);

    (void)state;
    about(cost.gb_months, 1);
    about(cost.storage, 0.023);
    about(cost.writes, 0.01);
    about(cost.reads, 0.004);
    about(cost.total, 0.037);
    about(cost.month, 0.037 / 31 * 730 / 24);
}

static void nothing_costs_nothing(void **state)
{
    struct cli_cost cost = cli_cost_of(&s3, &(struct cli_cost_used){.days = 0});

    (void)state;
    about(cost.total, 0);
    about(cost.month, 0);
}

static void prices_are_checked(void **state)
{
    static const char *const wrong[] = {"", "x", "-1", "nan", "inf", "1e7", "0.1$"};
    double price = 7;
    struct fg_err err;

    (void)state;
    assert_int_equal(cli_cost_read_price("--gb-month", NULL, &price, &err), FG_OK);
    about(price, 7);
    assert_int_equal(cli_cost_read_price("--gb-month", "0.006", &price, &err), FG_OK);
    about(price, 0.006);
    for (size_t i = 0; i < FG_COUNT(wrong); i++)
        assert_int_equal(cli_cost_read_price("--gb-month", wrong[i], &price, &err), FG_E_INVALID);
    about(price, 0.006);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gigabyte_for_a_month_is_its_price),
        cmocka_unit_test(nothing_costs_nothing),
        cmocka_unit_test(prices_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
