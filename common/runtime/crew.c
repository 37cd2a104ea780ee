#include "common/runtime/crew.h"

#include <pthread.h>
#include <stdatomic.h>

/* So many that helpers find one while the owner runs a long one itself. */
enum { WAITING_MAX = 128 };

struct crew_queue {
    struct fg_task *first, *last;
    unsigned count;
};

/* A worker of the lane, while it is with us. */
struct helper {
    struct fg_job job;
    struct fg_crew *crew;
    bool lent;
};

struct fg_crew {
    struct fg_work *work; /* NULL: nobody helps */
    enum fg_lane lane;
    pthread_mutex_t lock; /* over all below but `failed`; the lane's is taken within */
    pthread_cond_t changed;
    struct crew_queue waiting, done;
    uint64_t n_put, n_ended;                 /* the owner's */
    unsigned helpers_max, n_lent, n_helping; /* of those lent, running a task */
    bool nudged;
    _Atomic bool failed;
    uint64_t failed_number; /* err is that of this task */
    struct fg_err err;      /* code FG_OK: none has failed */
    struct helper helpers[FG_CREW_HELPERS_MAX];
};

static void queue_push(struct crew_queue *queue, struct fg_task *task)
{
    task->next = NULL;
    if (queue->first == NULL)
        queue->first = task;
    else
        queue->last->next = task;
    queue->last = task;
    queue->count++;
}

static struct fg_task *queue_pop(struct crew_queue *queue)
{
    struct fg_task *task = queue->first;

    if (task == NULL)
        return NULL;
    queue->first = task->next;
    queue->count--;
    return task;
}

/* ---- running ---- */

/* Locked. */
static void note_failure(struct fg_crew *crew, const struct fg_task *task, const struct fg_err *err)
{
    if (crew->err.code == FG_OK || task->number < crew->failed_number) {
        crew->failed_number = task->number;
        crew->err = *err;
    }
    atomic_store_explicit(&crew->failed, true, memory_order_relaxed);
}

/* Unlocked. Once the crew has failed, tasks go by without being run. */
static void run_task(struct fg_crew *crew, struct fg_task *task, bool begins, bool helping)
{
    struct fg_err err = {.code = FG_OK};

    task->code = begins ? task->run(task, &err) : FG_E_CANCELED;
    (void)pthread_mutex_lock(&crew->lock);
    if (begins && task->code != FG_OK)
        note_failure(crew, task, &err);
    queue_push(&crew->done, task);
    crew->n_helping -= helping;
    (void)pthread_cond_signal(&crew->changed);
    (void)pthread_mutex_unlock(&crew->lock);
}

bool fg_crew_run_one(struct fg_crew *crew)
{
    struct fg_task *task;
    bool begins;

    (void)pthread_mutex_lock(&crew->lock);
    task = queue_pop(&crew->waiting);
    begins = !fg_crew_has_failed(crew);
    (void)pthread_mutex_unlock(&crew->lock);
    if (task != NULL)
        run_task(crew, task, begins, false);
    return task != NULL;
}

/* ---- helpers ---- */

static bool help_once(struct fg_crew *crew)
{
    struct fg_task *task = NULL;

    (void)pthread_mutex_lock(&crew->lock);
    if (crew->n_helping < crew->helpers_max && !fg_crew_has_failed(crew))
        task = queue_pop(&crew->waiting);
    crew->n_helping += task != NULL;
    (void)pthread_mutex_unlock(&crew->lock);
    if (task != NULL)
        run_task(crew, task, true, true);
    return task != NULL;
}

static enum fg_code help(struct fg_job *job, struct fg_err *err)
{
    struct fg_crew *crew = fg_container(job, struct helper, job)->crew;

    (void)err;
    while (help_once(crew) && !fg_work_is_wanted(crew->work, crew->lane))
        continue;
    return FG_OK;
}

/* The crew may be gone afterwards. */
static void leave(struct fg_job *job)
{
    struct helper *helper = fg_container(job, struct helper, job);
    struct fg_crew *crew = helper->crew;

    (void)pthread_mutex_lock(&crew->lock);
    helper->lent = false;
    crew->n_lent--;
    (void)pthread_cond_signal(&crew->changed);
    (void)pthread_mutex_unlock(&crew->lock);
}

/* Locked. */
static bool lend(struct fg_crew *crew)
{
    struct helper *helper = crew->helpers;

    while (helper->lent)
        helper++;
    helper->crew = crew;
    helper->job = (struct fg_job){.run = help, .done = leave};
    helper->lent = fg_work_lend(crew->work, crew->lane, &helper->job);
    crew->n_lent += helper->lent;
    return helper->lent;
}

/* As many as there are tasks that nobody runs yet. Locked. */
static void call_helpers(struct fg_crew *crew)
{
    while (crew->work != NULL && crew->n_lent < crew->helpers_max &&
           crew->n_lent - crew->n_helping < crew->waiting.count && lend(crew))
        continue;
}

/* ---- the owner's ---- */

struct fg_crew *fg_crew_create(struct fg_work *work, enum fg_lane lane)
{
    struct fg_crew *crew = fg_new(struct fg_crew);

    crew->work = work;
    crew->lane = lane;
    crew->helpers_max = FG_CREW_HELPERS_MAX;
    fg_assert(pthread_mutex_init(&crew->lock, NULL) == 0 &&
              pthread_cond_init(&crew->changed, NULL) == 0);
    return crew;
}

void fg_crew_destroy(struct fg_crew *crew)
{
    if (crew == NULL)
        return;
    (void)pthread_mutex_lock(&crew->lock);
    fg_assert(!fg_crew_has_tasks(crew));
    while (crew->n_lent > 0)
        (void)pthread_cond_wait(&crew->changed, &crew->lock);
    (void)pthread_mutex_unlock(&crew->lock);
    (void)pthread_cond_destroy(&crew->changed);
    (void)pthread_mutex_destroy(&crew->lock);
    free(crew);
}

void fg_crew_limit(struct fg_crew *crew, unsigned helpers_max)
{
    (void)pthread_mutex_lock(&crew->lock);
    crew->helpers_max = FG_MIN(helpers_max, (unsigned)FG_CREW_HELPERS_MAX);
    (void)pthread_mutex_unlock(&crew->lock);
}

void fg_crew_put(struct fg_crew *crew, struct fg_task *task)
{
    bool alone;

    (void)pthread_mutex_lock(&crew->lock);
    task->number = crew->n_put++;
    queue_push(&crew->waiting, task);
    call_helpers(crew);
    alone = crew->n_lent == 0;
    (void)pthread_mutex_unlock(&crew->lock);
    if (alone)
        (void)fg_crew_run_one(crew);
}

bool fg_crew_is_full(struct fg_crew *crew)
{
    bool full;

    (void)pthread_mutex_lock(&crew->lock);
    full = crew->waiting.count >= WAITING_MAX;
    (void)pthread_mutex_unlock(&crew->lock);
    return full;
}

bool fg_crew_end_one(struct fg_crew *crew)
{
    struct fg_task *task;
    struct fg_err err;

    (void)pthread_mutex_lock(&crew->lock);
    task = queue_pop(&crew->done);
    (void)pthread_mutex_unlock(&crew->lock);
    if (task == NULL)
        return false;
    crew->n_ended++;

    struct fg_task before = *task; /* end() may free it */
    if (task->end(task, task->code == FG_OK, &err) != FG_OK) {
        (void)pthread_mutex_lock(&crew->lock);
        note_failure(crew, &before, &err);
        (void)pthread_mutex_unlock(&crew->lock);
    }
    return true;
}

bool fg_crew_has_tasks(const struct fg_crew *crew)
{
    return crew->n_ended < crew->n_put;
}

void fg_crew_wait(struct fg_crew *crew)
{
    (void)pthread_mutex_lock(&crew->lock);
    while (crew->done.first == NULL && !crew->nudged)
        (void)pthread_cond_wait(&crew->changed, &crew->lock);
    crew->nudged = false;
    (void)pthread_mutex_unlock(&crew->lock);
}

void fg_crew_nudge(struct fg_crew *crew)
{
    (void)pthread_mutex_lock(&crew->lock);
    crew->nudged = true;
    (void)pthread_cond_signal(&crew->changed);
    (void)pthread_mutex_unlock(&crew->lock);
}

bool fg_crew_has_failed(const struct fg_crew *crew)
{
    return atomic_load_explicit(&crew->failed, memory_order_relaxed);
}

void fg_crew_stop(struct fg_crew *crew)
{
    atomic_store_explicit(&crew->failed, true, memory_order_relaxed);
}

enum fg_code fg_crew_finish(struct fg_crew *crew, struct fg_err *err)
{
    enum fg_code code;

    while (fg_crew_has_tasks(crew))
        if (!fg_crew_end_one(crew) && !fg_crew_run_one(crew))
            fg_crew_wait(crew);
    code = crew->err.code;
    if (code != FG_OK)
        *err = crew->err;
    crew->err.code = FG_OK;
    crew->failed = false;
    return code;
}
