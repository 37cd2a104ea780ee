/* Tests that the timer calls flush while work is left, whenever it was woken. */
#include "distributor/delivery/flush_timer.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct work {
    pthread_mutex_t lock;
    pthread_cond_t done;
    unsigned left, looks;
};

static bool flush(void *arg)
{
    struct work *work = arg;
    bool more;

    (void)pthread_mutex_lock(&work->lock);
    work->looks++;
    if (work->left > 0)
        work->left--;
    more = work->left > 0;
    if (!more)
        (void)pthread_cond_signal(&work->done);
    (void)pthread_mutex_unlock(&work->lock);
    return more;
}

/* Wakes the timer and waits until all work is done. */
static void do_all(struct dist_flush_timer *timer, struct work *work, unsigned left)
{
    (void)pthread_mutex_lock(&work->lock);
    work->left = left;
    (void)pthread_mutex_unlock(&work->lock);
    dist_flush_timer_start(timer);
    (void)pthread_mutex_lock(&work->lock);
    while (work->left > 0)
        (void)pthread_cond_wait(&work->done, &work->lock);
    (void)pthread_mutex_unlock(&work->lock);
}

static void the_timer_flushes_until_nothing_waits(void **state)
{
    struct work work = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    struct dist_flush_timer *timer = dist_flush_timer_create(FG_MS_NS, flush, &work);

    (void)state;
    do_all(timer, &work, 3);
    assert_in_range(work.looks, 3, 4);
    for (int i = 0; i < 50; i++)
        do_all(timer, &work, 1); /* whatever the timer is doing now */
    dist_flush_timer_destroy(timer);
    assert_true(work.looks >= 53);
}

static void the_timer_can_be_destroyed_before_and_after_its_start(void **state)
{
    struct work work = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    struct dist_flush_timer *timer = dist_flush_timer_create(FG_HOUR_NS, flush, &work);

    (void)state;
    dist_flush_timer_destroy(timer);
    timer = dist_flush_timer_create(FG_HOUR_NS, flush, &work);
    dist_flush_timer_start(timer);
    dist_flush_timer_destroy(timer);
    assert_int_equal(work.looks, 0);
    timer = dist_flush_timer_create(FG_MS_NS, flush, &work);
    do_all(timer, &work, 1);
    dist_flush_timer_stop(timer);
    work.left = 1; /* only the timer can flush this */
    dist_flush_timer_start(timer);
    dist_flush_timer_stop(timer);
    assert_int_equal(work.left, 1);
    dist_flush_timer_destroy(timer);
    dist_flush_timer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timer_flushes_until_nothing_waits),
        cmocka_unit_test(the_timer_can_be_destroyed_before_and_after_its_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
