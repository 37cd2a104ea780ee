/* What operators do with a target: pause, resend, drop. It holds across restarts and failed writes.
 */
#include "tests/unit/ingester/forward/outbox_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- pause ---- */

static void pause_holds_and_survives_a_restart(void **state)
{
    struct outbox_fixture *f = *state;
    struct fg_err err;

    outbox_push(f, 3, 0, 5);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_OK);
    assert_true(outbox_nothing_waits(f, 0));
    outbox_restart(f);
    assert_true(outbox_numbers(f, 0).paused && !outbox_numbers(f, 1).paused);
    assert_true(outbox_nothing_waits(f, 0));
    outbox_push(f, 3, 5, 5); /* it goes on to grow */
    assert_int_equal(outbox_run_drain(&f->run, 1, OUTBOX_DONE, NULL), 10);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, false, &err), FG_OK);
    outbox_restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
}

static void failed_pause_says_so_and_holds(void **state)
{
    struct outbox_fixture *f = *state;
    struct fg_err err;

    outbox_push(f, 1, 0, 5);
    outbox_fail_write(f, 1, false);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_E_UNAVAILABLE);
    assert_true(outbox_numbers(f, 0).paused);
    assert_true(outbox_nothing_waits(f, 0));
}

/* ---- resend ---- */

static struct ing_resend resending(struct outbox_fixture *f)
{
    struct ing_resend resend;

    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    return resend;
}

/* As soon as the store takes writes again. */
static struct ing_resend resending_later(struct outbox_fixture *f)
{
    struct ing_resend resend;

    while (!ing_outbox_get_resending(f->run.outbox, 0, &resend))
        outbox_run_settle(&f->run);
    return resend;
}

static struct ing_resend step(const struct ing_resend *before, int64_t time_ns)
{
    struct ing_resend now = *before;

    now.state = RESEND_READS;
    (void)snprintf(now.tenant, sizeof now.tenant, "team-a");
    now.time_ns = time_ns;
    now.sent++;
    return now;
}

static void resend_goes_on_after_a_restart_where_it_was(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend before, now, other;
    struct fg_err err;

    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &before));
    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 1, 2, &err), FG_E_EXISTS);
    outbox_restart(f);
    before = resending(f);
    assert_int_equal(before.state, RESEND_COMMITS);
    assert_int_equal(before.from_ns, 10);
    assert_int_equal(before.until_ns, 90);
    assert_false(ing_outbox_get_resending(f->run.outbox, 1, &other));
    now = step(&before, 20);
    (void)ing_outbox_note_resend(f->run.outbox, 0, &before, &now);
    outbox_run_settle(&f->run);
    outbox_restart(f);
    now = resending(f);
    assert_string_equal(now.tenant, "team-a");
    assert_int_equal(now.time_ns, 20);
    assert_int_equal(now.sent, 1);
    /* A note from another place belongs to a resend that an operator has ended. */
    other = step(&before, 30);
    (void)ing_outbox_note_resend(f->run.outbox, 0, &before, &other);
    assert_int_equal(resending(f).time_ns, 20);
}

static void paused_or_failing_target_is_not_resent_to(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend resend;
    struct fg_err err;

    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_OK);
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, false, &err), FG_OK);
    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    atomic_store(&f->faulty.full, true);
    assert_true(outbox_run_push(&f->run, 1, 0, 1, OUTBOX_RECORD_BYTES) != FG_OK);
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    atomic_store(&f->faulty.full, false);
    (void)resending_later(f);
}

static void ended_resend_stays_ended(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend before, now;
    struct fg_err err;
    uint64_t dropped;

    for (unsigned drops = 0; drops < 2; drops++) {
        assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
        before = resending(f);
        if (drops)
            assert_int_equal(ing_outbox_drop(f->run.outbox, 0, &dropped, &err), FG_OK);
        else
            assert_int_equal(ing_outbox_end_resend(f->run.outbox, 0, &err), FG_OK);
        now = step(&before, 20);
        (void)ing_outbox_note_resend(f->run.outbox, 0, &before, &now); /* of a page under way */
        assert_false(ing_outbox_get_resending(f->run.outbox, 0, &now));
        outbox_restart(f);
        assert_false(ing_outbox_get_resending(f->run.outbox, 0, &now));
        assert_int_equal(now.state, RESEND_DONE);
        assert_true(now.incomplete);
        assert_int_equal(now.ended_wall_ns, f->clock.wall_ns);
    }
    assert_int_equal(ing_outbox_end_resend(f->run.outbox, 0, &err), FG_OK); /* none is under way */
}

/* A page of a tenant has come to this time. */
static struct ing_resend step_of(const struct ing_resend *before, const char *tenant,
                                 int64_t time_ns)
{
    struct ing_resend now = step(before, time_ns);

    (void)snprintf(now.tenant, sizeof now.tenant, "%s", tenant);
    return now;
}

/* Begins a resend whose tenant "team-a" is held at 20, while "team-b" is at 30. */
static void pass_a_tenant(struct outbox_fixture *f)
{
    struct ing_resend before, now;
    struct fg_err err;

    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
    before = resending(f);
    now = step_of(&before, "team-a", 20);
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    ing_outbox_hold_resend(f->run.outbox, 0, "team-a", FG_MINUTE_NS);
    before = resending(f);
    assert_true(ing_resend_is_between_tenants(&before));
    now = step_of(&before, "team-b", 30);
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    assert_string_equal(resending(f).tenant, "team-b");
    outbox_run_settle(&f->run);
}

static void resend_passes_a_tenant_that_is_held(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend before, now;

    pass_a_tenant(f);
    assert_int_equal(outbox_numbers(f, 0).resend_held_tenants, 1);
    assert_int_equal(ing_outbox_held_ns(f->run.outbox, 0), FG_MINUTE_NS);
    before = resending(f);
    now = step_of(&before, "team-b", 89);
    now.id = (struct fg_id){UINT64_MAX, UINT64_MAX}; /* it is done */
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    before = resending(f);
    now = before;
    now.state = RESEND_DONE; /* no tenant follows */
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &now));
    assert_int_equal(outbox_numbers(f, 0).resend.state, RESEND_READS);
    fg_clock_manual_advance(&f->clock, FG_MINUTE_NS);
    before = resending(f);
    assert_string_equal(before.tenant, "team-a");
    assert_int_equal(before.time_ns, 20);
    now = step_of(&before, "team-a", 89);
    now.id = (struct fg_id){UINT64_MAX, UINT64_MAX};
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    assert_int_equal(outbox_numbers(f, 0).resend_held_tenants, 0);
    before = resending(f);
    assert_true(ing_resend_is_between_tenants(&before));
    now = before;
    now.state = RESEND_DONE;
    assert_true(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &now));
}

/* Holds end with a restart; places do not. */
static void restart_keeps_the_places_of_all_tenants(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend before;

    pass_a_tenant(f);
    outbox_restart(f);
    before = resending(f);
    assert_string_equal(before.tenant, "team-a");
    assert_int_equal(before.time_ns, 20);
    ing_outbox_hold_resend(f->run.outbox, 0, "team-a", FG_MINUTE_NS);
    before = resending(f);
    assert_string_equal(before.tenant, "team-b");
    assert_int_equal(before.time_ns, 30);
}

/* Writes a record of META as a version of before did, which left the other one as it was. */
static void put_resend_of_before(struct outbox_fixture *f, const struct ing_resend *resend)
{
    struct fg_store_batch batch;
    struct fg_buf key, value;
    struct fg_err err;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    fg_store_batch_init(&batch);
    ing_outbox_put_resend_key(&key, fg_cstr(f->targets[0].name));
    ing_outbox_put_resend(&value, resend);
    fg_store_put(&batch, HEAD_META, fg_buf_slice(&key), fg_buf_slice(&value));
    assert_int_equal(fg_store_write(&f->faulty.store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    fg_buf_done(&key);
    fg_buf_done(&value);
}

/* An older version goes on from the least place: what is beyond it is sent again, none is left. */
static void older_version_moves_the_least_place_only(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend resend;

    pass_a_tenant(f);
    outbox_restart(f);
    resend = resending(f); /* what an older version reads */
    outbox_run_close(&f->run);
    resend.time_ns = 25;
    put_resend_of_before(f, &resend);
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
    assert_int_equal(f->run.damage.repaired, 0);
    resend = resending(f);
    assert_string_equal(resend.tenant, "team-a");
    assert_int_equal(resend.time_ns, 25);
    ing_outbox_hold_resend(f->run.outbox, 0, "team-a", FG_MINUTE_NS);
    resend = resending(f);
    assert_true(ing_resend_is_between_tenants(&resend)); /* the one after team-a is next again */
    assert_string_equal(resend.tenant, "team-a");
}

/* Puts the record of an older version, and starts again. */
static void restart_after_older_version(struct outbox_fixture *f, const struct ing_resend *resend)
{
    outbox_run_close(&f->run);
    put_resend_of_before(f, resend);
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
    assert_int_equal(f->run.damage.repaired, 0);
}

static void older_version_that_has_ended_leaves_no_tenant_behind(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend resend;

    pass_a_tenant(f);
    outbox_restart(f);
    resend = resending(f);
    resend.state = RESEND_DONE;
    restart_after_older_version(f, &resend);
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    assert_int_equal(resend.state, RESEND_DONE);
    /* Another resend of the older version, which is at the place that this one left. */
    resend.state = RESEND_READS;
    resend.begun_wall_ns++;
    restart_after_older_version(f, &resend);
    ing_outbox_hold_resend(f->run.outbox, 0, "team-a", FG_MINUTE_NS);
    resend = resending(f);
    assert_true(ing_resend_is_between_tenants(&resend)); /* not in the middle of team-b */
    assert_string_equal(resend.tenant, "team-a");
}

/* That none follows is not in the store: it is found out once more. */
static void restart_after_the_last_tenant_has_begun_goes_on_with_the_held_one(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend before, now;

    pass_a_tenant(f);
    before = resending(f);
    now = step_of(&before, "team-b", 89);
    ing_resend_pass_time(&now, 89);
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    before = now = resending(f);
    now.state = RESEND_DONE;
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    outbox_run_settle(&f->run);
    outbox_restart(f);
    before = resending(f);
    assert_string_equal(before.tenant, "team-a");
    assert_int_equal(before.time_ns, 20);
    now = step_of(&before, "team-a", 89);
    ing_resend_pass_time(&now, 89);
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    before = now = resending(f);
    assert_true(ing_resend_is_between_tenants(&before));
    assert_string_equal(before.tenant, "team-b");
    now.state = RESEND_DONE;
    assert_true(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
}

/* What a page that was under way brings belongs to no resend that begins later. */
static void resend_that_ends_with_a_held_tenant_leaves_nothing_to_the_next(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_resend before, now;
    struct fg_err err;

    pass_a_tenant(f);
    before = resending(f);
    assert_int_equal(ing_outbox_end_resend(f->run.outbox, 0, &err), FG_OK);
    assert_int_equal(outbox_numbers(f, 0).resend_held_tenants, 0);
    assert_int_equal(ing_outbox_held_ns(f->run.outbox, 0), INT64_MAX);
    fg_clock_manual_advance(&f->clock, FG_SECOND_NS);
    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
    now = step_of(&before, "team-b", 50);
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    ing_outbox_hold_resend(f->run.outbox, 0, "team-b", FG_MINUTE_NS);
    before = resending(f);
    assert_int_equal(before.state, RESEND_COMMITS);
    now = before;
    now.state = RESEND_READS;
    assert_false(ing_outbox_note_resend(f->run.outbox, 0, &before, &now));
    before = resending(f);
    assert_string_equal(before.tenant, "");
    assert_int_equal(outbox_numbers(f, 0).resend_held_tenants, 0);
}

/* Whatever write fails, a crash never goes back behind what was written, nor forward beyond what
 * was noted: each step comes after the one before it. */
static void every_write_of_a_resend_fails(bool late)
{
    enum { STEPS = 5, WRITES_MAX = 10 /* more than there are */ };

    for (uint64_t k = 1; k <= WRITES_MAX; k++) {
        struct ing_resend before, now;
        struct outbox_fixture *f;
        struct fg_err err;
        void *state;

        (void)outbox_set_up(&state);
        f = state;
        outbox_fail_write(f, k, late);
        while (ing_outbox_resend(f->run.outbox, 0, 10, 90, &err) == FG_E_UNAVAILABLE)
            outbox_run_settle(&f->run);
        outbox_run_settle(&f->run);
        for (int64_t i = 1; i <= STEPS; i++) {
            before = resending_later(f);
            now = step(&before, 10 * i);
            (void)ing_outbox_note_resend(f->run.outbox, 0, &before, &now);
            if (i % 2 == 0) {
                outbox_restart(f); /* at once: the last step may not be written */
                before = resending_later(f);
                assert_in_range(before.time_ns, 10 * (i - 2), 10 * i);
                now = step(&before, 10 * i);
                (void)ing_outbox_note_resend(f->run.outbox, 0, &before, &now);
            }
            outbox_run_settle(&f->run);
        }
        outbox_restart(f);
        now = resending_later(f);
        assert_int_equal(now.time_ns, 10 * STEPS);
        assert_int_equal(now.from_ns, 10);
        (void)outbox_tear_down(&state);
    }
}

static void every_write_of_a_resend_fails_and_it_goes_on(void **state)
{
    (void)state;
    every_write_of_a_resend_fails(false);
}

static void every_write_of_a_resend_is_done_but_reported_failed_and_it_goes_on(void **state)
{
    (void)state;
    every_write_of_a_resend_fails(true);
}

/* ---- drop ---- */

static void drop_takes_what_waits_and_later_what_is_taken(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_outbox_span span, middle;
    struct ing_outbox_item *items;
    uint64_t profiles;
    struct fg_err err;
    size_t n;

    for (uint64_t i = 0; i < 5; i++) {
        outbox_push(f, 3, i * 10, 10);
        fg_clock_manual_advance(&f->clock, 2 * FG_MINUTE_NS);
    }
    span = outbox_take(f, 0);
    middle = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    items[0].outcome = OUTBOX_DONE;
    assert_int_equal(ing_outbox_drop(f->run.outbox, 0, &profiles, &err), FG_OK);
    assert_int_equal(profiles, 30);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 50 + 20);
    ing_outbox_report(f->run.outbox, &span, items, n); /* the others are not sent again */
    ing_outbox_put_back(f->run.outbox, &middle);
    outbox_run_settle(&f->run);
    assert_true(outbox_nothing_waits(f, 0));
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 50);
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_OPERATOR], 49);
    assert_int_equal(outbox_numbers(f, 0).done, 1);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 0);
    assert_int_equal(outbox_numbers(f, 1).pending_profiles, 50);
    /* With nothing to drop there is nothing to wait for. */
    assert_int_equal(ing_outbox_drop(f->run.outbox, 0, &profiles, &err), FG_OK);
    assert_int_equal(profiles, 0);
    outbox_restart(f);
    assert_true(outbox_nothing_waits(f, 0));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, outbox_set_up, outbox_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(pause_holds_and_survives_a_restart),
        TEST(failed_pause_says_so_and_holds),
        TEST(resend_goes_on_after_a_restart_where_it_was),
        TEST(paused_or_failing_target_is_not_resent_to),
        TEST(ended_resend_stays_ended),
        TEST(resend_passes_a_tenant_that_is_held),
        TEST(restart_keeps_the_places_of_all_tenants),
        TEST(older_version_moves_the_least_place_only),
        TEST(older_version_that_has_ended_leaves_no_tenant_behind),
        TEST(restart_after_the_last_tenant_has_begun_goes_on_with_the_held_one),
        TEST(resend_that_ends_with_a_held_tenant_leaves_nothing_to_the_next),
        cmocka_unit_test(every_write_of_a_resend_fails_and_it_goes_on),
        cmocka_unit_test(every_write_of_a_resend_is_done_but_reported_failed_and_it_goes_on),
        TEST(drop_takes_what_waits_and_later_what_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
