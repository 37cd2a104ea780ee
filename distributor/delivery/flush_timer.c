#include "distributor/delivery/flush_timer.h"

#include "common/runtime/thread.h"

#include <stdatomic.h>

struct dist_flush_timer {
    int64_t every_ns;
    bool (*flush)(void *arg);
    void *arg;
    struct fg_thread thread; /* its lock is not held while queues are flushed */
    _Atomic bool armed;      /* set under the lock; read without it to save the lock */
};

static void flush_until_stopped(void *arg)
{
    struct dist_flush_timer *timer = arg;

    fg_thread_lock(&timer->thread);
    while (!timer->thread.stop) {
        int64_t until_ns;

        /* No timed wait while nothing collects: an idle distributor does not wake up fifty times a
         * second. */
        if (!atomic_load(&timer->armed)) {
            (void)fg_thread_sleep(&timer->thread, INT64_MAX);
            continue;
        }
        until_ns = fg_time_add(fg_mono_ns(fg_clock_real()), timer->every_ns);
        while (!timer->thread.stop && fg_thread_sleep(&timer->thread, until_ns))
            ;
        if (timer->thread.stop)
            break;
        /* Before the flush: a batch that starts to collect during it arms the timer again. In the
         * other order its call would find the timer armed, and nobody would flush it. */
        atomic_store(&timer->armed, false);
        fg_thread_unlock(&timer->thread);
        /* Without the lock: a flush sends messages, and their answers may arm the timer. */
        if (timer->flush(timer->arg))
            dist_flush_timer_start(timer);
        fg_thread_lock(&timer->thread);
    }
    fg_thread_unlock(&timer->thread);
}

void dist_flush_timer_start(struct dist_flush_timer *timer)
{
    if (atomic_load(&timer->armed))
        return;
    fg_thread_lock(&timer->thread);
    atomic_store(&timer->armed, true);
    fg_thread_wake(&timer->thread);
    fg_thread_unlock(&timer->thread);
}

struct dist_flush_timer *dist_flush_timer_create(int64_t every_ns, bool (*flush)(void *arg),
                                                 void *arg)
{
    struct dist_flush_timer *timer = fg_new(struct dist_flush_timer);
    struct fg_err err;

    timer->every_ns = every_ns;
    timer->flush = flush;
    timer->arg = arg;
    fg_thread_init(&timer->thread);
    fg_assert(fg_thread_start(&timer->thread, "flush-timer", flush_until_stopped, timer, &err) ==
              FG_OK);
    return timer;
}

void dist_flush_timer_stop(struct dist_flush_timer *timer)
{
    fg_thread_stop(&timer->thread);
}

void dist_flush_timer_destroy(struct dist_flush_timer *timer)
{
    if (timer == NULL)
        return;
    dist_flush_timer_stop(timer);
    fg_thread_done(&timer->thread);
    free(timer);
}
