#include "deploy/canary/journal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { KEPT_MAX = 128, PENDING_MAX = 8, STEP_MS = 50 };

static const struct canary_journal_shape shape = {
    .seed = 7, .services = 2, .pods = 3, .leaves = 5, .start_ms = 1000000, .interval_ms = STEP_MS};

static void send(struct canary_journal *journal, uint64_t number, int64_t mono_ns)
{
    assert_true(canary_journal_issue(journal, number));
    canary_journal_settle(journal, number, mono_ns);
}

static struct canary_journal_range whole(const struct canary_journal *journal)
{
    return (struct canary_journal_range){shape.start_ms, canary_journal_end_ms(journal),
                                         JOURNAL_NONE, JOURNAL_NONE};
}

static int64_t total(const struct canary_journal_expected *expected)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < canary_journal_cells(&shape); i++)
        sum += expected->cells[i];
    return sum;
}

static int64_t value(uint64_t number)
{
    return (int64_t)canary_journal_profile(&shape, number).value;
}

static int64_t expected_total(const struct canary_journal *journal,
                              const struct canary_journal_range *range)
{
    struct canary_journal_expected expected;
    int64_t sum;

    canary_journal_expect(journal, range, &expected);
    sum = total(&expected);
    canary_journal_expected_done(&expected);
    return sum;
}

static void consecutive_numbers_visit_every_cell(void **state)
{
    bool seen[10] = {false};

    (void)state;
    for (uint64_t number = 40; number < 50; number++) {
        struct canary_journal_profile profile = canary_journal_profile(&shape, number);
        uint32_t cell = canary_journal_cell(&shape, profile.service, profile.leaf);

        assert_in_range(profile.value, 1, UINT64_C(1) << 30);
        assert_int_equal(profile.pod, profile.leaf % shape.pods);
        assert_int_equal(profile.time_ns,
                         (shape.start_ms + (int64_t)number * STEP_MS) * FG_MS_NS + FG_MS_NS / 2);
        assert_false(seen[cell]);
        seen[cell] = true;
    }
}

static void settled_profiles_are_expected(void **state)
{
    struct canary_journal *journal = canary_journal_create(&shape, KEPT_MAX, PENDING_MAX);
    struct canary_journal_expected expected;
    struct canary_journal_range range;

    (void)state;
    send(journal, 0, 1);
    send(journal, 1, 1);
    assert_true(canary_journal_issue(journal, 4)); /* 2 and 3 are never sent */
    range = whole(journal);
    canary_journal_expect(journal, &range, &expected);
    assert_int_equal(total(&expected), value(0) + value(1));
    assert_int_equal(expected.n_maybes, 1);
    assert_int_equal(expected.maybes[0].number, 4);
    assert_int_equal(expected.n_settled, 2);
    canary_journal_expected_done(&expected);
    canary_journal_settle(journal, 4, 2);
    assert_int_equal(expected_total(journal, &range), value(0) + value(1) + value(4));
    assert_false(canary_journal_is_settled(journal, 3));
    assert_true(canary_journal_is_settled(journal, 4));
    canary_journal_destroy(journal);
}

static void ranges_select_by_time_service_and_series(void **state)
{
    struct canary_journal *journal = canary_journal_create(&shape, KEPT_MAX, PENDING_MAX);

    (void)state;
    for (uint64_t number = 0; number < 60; number++)
        send(journal, number, 1);
    for (uint32_t service = 0; service <= shape.services; service++) {
        for (uint32_t pod = 0; pod <= shape.pods; pod++) {
            struct canary_journal_range range = {shape.start_ms + 7 * STEP_MS,
                                                 shape.start_ms + 40 * STEP_MS + 1,
                                                 service == shape.services ? JOURNAL_NONE : service,
                                                 pod == shape.pods ? JOURNAL_NONE : pod};
            int64_t sum = 0;

            for (uint64_t number = 7; number <= 40; number++) {
                struct canary_journal_profile profile = canary_journal_profile(&shape, number);

                if ((range.service == JOURNAL_NONE || range.service == profile.service) &&
                    (range.pod == JOURNAL_NONE || range.pod == profile.pod))
                    sum += (int64_t)profile.value;
            }
            assert_int_equal(expected_total(journal, &range), sum);
        }
    }
    canary_journal_destroy(journal);
}

/* Old profiles are kept as sums, whether they were settled early or late or skipped. */
static void old_profiles_are_kept_as_sums(void **state)
{
    struct canary_journal *journal = canary_journal_create(&shape, KEPT_MAX, PENDING_MAX);
    struct canary_journal_range range;
    int64_t sum = 0;

    (void)state;
    assert_true(canary_journal_issue(journal, 0));
    for (uint64_t number = 1; number < 1000; number++) {
        send(journal, number, 1);
        sum += value(number);
    }
    assert_int_equal(canary_journal_kept_ms(journal), shape.start_ms + (1000 - KEPT_MAX) * STEP_MS);
    range = whole(journal);
    assert_int_equal(expected_total(journal, &range), sum);
    canary_journal_settle(journal, 0, 2);
    assert_int_equal(expected_total(journal, &range), sum + value(0));
    send(journal, 5000, 2);
    range = whole(journal);
    assert_int_equal(expected_total(journal, &range), sum + value(0) + value(5000));
    range.start_ms = canary_journal_kept_ms(journal);
    assert_int_equal(expected_total(journal, &range), value(5000));
    canary_journal_destroy(journal);
}

static void failed_profiles_are_retried_when_due(void **state)
{
    struct canary_journal *journal = canary_journal_create(&shape, KEPT_MAX, PENDING_MAX);
    uint32_t attempts = 0;
    uint64_t number = 0;

    (void)state;
    assert_true(canary_journal_issue(journal, 0));
    assert_true(canary_journal_issue(journal, 1));
    assert_false(canary_journal_retry(journal, INT64_MAX - 1, &number, &attempts)); /* being sent */
    canary_journal_postpone(journal, 0, 200);
    canary_journal_postpone(journal, 1, 100);
    assert_false(canary_journal_retry(journal, 99, &number, &attempts));
    assert_true(canary_journal_retry(journal, 200, &number, &attempts));
    assert_int_equal(number, 1); /* it has waited longer */
    assert_int_equal(attempts, 1);
    assert_true(canary_journal_retry(journal, 200, &number, &attempts));
    assert_int_equal(number, 0);
    assert_false(canary_journal_retry(journal, 200, &number, &attempts));
    canary_journal_postpone(journal, 0, 300);
    assert_true(canary_journal_retry(journal, 300, &number, &attempts));
    assert_int_equal(attempts, 2);
    canary_journal_destroy(journal);
}

static void pending_profiles_are_bounded(void **state)
{
    struct canary_journal *journal = canary_journal_create(&shape, KEPT_MAX, PENDING_MAX);

    (void)state;
    for (uint64_t number = 0; number < PENDING_MAX; number++)
        assert_true(canary_journal_issue(journal, number));
    assert_false(canary_journal_issue(journal, PENDING_MAX));
    assert_int_equal(canary_journal_next(journal), PENDING_MAX);
    canary_journal_settle(journal, 3, 1);
    assert_int_equal(canary_journal_n_pending(journal), PENDING_MAX - 1);
    assert_true(canary_journal_issue(journal, PENDING_MAX));
    canary_journal_destroy(journal);
}

static void add_up(int64_t settled_mono_ns, void *arg)
{
    *(int64_t *)arg += settled_mono_ns;
}

static void each_profile_becomes_visible_once(void **state)
{
    struct canary_journal *journal = canary_journal_create(&shape, KEPT_MAX, PENDING_MAX);
    struct canary_journal_expected expected;
    struct canary_journal_range range;
    int64_t sum = 0;

    (void)state;
    send(journal, 0, 10);
    send(journal, 1, 20);
    send(journal, 2, 40);
    range = whole(journal);
    canary_journal_expect(journal, &range, &expected);
    canary_journal_seen(journal, &expected, 30, add_up, &sum);
    assert_int_equal(sum, 30); /* the last profile came after the query */
    canary_journal_seen(journal, &expected, 50, add_up, &sum);
    assert_int_equal(sum, 70);
    canary_journal_seen(journal, &expected, 50, add_up, &sum);
    assert_int_equal(sum, 70);
    canary_journal_expected_done(&expected);
    canary_journal_destroy(journal);
}

/* Profiles on their way may be missing from an answer; once they are settled, they may not. */
static void profiles_on_their_way_are_settled_later(void **state)
{
    struct canary_journal *journal = canary_journal_create(&shape, KEPT_MAX, PENDING_MAX);
    struct canary_journal_range range;
    struct canary_journal_expected expected;
    uint64_t number;
    uint32_t attempts;

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        assert_true(canary_journal_issue(journal, i));
    canary_journal_settle_later(journal, 0, 100);
    canary_journal_settle_later(journal, 2, 50);
    assert_int_equal(canary_journal_n_pending(journal), 3);
    assert_int_equal(canary_journal_n_on_their_way(journal), 2);
    assert_false(canary_journal_retry(journal, 1000, &number, &attempts));
    canary_journal_ripen(journal, 49);
    assert_int_equal(canary_journal_n_on_their_way(journal), 2);
    range = whole(journal);
    canary_journal_expect(journal, &range, &expected);
    assert_int_equal(total(&expected), 0);
    assert_int_equal(expected.n_maybes, 3);
    canary_journal_expected_done(&expected);
    canary_journal_ripen(journal, 50);
    assert_int_equal(canary_journal_n_on_their_way(journal), 1);
    canary_journal_ripen(journal, 100);
    assert_int_equal(canary_journal_n_pending(journal), 1);
    assert_int_equal(canary_journal_n_on_their_way(journal), 0);
    assert_int_equal(canary_journal_n_settled(journal), 2);
    canary_journal_expect(journal, &range, &expected);
    assert_int_equal(total(&expected), value(0) + value(2));
    assert_int_equal(expected.n_maybes, 1);
    canary_journal_expected_done(&expected);
    canary_journal_destroy(journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_on_their_way_are_settled_later),
        cmocka_unit_test(consecutive_numbers_visit_every_cell),
        cmocka_unit_test(settled_profiles_are_expected),
        cmocka_unit_test(ranges_select_by_time_service_and_series),
        cmocka_unit_test(old_profiles_are_kept_as_sums),
        cmocka_unit_test(failed_profiles_are_retried_when_due),
        cmocka_unit_test(pending_profiles_are_bounded),
        cmocka_unit_test(each_profile_becomes_visible_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
