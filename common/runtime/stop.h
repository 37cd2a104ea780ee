/*
 * Handles SIGTERM and SIGINT: the first signal asks for an orderly stop, the second one ends the
 * process at once.
 *
 *     int main(...) {
 *         fg_stop_init();
 *         ... start ...
 *         int signal = fg_stop_wait();
 *         ... stop, in the opposite order ...
 *     }
 */
#ifndef FG_COMMON_RUNTIME_STOP_H
#define FG_COMMON_RUNTIME_STOP_H

#include "common/base/time.h"

/* Blocks both signals in the calling thread and in all threads that it creates. Call it first in
 * main. */
void fg_stop_init(void);

/*
 * Waits for a signal and returns it. After that a second signal ends the process at once, with exit
 * code 128 + signal (130, 143). Call it from the thread that called fg_stop_init().
 */
int fg_stop_wait(void);

/* Does the same, but returns 0 if no signal comes within timeout_ns. Until it is called again, a
 * signal waits for that, unless fg_stop_at_next() is called. */
int fg_stop_wait_for(int64_t timeout_ns);

/* Lets the next signal end the process at once: for an orderly stop that no signal has asked for.
 */
void fg_stop_at_next(void);

/* Ignores SIGPIPE: a write to a closed connection fails with EPIPE instead. */
void fg_ignore_sigpipe(void);

#endif
