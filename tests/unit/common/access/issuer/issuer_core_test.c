/* When keys are fetched, and how long they serve. */
#include "common/access/issuer/issuer_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t START_NS = 1000 * FG_SECOND_NS;

static void fetch(struct fg_issuer_core *core, bool ok, int64_t now_ns)
{
    fg_issuer_core_begin(core, now_ns);
    assert_int_equal(fg_issuer_core_due(core), INT64_MAX);
    fg_issuer_core_end(core, ok, now_ns);
}

static void keys_are_fetched_at_once_and_every_ten_minutes(void **state)
{
    struct fg_issuer_core core = fg_issuer_core(START_NS);

    (void)state;
    assert_int_equal(fg_issuer_core_due(&core), START_NS);
    assert_false(fg_issuer_core_serves(&core, START_NS));
    fetch(&core, true, START_NS);
    assert_int_equal(fg_issuer_core_due(&core), START_NS + 10 * FG_MINUTE_NS);
    assert_true(fg_issuer_core_serves(&core, START_NS));
}

static void an_issuer_that_is_away_is_asked_less_and_less(void **state)
{
    static const int64_t waits_s[] = {5, 10, 20, 40, 60, 60, 60};
    struct fg_issuer_core core = fg_issuer_core(START_NS);
    int64_t now_ns = START_NS;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(waits_s); i++) {
        fetch(&core, false, now_ns);
        assert_int_equal(fg_issuer_core_due(&core), now_ns + waits_s[i] * FG_SECOND_NS);
        assert_false(fg_issuer_core_serves(&core, now_ns));
        now_ns = fg_issuer_core_due(&core);
    }
    fetch(&core, true, now_ns);
    fetch(&core, false, now_ns);
    assert_int_equal(fg_issuer_core_due(&core), now_ns + 5 * FG_SECOND_NS);
}

static void old_keys_serve_for_a_day(void **state)
{
    struct fg_issuer_core core = fg_issuer_core(START_NS);

    (void)state;
    fetch(&core, true, START_NS);
    fetch(&core, false, START_NS + FG_HOUR_NS);
    assert_true(fg_issuer_core_serves(&core, START_NS + 24 * FG_HOUR_NS - 1));
    assert_false(fg_issuer_core_serves(&core, START_NS + 24 * FG_HOUR_NS));
    fetch(&core, true, START_NS + 30 * FG_HOUR_NS);
    assert_true(fg_issuer_core_serves(&core, START_NS + 31 * FG_HOUR_NS));
}

static void strangers_cause_one_fetch_in_ten_seconds(void **state)
{
    struct fg_issuer_core core = fg_issuer_core(START_NS);
    unsigned fetches = 0;

    (void)state;
    fetch(&core, true, START_NS);
    for (int64_t ms = 1; ms < 10 * 60 * 1000; ms += 250) {
        int64_t now_ns = START_NS + ms * FG_MS_NS;

        /* Each names another kid. */
        assert_true(fg_issuer_core_want(&core, (uint64_t)ms, now_ns));
        if (fg_issuer_core_due(&core) > now_ns)
            continue;
        fetch(&core, true, now_ns);
        fetches++;
    }
    assert_int_equal(fetches, 59);
    fg_issuer_core_begin(&core, START_NS + FG_HOUR_NS);
    assert_true(fg_issuer_core_want(&core, 3, START_NS + FG_HOUR_NS)); /* it will be known soon */
}

static void a_kid_is_refused_only_after_a_fetch_that_could_have_it(void **state)
{
    const int64_t next_ns = START_NS + 10 * FG_SECOND_NS;
    struct fg_issuer_core core = fg_issuer_core(START_NS);

    (void)state;
    fetch(&core, true, START_NS);
    for (int64_t s = 1; s < 10; s++) {
        assert_true(fg_issuer_core_want(&core, 7, START_NS + s * FG_SECOND_NS));
        assert_int_equal(fg_issuer_core_due(&core), next_ns);
    }
    fg_issuer_core_begin(&core, next_ns);
    assert_true(fg_issuer_core_want(&core, 7, next_ns + 1));
    /* What comes while keys are fetched may be newer than they are. */
    assert_true(fg_issuer_core_want(&core, 8, next_ns + 1));
    fg_issuer_core_end(&core, true, next_ns + 2);
    assert_false(fg_issuer_core_want(&core, 7, next_ns + 3));
    assert_true(fg_issuer_core_want(&core, 8, next_ns + 3));
    assert_int_equal(fg_issuer_core_due(&core), next_ns + 10 * FG_SECOND_NS);
}

/* The issuer may have been late with its key: it is asked again, but nobody waits for that. */
static void a_refused_kid_stays_refused_and_is_asked_for_once_a_minute(void **state)
{
    struct fg_issuer_core core = fg_issuer_core(START_NS);
    int64_t begun_ns = START_NS + 10 * FG_SECOND_NS;
    unsigned fetches = 0;

    (void)state;
    fetch(&core, true, START_NS);
    assert_true(fg_issuer_core_want(&core, 7, START_NS + 1));
    fetch(&core, true, begun_ns);
    for (int64_t s = 1; s < 9 * 60; s++) {
        int64_t now_ns = begun_ns + s * FG_SECOND_NS;

        assert_false(fg_issuer_core_want(&core, 7, now_ns));
        if (fg_issuer_core_due(&core) > now_ns)
            continue;
        fg_issuer_core_begin(&core, now_ns);
        assert_false(fg_issuer_core_want(&core, 7, now_ns)); /* also during the fetch */
        fg_issuer_core_end(&core, true, now_ns);
        fetches++;
    }
    assert_int_equal(fetches, 8);
}

static void a_withdrawn_kid_is_refused_at_once(void **state)
{
    struct fg_issuer_core core = fg_issuer_core(START_NS);

    (void)state;
    fetch(&core, true, START_NS);
    fetch(&core, true, START_NS + FG_HOUR_NS);
    fg_issuer_core_withdraw(&core, 7);
    assert_false(fg_issuer_core_want(&core, 7, START_NS + FG_HOUR_NS + 1));
    assert_true(fg_issuer_core_want(&core, 8, START_NS + FG_HOUR_NS + 1));
}

static void a_fetch_that_failed_refuses_no_kid(void **state)
{
    static const int64_t waits_s[] = {5, 10, 20, 40, 60, 60, 60};
    struct fg_issuer_core core = fg_issuer_core(START_NS);
    int64_t now_ns = START_NS + FG_HOUR_NS;

    (void)state;
    fetch(&core, true, START_NS);
    assert_true(fg_issuer_core_want(&core, 7, now_ns));
    for (unsigned i = 0; i < FG_COUNT(waits_s); i++) {
        fetch(&core, false, now_ns);
        assert_true(fg_issuer_core_want(&core, 7, now_ns));
        /* Nor is an issuer that is away asked more often because of it. */
        assert_int_equal(fg_issuer_core_due(&core), now_ns + waits_s[i] * FG_SECOND_NS);
        now_ns = fg_issuer_core_due(&core);
    }
    fetch(&core, true, now_ns);
    assert_false(fg_issuer_core_want(&core, 7, now_ns));
}

static void a_flood_of_kids_refuses_no_honest_one(void **state)
{
    enum { FLOOD = 4 * FG_ISSUER_KID_ROWS * FG_ISSUER_KIDS_OF_ROW };
    const int64_t next_ns = START_NS + 10 * FG_SECOND_NS;
    struct fg_issuer_core core = fg_issuer_core(START_NS);
    int64_t now_ns = START_NS + FG_SECOND_NS;

    (void)state;
    fetch(&core, true, START_NS);
    assert_true(fg_issuer_core_want(&core, 7, now_ns));
    for (uint64_t kid = 100; kid < 100 + FLOOD; kid++)
        assert_true(fg_issuer_core_want(&core, kid, ++now_ns));
    /* It is fetched no later because of the flood. */
    assert_int_equal(fg_issuer_core_due(&core), next_ns);
    fetch(&core, true, next_ns);
    /* Those that are still remembered are refused; the others are asked to try again. */
    assert_false(fg_issuer_core_want(&core, 100 + FLOOD - 1, next_ns + 1));
    assert_true(fg_issuer_core_want(&core, 7, next_ns + 1));
}

static void as_many_kids_as_fit_are_all_refused(void **state)
{
    enum { KIDS = FG_ISSUER_KID_ROWS * FG_ISSUER_KIDS_OF_ROW };
    const int64_t next_ns = START_NS + 10 * FG_SECOND_NS;
    struct fg_issuer_core core = fg_issuer_core(START_NS);

    (void)state;
    fetch(&core, true, START_NS);
    for (uint64_t kid = 0; kid < KIDS; kid++)
        assert_true(fg_issuer_core_want(&core, kid, START_NS + 1 + (int64_t)kid));
    fetch(&core, true, next_ns);
    for (uint64_t kid = 0; kid < KIDS; kid++)
        assert_false(fg_issuer_core_want(&core, kid, next_ns + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_fetched_at_once_and_every_ten_minutes),
        cmocka_unit_test(an_issuer_that_is_away_is_asked_less_and_less),
        cmocka_unit_test(old_keys_serve_for_a_day),
        cmocka_unit_test(strangers_cause_one_fetch_in_ten_seconds),
        cmocka_unit_test(a_kid_is_refused_only_after_a_fetch_that_could_have_it),
        cmocka_unit_test(a_refused_kid_stays_refused_and_is_asked_for_once_a_minute),
        cmocka_unit_test(a_withdrawn_kid_is_refused_at_once),
        cmocka_unit_test(a_fetch_that_failed_refuses_no_kid),
        cmocka_unit_test(a_flood_of_kids_refuses_no_honest_one),
        cmocka_unit_test(as_many_kids_as_fit_are_all_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
