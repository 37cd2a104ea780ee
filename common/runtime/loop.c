/*
 * The inbox is a Treiber stack: senders push with one compare-and-swap, the loop takes the whole
 * list with one exchange and reverses it. Pushes have one total order, so messages of one sender
 * keep theirs, and fg_loop_stop()'s own message runs after everything that was posted before it.
 *
 * Only a sender that finds the inbox empty wakes the loop. One that finds it filled knows that an
 * earlier sender has done so or is about to. A wake-up that comes late finds an empty inbox, which
 * is no harm.
 */
#include "common/runtime/loop.h"

#include "common/runtime/log.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

enum { LOOP_NAME_BYTES = 16 }; /* what Linux keeps of a thread's name, with the NUL */

struct fg_loop {
    uv_loop_t uv;
    uv_async_t wake;
    _Atomic(struct fg_msg *) inbox; /* newest first */
    _Atomic int64_t lag_ns;         /* longest since it was last taken */
    struct fg_msg stop;             /* posted by fg_loop_stop() */
    pthread_t thread;
    bool started, stopped;
    char name[LOOP_NAME_BYTES];
};

static _Thread_local const struct fg_loop *current;

/* Oldest first; NULL when there is nothing. */
static struct fg_msg *inbox_take(struct fg_loop *loop)
{
    /* Acquire, against the release in fg_loop_post(): what a sender wrote before it posted is
     * visible to run(). */
    struct fg_msg *newest = atomic_exchange_explicit(&loop->inbox, NULL, memory_order_acquire);
    struct fg_msg *oldest = NULL;

    while (newest != NULL) {
        struct fg_msg *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void note_lag(struct fg_loop *loop, int64_t lag_ns)
{
    int64_t seen = atomic_load_explicit(&loop->lag_ns, memory_order_relaxed);

    /* A scrape may reset the value in between; the loop repeats until its own value is not the
     * greater one. */
    while (lag_ns > seen &&
           !atomic_compare_exchange_weak_explicit(&loop->lag_ns, &seen, lag_ns,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* Runs one batch. What its messages post waits for the next wake-up, so that sockets get a turn. */
static bool inbox_run(struct fg_loop *loop)
{
    struct fg_msg *msg = inbox_take(loop);
    bool any = msg != NULL;

    while (msg != NULL) {
        struct fg_msg *next = msg->next; /* run() may free the message */

        note_lag(loop, fg_mono_ns(fg_clock_real()) - msg->posted_mono_ns);
        msg->run(msg);
        msg = next;
    }
    return any;
}

static void on_wake(uv_async_t *wake)
{
    (void)inbox_run(fg_container(wake, struct fg_loop, wake));
}

static void on_stop(struct fg_msg *msg)
{
    uv_stop(&fg_container(msg, struct fg_loop, stop)->uv);
}

/* Does uv_loop_init(). Before 1.51 libuv does not close the descriptor of epoll if it gets no
 * further ones (libuv #4757), so each attempt without descriptors would take one for good. */
static int init_uv(uv_loop_t *uv)
{
    enum { CLOSES_IT_ITSELF = 1 << 16 | 51 << 8 };
    int rc = uv_loop_init(uv);

    /* It is 0 if libuv has failed before it opens any. */
    if (rc != 0 && uv_version() < CLOSES_IT_ITSELF && uv->backend_fd > 0)
        (void)close(uv->backend_fd);
    return rc;
}

enum fg_code fg_loop_try_create(const char *name, struct fg_loop **ret_loop, struct fg_err *err)
{
    struct fg_loop *loop = fg_new(struct fg_loop);
    int rc = init_uv(&loop->uv);

    (void)snprintf(loop->name, sizeof loop->name, "%.15s", name);
    loop->stop.run = on_stop;
    if (rc == 0) {
        rc = uv_async_init(&loop->uv, &loop->wake, on_wake);
        if (rc != 0)
            fg_assert(uv_loop_close(&loop->uv) == 0);
    }
    if (rc != 0) {
        (void)fg_fail_errno(err, -rc, "loop %s", loop->name); /* libuv's errors are -errno */
        free(loop);
        return err->code;
    }
    *ret_loop = loop;
    return FG_OK;
}

struct fg_loop *fg_loop_create(const char *name)
{
    struct fg_loop *loop = NULL;
    struct fg_err err;

    /* It fails only without memory or file descriptors. At start-up there is nothing to go on
     * with. */
    fg_assert(fg_loop_try_create(name, &loop, &err) == FG_OK);
    return loop;
}

void fg_loop_destroy(struct fg_loop *loop)
{
    if (loop == NULL)
        return;
    fg_assert(!loop->started || loop->stopped);
    fg_assert(atomic_load(&loop->inbox) == NULL); /* posted to a loop that does not run: lost */
    uv_close((uv_handle_t *)&loop->wake, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    fg_assert(uv_loop_close(&loop->uv) == 0);
    free(loop);
}

static void complain_if_open(uv_handle_t *handle, void *arg)
{
    struct fg_loop *loop = arg;

    if (handle == (uv_handle_t *)&loop->wake || uv_is_closing(handle))
        return;
    fg_log_error("loop stopped with an open handle", fg_ls("loop", loop->name),
                 fg_ls("handle", uv_handle_type_name(handle->type)));
    fg_assert(uv_is_closing(handle));
}

static void *thread_main(void *arg)
{
    struct fg_loop *loop = arg;

    (void)pthread_setname_np(pthread_self(), loop->name);
    current = loop;
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    /* Lets handles that are being closed and requests in flight come to their end, and runs what
     * they post. The wake handle does not count, so that uv_run() returns when all is quiet. */
    uv_unref((uv_handle_t *)&loop->wake);
    do {
        uv_walk(&loop->uv, complain_if_open, loop);
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    } while (inbox_run(loop));
    return NULL;
}

enum fg_code fg_loop_start(struct fg_loop *loop, struct fg_err *err)
{
    int rc;

    fg_assert(!loop->started);
    rc = pthread_create(&loop->thread, NULL, thread_main, loop);
    if (rc != 0)
        return fg_fail_errno(err, rc, "thread of loop %s", loop->name);
    loop->started = true;
    return FG_OK;
}

void fg_loop_stop(struct fg_loop *loop)
{
    fg_assert(loop->started && !loop->stopped && !fg_loop_is_current(loop));
    /* As a message, so that everything that was posted before it runs first. */
    fg_loop_post(loop, &loop->stop);
    fg_assert(pthread_join(loop->thread, NULL) == 0);
    loop->stopped = true;
}

void fg_loop_post(struct fg_loop *loop, struct fg_msg *msg)
{
    struct fg_msg *newest = atomic_load_explicit(&loop->inbox, memory_order_relaxed);

    msg->posted_mono_ns = fg_mono_ns(fg_clock_real());
    do
        msg->next = newest;
    while (!atomic_compare_exchange_weak_explicit(&loop->inbox, &newest, msg, memory_order_release,
                                                  memory_order_relaxed));
    /* Nothing of `msg` may be touched from here on: the loop may have run and freed it. */
    if (newest == NULL)
        fg_assert(uv_async_send(&loop->wake) == 0);
}

struct call {
    struct fg_msg msg;
    void (*fn)(void *arg);
    void *arg;
    sem_t ended;
};

static void call_run(struct fg_msg *msg)
{
    struct call *call = fg_container(msg, struct call, msg);

    call->fn(call->arg);
    fg_assert(sem_post(&call->ended) == 0);
}

void fg_loop_call(struct fg_loop *loop, void (*fn)(void *arg), void *arg)
{
    struct call call = {.msg = {.run = call_run}, .fn = fn, .arg = arg};

    /* A loop that waits for a loop is how two of them end up waiting for each other. */
    fg_assert(current == NULL && loop->started && !loop->stopped);
    fg_assert(sem_init(&call.ended, 0, 0) == 0);
    fg_loop_post(loop, &call.msg);
    while (sem_wait(&call.ended) != 0)
        fg_assert(errno == EINTR);
    (void)sem_destroy(&call.ended);
}

uv_loop_t *fg_loop_uv(struct fg_loop *loop)
{
    return &loop->uv;
}

bool fg_loop_is_current(const struct fg_loop *loop)
{
    return current == loop;
}

int64_t fg_loop_take_lag_ns(struct fg_loop *loop)
{
    return atomic_exchange_explicit(&loop->lag_ns, 0, memory_order_relaxed);
}
