#include "common/base/time.h"
#include "common/model/tenant_rate.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MIB = 1024 * 1024 };

/* 2 MiB a second, 4 MiB at a time. */
static const struct fg_limit_settings limits = {.ingestion_rate_mb = 2,
                                                .ingestion_burst_size_mb = 4};

static bool take(struct fg_rates *rates, const char *tenant, double mib, double at_s)
{
    struct fg_err err;

    return fg_rates_take(rates, fg_cstr(tenant), &limits, (uint64_t)(mib * MIB),
                         (int64_t)(at_s * FG_SECOND_NS), &err) == FG_OK;
}

static void buckets_start_full_and_fill_with_time(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);

    (void)state;
    assert_true(take(rates, "a", 4, 100));
    assert_false(take(rates, "a", 0.1, 100));
    assert_true(take(rates, "a", 0.9, 100.5));
    assert_false(take(rates, "a", 0.2, 100.5));
    assert_true(take(rates, "a", 0.1, 100.5));
    assert_true(take(rates, "a", 4, 1000)); /* no more than the burst, however long it took */
    assert_false(take(rates, "a", 0.1, 1000));
    assert_false(take(rates, "a", 4.1, 2000)); /* never */
    fg_rates_destroy(rates);
}

static void a_refusal_takes_nothing(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);

    (void)state;
    assert_true(take(rates, "a", 3, 0));
    assert_false(take(rates, "a", 2, 0));
    assert_true(take(rates, "a", 1, 0));
    fg_rates_destroy(rates);
}

static void tenants_do_not_share(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);

    (void)state;
    assert_true(take(rates, "a", 4, 0));
    for (int i = 0; i < 100; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "b%d", i);
        assert_true(take(rates, name, 4, 0));
    }
    assert_false(take(rates, "a", 1, 0));
    assert_false(take(rates, "b7", 1, 0));
    fg_rates_destroy(rates);
}

static void a_clock_that_stands_still_or_goes_back_gives_nothing(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);

    (void)state;
    assert_true(take(rates, "a", 4, 10));
    assert_false(take(rates, "a", 1, 5));
    assert_false(take(rates, "a", 1, 10));
    assert_true(take(rates, "a", 1, 10.5));
    fg_rates_destroy(rates);
}

static void without_a_rate_everything_is_accepted(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);
    const struct fg_limit_settings none = {.ingestion_burst_size_mb = 1};
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_rates_take(rates, FG_LIT("a"), &none, UINT64_MAX, 0, &err), FG_OK);
    fg_rates_destroy(rates);
}

static void a_refusal_names_limit_value_and_setting(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_rates_take(rates, FG_LIT("a"), &limits, (uint64_t)5 * MIB, 0, &err),
                     FG_E_LIMIT);
    assert_string_equal(err.msg, "push rate limit (2.0 MiB) exceeded while adding 5120.0 KiB "
                                 "(limits.ingestion_rate_mb, limits.ingestion_burst_size_mb)");
    fg_rates_destroy(rates);
}

/* Of tenants that stopped nothing is kept; what is under way is not forgotten for others. */
static void buckets_of_idle_tenants_are_removed(void **state)
{
    struct fg_rates *rates = fg_rates_create(100);
    struct fg_err err;
    uint32_t most = 0;

    (void)state;
    assert_true(take(rates, "busy", 4, 0));
    for (int i = 0; i < 5000; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "t%d", i);
        assert_true(take(rates, name, 0.2, i * 0.01)); /* full again after 0.1 s */
        most = FG_MAX(most, fg_rates_count(rates));
        if (i == 100)
            assert_false(take(rates, "busy", 3, 1));
    }
    assert_true(most <= 100);
    for (int i = 0; i < 200; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "u%d", i);
        assert_true(take(rates, name, 1, 100) == (i < 100));
    }
    assert_int_equal(fg_rates_take(rates, FG_LIT("one more"), &limits, 1, 100 * FG_SECOND_NS, &err),
                     FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "tenants_max"));
    assert_true(take(rates, "u0", 1, 100));         /* who is known goes on */
    assert_true(take(rates, "one more", 1, 102.1)); /* when one is idle */
    fg_rates_destroy(rates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_start_full_and_fill_with_time),
        cmocka_unit_test(a_refusal_takes_nothing),
        cmocka_unit_test(tenants_do_not_share),
        cmocka_unit_test(buckets_of_idle_tenants_are_removed),
        cmocka_unit_test(a_clock_that_stands_still_or_goes_back_gives_nothing),
        cmocka_unit_test(without_a_rate_everything_is_accepted),
        cmocka_unit_test(a_refusal_names_limit_value_and_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
