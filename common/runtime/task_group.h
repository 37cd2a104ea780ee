/*
 * A group does the independent tasks of one job: the job's own thread (the owner), and those
 * workers of its lane that have nothing else to do.
 *
 *                put              on any thread                   end, on the owner's
 *    (yours) ---------> waiting ---------------> has run ------------------------------> (yours)
 *                          \                        /
 *                           `- the group has failed -
 *
 * Nothing depends on help: what nobody takes the owner runs itself, and without idle workers put()
 * has run a task when it returns. A helper waits for nothing, and after each task it goes if a job
 * waits for a worker.
 *
 * Tasks begin in the order in which they were put. Of those that fail the one that was put first
 * counts, after which none begins; whatever has begun runs to its end. So it is the same failure,
 * however many help.
 *
 * Thread: run() on any, several at a time; all else is the owner's, but fg_task_group_nudge(). What
 * run() has written end() sees.
 */
#ifndef FG_COMMON_RUNTIME_TASK_GROUP_H
#define FG_COMMON_RUNTIME_TASK_GROUP_H

#include "common/runtime/work.h"

enum {
    FG_TASK_GROUP_HELPERS_MAX = 15
}; /* more only wait for memory, and there are other questions */

struct fg_task {
    enum fg_code (*run)(struct fg_task *task, struct fg_err *err);
    /* Once for each that was put. ran: run() was called, and went well. May put others, and free
     * the task. */
    enum fg_code (*end)(struct fg_task *task, bool ran, struct fg_err *err);
    uint64_t number; /* internal, from here on */
    enum fg_code code;
    struct fg_task *next;
};

struct fg_task_group;

/* Never fails. work NULL: nobody helps. No task is left at destroy; NULL is fine. */
struct fg_task_group *fg_task_group_create(struct fg_work *work, enum fg_lane lane);
void fg_task_group_destroy(struct fg_task_group *group);

/* So many helpers run tasks at a time at most, from now on; FG_TASK_GROUP_HELPERS_MAX at first. For
 * tasks that each need memory. */
void fg_task_group_limit(struct fg_task_group *group, unsigned helpers_max);

void fg_task_group_put(struct fg_task_group *group, struct fg_task *task);

/* Are so many waiting that helpers will not run out of them? Then an owner whose tasks hold
 * something rather runs one than puts one more. */
bool fg_task_group_is_full(struct fg_task_group *group);

/* Ends one that has run; false: there is none. */
bool fg_task_group_end_one(struct fg_task_group *group);

/* Runs one that is waiting; false: there is none. */
bool fg_task_group_run_one(struct fg_task_group *group);

/* Has one been put that was not ended? */
bool fg_task_group_has_tasks(const struct fg_task_group *group);

/* Waits until one can be ended, or for a nudge that came since this was called last. */
void fg_task_group_wait(struct fg_task_group *group);

/* Any thread: something came that the owner waits for besides. */
void fg_task_group_nudge(struct fg_task_group *group);

/* No task begins any more: one has failed, or fg_task_group_stop() was called. */
bool fg_task_group_has_failed(const struct fg_task_group *group);
void fg_task_group_stop(struct fg_task_group *group);

/*
 * Runs and ends all that there are. FG_OK, or the failure that counts; then, and after
 * fg_task_group_stop(), the group is as it was at first.
 */
enum fg_code fg_task_group_finish(struct fg_task_group *group, struct fg_err *err) fg_must_check;

#endif
