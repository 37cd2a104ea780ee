/*
 * How a program is told to end: SIGTERM or SIGINT once for an orderly stop, twice for at once.
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

/* Blocks both signals, in the calling thread and all it creates. Called first in main. */
void fg_stop_init(void);

/*
 * Waits for one of them and returns it. From then on another one ends the process at once, with
 * exit code 128 + signal (130, 143). From the thread that called fg_stop_init().
 */
int fg_stop_wait(void);

/* The same for so long at most; 0: none came. */
int fg_stop_wait_for(int64_t timeout_ns);

/* Writing to a peer that has gone becomes EPIPE, an ordinary error. */
void fg_ignore_sigpipe(void);

#endif
