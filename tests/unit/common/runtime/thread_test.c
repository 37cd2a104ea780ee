/* A thread sleeps until it is woken, until its time or until it has to stop, and leaves nothing. */
#include "common/base/time.h"
#include "common/runtime/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include <cmocka.h>

struct counter {
    struct fg_thread thread;
    unsigned wanted, done; /* of the thread's lock */
    bool ended;
    char name[16];
};

static void count(void *arg)
{
    struct counter *counter = arg;

    (void)pthread_getname_np(pthread_self(), counter->name, sizeof counter->name);
    fg_thread_lock(&counter->thread);
    while (!counter->thread.stop) {
        if (counter->done < counter->wanted)
            counter->done++;
        else
            assert_true(fg_thread_sleep(&counter->thread, INT64_MAX));
    }
    counter->ended = true;
    fg_thread_unlock(&counter->thread);
}

static void want_one(struct counter *counter)
{
    fg_thread_lock(&counter->thread);
    counter->wanted++;
    fg_thread_wake(&counter->thread);
    fg_thread_unlock(&counter->thread);
}

/* Waits, for ever if it does not come. */
static void wait_done(struct counter *counter, unsigned done)
{
    for (;;) {
        bool there;

        fg_thread_lock(&counter->thread);
        there = counter->done == done;
        fg_thread_unlock(&counter->thread);
        if (there)
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = FG_MS_NS}, NULL);
    }
}

static void thread_works_when_woken_and_ends_when_stopped(void **state)
{
    struct counter counter = {0};
    struct fg_err err;

    (void)state;
    fg_thread_init(&counter.thread);
    assert_int_equal(
        fg_thread_start(&counter.thread, "a-name-of-more-than-15", count, &counter, &err), FG_OK);
    assert_true(counter.thread.started);
    for (unsigned i = 1; i <= 3; i++) {
        want_one(&counter);
        wait_done(&counter, i);
    }
    fg_thread_stop(&counter.thread);
    assert_true(counter.ended);
    assert_false(counter.thread.started);
    assert_string_equal(counter.name, "a-name-of-more-");
    fg_thread_stop(&counter.thread); /* again: nothing is left to join */
    fg_thread_done(&counter.thread);
}

static void asking_to_stop_does_not_wait(void **state)
{
    struct counter counter = {0};
    struct fg_err err;

    (void)state;
    fg_thread_init(&counter.thread);
    assert_int_equal(fg_thread_start(&counter.thread, "counter", count, &counter, &err), FG_OK);
    fg_thread_lock(&counter.thread); /* so that the thread cannot end yet */
    assert_false(counter.ended);
    fg_thread_unlock(&counter.thread);
    fg_thread_ask_to_stop(&counter.thread);
    assert_true(counter.thread.started);
    fg_thread_join(&counter.thread);
    assert_true(counter.ended);
    fg_thread_done(&counter.thread);
}

static void thread_that_never_started_needs_no_join(void **state)
{
    struct fg_thread thread;

    (void)state;
    fg_thread_init(&thread);
    fg_thread_stop(&thread);
    fg_thread_done(&thread);
}

static void sleep_ends_at_its_time(void **state)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + 2 * FG_MS_NS;
    struct fg_thread thread;

    (void)state;
    fg_thread_init(&thread);
    fg_thread_lock(&thread);
    while (fg_thread_sleep(&thread, until_ns))
        ; /* nobody wakes it, but a condition may return early */
    assert_true(fg_mono_ns(fg_clock_real()) >= until_ns);
    fg_thread_unlock(&thread);
    fg_thread_done(&thread);
}

struct lowered {
    int nice, policy;
    bool low;
};

static void lower(void *arg)
{
    struct lowered *lowered = arg;

    fg_thread_lower_priority();
    lowered->nice = getpriority(PRIO_PROCESS, 0);
    lowered->policy = sched_getscheduler(0);
    lowered->low = fg_thread_has_low_priority();
}

/* Its own, and neither below the least nor the process's. */
static void thread_lowers_its_priority(void **state)
{
    const int ours = getpriority(PRIO_PROCESS, 0), policy = sched_getscheduler(0);
    struct fg_thread thread;
    struct fg_err err;
    struct lowered lowered = {.nice = ours};

    (void)state;
    fg_thread_init(&thread);
    assert_int_equal(fg_thread_start(&thread, "low", lower, &lowered, &err), FG_OK);
    fg_thread_join(&thread);
    fg_thread_done(&thread);
    assert_int_equal(lowered.nice, FG_MIN(ours + 5, 19));
    assert_int_equal(lowered.policy, policy);
    assert_true(lowered.low);
    assert_false(fg_thread_has_low_priority());
    assert_int_equal(sched_getscheduler(0), policy);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_works_when_woken_and_ends_when_stopped),
        cmocka_unit_test(asking_to_stop_does_not_wait),
        cmocka_unit_test(thread_that_never_started_needs_no_join),
        cmocka_unit_test(sleep_ends_at_its_time),
        cmocka_unit_test(thread_lowers_its_priority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
