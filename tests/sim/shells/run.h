/*
 * Runs of a shell's test over seeds, each in a process of its own: what a killed machine held is
 * the process's loss, and a fault ends one seed only.
 *
 *   FG_SHELLS_SEEDS=1000 FG_SHELLS_FIRST=0 [FG_SHELLS_JOBS=2] [FG_SHELLS_TRACE=1] \
 *       build/release/tests/bin/test_sim_shells_...
 */
#ifndef FG_TESTS_SIM_SHELLS_RUN_H
#define FG_TESTS_SIM_SHELLS_RUN_H

#include "common/base/def.h"

enum { RUN_COUNTS = 16 };

/* One run, as the first thread of tests/lib/threads.h. What it adds to the counts is summed over
 * all seeds. */
typedef void run_seed(uint64_t counts[RUN_COUNTS]);

/* Runs the seeds; fails the cmocka test at the first one that found a fault. */
void run_seeds(run_seed *run, unsigned seeds, uint64_t counts[RUN_COUNTS]);

/* In a run: it found a fault. Prints it, what was traced last, and what all threads wait for; ends
 * the process. */
void run_fault(const char *fmt, ...) fg_printf(1, 2) __attribute__((noreturn));

/* In a run: true so often in a thousand, from the seed. */
bool run_chance(unsigned permille);

/* In a run: a time below `most` (nanoseconds), from the seed. */
int64_t run_draw_ns(int64_t most);

/* In a run: waits until another thread sets *done; a fault that names `what` after max_ns. */
void run_wait_until(const bool *done, int64_t max_ns, const char *what);

/* In a run: remembers a line with the virtual time for run_fault(); with FG_SHELLS_TRACE, prints
 * it. */
void run_trace(const char *fmt, ...) fg_printf(1, 2);

#endif
