/*
 * Foreground work is what a client waits for: the push of an agent, on each thread that it needs a
 * processor of. Threads of a low priority (thread.h) let it pass: between steps of their work they
 * wait while any is under way in this process.
 *
 *   push of an agent    begin --- end    (disk, other servers)    begin --- end
 *   bulk thread         step let_pass    step step step let_pass            step
 *
 * A push that waits for the disk or for other servers is not under way: that is most of its time,
 * and the best one for other work.
 *
 * A low priority alone does not do that. A thread that waits for a processor is owed time, whatever
 * its weight. So next to it Linux (EEVDF, since 6.6) deems the thread that runs to have had enough:
 * whichever thread wakes up then runs in its place, and after that the one of the low priority, for
 * a slice or until the next tick (1 to 4 ms). A thread that was to wake another one and so was
 * interrupted may hold a lock that the other one wants.
 *
 * A server that is never without foreground work has to do the other work, too. So a thread waits
 * for at most four times as long as it has worked, and 20 ms in one go.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_RUNTIME_FOREGROUND_H
#define FG_COMMON_RUNTIME_FOREGROUND_H

#include <stdbool.h>
#include <stdint.h>

/* Foreground work begins, ends; each that begins ends once. Ending it may be another thread's. Call
 * fg_foreground_end() as late as may be, behind the answer or what hands the work on: the threads
 * that wait may run at once in place of the one that calls it. */
void fg_foreground_begin(void);
void fg_foreground_end(void);

/* Returns whether any is under way in this process. */
bool fg_foreground_is_under_way(void);

/* Waits while foreground work is under way, if the calling thread has a low priority and as long as
 * its patience lasts. Call it between steps of some 0.1 ms, without a lock that foreground work
 * takes. */
void fg_foreground_let_pass(void);

/* Returns how long all threads of this process have waited so far. */
int64_t fg_foreground_waited_ns(void);

/* How long a thread goes on waiting. Zeroed: it has just begun to work. */
struct fg_patience {
    int64_t left_ns;
    int64_t since_mono_ns; /* it works since then; 0: not known */
};

/* Ends a stretch of work: what it took adds to the patience. */
void fg_patience_worked(struct fg_patience *patience, int64_t now_mono_ns);
/* Ends a wait that began with that call: it takes from the patience. */
void fg_patience_waited(struct fg_patience *patience, int64_t now_mono_ns);

#endif
