/*
 * A loop is a thread with a libuv loop. It owns sockets and timers and never waits: no disk, no
 * RocksDB, no compression, no lock that is held longer than a list splice. Other threads post
 * messages to its inbox, and do not touch a message after they posted it.
 *
 * Thread: create, start, stop and destroy from its owner's thread, usually the main one; post from
 * any; all else from the loop's thread.
 */
#ifndef FG_COMMON_RUNTIME_LOOP_H
#define FG_COMMON_RUNTIME_LOOP_H

#include "common/base/err.h"
#include "common/base/time.h"

#include <uv.h>

struct fg_loop;

/* A message, embedded in the struct that is sent. run() is called on the loop's thread and may free
 * it. */
struct fg_msg {
    struct fg_msg *next; /* internal */
    void (*run)(struct fg_msg *msg);
    int64_t posted_mono_ns; /* set by fg_loop_post() */
};

/* Creates a loop at start-up. name (at most 15 bytes, copied) is the name of the thread in top and
 * gdb. Aborts if there are no more file descriptors. */
struct fg_loop *fg_loop_create(const char *name);

/* Creates a loop while the process serves, when clients may have used up its file descriptors.
 * FG_E_UNAVAILABLE: there are no more. */
enum fg_code fg_loop_try_create(const char *name, struct fg_loop **ret_loop,
                                struct fg_err *err) fg_must_check;

/* Frees a loop that was stopped or never started. Accepts NULL. Asserts that the inbox is empty. */
void fg_loop_destroy(struct fg_loop *loop);

/* Starts the thread, which first runs the messages that were posted before. FG_E_UNAVAILABLE: no
 * more threads. */
enum fg_code fg_loop_start(struct fg_loop *loop, struct fg_err *err) fg_must_check;

/*
 * Runs the messages in the inbox, then ends the thread and waits for it. Close all handles of the
 * loop first, with fg_loop_call(); it asserts that none is open. Stop all senders (workers,
 * clients) first as well: after this call only the loop itself may post. A loop is started and
 * stopped once.
 */
void fg_loop_stop(struct fg_loop *loop);

/* Posts a message and wakes the loop. Never fails. Any thread. Messages of one sender run in order.
 */
void fg_loop_post(struct fg_loop *loop, struct fg_msg *msg);

/* Runs fn(arg) on the loop and waits for its end, for set-up and tear-down. Not from a loop's
 * thread. */
void fg_loop_call(struct fg_loop *loop, void (*fn)(void *arg), void *arg);

/* Returns the libuv loop. */
uv_loop_t *fg_loop_uv(struct fg_loop *loop);
/* Returns whether the caller is on the loop's thread. */
bool fg_loop_is_current(const struct fg_loop *loop);

/* Returns the longest time between a post and its run since the last call of this function. Any
 * thread. */
int64_t fg_loop_take_lag_ns(struct fg_loop *loop);

#endif
