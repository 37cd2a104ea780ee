#include "distributor/delivery/flush_timer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct dist_flush_timer {
    int64_t every_ns;
    bool (*flush)(void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock; /* of `armed` and `stop`; not held while queues are flushed */
    pthread_cond_t wake;
    _Atomic bool armed; /* set under the lock; read without it to save the lock */
    bool stop;
    bool joined; /* the owner's */
};

static void sleep_until(struct dist_flush_timer *timer, int64_t until_ns)
{
    const struct timespec until = {until_ns / FG_SECOND_NS, until_ns % FG_SECOND_NS};

    while (!timer->stop && pthread_cond_timedwait(&timer->wake, &timer->lock, &until) == 0)
        ;
}

static void *run(void *arg)
{
    struct dist_flush_timer *timer = arg;

    (void)pthread_setname_np(pthread_self(), "flush-timer");
    (void)pthread_mutex_lock(&timer->lock);
    while (!timer->stop) {
        /* No timed wait while nothing collects: an idle distributor does not wake up fifty times a
         * second. */
        if (!atomic_load(&timer->armed)) {
            (void)pthread_cond_wait(&timer->wake, &timer->lock);
            continue;
        }
        sleep_until(timer, fg_time_add(fg_mono_ns(fg_clock_real()), timer->every_ns));
        if (timer->stop)
            break;
        /* Before the flush: a batch that starts to collect during it arms the timer again. In the
         * other order its call would find the timer armed, and nobody would flush it. */
        atomic_store(&timer->armed, false);
        (void)pthread_mutex_unlock(&timer->lock);
        /* Without the lock: a flush sends messages, and their answers may arm the timer. */
        if (timer->flush(timer->arg))
            dist_flush_timer_start(timer);
        (void)pthread_mutex_lock(&timer->lock);
    }
    (void)pthread_mutex_unlock(&timer->lock);
    return NULL;
}

void dist_flush_timer_start(struct dist_flush_timer *timer)
{
    if (atomic_load(&timer->armed))
        return;
    (void)pthread_mutex_lock(&timer->lock);
    atomic_store(&timer->armed, true);
    (void)pthread_cond_signal(&timer->wake);
    (void)pthread_mutex_unlock(&timer->lock);
}

struct dist_flush_timer *dist_flush_timer_create(int64_t every_ns, bool (*flush)(void *arg),
                                                 void *arg)
{
    struct dist_flush_timer *timer = fg_new(struct dist_flush_timer);
    pthread_condattr_t monotonic;

    timer->every_ns = every_ns;
    timer->flush = flush;
    timer->arg = arg;
    (void)pthread_mutex_init(&timer->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    /* Not the wall clock: if it were set back, batches would wait. */
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&timer->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    fg_assert(pthread_create(&timer->thread, NULL, run, timer) == 0);
    return timer;
}

void dist_flush_timer_stop(struct dist_flush_timer *timer)
{
    (void)pthread_mutex_lock(&timer->lock);
    timer->stop = true;
    (void)pthread_cond_signal(&timer->wake);
    (void)pthread_mutex_unlock(&timer->lock);
    if (!timer->joined)
        (void)pthread_join(timer->thread, NULL);
    timer->joined = true;
}

void dist_flush_timer_destroy(struct dist_flush_timer *timer)
{
    if (timer == NULL)
        return;
    dist_flush_timer_stop(timer);
    (void)pthread_cond_destroy(&timer->wake);
    (void)pthread_mutex_destroy(&timer->lock);
    free(timer);
}
