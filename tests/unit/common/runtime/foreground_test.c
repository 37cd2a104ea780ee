/* How threads of a low priority let pushes of agents pass: what they wait for, and for how long. */
#include "common/base/time.h"
#include "common/runtime/foreground.h"
#include "common/runtime/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

enum { ROUNDS = 200, STEPS = 200, PUSHES = 2000, PUSHERS = 3, WAITERS = 3 };

static void patience_lasts_four_times_as_long_as_the_work(void **state)
{
    struct fg_patience patience = {0};

    (void)state;
    fg_patience_worked(&patience, 1000); /* the first call: how long it has worked is not known */
    assert_int_equal(patience.left_ns, 0);
    fg_patience_worked(&patience, 1000 + FG_MS_NS);
    assert_int_equal(patience.left_ns, 4 * FG_MS_NS);
    fg_patience_waited(&patience, 1000 + 4 * FG_MS_NS);
    assert_int_equal(patience.left_ns, FG_MS_NS);
    fg_patience_worked(&patience, 1000 + 5 * FG_MS_NS); /* what was waited is not work */
    assert_int_equal(patience.left_ns, 5 * FG_MS_NS);
}

static void patience_has_bounds(void **state)
{
    struct fg_patience patience = {0};

    (void)state;
    fg_patience_worked(&patience, 1);
    fg_patience_worked(&patience, INT64_MAX); /* a worker that was idle for long */
    assert_int_equal(patience.left_ns, 20 * FG_MS_NS);
    fg_patience_worked(&patience, INT64_MAX);
    assert_int_equal(patience.left_ns, 20 * FG_MS_NS);
    patience.since_mono_ns = 0;
    fg_patience_waited(&patience, FG_SECOND_NS); /* it was woken late */
    assert_int_equal(patience.left_ns, 0);
}

/* ---- threads ---- */

/* Works in steps of no time at all, after a pause that gives it all the patience there is. */
static void step(void *arg)
{
    const struct timespec pause = {.tv_nsec = 10 * FG_MS_NS};

    if (*(bool *)arg)
        fg_thread_lower_priority();
    fg_foreground_let_pass();
    (void)nanosleep(&pause, NULL);
    for (unsigned i = 0; i < STEPS; i++)
        fg_foreground_let_pass();
}

/* Returns how long a thread has waited that makes all its steps. */
static int64_t run_steps(bool low)
{
    int64_t before = fg_foreground_waited_ns();
    struct fg_thread thread;
    struct fg_err err;

    fg_thread_init(&thread);
    assert_int_equal(fg_thread_start(&thread, "steps", step, &low, &err), FG_OK);
    fg_thread_join(&thread);
    fg_thread_done(&thread);
    return fg_foreground_waited_ns() - before;
}

static void only_threads_of_a_low_priority_wait(void **state)
{
    (void)state;
    fg_foreground_begin();
    assert_int_equal(run_steps(false), 0);
    assert_true(run_steps(true) >= 20 * FG_MS_NS); /* and it ends: its patience does */
    fg_foreground_end();
    assert_int_equal(run_steps(true), 0);
}

static void work_that_is_under_way_twice_ends_twice(void **state)
{
    (void)state;
    fg_foreground_begin();
    fg_foreground_begin();
    fg_foreground_end();
    assert_true(run_steps(true) > 0);
    fg_foreground_end();
    assert_int_equal(run_steps(true), 0);
}

static atomic_bool is_next;

static void wait_once(void *arg)
{
    const struct timespec pause = {.tv_nsec = 10 * FG_MS_NS};

    (void)arg;
    fg_thread_lower_priority();
    fg_foreground_let_pass();
    (void)nanosleep(&pause, NULL);
    atomic_store(&is_next, true);
    fg_foreground_let_pass();
}

/* Else each wait lasts as long as the patience. In some rounds it may: the machine does other
 * things, or the work has ended before the wait begins. */
static void end_of_the_work_ends_the_wait(void **state)
{
    const struct timespec pause = {.tv_nsec = FG_MS_NS};
    int64_t waited = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS && (waited == 0 || waited >= 20 * FG_MS_NS); i++) {
        int64_t before = fg_foreground_waited_ns();
        struct fg_thread thread;
        struct fg_err err;

        atomic_store(&is_next, false);
        fg_foreground_begin();
        fg_thread_init(&thread);
        assert_int_equal(fg_thread_start(&thread, "waits", wait_once, NULL, &err), FG_OK);
        while (!atomic_load(&is_next))
            (void)nanosleep(&pause, NULL);
        (void)nanosleep(&pause, NULL);
        fg_foreground_end();
        fg_thread_join(&thread);
        fg_thread_done(&thread);
        waited = fg_foreground_waited_ns() - before;
    }
    assert_in_range(waited, 1, 20 * FG_MS_NS - 1);
}

static atomic_bool pushers_run;

static void push(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < PUSHES; i++) {
        fg_foreground_begin();
        fg_foreground_end();
    }
}

static void wait_for_pushes(void *arg)
{
    (void)arg;
    fg_thread_lower_priority();
    while (atomic_load(&pushers_run))
        fg_foreground_let_pass();
}

/* Begins and ends come from many threads while others go to sleep and are woken. */
static void pushes_and_waits_of_many_threads_end(void **state)
{
    struct fg_thread pushers[PUSHERS], waiters[WAITERS];
    struct fg_err err;

    (void)state;
    atomic_store(&pushers_run, true);
    for (unsigned i = 0; i < WAITERS; i++) {
        fg_thread_init(&waiters[i]);
        assert_int_equal(fg_thread_start(&waiters[i], "waits", wait_for_pushes, NULL, &err), FG_OK);
    }
    for (unsigned i = 0; i < PUSHERS; i++) {
        fg_thread_init(&pushers[i]);
        assert_int_equal(fg_thread_start(&pushers[i], "pushes", push, NULL, &err), FG_OK);
    }
    for (unsigned i = 0; i < PUSHERS; i++) {
        fg_thread_join(&pushers[i]);
        fg_thread_done(&pushers[i]);
    }
    atomic_store(&pushers_run, false);
    for (unsigned i = 0; i < WAITERS; i++) {
        fg_thread_join(&waiters[i]);
        fg_thread_done(&waiters[i]);
    }
    assert_int_equal(run_steps(true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_lasts_four_times_as_long_as_the_work),
        cmocka_unit_test(patience_has_bounds),
        cmocka_unit_test(only_threads_of_a_low_priority_wait),
        cmocka_unit_test(work_that_is_under_way_twice_ends_twice),
        cmocka_unit_test(end_of_the_work_ends_the_wait),
        cmocka_unit_test(pushes_and_waits_of_many_threads_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
