/*
 * A task group divides a job into independent tasks. The thread of the job (the owner) runs them,
 * and so do helpers: idle workers of the same lane.
 *
 *                put             run(), any thread           end(), the owner's thread
 *    (yours) ---------> waiting ------------------> has run ------------------------> (yours)
 *                          \                           /
 *                           `-- the group has failed --
 *
 * The owner does not depend on helpers: it runs every task that no helper takes, and without idle
 * workers put() runs a task before it returns. Helpers never wait. After each task a helper returns
 * to its lane if a job waits for a worker, or if the owner's flow is to leave the worker idle
 * (work_flows.h). So tasks are what others wait for at most: make them short, milliseconds at most.
 *
 * Tasks begin in the order in which they were put. If tasks fail, the failure of the task that was
 * put first counts. After a failure no task begins; tasks that have begun run to their end. So the
 * result does not depend on the number of helpers.
 *
 * Thread: run() on any, several at a time. Only the owner calls the functions, except
 * fg_task_group_nudge(). end() sees all that run() wrote.
 */
#ifndef FG_COMMON_RUNTIME_TASK_GROUP_H
#define FG_COMMON_RUNTIME_TASK_GROUP_H

#include "common/runtime/work.h"

/* With more helpers, queries mostly wait for memory. */
enum { FG_TASK_GROUP_HELPERS_MAX = 15 };

struct fg_task {
    enum fg_code (*run)(struct fg_task *task, struct fg_err *err);
    /* Called once for each task that was put. ran: run() was called and succeeded. May put other
     * tasks, and may free this one. */
    enum fg_code (*end)(struct fg_task *task, bool ran, struct fg_err *err);
    /* It takes less than to wake another thread: no helper is called for it, though those that are
     * there may take it. */
    bool is_small;
    uint64_t number; /* internal, from here on */
    enum fg_code code;
    struct fg_task *next;
};

struct fg_task_group;

/* Creates a group without tasks. work NULL: without helpers. job: of the lane, the one that runs on
 * the owner's thread; NULL: the thread is no worker. Never fails. */
struct fg_task_group *fg_task_group_create(struct fg_work *work, enum fg_lane lane,
                                           const struct fg_job *job);
/* Waits for helpers to return; the group has no tasks. The job of the group ends after that, since
 * helpers count as its own. */
void fg_task_group_settle(struct fg_task_group *group);
/* Waits for helpers to return and frees the group, which has no tasks. Accepts NULL. */
void fg_task_group_destroy(struct fg_task_group *group);

/* Limits how many helpers run tasks at a time, for tasks that each need memory. The limit starts at
 * FG_TASK_GROUP_HELPERS_MAX. */
void fg_task_group_limit(struct fg_task_group *group, unsigned helpers_max);

/* Adds a task, which is borrowed until its end(). */
void fg_task_group_put(struct fg_task_group *group, struct fg_task *task);

/* Returns whether enough tasks wait to keep all helpers busy. An owner whose waiting tasks hold
 * memory should run one then instead of putting more. */
bool fg_task_group_is_full(struct fg_task_group *group);

/* Calls end() of one task that has run. Returns false if there is none. */
bool fg_task_group_end_one(struct fg_task_group *group);

/* Runs one task that waits. Returns false if there is none. */
bool fg_task_group_run_one(struct fg_task_group *group);

/* Returns whether a task was put that has not ended. */
bool fg_task_group_has_tasks(const struct fg_task_group *group);

/* Waits for timeout_ns at most, until a task can be ended or there was a nudge since the last call
 * of this function. */
void fg_task_group_wait(struct fg_task_group *group, int64_t timeout_ns);

/* Wakes fg_task_group_wait(), because of another event that the owner waits for. Any thread. */
void fg_task_group_nudge(struct fg_task_group *group);

/* Returns whether no more tasks will begin: one has failed, or fg_task_group_stop() was called. */
bool fg_task_group_has_failed(const struct fg_task_group *group);
/* Makes no more tasks begin. */
void fg_task_group_stop(struct fg_task_group *group);

/* Returns the CPU time that tasks took on helpers until now; those of the owner are in its thread's
 * own (fg_thread_cpu_ns()). */
int64_t fg_task_group_helpers_cpu_ns(struct fg_task_group *group);

/*
 * Runs and ends all tasks. Returns FG_OK, or the failure that counts. Afterwards the group has
 * neither failed nor stopped and can be used again.
 */
enum fg_code fg_task_group_finish(struct fg_task_group *group, struct fg_err *err) fg_must_check;

#endif
