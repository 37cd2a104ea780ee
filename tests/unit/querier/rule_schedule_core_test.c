/* Which tenants' recording rules a querier evaluates, and for which minutes. */
#include "querier/rules/rule_schedule_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const int64_t START_NS = INT64_C(30000000) * FG_MINUTE_NS; /* a minute of 2027 */

struct fixture {
    struct qry_rule_schedule schedule;
    const char *foreign; /* a tenant of another querier; NULL: none */
};

static int set_up(void **state)
{
    *state = fg_new(struct fixture);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    qry_rule_schedule_done(&f->schedule);
    free(f);
    return 0;
}

static bool owns(void *arg, struct fg_slice tenant)
{
    const struct fixture *f = arg;

    return f->foreign == NULL || !fg_slice_is(tenant, f->foreign);
}

static void scraped(struct fixture *f, const char *tenant, int64_t now_ns)
{
    assert_true(qry_rule_schedule_scraped(&f->schedule, fg_cstr(tenant), now_ns));
}

/* Begins the next evaluation and compares it. tenant NULL: there is none. */
static void assert_next(struct fixture *f, int64_t now_ns, const char *tenant, uint64_t skipped)
{
    int64_t newest_ns = qry_rule_minute(now_ns);
    struct qry_rule_turn turn;
    bool found = qry_rule_schedule_next(&f->schedule, newest_ns, now_ns, owns, f, &turn);

    assert_int_equal(found, tenant != NULL);
    if (tenant == NULL)
        return;
    assert_string_equal(turn.tenant, tenant);
    assert_true(turn.minute_ns == newest_ns);
    assert_int_equal(turn.skipped, skipped);
}

static void ended(struct fixture *f, const char *tenant, bool again, int64_t now_ns)
{
    qry_rule_schedule_ended(&f->schedule, fg_cstr(tenant), again, now_ns);
}

static void minutes_that_are_over(void **state)
{
    (void)state;
    assert_true(qry_rule_minute(START_NS) == START_NS - FG_MINUTE_NS);
    assert_true(qry_rule_minute(START_NS + FG_MINUTE_NS - 1) == START_NS - FG_MINUTE_NS);
    assert_true(qry_rule_minute(START_NS + FG_MINUTE_NS) == START_NS);
}

static void each_minute_once(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = START_NS;

    assert_next(f, now_ns, NULL, 0);
    scraped(f, "b", now_ns);
    scraped(f, "a", now_ns);
    scraped(f, "b", now_ns + 1);
    for (unsigned i = 0; i < 3; i++, now_ns += FG_MINUTE_NS) {
        assert_next(f, now_ns, "a", 0);
        assert_next(f, now_ns, "b", 0);
        assert_next(f, now_ns, NULL, 0); /* both run */
        ended(f, "a", false, now_ns + 1);
        ended(f, "b", false, now_ns + 1);
        assert_next(f, now_ns + FG_MINUTE_NS - 1, NULL, 0);
    }
}

/* One that takes 150 s gets the newest minute after that, and what it has missed is counted. */
static void a_slow_tenant_skips_minutes(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = START_NS;
    uint64_t skipped = 0;

    scraped(f, "quick", now_ns);
    scraped(f, "slow", now_ns);
    assert_next(f, now_ns, "quick", 0);
    ended(f, "quick", false, now_ns);
    assert_next(f, now_ns, "slow", 0);
    for (unsigned i = 1; i <= 2; i++) {
        assert_next(f, now_ns + i * FG_MINUTE_NS, "quick", 0);
        ended(f, "quick", false, now_ns + i * FG_MINUTE_NS);
    }
    now_ns += 150 * FG_SECOND_NS;
    ended(f, "slow", false, now_ns);
    assert_next(f, now_ns, "slow", 1);
    /* At a clock that was set back nothing was skipped. */
    ended(f, "slow", true, now_ns - 20 * FG_MINUTE_NS);
    assert_next(f, now_ns - 10 * FG_MINUTE_NS, "slow", 0);

    /* If there is always time for one only, they take turns. */
    ended(f, "slow", false, now_ns);
    for (unsigned i = 0; i < 100; i++) {
        struct qry_rule_turn turn;

        now_ns += FG_MINUTE_NS;
        assert_true(
            qry_rule_schedule_next(&f->schedule, qry_rule_minute(now_ns), now_ns, owns, f, &turn));
        assert_string_equal(turn.tenant, i % 2 == 0 ? "slow" : "quick");
        skipped += i < 2 ? 0 : turn.skipped;
        ended(f, turn.tenant, false, now_ns);
    }
    assert_int_equal(skipped, 98);
}

/* A minute that failed is tried again until there is a newer one, after those that were not. */
static void failures_are_tried_again(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = START_NS;

    scraped(f, "a", now_ns);
    assert_next(f, now_ns, "a", 0);
    ended(f, "a", true, now_ns);
    assert_next(f, now_ns + RULE_RETRY_NS - 1, NULL, 0);
    scraped(f, "b", now_ns);
    assert_next(f, now_ns + RULE_RETRY_NS, "b", 0);
    assert_next(f, now_ns + RULE_RETRY_NS, "a", 0);
    ended(f, "a", true, now_ns + FG_MINUTE_NS - 1);
    assert_next(f, now_ns + FG_MINUTE_NS, "a", 0);
    ended(f, "a", false, now_ns + FG_MINUTE_NS);
    assert_next(f, now_ns + FG_MINUTE_NS + RULE_RETRY_NS, NULL, 0);
}

/* A tenant that goes to another querier and comes back has not skipped what that one evaluated. */
static void owners_change(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = START_NS;

    scraped(f, "a", now_ns);
    assert_next(f, now_ns, "a", 0);
    ended(f, "a", false, now_ns);
    f->foreign = "a";
    now_ns += FG_MINUTE_NS;
    assert_next(f, now_ns, NULL, 0);
    now_ns += 5 * FG_MINUTE_NS;
    f->foreign = NULL;
    assert_next(f, now_ns, "a", 0);
    /* A change while it runs ends nothing. */
    f->foreign = "a";
    now_ns += 2 * FG_MINUTE_NS;
    assert_next(f, now_ns, NULL, 0);
    ended(f, "a", false, now_ns);
    assert_next(f, now_ns, NULL, 0);
}

static void tenants_without_scrapes_lapse(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = START_NS;

    scraped(f, "runs", now_ns);
    assert_next(f, now_ns, "runs", 0);
    scraped(f, "here", now_ns);
    assert_true(qry_rule_schedule_recorded(&f->schedule, FG_LIT("there"), now_ns + 1));
    now_ns += RULE_SCRAPED_NS;
    qry_rule_schedule_expire(&f->schedule, now_ns);
    assert_int_equal(f->schedule.n, 2);
    ended(f, "runs", false, now_ns);
    assert_next(f, now_ns, "there", 0);
    ended(f, "there", false, now_ns);
    qry_rule_schedule_expire(&f->schedule, now_ns + 1);
    assert_int_equal(f->schedule.n, 0);
}

static void scrapes_are_recorded_now_and_then(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = START_NS;

    scraped(f, "a", now_ns);
    assert_true(qry_rule_tenant_to_record(&f->schedule.items[0]));
    assert_true(qry_rule_schedule_recorded(&f->schedule, FG_LIT("a"), now_ns));
    scraped(f, "a", now_ns + RULE_RENEW_NS - 1);
    assert_false(qry_rule_tenant_to_record(&f->schedule.items[0]));
    scraped(f, "a", now_ns + RULE_RENEW_NS);
    assert_true(qry_rule_tenant_to_record(&f->schedule.items[0]));
    /* A tenant that others scrape is theirs to record, and an older record changes nothing. */
    assert_true(qry_rule_schedule_recorded(&f->schedule, FG_LIT("b"), now_ns));
    assert_true(qry_rule_schedule_recorded(&f->schedule, FG_LIT("b"), now_ns - 1));
    assert_false(qry_rule_tenant_to_record(&f->schedule.items[1]));
    assert_true(f->schedule.items[1].recorded_ns == now_ns);
}

static void tenants_are_bounded(void **state)
{
    struct fixture *f = *state;
    char name[16];

    for (unsigned i = 0; i < RULE_TENANTS_MAX; i++) {
        (void)snprintf(name, sizeof name, "t%u", i * 7919 % RULE_TENANTS_MAX);
        scraped(f, name, START_NS);
    }
    assert_false(qry_rule_schedule_scraped(&f->schedule, FG_LIT("one more"), START_NS));
    assert_false(qry_rule_schedule_recorded(&f->schedule, FG_LIT("one more"), START_NS));
    scraped(f, "t17", START_NS + 1);
    assert_int_equal(f->schedule.n, RULE_TENANTS_MAX);
    for (size_t i = 1; i < f->schedule.n; i++)
        assert_true(strcmp(f->schedule.items[i - 1].name, f->schedule.items[i].name) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minutes_that_are_over),
        cmocka_unit_test_setup_teardown(each_minute_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_tenant_skips_minutes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_are_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(owners_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tenants_without_scrapes_lapse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scrapes_are_recorded_now_and_then, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tenants_are_bounded, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
