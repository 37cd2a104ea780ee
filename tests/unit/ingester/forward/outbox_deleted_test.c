/* Deleted profiles leave the queues, whatever the target and the sender do meanwhile, and the
 * outbox says that it is clean only when the store has none of them. */
#include "tests/unit/ingester/forward/outbox_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- what is deleted ---- */

static struct {
    atomic_bool tenant;          /* all of it */
    atomic_int failures;         /* so many reads fail */
    int64_t first_ns, second_ns; /* a deletion of these times, inclusive; second 0: there is none */
} deleted;

static bool is_tenant(void *arg, struct fg_slice tenant)
{
    (void)arg;
    return fg_slice_is(tenant, "tenant") && atomic_load(&deleted.tenant);
}

static enum fg_code read_deletions(void *arg, struct fg_slice tenant, struct fg_arena *arena,
                                   struct fg_deletions *ret_deletions, struct fg_err *err)
{
    struct fg_deletion deletion = {.start_ns = deleted.first_ns, .end_ns = deleted.second_ns};

    (void)arg;
    assert_true(fg_slice_is(tenant, "tenant"));
    *ret_deletions = (struct fg_deletions){0};
    if (atomic_fetch_sub(&deleted.failures, 1) > 0)
        return fg_fail(err, FG_E_UNAVAILABLE, "the bucket is away");
    if (deleted.second_ns == 0)
        return FG_OK;
    assert_int_equal(fg_selector_parse(FG_LIT("{}"), arena, &deletion.selector, err), FG_OK);
    return fg_deletions_add(ret_deletions, &deletion, arena, err);
}

static const struct ing_deleted fake = {is_tenant, read_deletions, NULL};

static int set_up(void **state)
{
    deleted.first_ns = deleted.second_ns = 0;
    atomic_store(&deleted.tenant, false);
    atomic_store(&deleted.failures, 0);
    outbox_run_deleted = &fake;
    return outbox_set_up(state);
}

static int tear_down(void **state)
{
    outbox_run_deleted = NULL;
    return outbox_tear_down(state);
}

/* Asks for a number, and waits until the outbox is clean of it. */
static void wait_clean(struct outbox_fixture *f, uint64_t number)
{
    while (ing_outbox_clean(f->run.outbox, number) < number)
        outbox_run_settle(&f->run);
}

static bool is_pinned(struct outbox_fixture *f, uint64_t n)
{
    const struct ing_head_profile_key key = outbox_key(&f->run, n);

    return ing_outbox_pins(f->run.outbox, &key.chunk.group);
}

/* ---- tests ---- */

/* Groups have 20 profiles each, and one span has all: a pin from the first to the last entry of a
 * group would hold the group that is deleted as long as its neighbours wait. */
static void deleted_profiles_and_their_pins_go_while_the_target_is_paused(void **state)
{
    struct outbox_fixture *f = *state;
    unsigned seen[60] = {0};
    struct fg_err err;

    outbox_push(f, 3, 40, 10); /* also before what is deleted ... */
    outbox_push(f, 3, 0, 40);
    outbox_push(f, 3, 50, 10); /* ... and after it */
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_OK);
    wait_clean(f, 1);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 120);
    deleted.first_ns = 15;
    deleted.second_ns = 39;
    wait_clean(f, 2);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 70);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(outbox_numbers(f, i).pending_profiles, 35);
        assert_int_equal(outbox_numbers(f, i).dropped[OUTBOX_BY_DELETED], 25);
        assert_int_equal(outbox_numbers(f, i).dead, 0);
    }
    assert_true(is_pinned(f, 0) && is_pinned(f, 40));
    assert_false(is_pinned(f, 20));
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, false, &err), FG_OK);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen), 35);
    for (unsigned n = 0; n < 60; n++)
        assert_int_equal(seen[n], n < 15 || n >= 40);
    assert_int_equal(outbox_run_drain(&f->run, 1, OUTBOX_DONE, NULL), 35);
    outbox_run_settle(&f->run);
    assert_false(is_pinned(f, 0) || is_pinned(f, 40));
}

/* What the sender has may wait again. */
static void look_waits_for_spans_that_are_taken(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    outbox_push(f, 1, 0, 20);
    span = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    deleted.first_ns = 5;
    deleted.second_ns = 9;
    assert_int_equal(ing_outbox_clean(f->run.outbox, 1), 0);
    for (int i = 0; i < 5; i++) {
        outbox_run_settle(&f->run);
        assert_int_equal(ing_outbox_clean(f->run.outbox, 1), 0);
    }
    items[0].outcome = OUTBOX_DONE;
    ing_outbox_report(f->run.outbox, &span, items, n);
    wait_clean(f, 1);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 14);
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_DELETED], 5);
    assert_int_equal(outbox_numbers(f, 0).done, 1);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 14);
}

/* Before any look has come to them. */
static void profiles_of_a_deleted_tenant_are_not_handed_out(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    outbox_push(f, 3, 0, 5);
    atomic_store(&deleted.tenant, true);
    span = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].outcome, OUTBOX_DELETED);
        assert_int_equal(items[i].record.len, 0);
    }
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_DELETED], 5);
    assert_int_equal(outbox_numbers(f, 1).pending_profiles, 5);
    wait_clean(f, 1);
    assert_int_equal(outbox_numbers(f, 1).pending_profiles, 0);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    assert_false(is_pinned(f, 0));
}

/* A restart would find what was not written, and send it. */
static void clean_is_said_only_when_the_store_has_none(void **state)
{
    struct outbox_fixture *f = *state;

    for (int late = 0; late < 2; late++) {
        outbox_push(f, 3, 100 * (uint64_t)late, 20);
        deleted.first_ns = 100 * late;
        deleted.second_ns = 100 * late + 19;
        atomic_store(&deleted.failures, 1); /* it is read again */
        outbox_fail_write(f, 1, late == 1);
        wait_clean(f, 1 + (uint64_t)late);
        assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
        outbox_restart(f);
        assert_true(outbox_nothing_waits(f, 0) && outbox_nothing_waits(f, 1));
    }
}

/* A deletion that was just asked for does not wait for the compactor's number. */
static void look_comes_when_it_is_wanted(void **state)
{
    struct outbox_fixture *f = *state;

    outbox_push(f, 1, 0, 20);
    deleted.second_ns = 9;
    ing_outbox_drop_deleted(f->run.outbox);
    while (outbox_numbers(f, 0).pending_profiles > 10)
        outbox_run_settle(&f->run);
    assert_int_equal(ing_outbox_clean(f->run.outbox, 0), 0);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(deleted_profiles_and_their_pins_go_while_the_target_is_paused),
        TEST(look_waits_for_spans_that_are_taken),
        TEST(profiles_of_a_deleted_tenant_are_not_handed_out),
        TEST(clean_is_said_only_when_the_store_has_none),
        TEST(look_comes_when_it_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
