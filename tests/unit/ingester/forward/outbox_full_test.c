/* A queue that is full drops the oldest or refuses pushes, as its target says. */
#include "tests/unit/ingester/forward/outbox_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void full_queue_drops_the_oldest_that_are_not_taken(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_outbox_span span;

    f->targets[0].queue_max_bytes = 25 * (uint64_t)OUTBOX_RECORD_BYTES;
    outbox_restart(f);
    for (uint64_t i = 0; i < 2; i++) {
        outbox_push(f, 3, i * 10, 10);
        fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    }
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_BACKLOG, &span));
    outbox_push(f, 3, 20, 10); /* 30 of 25: the second ten go, the first are taken */
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_FULL], 10);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 20);
    assert_int_equal(outbox_numbers(f, 1).pending_profiles, 30);
    ing_outbox_put_back(f->run.outbox, &span);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 20 + 30);
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    outbox_push(f, 3, 30, 10);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_FULL], 20);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 20 + 40);
    /* A smaller bound holds at the start. */
    f->targets[0].queue_max_bytes = 15 * (uint64_t)OUTBOX_RECORD_BYTES;
    outbox_restart(f);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 10);
}

static bool wants_one(void *arg, struct fg_slice tenant)
{
    return fg_slice_is(tenant, arg);
}

static void full_queue_refuses_pushes_of_its_tenants_until_it_has_room(void **state)
{
    static char name[] = "tenant";
    struct outbox_fixture *f = *state;
    struct fg_err err;

    f->targets[0].queue_max_bytes = 10 * (uint64_t)OUTBOX_RECORD_BYTES;
    f->targets[0].when_full = OUTBOX_REFUSE;
    f->targets[0].wants = wants_one;
    f->targets[0].arg = name;
    outbox_restart(f);
    assert_int_equal(ing_outbox_wants(f->run.outbox, FG_LIT("tenant")), 3);
    assert_int_equal(ing_outbox_wants(f->run.outbox, FG_LIT("another")), 2);
    outbox_push(f, 3, 0, 9);
    assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_OK);
    outbox_push(f, 3, 9, 1);
    for (unsigned i = 0; i < 2; i++) { /* also after a restart */
        assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_E_LIMIT);
        assert_non_null(strstr(err.msg, "central"));
        assert_non_null(strstr(err.msg, "queue_max_bytes"));
        assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("another"), &err), FG_OK);
        assert_int_equal(outbox_numbers(f, 0).refused_pushes, 1);
        if (i == 0)
            outbox_restart(f);
    }
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
    outbox_run_settle(&f->run);
    assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_OK);
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_FULL], 0);
}

/* Each group that is pinned takes memory of the head: a target that is away must not use it up. */
static void too_many_groups_drop_the_oldest(void **state)
{
    enum { GROUPS = 100, OF_GROUP = 20, GROUPS_MAX = 32 };
    struct outbox_fixture *f = *state;
    unsigned seen[GROUPS * OF_GROUP] = {0};

    outbox_run_groups_max = GROUPS_MAX;
    outbox_restart(f);
    for (unsigned i = 0; i < GROUPS; i++) {
        outbox_push(f, 1, (uint64_t)i * OF_GROUP, OF_GROUP);
        fg_clock_manual_advance(&f->clock, 2 * FG_MINUTE_NS);
        assert_true(outbox_numbers(f, 0).pending_profiles <= (uint64_t)GROUPS_MAX * OF_GROUP);
    }
    assert_true(outbox_numbers(f, 0).pending_profiles >= (uint64_t)GROUPS_MAX / 2 * OF_GROUP);
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_FULL] +
                         outbox_numbers(f, 0).pending_profiles,
                     GROUPS * OF_GROUP);
    /* Another start with less room drops more. */
    outbox_run_groups_max = GROUPS_MAX / 2;
    outbox_restart(f);
    assert_true(outbox_numbers(f, 0).pending_profiles <= (uint64_t)GROUPS_MAX / 2 * OF_GROUP);
    (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen);
    for (unsigned n = 1; n < GROUPS * OF_GROUP; n++)
        assert_true(seen[n - 1] <= seen[n]); /* the newest are there */
    assert_int_equal(seen[GROUPS * OF_GROUP - 1], 1);
    outbox_run_groups_max = UINT32_MAX;
}

static void too_many_groups_refuse_pushes_only_if_nothing_may_be_dropped(void **state)
{
    enum { OF_GROUP = 20, GROUPS_MAX = 32 };
    struct outbox_fixture *f = *state;
    struct fg_err err;
    uint64_t n = 0;

    outbox_run_groups_max = GROUPS_MAX;
    f->targets[0].when_full = OUTBOX_REFUSE;
    outbox_restart(f);
    while (ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err) == FG_OK) {
        outbox_push(f, 3, n, OF_GROUP);
        fg_clock_manual_advance(&f->clock, 2 * FG_MINUTE_NS);
        n += OF_GROUP;
    }
    assert_non_null(strstr(err.msg, "ingester.catalog_max_bytes"));
    /* All of the other target went first. */
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_FULL], 0);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, n);
    assert_int_equal(outbox_numbers(f, 1).pending_profiles, 0);
    assert_true(n >= (uint64_t)(GROUPS_MAX - 4) * OF_GROUP);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), n);
    outbox_run_settle(&f->run);
    assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_OK);
    outbox_run_groups_max = UINT32_MAX;
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, outbox_set_up, outbox_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(full_queue_drops_the_oldest_that_are_not_taken),
        TEST(full_queue_refuses_pushes_of_its_tenants_until_it_has_room),
        TEST(too_many_groups_drop_the_oldest),
        TEST(too_many_groups_refuse_pushes_only_if_nothing_may_be_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
