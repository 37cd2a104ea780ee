/*
 * The CPU profile: each thread of the process has a timer of its own processor time, whose signal
 * (SIGPROF) is handled on that thread and puts its stack into a ring.
 *
 * Why a timer for each thread: the one of a whole process (setitimer) brings one signal for each
 * tick of the kernel at most, so it loses samples as soon as several processors are busy, and older
 * kernels deliver it to the first thread most of the time. A thread that is idle costs nothing.
 * Threads of libraries are found in /proc/self/task, so none has to say that it is there.
 *
 * The signal restarts system calls (SA_RESTART); those that are never restarted (epoll_wait, poll,
 * nanosleep) end early with EINTR, which libuv, nng, curl and RocksDB expect.
 *
 * Thread: one at a time. There is one such profile in a process.
 */
#ifndef FG_COMMON_SELF_PROFILE_CPU_SAMPLES_H
#define FG_COMMON_SELF_PROFILE_CPU_SAMPLES_H

#include "common/base/err.h"
#include "common/self_profile/stack_counts.h"

struct fg_cpu_samples;

/* The value of a stack, whose tag is that of fg_cpu_samples_thread(). */
enum { FG_CPU_TICKS };

/* Installs the handler; no thread has a timer yet. FG_E_UNAVAILABLE: the system has no such timers.
 */
enum fg_code fg_cpu_samples_start(int64_t period_ns, struct fg_cpu_samples **ret_cpu,
                                  struct fg_err *err) fg_must_check;

/* Deletes all timers, and ignores the signal from now on. NULL is fine. */
void fg_cpu_samples_stop(struct fg_cpu_samples *cpu);

/* Gives threads that are new a timer, and deletes those of threads that are gone. Right after
 * fg_cpu_samples_collect(): samples of a thread that is gone must not count for one that is new. */
void fg_cpu_samples_find_threads(struct fg_cpu_samples *cpu);

/* Moves what the ring has into the table. Often enough that the ring does not fill up. */
void fg_cpu_samples_collect(struct fg_cpu_samples *cpu);

/* Calls each() with all stacks, and empties the profile. */
void fg_cpu_samples_sweep(struct fg_cpu_samples *cpu,
                          void (*each)(void *arg, const struct fg_stack_entry *entry), void *arg);

/* Returns what a tag stands for: the name of threads, without the number at its end. */
const char *fg_cpu_samples_thread(const struct fg_cpu_samples *cpu, uint32_t tag);

/* Returns how many ticks found no room. */
uint64_t fg_cpu_samples_dropped(const struct fg_cpu_samples *cpu);

#endif
