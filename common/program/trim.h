/*
 * Returns memory to the system after a flood of requests. malloc keeps freed memory for later,
 * which is right in normal operation. So the free pages are returned only when the budgets of HTTP
 * held a lot, have fallen to a quarter of that, and stayed there for some seconds. A worker does
 * it, because it takes tens of milliseconds. A small program returns them every ten seconds.
 *
 * Thread: start and stop from the owner's thread, not from a loop.
 */
#ifndef FG_COMMON_PROGRAM_TRIM_H
#define FG_COMMON_PROGRAM_TRIM_H

#include "common/base/budget.h"
#include "common/runtime/loop.h"
#include "common/runtime/work.h"

enum { TRIM_BUDGETS_MAX = 3 };

struct fg_trim {
    struct fg_budget *budgets[TRIM_BUDGETS_MAX]; /* ends with NULL if there are fewer */
    struct fg_loop *loop;                        /* its timer looks at them every second */
    struct fg_work *work;                        /* its BACKGROUND lane returns the memory */
    bool small;          /* the program is small: whatever the budgets held */
    uint64_t peak_bytes; /* most that they held since the last time */
    unsigned calm;       /* ticks in a row in which they held little */
    _Atomic bool busy;
    uv_timer_t timer;
    struct fg_job job;
};

/* Starts the timer. The caller has set budgets, loop and work, which are borrowed, and small, and
 * zeroed the rest. */
void fg_trim_start(struct fg_trim *trim);

/* Stops the timer. Call it before `work` is destroyed, which may still use the struct until then.
 */
void fg_trim_stop(struct fg_trim *trim);

#endif
