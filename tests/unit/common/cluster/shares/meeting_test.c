#include "common/cluster/shares/share_clock.h"
#include "common/cluster/shares/share_core.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct fg_quota_span today = {86400, 2 * 86400};
enum { NOON_S = 86400 + 43200 };

static struct fg_meeting_use say(struct fg_meeting *meeting, uint64_t process, const char *tenant,
                                 double demand, uint64_t bytes, double at_s)
{
    int64_t now_ns = (int64_t)(at_s * FG_SECOND_NS);
    struct fg_meeting_use use = {
        .tenant = fg_cstr(tenant), .demand = demand, .span = today, .bytes = bytes};

    fg_meeting_join(meeting, process, now_ns);
    fg_meeting_hear(meeting, process, &use, now_ns, NOON_S);
    return fg_meeting_sum(meeting, fg_cstr(tenant), &today, now_ns);
}

/* end_s 0: in the period that was heard of last. */
static uint64_t bytes_in(struct fg_meeting *meeting, const char *tenant, int64_t start_s,
                         int64_t end_s)
{
    const struct fg_quota_span span = {start_s, end_s};

    return fg_meeting_sum(meeting, fg_cstr(tenant), &span, 0).bytes;
}

static uint64_t bytes_of(struct fg_meeting *meeting, const char *tenant)
{
    return bytes_in(meeting, tenant, 0, 0);
}

static void hear_bytes(struct fg_meeting *meeting, uint64_t process, int64_t start_s, int64_t end_s,
                       uint64_t bytes, int64_t wall_s)
{
    const struct fg_meeting_use use = {
        .tenant = FG_LIT("a"), .span = {start_s, end_s}, .bytes = bytes};

    fg_meeting_join(meeting, process, 0);
    fg_meeting_hear(meeting, process, &use, 0, wall_s);
}

static void sums_are_of_all_that_take_part(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_meeting_use sum;

    (void)state;
    (void)say(meeting, 1, "a", 10, 100, 1);
    (void)say(meeting, 2, "a", 5, 50, 1);
    (void)say(meeting, 2, "b", 7, 70, 1);
    sum = say(meeting, 1, "a", 20, 110, 2); /* in place of what it said before */
    assert_true(sum.demand == 25 && sum.processes == 2 && sum.bytes == 160);
    assert_int_equal(fg_meeting_processes(meeting, 2 * FG_SECOND_NS), 2);
    fg_meeting_destroy(meeting);
}

static void a_silent_process_has_no_demand_and_keeps_its_counts(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_meeting_use sum;

    (void)state;
    (void)say(meeting, 1, "a", 10, 100, 1);
    (void)say(meeting, 2, "a", 5, 50, 10);
    sum = say(meeting, 2, "a", 5, 50, 15.9);
    assert_true(sum.demand == 15 && sum.processes == 2);
    sum = say(meeting, 2, "a", 5, 50, 16);
    assert_true(sum.demand == 5 && sum.processes == 1 && sum.bytes == 150);
    assert_int_equal(fg_meeting_processes(meeting, 16 * FG_SECOND_NS), 1);
    fg_meeting_destroy(meeting);
}

static void counts_only_grow_and_end_with_their_period(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_meeting_use use = {.tenant = FG_LIT("a"), .span = today, .bytes = 100};

    (void)state;
    fg_meeting_join(meeting, 1, 0);
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S);
    use.bytes = 40; /* late on its way */
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S);
    assert_int_equal(bytes_of(meeting, "a"), 100);
    use.span = (struct fg_quota_span){2 * 86400, 3 * 86400};
    use.bytes = 1;
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S + 86400);
    assert_int_equal(bytes_of(meeting, "a"), 1);
    use.span = today; /* late as well */
    use.bytes = 200;
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S + 86400);
    assert_int_equal(bytes_of(meeting, "a"), 1);
    fg_meeting_destroy(meeting);
}

/* The limit of a week was made one of a month: processes learn of it one after the other. */
static void periods_are_counted_apart(void **state)
{
    enum { WEEK_S = 7 * 86400, MONTH_S = 30 * 86400 };
    struct fg_meeting *meeting = fg_meeting_create(), *next = fg_meeting_create();
    struct fg_buf value;
    struct fg_err err;

    (void)state;
    fg_buf_init(&value, FG_MEETING_MAX_BYTES);
    hear_bytes(meeting, 1, 86400, WEEK_S, 100, NOON_S);
    hear_bytes(meeting, 2, 86400, WEEK_S, 10, NOON_S);
    hear_bytes(meeting, 1, 0, MONTH_S, 5000, NOON_S);
    hear_bytes(meeting, 2, 86400, WEEK_S, 20, NOON_S);
    hear_bytes(meeting, 2, 0, MONTH_S, 5000, NOON_S);
    hear_bytes(meeting, 2, 0, 2 * 86400, 3, NOON_S); /* of another length */
    assert_int_equal(bytes_in(meeting, "a", 86400, WEEK_S), 120);
    assert_int_equal(bytes_in(meeting, "a", 0, MONTH_S), 10000);
    assert_int_equal(bytes_in(meeting, "a", 0, 2 * 86400), 3);
    assert_int_equal(bytes_in(meeting, "a", 0, 3 * 86400), 0);
    /* They outlive a restart, until each ends. */
    assert_int_equal(fg_meeting_encode(meeting, NOON_S, &value, &err), FG_OK);
    assert_int_equal(fg_meeting_decode(next, fg_buf_slice(&value), NOON_S + WEEK_S, &err), FG_OK);
    assert_int_equal(bytes_in(next, "a", 0, MONTH_S), 10000);
    assert_int_equal(bytes_in(next, "a", 86400, WEEK_S), 0);
    fg_buf_done(&value);
    fg_meeting_destroy(next);
    fg_meeting_destroy(meeting);
}

/* The number of periods is bounded: the one that nobody speaks of any more goes. */
static void many_periods_of_a_tenant_replace_the_oldest(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_meeting_use use = {.tenant = FG_LIT("a"), .bytes = 7};

    (void)state;
    for (int64_t i = 0; i < 100; i++) {
        int64_t now_ns = i * FG_SECOND_NS;

        fg_meeting_join(meeting, 1, now_ns);
        (void)say(meeting, 1, "a", 0, 100, (double)i);
        use.span = (struct fg_quota_span){0, NOON_S + 1000 + i};
        fg_meeting_hear(meeting, 1, &use, now_ns, NOON_S);
    }
    assert_int_equal(bytes_in(meeting, "a", today.start_s, today.end_s), 100);
    assert_int_equal(bytes_in(meeting, "a", 0, NOON_S + 1000), 0);
    assert_int_equal(bytes_in(meeting, "a", 0, NOON_S + 1099), 7);
    fg_meeting_destroy(meeting);
}

/* One process is in the next period already. */
static void a_clock_that_is_ahead_takes_no_counts_away(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create();
    const int64_t hour_s = NOON_S, next_s = NOON_S + 3600;

    (void)state;
    hear_bytes(meeting, 1, hour_s, next_s, 4000, NOON_S + 600);
    hear_bytes(meeting, 2, next_s, next_s + 3600, 9, NOON_S + 600); /* by 50 minutes */
    hear_bytes(meeting, 1, hour_s, next_s, 4001, NOON_S + 610);
    assert_int_equal(bytes_in(meeting, "a", hour_s, next_s), 4001);
    assert_int_equal(bytes_in(meeting, "a", next_s, next_s + 3600), 0);
    /* In the last minute of the hour both have counts. */
    hear_bytes(meeting, 2, next_s, next_s + 3600, 12, next_s - FG_MEETING_AHEAD_MAX_S);
    assert_int_equal(bytes_in(meeting, "a", hour_s, next_s), 4001);
    assert_int_equal(bytes_in(meeting, "a", next_s, next_s + 3600), 12);
    fg_meeting_destroy(meeting);
}

static bool clock_round(struct fg_share_clock *clock, int64_t a_s, int64_t b_s)
{
    fg_share_clock_begin(clock);
    fg_share_clock_hear(clock, NOON_S, a_s);
    fg_share_clock_hear(clock, NOON_S, b_s);
    return fg_share_clock_end(clock);
}

static void a_clock_is_apart_if_no_place_has_its_time(void **state)
{
    struct fg_share_clock clock = {.heard = false};

    (void)state;
    assert_false(clock_round(&clock, 0, 0)); /* older programs */
    assert_false(clock_round(&clock, NOON_S - 3000, NOON_S + 1));
    assert_true(clock_round(&clock, NOON_S - 3000, NOON_S - 2990));
    assert_int_equal(clock.ahead_s, 2990);
    assert_true(clock_round(&clock, 0, 0)); /* as it was */
    assert_true(clock_round(&clock, NOON_S + 61, 0));
    assert_false(clock_round(&clock, NOON_S + 60, 0));
    assert_true(clock_round(&clock, INT64_MIN, INT64_MAX) && clock.ahead_s < 0); /* nonsense */
}

static void impossible_demands_are_left_out(void **state)
{
    static const double demands[] = {NAN, INFINITY, -1, 1e300};
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_meeting_use use = {
        .tenant = FG_LIT("a"), .span = {NOON_S + 2 * 3600, NOON_S + 3 * 3600}, .bytes = 5};

    (void)state;
    fg_meeting_join(meeting, 0, 0); /* who only asks */
    fg_meeting_hear(meeting, 0, &use, 0, NOON_S);
    assert_int_equal(fg_meeting_processes(meeting, 0), 0);
    fg_meeting_join(meeting, 1, 0);
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S); /* a clock that is two hours ahead */
    use.span = (struct fg_quota_span){NOON_S, NOON_S - 1};
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S);
    use.span = (struct fg_quota_span){-5, NOON_S + 1};
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S);
    for (size_t i = 0; i < FG_COUNT(demands); i++) {
        use.demand = demands[i];
        fg_meeting_hear(meeting, 1, &use, 0, NOON_S);
    }
    use = (struct fg_meeting_use){.tenant = FG_LIT("../a"), .demand = 1};
    fg_meeting_hear(meeting, 1, &use, 0, NOON_S);
    use = (struct fg_meeting_use){.tenant = FG_LIT("a"), .demand = 1};
    fg_meeting_hear(meeting, 7, &use, 0, NOON_S); /* does not take part */
    assert_true(bytes_of(meeting, "a") == 0 && bytes_of(meeting, "../a") == 0);
    assert_true(fg_meeting_sum(meeting, FG_LIT("a"), &today, 0).demand == 0);
    /* A sum that does not fit is all there can be, not little. */
    (void)say(meeting, 1, "a", 0, UINT64_MAX - 1, 0);
    (void)say(meeting, 2, "a", 0, 5, 0);
    assert_true(bytes_of(meeting, "a") == UINT64_MAX);
    fg_meeting_destroy(meeting);
}

/* A process that restarts a hundred times a day counts under a hundred ids. */
static void counts_of_processes_that_are_gone_become_one(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_meeting_use sum = {0};
    struct fg_buf before, after;
    struct fg_err err;

    (void)state;
    fg_buf_init(&before, FG_MEETING_MAX_BYTES);
    fg_buf_init(&after, FG_MEETING_MAX_BYTES);
    for (uint64_t i = 1; i <= FG_MEETING_COUNTS_MAX; i++)
        sum = say(meeting, i, "a", 0, 10, (double)i * 20);
    assert_int_equal(fg_meeting_encode(meeting, NOON_S, &before, &err), FG_OK);
    for (uint64_t i = 1; i <= 2 * FG_MEETING_COUNTS_MAX; i++)
        sum = say(meeting, 1000 + i, "a", 0, 10, 5000 + (double)i * 20);
    assert_int_equal(sum.bytes, 3 * FG_MEETING_COUNTS_MAX * 10);
    assert_int_equal(fg_meeting_encode(meeting, NOON_S, &after, &err), FG_OK);
    assert_true(after.len < before.len + 200);
    fg_buf_done(&before);
    fg_buf_done(&after);
    fg_meeting_destroy(meeting);
}

static void too_many_tenants_or_processes_are_left_out(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_meeting_use use = {.demand = 1};
    char name[16];

    (void)state;
    for (uint64_t i = 1; i <= FG_MEETING_PROCESSES_MAX + 10; i++)
        fg_meeting_join(meeting, i, 0);
    assert_int_equal(fg_meeting_processes(meeting, 0), FG_MEETING_PROCESSES_MAX);
    for (int i = 0; i < FG_MEETING_TENANTS_MAX + 10; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        use.tenant = fg_cstr(name);
        fg_meeting_hear(meeting, 1, &use, 0, NOON_S);
    }
    assert_true(fg_meeting_sum(meeting, FG_LIT("t0"), &today, 0).demand == 1);
    assert_true(fg_meeting_sum(meeting, use.tenant, &today, 0).demand == 0);
    /* When the others have been silent for long enough there is room. */
    fg_meeting_join(meeting, 1, 100 * FG_SECOND_NS);
    fg_meeting_hear(meeting, 1, &use, 100 * FG_SECOND_NS, NOON_S);
    assert_true(fg_meeting_sum(meeting, use.tenant, &today, 100 * FG_SECOND_NS).demand == 1);
    fg_meeting_destroy(meeting);
}

static void counts_outlive_a_restart_and_demand_does_not(void **state)
{
    struct fg_meeting *meeting = fg_meeting_create(), *next = fg_meeting_create();
    struct fg_meeting_use sum;
    struct fg_buf value;
    struct fg_err err;

    (void)state;
    fg_buf_init(&value, FG_MEETING_MAX_BYTES);
    (void)say(meeting, 1, "a", 10, 100, 1);
    (void)say(meeting, 2, "a", 10, 50, 1);
    (void)say(meeting, 2, "b", 10, 7, 1);
    assert_int_equal(fg_meeting_encode(meeting, NOON_S, &value, &err), FG_OK);
    assert_int_equal(fg_meeting_decode(next, fg_buf_slice(&value), NOON_S, &err), FG_OK);
    sum = say(next, 2, "a", 4, 60, 0); /* goes on; the other is gone */
    assert_true(sum.demand == 4 && sum.bytes == 160 && bytes_of(next, "b") == 7);
    fg_meeting_destroy(next);
    /* The period has ended meanwhile. */
    next = fg_meeting_create();
    assert_int_equal(fg_meeting_decode(next, fg_buf_slice(&value), NOON_S + 86400, &err), FG_OK);
    assert_true(bytes_of(next, "a") == 0);
    value.ptr[value.len / 2] ^= 1;
    assert_int_equal(fg_meeting_decode(next, fg_buf_slice(&value), NOON_S, &err), FG_E_CORRUPT);
    fg_buf_done(&value);
    fg_meeting_destroy(next);
    fg_meeting_destroy(meeting);
}

static uint32_t round_of(struct fg_share_core *core, uint32_t a, uint32_t b, double at_s)
{
    fg_share_core_begin(core);
    if (a > 0)
        fg_share_core_hear(core, a);
    if (b > 0)
        fg_share_core_hear(core, b);
    return fg_share_core_end(core, (int64_t)(at_s * FG_SECOND_NS));
}

static void the_number_of_processes_is_the_greatest_for_a_while(void **state)
{
    struct fg_share_core core;

    (void)state;
    fg_share_core_init(&core);
    assert_int_equal(round_of(&core, 0, 0, 1), 1);
    assert_int_equal(round_of(&core, 3, 1, 2), 3); /* one place is new */
    assert_int_equal(round_of(&core, 1, 0, 4), 3); /* only the new one answers */
    assert_int_equal(round_of(&core, 2, 2, 31.9), 3);
    assert_int_equal(round_of(&core, 2, 1, 32), 2);
    assert_int_equal(round_of(&core, 0, 0, 1000), 2); /* nobody answers: as it was */
    assert_int_equal(round_of(&core, 1, 1, 1001), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_of_all_that_take_part),
        cmocka_unit_test(a_silent_process_has_no_demand_and_keeps_its_counts),
        cmocka_unit_test(counts_only_grow_and_end_with_their_period),
        cmocka_unit_test(periods_are_counted_apart),
        cmocka_unit_test(many_periods_of_a_tenant_replace_the_oldest),
        cmocka_unit_test(a_clock_that_is_ahead_takes_no_counts_away),
        cmocka_unit_test(a_clock_is_apart_if_no_place_has_its_time),
        cmocka_unit_test(impossible_demands_are_left_out),
        cmocka_unit_test(counts_of_processes_that_are_gone_become_one),
        cmocka_unit_test(too_many_tenants_or_processes_are_left_out),
        cmocka_unit_test(counts_outlive_a_restart_and_demand_does_not),
        cmocka_unit_test(the_number_of_processes_is_the_greatest_for_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
