#include "common/runtime/task_group.h"

#include "common/base/time.h"
#include "common/runtime/thread.h"

#include <pthread.h>
#include <stdatomic.h>

/* Enough for helpers to find a task while the owner runs a long one. */
enum { WAITING_MAX = 128 };

struct task_queue {
    struct fg_task *first, *last;
    unsigned count;
};

/* A worker of the lane that helps. */
struct helper {
    struct fg_job job;
    struct fg_task_group *group;
    bool busy;
};

struct fg_task_group {
    struct fg_work *work; /* NULL: no helpers */
    enum fg_lane lane;
    const struct fg_job *job; /* the owner's; NULL: none */
    pthread_mutex_t lock;     /* over all below but `failed`; the lane's is taken within */
    pthread_cond_t changed;
    struct task_queue waiting, done;
    uint64_t n_put, n_ended;                    /* the owner's */
    unsigned helpers_max, n_helpers, n_helping; /* n_helping of the helpers run a task */
    bool nudged;
    int64_t helpers_cpu_ns; /* that tasks took on helpers */
    _Atomic bool failed;
    uint64_t failed_number; /* err is that of this task */
    struct fg_err err;      /* code FG_OK: none has failed */
    struct helper helpers[FG_TASK_GROUP_HELPERS_MAX];
};

/* Locked. */
static void check(const struct fg_task_group *group)
{
    fg_assert(group->n_helping <= group->n_helpers);
    fg_assert(group->n_helpers <= FG_TASK_GROUP_HELPERS_MAX);
    fg_assert((uint64_t)group->waiting.count + group->done.count + group->n_helping <=
              group->n_put);
}

static void queue_push(struct task_queue *queue, struct fg_task *task)
{
    task->next = NULL;
    if (queue->first == NULL)
        queue->first = task;
    else
        queue->last->next = task;
    queue->last = task;
    queue->count++;
}

static struct fg_task *queue_pop(struct task_queue *queue)
{
    struct fg_task *task = queue->first;

    if (task == NULL)
        return NULL;
    queue->first = task->next;
    queue->count--;
    return task;
}

/* ---- running ---- */

/* Keeps the error of the first task by number, not by time: which error is reported must not
 * depend on threads. Locked. */
static void note_failure(struct fg_task_group *group, const struct fg_task *task,
                         const struct fg_err *err)
{
    if (group->err.code == FG_OK || task->number < group->failed_number) {
        group->failed_number = task->number;
        group->err = *err;
    }
    atomic_store_explicit(&group->failed, true, memory_order_relaxed);
}

/* Unlocked. After the group has failed, tasks are ended without being run. */
static void run_task(struct fg_task_group *group, struct fg_task *task, bool begins, bool helping)
{
    int64_t begun_ns = helping ? fg_thread_cpu_ns() : 0, took_ns;
    struct fg_err err = {.code = FG_OK};

    task->code = begins ? task->run(task, &err) : FG_E_CANCELED;
    took_ns = helping ? fg_thread_cpu_ns() - begun_ns : 0;
    (void)pthread_mutex_lock(&group->lock);
    group->helpers_cpu_ns += took_ns;
    if (begins && task->code != FG_OK)
        note_failure(group, task, &err);
    queue_push(&group->done, task);
    group->n_helping -= helping;
    check(group);
    (void)pthread_cond_signal(&group->changed);
    (void)pthread_mutex_unlock(&group->lock);
}

int64_t fg_task_group_helpers_cpu_ns(struct fg_task_group *group)
{
    int64_t cpu_ns;

    (void)pthread_mutex_lock(&group->lock);
    cpu_ns = group->helpers_cpu_ns;
    (void)pthread_mutex_unlock(&group->lock);
    return cpu_ns;
}

bool fg_task_group_run_one(struct fg_task_group *group)
{
    struct fg_task *task;
    bool begins;

    (void)pthread_mutex_lock(&group->lock);
    task = queue_pop(&group->waiting);
    begins = !fg_task_group_has_failed(group);
    (void)pthread_mutex_unlock(&group->lock);
    if (task != NULL)
        run_task(group, task, begins, false);
    return task != NULL;
}

/* ---- helpers ---- */

static bool help_once(struct fg_task_group *group)
{
    struct fg_task *task = NULL;

    (void)pthread_mutex_lock(&group->lock);
    if (group->n_helping < group->helpers_max && !fg_task_group_has_failed(group))
        task = queue_pop(&group->waiting);
    group->n_helping += task != NULL;
    check(group);
    (void)pthread_mutex_unlock(&group->lock);
    if (task != NULL)
        run_task(group, task, true, true);
    return task != NULL;
}

static enum fg_code help(struct fg_job *job, struct fg_err *err)
{
    struct fg_task_group *group = fg_container(job, struct helper, job)->group;

    (void)err;
    /* Between two tasks a helper looks whether its lane has work of its own: it was lent only
     * while it was idle. */
    while (help_once(group) && !fg_work_recalls(group->work, group->lane, group->job))
        continue;
    return FG_OK;
}

/* The group may be freed once the lock is released. */
static void leave(struct fg_job *job)
{
    struct helper *helper = fg_container(job, struct helper, job);
    struct fg_task_group *group = helper->group;

    (void)pthread_mutex_lock(&group->lock);
    fg_assert(helper->busy && group->n_helpers > 0);
    helper->busy = false;
    group->n_helpers--;
    (void)pthread_cond_signal(&group->changed);
    (void)pthread_mutex_unlock(&group->lock);
}

/* Starts a helper for each task that waits, while workers are idle. Locked. */
static void call_helpers(struct fg_task_group *group)
{
    bool started = group->work != NULL;

    while (started && group->n_helpers < group->helpers_max &&
           group->n_helpers - group->n_helping < group->waiting.count) {
        struct helper *helper = group->helpers;

        while (helper->busy) /* one is free: n_helpers < helpers_max */
            helper++;
        helper->group = group;
        helper->job = (struct fg_job){.run = help, .done = leave};
        started = helper->busy =
            fg_work_submit_helper(group->work, group->lane, group->job, &helper->job);
        group->n_helpers += started;
    }
    check(group);
}

/* ---- the owner's ---- */

struct fg_task_group *fg_task_group_create(struct fg_work *work, enum fg_lane lane,
                                           const struct fg_job *job)
{
    struct fg_task_group *group = fg_new(struct fg_task_group);

    group->work = work;
    group->lane = lane;
    group->job = job;
    group->helpers_max = FG_TASK_GROUP_HELPERS_MAX;
    fg_assert(pthread_mutex_init(&group->lock, NULL) == 0);
    fg_cond_init(&group->changed);
    return group;
}

void fg_task_group_settle(struct fg_task_group *group)
{
    (void)pthread_mutex_lock(&group->lock);
    fg_assert(!fg_task_group_has_tasks(group));
    while (group->n_helpers > 0)
        (void)pthread_cond_wait(&group->changed, &group->lock);
    (void)pthread_mutex_unlock(&group->lock);
}

void fg_task_group_destroy(struct fg_task_group *group)
{
    if (group == NULL)
        return;
    fg_task_group_settle(group);
    (void)pthread_cond_destroy(&group->changed);
    (void)pthread_mutex_destroy(&group->lock);
    free(group);
}

void fg_task_group_limit(struct fg_task_group *group, unsigned helpers_max)
{
    (void)pthread_mutex_lock(&group->lock);
    group->helpers_max = FG_MIN(helpers_max, (unsigned)FG_TASK_GROUP_HELPERS_MAX);
    (void)pthread_mutex_unlock(&group->lock);
}

void fg_task_group_put(struct fg_task_group *group, struct fg_task *task)
{
    bool no_helper;

    (void)pthread_mutex_lock(&group->lock);
    task->number = group->n_put++;
    queue_push(&group->waiting, task);
    if (!task->is_small)
        call_helpers(group);
    no_helper = group->n_helpers == 0;
    (void)pthread_mutex_unlock(&group->lock);
    /* The owner runs a task itself, so the queue stays short, and a group on a busy server works
     * like a plain loop. */
    if (no_helper || task->is_small)
        (void)fg_task_group_run_one(group);
}

bool fg_task_group_is_full(struct fg_task_group *group)
{
    bool full;

    (void)pthread_mutex_lock(&group->lock);
    full = group->waiting.count >= WAITING_MAX;
    (void)pthread_mutex_unlock(&group->lock);
    return full;
}

bool fg_task_group_end_one(struct fg_task_group *group)
{
    struct fg_task *task;
    struct fg_err err;

    (void)pthread_mutex_lock(&group->lock);
    task = queue_pop(&group->done);
    (void)pthread_mutex_unlock(&group->lock);
    if (task == NULL)
        return false;
    /* Only the owner calls end(), one at a time, so results need no lock. */
    group->n_ended++;

    struct fg_task before = *task; /* end() may free it */
    if (task->end(task, task->code == FG_OK, &err) != FG_OK) {
        (void)pthread_mutex_lock(&group->lock);
        note_failure(group, &before, &err);
        (void)pthread_mutex_unlock(&group->lock);
    }
    return true;
}

bool fg_task_group_has_tasks(const struct fg_task_group *group)
{
    return group->n_ended < group->n_put;
}

void fg_task_group_wait(struct fg_task_group *group, int64_t timeout_ns)
{
    int64_t at_ns = fg_time_add(fg_mono_ns(fg_clock_real()), timeout_ns);
    struct timespec until = {.tv_sec = at_ns / FG_SECOND_NS, .tv_nsec = at_ns % FG_SECOND_NS};
    int rc = 0;

    (void)pthread_mutex_lock(&group->lock);
    while (group->done.first == NULL && !group->nudged && rc == 0)
        rc = pthread_cond_timedwait(&group->changed, &group->lock, &until);
    group->nudged = false;
    (void)pthread_mutex_unlock(&group->lock);
}

void fg_task_group_nudge(struct fg_task_group *group)
{
    (void)pthread_mutex_lock(&group->lock);
    group->nudged = true;
    (void)pthread_cond_signal(&group->changed);
    (void)pthread_mutex_unlock(&group->lock);
}

bool fg_task_group_has_failed(const struct fg_task_group *group)
{
    return atomic_load_explicit(&group->failed, memory_order_relaxed);
}

void fg_task_group_stop(struct fg_task_group *group)
{
    atomic_store_explicit(&group->failed, true, memory_order_relaxed);
}

enum fg_code fg_task_group_finish(struct fg_task_group *group, struct fg_err *err)
{
    enum fg_code code;

    while (fg_task_group_has_tasks(group))
        /* First end what is done, then help, and sleep only if there is neither. */
        if (!fg_task_group_end_one(group) && !fg_task_group_run_one(group))
            fg_task_group_wait(group, FG_SECOND_NS); /* helpers always end */
    code = group->err.code;
    if (code != FG_OK)
        *err = group->err;
    group->err.code = FG_OK;
    group->failed = false;
    return code;
}
