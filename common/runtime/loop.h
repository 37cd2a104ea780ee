/*
 * A loop is one thread with a libuv loop: it owns sockets and timers and never waits (no disk, no
 * RocksDB, no compression, no lock held longer than a list splice). Other threads reach it by
 * posting messages to its inbox, and do not touch what they posted afterwards.
 *
 * Thread: create, start, stop and destroy from the thread that owns the program; post from
 * anywhere; everything else on the loop's own thread.
 */
#ifndef FG_COMMON_RUNTIME_LOOP_H
#define FG_COMMON_RUNTIME_LOOP_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <uv.h>

struct fg_loop;

/* Embedded in what is sent. run() is called on the loop's thread; it may free the message. */
struct fg_msg {
    struct fg_msg *next; /* internal */
    void (*run)(struct fg_msg *msg);
    int64_t posted_mono_ns; /* set by fg_loop_post() */
};

/* name (at most 15 bytes) is what the thread is called in top and gdb; copied. */
struct fg_loop *fg_loop_create(const char *name);

/* Stopped or never started; NULL is fine. A message that nobody has run is an assertion. */
void fg_loop_destroy(struct fg_loop *loop);

/* Starts the thread. Messages posted before are run first. */
enum fg_code fg_loop_start(struct fg_loop *loop, struct fg_err *err) fg_must_check;

/*
 * Runs what is in the inbox, then ends the thread and waits for it. Whoever opened handles on the
 * loop has closed them before (fg_loop_call() is the way to do so); handles left open are an
 * assertion. Nobody posts once this was called, except from the loop itself: stop what posts
 * (workers, clients) first. A loop is started and stopped once.
 */
void fg_loop_stop(struct fg_loop *loop);

/* Any thread, never fails, wakes the loop. Messages of one sender are run in the order sent. */
void fg_loop_post(struct fg_loop *loop, struct fg_msg *msg);

/* Runs fn(arg) on the loop and waits for its end. Not from a loop's thread. For set-up and
 * tear-down. */
void fg_loop_call(struct fg_loop *loop, void (*fn)(void *arg), void *arg);

uv_loop_t *fg_loop_uv(struct fg_loop *loop);
bool fg_loop_is_current(const struct fg_loop *loop);

/* Longest time between a post and its run since the last call of this function, any thread. */
int64_t fg_loop_take_lag_ns(struct fg_loop *loop);

#endif
