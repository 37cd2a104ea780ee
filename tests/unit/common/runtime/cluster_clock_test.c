/* Whose time counts: ours, or that of the object store. */
#include "common/runtime/cluster_clock.h"
#include "common/runtime/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define NOW_NS (INT64_C(1800000000) * FG_SECOND_NS)
#define DAY_NS (24 * FG_HOUR_NS)

struct fixture {
    struct fg_clock_manual own;
    struct fg_registry *registry;
    struct fg_conditions *conditions;
    struct fg_cluster_clock *cluster;
};

static void open_fixture(struct fixture *f)
{
    fg_clock_manual_init(&f->own, NOW_NS);
    f->registry = fg_registry_create();
    f->conditions = fg_conditions_create(f->registry);
    f->cluster = fg_cluster_clock_create(&f->own.clock, f->registry, f->conditions);
}

static void close_fixture(struct fixture *f)
{
    fg_cluster_clock_destroy(f->cluster);
    fg_conditions_destroy(f->conditions);
    fg_registry_destroy(f->registry);
}

/* The store's clock is ahead of ours by so much; the answer takes trip_ns. */
static void hear(struct fixture *f, int64_t ahead_ns, int64_t trip_ns)
{
    int64_t sent_mono_ns = fg_mono_ns(&f->own.clock);

    fg_clock_manual_advance(&f->own, trip_ns);
    fg_cluster_clock_heard(f->cluster, fg_wall_ns(&f->own.clock) + ahead_ns, sent_mono_ns);
}

static int64_t correction_ns(struct fixture *f)
{
    return fg_wall_ns(fg_cluster_clock(f->cluster)) - fg_wall_ns(&f->own.clock);
}

static int64_t cautious_ns(struct fixture *f)
{
    return fg_wall_ns(fg_cluster_clock_earlier(f->cluster)) - fg_wall_ns(&f->own.clock);
}

static bool is_said(struct fixture *f, const char *text)
{
    struct fg_buf out;
    bool found;

    fg_buf_init(&out, SIZE_MAX);
    fg_conditions_write(f->conditions, &out);
    found = fg_slice_search(fg_buf_slice(&out), text) != SIZE_MAX;
    fg_buf_done(&out);
    return found;
}

static void a_clock_a_day_behind_is_corrected(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f);
    hear(&f, DAY_NS, FG_MS_NS);
    assert_int_equal(correction_ns(&f), 0); /* one is no proof */
    hear(&f, DAY_NS, FG_MS_NS);
    assert_true(correction_ns(&f) > DAY_NS - FG_SECOND_NS);
    assert_true(correction_ns(&f) < DAY_NS + FG_SECOND_NS);
    assert_int_equal(cautious_ns(&f), 0);
    assert_true(is_said(&f, "behind"));
    hear(&f, DAY_NS + FG_SECOND_NS, FG_MS_NS); /* whole seconds do not move it */
    assert_true(correction_ns(&f) < DAY_NS + FG_SECOND_NS);
    hear(&f, 0, FG_MS_NS); /* somebody has set it */
    assert_int_equal(correction_ns(&f), 0);
    assert_false(is_said(&f, "clock_off"));
    close_fixture(&f);
}

static void a_clock_a_day_ahead_is_corrected(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f);
    hear(&f, -DAY_NS, FG_MS_NS);
    hear(&f, -DAY_NS, FG_MS_NS);
    assert_true(correction_ns(&f) < -DAY_NS + 2 * FG_SECOND_NS);
    assert_int_equal(cautious_ns(&f), correction_ns(&f));
    assert_true(is_said(&f, "ahead"));
    close_fixture(&f);
}

static void contradicting_and_slow_responses_do_not_correct_the_clock(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f);
    for (int i = 0; i < 3; i++)
        hear(&f, 20 * FG_SECOND_NS, FG_MS_NS); /* as much as clocks may differ */
    for (int i = 0; i < 3; i++)
        hear(&f, DAY_NS, 11 * FG_SECOND_NS); /* too long ago */
    for (int i = 0; i < 4; i++)
        hear(&f, (i + 1) * DAY_NS, FG_MS_NS); /* they do not agree */
    hear(&f, 0, FG_MS_NS);
    hear(&f, DAY_NS, FG_MS_NS);
    hear(&f, 0, FG_MS_NS); /* one of another opinion */
    hear(&f, DAY_NS, FG_MS_NS);
    assert_int_equal(correction_ns(&f), 0);
    fg_cluster_clock_heard(NULL, NOW_NS, 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_a_day_behind_is_corrected),
        cmocka_unit_test(a_clock_a_day_ahead_is_corrected),
        cmocka_unit_test(contradicting_and_slow_responses_do_not_correct_the_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
