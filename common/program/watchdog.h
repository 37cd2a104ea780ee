/*
 * Tells the service manager (common/runtime/notify.h) every few seconds how the program is, and
 * that it is alive: WATCHDOG=1 goes out only if every loop has answered a message since the last
 * one, and every lane of workers in whose queue jobs wait has ended a job. So the manager restarts
 * a program whose loop or workers are stuck for the time of its watchdog. That has to be longer
 * than the longest job.
 *
 * Thread: created and destroyed from the program's main thread; works on a ticker.
 */
#ifndef FG_COMMON_PROGRAM_WATCHDOG_H
#define FG_COMMON_PROGRAM_WATCHDOG_H

#include "common/runtime/notify.h"
#include "common/runtime/work.h"

struct fg_watchdog;

/* Everything is borrowed and outlives the watchdog, except `work`, which may end once it is hushed.
 */
struct fg_watchdog_config {
    const struct fg_notify *notify;
    struct fg_loop **loops; /* that run */
    size_t n_loops;
    struct fg_work *work;
    /* Appends what `systemctl status` shows. On the ticker's thread. */
    void (*put_status)(void *arg, struct fg_buf *out);
    void *arg;
};

/* Starts it. *ret_watchdog is NULL if nobody listens. FG_E_UNAVAILABLE: no more threads. */
enum fg_code fg_watchdog_create(const struct fg_watchdog_config *config,
                                struct fg_watchdog **ret_watchdog,
                                struct fg_err *err) fg_must_check;

/* Makes no further calls of put_status(), looks at the workers no more, and waits for what is under
 * way of these. Loops still have to answer, while the program stops the rest. Accepts NULL. */
void fg_watchdog_hush(struct fg_watchdog *watchdog);

/* Ends and frees it, before loops stop, and workers if it was not hushed. Accepts NULL. */
void fg_watchdog_destroy(struct fg_watchdog *watchdog);

#endif
