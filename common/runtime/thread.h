/*
 * A thread with a name that one owner starts and stops. It sleeps until it is woken, until a time,
 * or until it has to stop.
 *
 *     owner                 any thread             the thread
 *     fg_thread_init
 *     fg_thread_start  -------------------------->  run()
 *                           lock                      lock
 *                           leave work                while no work and not `stop`:
 *                           fg_thread_wake                fg_thread_sleep
 *                           unlock                    unlock, work, again
 *     fg_thread_stop   -------------------------->    return
 *     fg_thread_done
 *
 * The lock protects `stop` and whatever the owner and the thread hand to each other. A thread that
 * only repeats a call is a ticker (ticker.h); equal threads that share jobs are workers (work.h).
 */
#ifndef FG_COMMON_RUNTIME_THREAD_H
#define FG_COMMON_RUNTIME_THREAD_H

#include "common/base/err.h"

#include <pthread.h>

struct fg_thread {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* only the thread waits on it, so one signal is enough */
    bool stop;           /* under the lock; set once */
    bool started;        /* the owner's */
    pthread_t id;        /* if it was started */
    char name[16];       /* the limit of Linux, with its NUL */
    void (*run)(void *arg);
    void *arg;
};

/* Initializes a condition whose times are of the monotonic clock: a wall clock that is set must
 * neither end nor prolong a wait. */
void fg_cond_init(pthread_cond_t *cond);

/* Prepares a thread that is not started. Call fg_thread_done() at the end. */
void fg_thread_init(struct fg_thread *thread);

/* Starts it. name: at most 15 bytes are shown. FG_E_UNAVAILABLE: there are no more threads. */
enum fg_code fg_thread_start(struct fg_thread *thread, const char *name, void (*run)(void *arg),
                             void *arg, struct fg_err *err) fg_must_check;

/* Take and release the lock. Any thread, also before the start. */
void fg_thread_lock(struct fg_thread *thread);
void fg_thread_unlock(struct fg_thread *thread);

/* Ends the sleep of the thread. Locked. */
void fg_thread_wake(struct fg_thread *thread);

/* Sleeps until a wake, a stop or the time (monotonic; INT64_MAX: no time). Locked; the lock is not
 * held during the sleep. Returns false if the time has come. As with any condition, it may return
 * true without a reason: check in a loop. */
bool fg_thread_sleep(struct fg_thread *thread, int64_t until_mono_ns);

/* Sets `stop` and wakes the thread. Any thread; takes the lock. */
void fg_thread_ask_to_stop(struct fg_thread *thread);

/* Waits until the thread has returned from run(). Does nothing if it was not started, or was joined
 * before. The owner's, never from the thread itself. */
void fg_thread_join(struct fg_thread *thread);

/* Asks to stop, and joins. */
void fg_thread_stop(struct fg_thread *thread);

/* Frees what fg_thread_init() made. The thread is not running. */
void fg_thread_done(struct fg_thread *thread);

/* Lowers the priority of the calling thread, for good: next to threads that agents or readers wait
 * for, it gets a third of the processor's time that one of them gets, and all that they leave.
 * Threads that it starts inherit that. See foreground.h, too. */
void fg_thread_lower_priority(void);

/* Returns whether the calling thread has lowered its priority. */
bool fg_thread_has_low_priority(void);

#endif
