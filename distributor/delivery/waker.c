#include "distributor/delivery/waker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct dist_waker {
    int64_t every_ns;
    bool (*look)(void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    _Atomic bool awake; /* set under the lock; read without it, where it only saves the lock */
    bool stop;
    bool joined; /* the owner's */
};

static void sleep_until(struct dist_waker *waker, int64_t until_ns)
{
    const struct timespec until = {until_ns / FG_SECOND_NS, until_ns % FG_SECOND_NS};

    while (!waker->stop && pthread_cond_timedwait(&waker->wake, &waker->lock, &until) == 0)
        ;
}

static void *run(void *arg)
{
    struct dist_waker *waker = arg;

    (void)pthread_setname_np(pthread_self(), "waker");
    (void)pthread_mutex_lock(&waker->lock);
    while (!waker->stop) {
        if (!atomic_load(&waker->awake)) {
            (void)pthread_cond_wait(&waker->wake, &waker->lock);
            continue;
        }
        sleep_until(waker, fg_time_add(fg_mono_ns(fg_clock_real()), waker->every_ns));
        if (waker->stop)
            break;
        /* Before the look: what comes during it counts. */
        atomic_store(&waker->awake, false);
        (void)pthread_mutex_unlock(&waker->lock);
        if (waker->look(waker->arg))
            dist_waker_wake(waker);
        (void)pthread_mutex_lock(&waker->lock);
    }
    (void)pthread_mutex_unlock(&waker->lock);
    return NULL;
}

void dist_waker_wake(struct dist_waker *waker)
{
    if (atomic_load(&waker->awake))
        return;
    (void)pthread_mutex_lock(&waker->lock);
    atomic_store(&waker->awake, true);
    (void)pthread_cond_signal(&waker->wake);
    (void)pthread_mutex_unlock(&waker->lock);
}

struct dist_waker *dist_waker_create(int64_t every_ns, bool (*look)(void *arg), void *arg)
{
    struct dist_waker *waker = fg_new(struct dist_waker);
    pthread_condattr_t monotonic;

    waker->every_ns = every_ns;
    waker->look = look;
    waker->arg = arg;
    (void)pthread_mutex_init(&waker->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&waker->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    fg_assert(pthread_create(&waker->thread, NULL, run, waker) == 0);
    return waker;
}

void dist_waker_stop(struct dist_waker *waker)
{
    (void)pthread_mutex_lock(&waker->lock);
    waker->stop = true;
    (void)pthread_cond_signal(&waker->wake);
    (void)pthread_mutex_unlock(&waker->lock);
    if (!waker->joined)
        (void)pthread_join(waker->thread, NULL);
    waker->joined = true;
}

void dist_waker_destroy(struct dist_waker *waker)
{
    if (waker == NULL)
        return;
    dist_waker_stop(waker);
    (void)pthread_cond_destroy(&waker->wake);
    (void)pthread_mutex_destroy(&waker->lock);
    free(waker);
}
