#include "common/runtime/thread.h"

#include "common/base/time.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* A third of a thread's weight. Much less would starve work that others wait for in the end:
     * next to other programs a catch-up's requests took longer than their senders wait. */
    LOWER_NICE = 5,
    NICE_MAX = 19,
    KEEP_POLICY = 8, /* SCHED_FLAG_KEEP_POLICY */
};

/* A slice much longer than those of other threads (3 ms) lets them run as soon as they wake. */
static const uint64_t lower_slice_ns = FG_SECOND_NS / 50;

static _Thread_local bool has_low_priority;

void fg_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;

    fg_assert(pthread_condattr_init(&monotonic) == 0 &&
              pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(cond, &monotonic) == 0);
    (void)pthread_condattr_destroy(&monotonic);
}

void fg_thread_init(struct fg_thread *thread)
{
    *thread = (struct fg_thread){.stop = false};
    fg_assert(pthread_mutex_init(&thread->lock, NULL) == 0);
    fg_cond_init(&thread->wake);
}

static void *thread_main(void *arg)
{
    struct fg_thread *thread = arg;

    (void)pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->arg);
    return NULL;
}

enum fg_code fg_thread_start(struct fg_thread *thread, const char *name, void (*run)(void *arg),
                             void *arg, struct fg_err *err)
{
    int failed;

    fg_assert(!thread->started && !thread->stop);
    (void)snprintf(thread->name, sizeof thread->name, "%s", name);
    thread->run = run;
    thread->arg = arg;
    failed = pthread_create(&thread->id, NULL, thread_main, thread);
    if (failed != 0)
        return fg_fail_errno(err, failed, "thread %s", name);
    thread->started = true;
    return FG_OK;
}

void fg_thread_lock(struct fg_thread *thread)
{
    fg_assert(pthread_mutex_lock(&thread->lock) == 0);
}

void fg_thread_unlock(struct fg_thread *thread)
{
    fg_assert(pthread_mutex_unlock(&thread->lock) == 0);
}

void fg_thread_wake(struct fg_thread *thread)
{
    (void)pthread_cond_signal(&thread->wake);
}

bool fg_thread_sleep(struct fg_thread *thread, int64_t until_mono_ns)
{
    const struct timespec until = {until_mono_ns / FG_SECOND_NS, until_mono_ns % FG_SECOND_NS};

    if (until_mono_ns == INT64_MAX)
        return pthread_cond_wait(&thread->wake, &thread->lock) == 0;
    return pthread_cond_timedwait(&thread->wake, &thread->lock, &until) == 0;
}

void fg_thread_ask_to_stop(struct fg_thread *thread)
{
    fg_thread_lock(thread);
    thread->stop = true;
    fg_thread_wake(thread);
    fg_thread_unlock(thread);
}

void fg_thread_join(struct fg_thread *thread)
{
    if (!thread->started)
        return;
    fg_assert(!pthread_equal(pthread_self(), thread->id)); /* it would wait for itself */
    fg_assert(pthread_join(thread->id, NULL) == 0);
    thread->started = false;
}

void fg_thread_stop(struct fg_thread *thread)
{
    fg_thread_ask_to_stop(thread);
    fg_thread_join(thread);
}

void fg_thread_done(struct fg_thread *thread)
{
    fg_assert(!thread->started);
    (void)pthread_cond_destroy(&thread->wake);
    (void)pthread_mutex_destroy(&thread->lock);
}

/* Linux's struct sched_attr (sched_setattr(2)); its header and <sched.h>, which <pthread.h>
 * includes, define one struct twice. */
struct priority {
    uint32_t bytes, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t real_time;
    uint64_t slice_ns, deadline_ns, period_ns;
};

void fg_thread_lower_priority(void)
{
    /* Of this thread alone, as Linux has it; a lower priority is always allowed. */
    const int nice = getpriority(PRIO_PROCESS, 0) + LOWER_NICE;
    const struct priority priority = {
        .bytes = sizeof priority,
        .flags = KEEP_POLICY,
        .nice = FG_MIN(nice, NICE_MAX),
        .slice_ns = lower_slice_ns, /* since Linux 6.12; does nothing before */
    };

    if (syscall(SYS_sched_setattr, 0, &priority, 0) != 0) /* a sandbox may not know it */
        (void)setpriority(PRIO_PROCESS, 0, priority.nice);
    has_low_priority = true;
}

bool fg_thread_has_low_priority(void)
{
    return has_low_priority;
}
