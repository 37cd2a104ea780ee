#include "common/base/time.h"
#include "common/model/tenant_rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MIB = 1024 * 1024 };

/* 2 MiB a second, 4 MiB at a time. */
static const struct fg_rate_limit limits = {2, 4, "ingestion_rate_mb"};

static bool take(struct fg_rates *rates, const char *tenant, double mib, double at_s)
{
    struct fg_err err;
    double used;

    return fg_rates_take(rates, fg_cstr(tenant), &limits, (uint64_t)(mib * MIB),
                         (int64_t)(at_s * FG_SECOND_NS), &used, &err) == FG_OK;
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
    const struct fg_rate_limit none = {.burst_mb = 1};
    struct fg_err err;
    double used;

    (void)state;
    assert_int_equal(fg_rates_take(rates, FG_LIT("a"), &none, UINT64_MAX, 0, &used, &err), FG_OK);
    assert_true(used == 0);
    fg_rates_destroy(rates);
}

static void a_refusal_names_limit_value_and_setting(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);
    struct fg_err err;
    double used;

    (void)state;
    assert_int_equal(fg_rates_take(rates, FG_LIT("a"), &limits, (uint64_t)5 * MIB, 0, &used, &err),
                     FG_E_LIMIT);
    assert_string_equal(err.msg, "push rate limit (2.0 MiB) exceeded while adding 5120.0 KiB "
                                 "(limits.ingestion_rate_mb)");
    fg_rates_destroy(rates);
}

/* Of tenants that stopped nothing is kept; what is under way is not forgotten for others. */
static void buckets_of_idle_tenants_are_removed(void **state)
{
    struct fg_rates *rates = fg_rates_create(100);
    struct fg_err err;
    uint32_t most = 0;
    double used;

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
    assert_int_equal(
        fg_rates_take(rates, FG_LIT("one more"), &limits, 1, 100 * FG_SECOND_NS, &used, &err),
        FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "tenants_max"));
    assert_true(take(rates, "u0", 1, 100));         /* who is known goes on */
    assert_true(take(rates, "one more", 1, 102.1)); /* when one is idle */
    fg_rates_destroy(rates);
}

/* ---- shares ---- */

/* Reports, and hears that `processes` of the members are offered `all` MiB a second together, or as
 * much as this one. */
static void meet(struct fg_rates *rates, uint32_t members, double all, uint32_t processes,
                 double at_s)
{
    struct fg_rate_demand demand;
    int64_t now_ns = (int64_t)(at_s * FG_SECOND_NS);
    uint32_t n = fg_rates_report(rates, now_ns, &demand, 1);

    demand.bytes_per_s = all * MIB;
    demand.processes = processes;
    fg_rates_apply(rates, members, &demand, n, now_ns);
}

/* Returns how many MiB pass in so many seconds, if so many are offered in each. */
static double passes(struct fg_rates *rates, double offered, double from_s, double to_s)
{
    const double mib = 0.0625, tick_s = 0.0625;
    double passed = 0, due = 0;

    for (int tick = 0; from_s + tick * tick_s < to_s; tick++) {
        due += offered * tick_s;
        while (due >= mib) {
            due -= mib;
            passed += take(rates, "a", mib, from_s + tick * tick_s) ? mib : 0;
        }
    }
    return passed;
}

static void a_share_is_what_is_offered_and_a_part_of_the_rest(void **state)
{
    (void)state;
    /* 1 of 2 is offered here, nothing elsewhere: the other process finds half of what is left. */
    assert_true(fabs(fg_rate_share(2, 1, 1, 1) - 1) < 1e-9);
    assert_true(fabs(fg_rate_share(2, 1, 1.5, 2) - 0.625) < 1e-9);
    assert_true(fabs(fg_rate_share(2, 0.5, 1.5, 2) - 0.375) < 1e-9);
    /* More than the rate: by demand, with a floor; together it is the rate. */
    assert_true(fabs(fg_rate_share(2, 4, 4, 1) - 1) < 1e-9);
    assert_true(fabs(fg_rate_share(2, 3, 4, 2) + fg_rate_share(2, 1, 4, 2) - 1) < 1e-9);
    assert_true(fg_rate_share(2, 0, 4, 2) > 0.02);
    assert_true(fg_rate_share(2, 3, 4, 2) > 0.7);
}

static void a_rate_is_divided_equally_until_others_are_heard(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);

    (void)state;
    fg_rates_apply(rates, 4, NULL, 0, 0);
    assert_true(take(rates, "a", 1, 0)); /* a quarter of the burst */
    assert_false(take(rates, "a", 0.1, 0));
    assert_true(fabs(passes(rates, 4, 0, 10) - 5) < 0.5);
    /* All of it comes here: the other three leave it to this one. */
    meet(rates, 4, 0, 1, 10);
    (void)passes(rates, 4, 10, 12);
    assert_true(fabs(passes(rates, 4, 12, 20) - 16) < 0.5);
    /* Nothing is heard any more: an equal part again. */
    (void)passes(rates, 4, 20, 26);
    assert_true(fabs(passes(rates, 4, 26, 36) - 5) < 0.5);
    fg_rates_destroy(rates);
}

/* What a limit lets through at a time does not depend on the number of processes; what follows pays
 * for it. */
static void the_largest_profile_passes_whatever_the_share(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);

    (void)state;
    fg_rates_apply(rates, 4, NULL, 0, 0);
    assert_true(take(rates, "a", 4, 0));
    assert_false(take(rates, "a", 0.1, 6)); /* 3 of 4 are paid, at half a MiB a second */
    assert_true(take(rates, "a", 1, 8));
    assert_false(take(rates, "a", 4.1, 100));
    fg_rates_destroy(rates);
}

static void demand_is_an_average_of_all_that_is_offered(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);
    struct fg_rate_demand demand;

    (void)state;
    for (int i = 1; i <= 30; i++) {
        (void)passes(rates, 8, i - 1, i); /* a quarter of it passes */
        assert_int_equal(fg_rates_report(rates, (int64_t)i * FG_SECOND_NS, &demand, 1), 1);
    }
    assert_string_equal(demand.tenant, "a");
    assert_true(fabs(demand.bytes_per_s / MIB - 8) < 0.1);
    assert_true(fabs(demand.used - 4) < 0.1);
    /* Nothing more comes. */
    assert_int_equal(fg_rates_report(rates, 90 * FG_SECOND_NS, &demand, 1), 0);
    fg_rates_destroy(rates);
}

static void a_report_has_those_that_use_most(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);
    struct fg_rate_demand demands[3];

    (void)state;
    for (int i = 0; i < 8; i++) {
        const char name[2] = {(char)('a' + i * 3 % 8), '\0'};

        (void)take(rates, name, 1 + i * 3 % 8, 0);
    }
    assert_int_equal(fg_rates_report(rates, FG_SECOND_NS, demands, 3), 3);
    assert_string_equal(demands[0].tenant, "h");
    assert_string_equal(demands[1].tenant, "g");
    assert_string_equal(demands[2].tenant, "f");
    fg_rates_destroy(rates);
}

/* Its share would be forgotten with it, and an equal part is less than what it uses. */
static void a_full_bucket_of_a_tenant_in_use_is_kept(void **state)
{
    struct fg_rates *rates = fg_rates_create(100);

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)passes(rates, 1.5, i, i + 1);
        meet(rates, 4, 1.5, 1, i + 1);
    }
    for (int i = 0; i < 1000; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "t%d", i);
        assert_true(take(rates, name, 0.001, 22 + i * 0.002));
    }
    assert_true(fabs(passes(rates, 1.5, 24, 34) - 15) < 0.5);
    fg_rates_destroy(rates);
}

/* ---- work in vain ---- */

static int64_t debt_s(struct fg_rates *rates, double at_s)
{
    struct fg_err err;
    int64_t ns = 0;

    if (fg_rates_in_debt(rates, FG_LIT("a"), &limits, 100, (int64_t)(at_s * FG_SECOND_NS), &ns,
                         &err) == FG_OK)
        return 0;
    assert_true(err.code == FG_E_LIMIT && strstr(err.msg, "ingestion_rate_mb") != NULL);
    return (ns + FG_SECOND_NS / 2) / FG_SECOND_NS;
}

static void work_in_vain_leaves_a_debt(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);

    (void)state;
    assert_int_equal(debt_s(rates, 0), 0);
    fg_rates_charge(rates, FG_LIT("a"), &limits, (uint64_t)3 * MIB, 0);
    assert_int_equal(debt_s(rates, 0), 0);
    assert_true(take(rates, "a", 1, 0));
    fg_rates_charge(rates, FG_LIT("a"), &limits, (uint64_t)2 * MIB, 0);
    assert_int_equal(debt_s(rates, 0), 1);
    assert_false(take(rates, "a", 0.01, 0.5));
    assert_int_equal(debt_s(rates, 1.01), 0);
    /* No more than a burst, or a moment's flood would keep a tenant out for hours. */
    for (int i = 0; i < 100; i++)
        fg_rates_charge(rates, FG_LIT("a"), &limits, (uint64_t)100 * MIB, 2 * FG_SECOND_NS);
    assert_int_equal(debt_s(rates, 2), 2);
    assert_true(take(rates, "b", 4, 2));
    assert_true(take(rates, "a", 1, 4.51));
    fg_rates_destroy(rates);
}

static void without_a_rate_there_is_no_debt(void **state)
{
    struct fg_rates *rates = fg_rates_create(0);
    const struct fg_rate_limit none = {.burst_mb = 1};
    struct fg_err err;
    int64_t ns;

    (void)state;
    fg_rates_charge(rates, FG_LIT("a"), &none, UINT64_MAX, 0);
    assert_int_equal(fg_rates_in_debt(rates, FG_LIT("a"), &none, 1, 0, &ns, &err), FG_OK);
    assert_int_equal(fg_rates_count(rates), 0);
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
        cmocka_unit_test(a_share_is_what_is_offered_and_a_part_of_the_rest),
        cmocka_unit_test(a_rate_is_divided_equally_until_others_are_heard),
        cmocka_unit_test(the_largest_profile_passes_whatever_the_share),
        cmocka_unit_test(demand_is_an_average_of_all_that_is_offered),
        cmocka_unit_test(a_report_has_those_that_use_most),
        cmocka_unit_test(a_full_bucket_of_a_tenant_in_use_is_kept),
        cmocka_unit_test(work_in_vain_leaves_a_debt),
        cmocka_unit_test(without_a_rate_there_is_no_debt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
