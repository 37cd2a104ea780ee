/*
 * Threads in virtual time: the pthread calls of a program become those of fibers, which run one at
 * a time and in an order that follows from a seed. Production code runs unchanged. A run with the
 * same seed is the same run; seconds of waiting take no time; a deadlock is a sentence that names
 * who waits for what, and not a test that hangs.
 *
 * The linker redirects the calls: a test that uses this file is made with fg_threads(TARGET) of
 * tests/lib/CMakeLists.txt. Redirected are threads, mutexes, conditions, semaphores, fg_rwlock,
 * clock_gettime(), nanosleep() and getrandom(). Shared libraries keep the real ones, so code that
 * waits for a library's thread (RocksDB, nng, libuv) cannot run here.
 *
 * At each call the running thread may be held up: mostly for less than a microsecond, at times for
 * milliseconds, seldom for seconds, as by a busy machine. Conditions wake up for no reason now and
 * then, as POSIX allows. What happens between two calls is one step; so this finds wrong orders of
 * steps and lost wake-ups, but no data races: the thread sanitizer finds those.
 *
 * Threads belong to machines, which are numbers; a machine's threads can be killed together, as by
 * a loss of power. A new thread is of the machine of the thread that made it.
 */
#ifndef FG_TESTS_LIB_THREADS_H
#define FG_TESTS_LIB_THREADS_H

#include "common/base/def.h"

struct thread;

/* Runs `run` as the first thread, of machine 0, and all that it starts, until it returns. Once in
 * a process. */
void threads_run(uint64_t seed, void (*run)(void *arg), void *arg);

/* Starts a thread that nobody joins. The name is copied. */
void threads_spawn(unsigned machine, const char *name, void (*run)(void *arg), void *arg);

/* Ends all threads of a machine where they stand. Locks that they hold are released; memory is
 * not. Not from a thread of this machine. */
void threads_kill(unsigned machine);

/* Returns how many threads of a machine have not ended. */
unsigned threads_count(unsigned machine);

/* Returns the machine of the running thread. */
unsigned threads_machine(void);

/* Virtual monotonic time. */
int64_t threads_now_ns(void);
void threads_sleep(int64_t ns);

/* A number below `below`, from the seed. */
uint64_t threads_draw(uint64_t below);

/* Waits until another thread calls threads_wake() for this one, at most so long; false: nobody did.
 * threads_self() says what to wake. */
bool threads_wait(int64_t ns);
void threads_wake(struct thread *thread);
struct thread *threads_self(void);

/* From now on, and until threads_unpin(), no other thread runs unless this one waits. */
void threads_pin(void);
void threads_unpin(void);

/* Prints what every thread waits for to stderr. */
void threads_describe(void);

/* Called with a sentence when threads cannot go on: somebody waits for a lock for an hour, a lock
 * is used wrongly, or so many steps were taken that time does not pass. Must not return. */
extern void (*threads_on_fault)(const char *why);

#endif
