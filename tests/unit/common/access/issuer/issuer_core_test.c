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

static void strangers_cause_one_fetch_a_minute(void **state)
{
    struct fg_issuer_core core = fg_issuer_core(START_NS);
    unsigned fetches = 0;

    (void)state;
    fetch(&core, true, START_NS);
    for (int64_t ms = 1; ms < 10 * 60 * 1000; ms += 250) {
        int64_t now_ns = START_NS + ms * FG_MS_NS;
        bool wanted = fg_issuer_core_want(&core, now_ns);

        assert_int_equal(wanted, fg_issuer_core_due(&core) <= now_ns);
        if (!wanted)
            continue;
        fetch(&core, true, now_ns);
        fetches++;
    }
    assert_int_equal(fetches, 9);
    fg_issuer_core_begin(&core, START_NS + FG_HOUR_NS);
    assert_true(fg_issuer_core_want(&core, START_NS + FG_HOUR_NS)); /* it will be known soon */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_fetched_at_once_and_every_ten_minutes),
        cmocka_unit_test(an_issuer_that_is_away_is_asked_less_and_less),
        cmocka_unit_test(old_keys_serve_for_a_day),
        cmocka_unit_test(strangers_cause_one_fetch_a_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
