/*
 * A lane is one mutex over the flows, a queue for each worker, and one for helpers. Every worker
 * sleeps on a condition of its own: a pinned job wakes exactly the one it is for, another one wakes
 * one that is idle, and nobody is woken for a job that may not run yet. If such a job may run at a
 * certain time, one of the idle workers sleeps only until then. A worker that ends a job or a
 * helper looks for a job itself, and wakes another one if there are more that may run.
 *
 * A worker takes whichever head has waited longest: its own queue's, that of helpers, or that of
 * the flow whose turn it is. So none can starve another, and a pinned queue keeps its order because
 * one worker alone takes from it.
 *
 * Which flow is next, work_flows.h decides. There are few more flows than jobs, so a walk over them
 * under the lock is short.
 */
#include "common/runtime/work.h"

#include "common/runtime/foreground.h"
#include "common/runtime/thread.h"
#include "common/runtime/work_flows.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREAD_NAME_BYTES = 16 }; /* what Linux keeps of a thread's name, with the NUL */

struct worker {
    struct lane *lane;
    pthread_t thread;
    pthread_cond_t wake;
    struct fg_work_queue pinned;
    bool idle;             /* asleep and not woken */
    int64_t until_mono_ns; /* it sleeps no longer than until then; INT64_MAX: until it is woken */
    char name[THREAD_NAME_BYTES];
};

struct lane {
    pthread_mutex_t mutex; /* over everything below that is not constant or atomic */
    struct worker *workers;
    unsigned n_workers; /* guests included; constant once all run */
    unsigned queue_max; /* constant */
    bool bulk;          /* constant: its threads have a low priority */
    struct fg_work_queue helpers;
    struct fg_work_flows flows;
    unsigned queued; /* in all queues */
    _Atomic unsigned running;
    _Atomic uint64_t ended;
    uint64_t refused;
    bool stopping;
};

struct fg_work {
    struct lane lanes[FG_LANES];
};

static const char *const lane_names[FG_LANES] = {
    [FG_LANE_INGEST] = "ingest",
    [FG_LANE_QUERY] = "query",
    [FG_LANE_BACKGROUND] = "backgr",
    [FG_LANE_BULK] = "bulk",
};

/* ---- workers ---- */

static int64_t head_mono_ns(const struct fg_work_queue *queue)
{
    return queue->first == NULL ? INT64_MAX : queue->first->queued_mono_ns;
}

/* Chooses the worker's next job, by age of the three queue heads; NULL: none. Locked. */
static struct fg_job *next_job(struct worker *worker)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    struct lane *lane = worker->lane;
    struct fg_work_flow *flow = fg_work_flows_next(&lane->flows, now_ns);
    struct fg_work_queue *own = &worker->pinned;
    int64_t own_ns = head_mono_ns(own), help_ns = head_mono_ns(&lane->helpers);
    int64_t flow_ns = flow == NULL ? INT64_MAX : head_mono_ns(&flow->queue);

    if (own->first != NULL && own_ns <= help_ns && own_ns <= flow_ns)
        return fg_work_queue_pop(own);
    if (lane->helpers.first != NULL && help_ns <= flow_ns)
        return fg_work_queue_pop(&lane->helpers);
    return flow == NULL ? NULL : fg_work_flows_start(&lane->flows, flow);
}

/* Locked. */
static void wake_one(struct worker *worker)
{
    worker->idle = false; /* so that the next job wakes another one */
    pthread_cond_signal(&worker->wake);
}

/* NULL: all have something to do. Locked. */
static struct worker *find_idle(struct lane *lane)
{
    for (unsigned i = 0; i < lane->n_workers; i++)
        if (lane->workers[i].idle)
            return &lane->workers[i];
    return NULL;
}

/* Returns whether an idle worker looks for a job by itself at that time, or before. INT64_MAX:
 * whether one is idle. Locked. */
static bool somebody_looks_at(const struct lane *lane, int64_t mono_ns)
{
    for (unsigned i = 0; i < lane->n_workers; i++)
        if (lane->workers[i].idle && lane->workers[i].until_mono_ns <= mono_ns)
            return true;
    return false;
}

/* Wakes an idle worker if a job of a flow may start, or if one will by time alone and nobody would
 * look for it: the worker sleeps until then. Locked. */
static void wake_for_flows(struct lane *lane)
{
    struct worker *worker = find_idle(lane);
    int64_t now = fg_mono_ns(fg_clock_real());

    if (worker != NULL && (fg_work_flows_next(&lane->flows, now) != NULL ||
                           !somebody_looks_at(lane, fg_work_flows_ripe_mono_ns(&lane->flows, now))))
        wake_one(worker);
}

/* Sleeps until it is woken, or until a job may run that may not run now, if no other worker looks
 * for that one. Locked. */
static void sleep_idle(struct worker *worker)
{
    struct lane *lane = worker->lane;
    int64_t until = fg_work_flows_ripe_mono_ns(&lane->flows, fg_mono_ns(fg_clock_real()));

    if (somebody_looks_at(lane, until))
        until = INT64_MAX;
    worker->until_mono_ns = until;
    worker->idle = true;
    if (until == INT64_MAX) {
        pthread_cond_wait(&worker->wake, &lane->mutex);
    } else {
        const struct timespec at = {until / FG_SECOND_NS, until % FG_SECOND_NS};

        pthread_cond_timedwait(&worker->wake, &lane->mutex, &at);
    }
    worker->idle = false;
}

/* Waits for a job; NULL when the lane ends and this worker has nothing left to do. */
static struct fg_job *wait_job(struct worker *worker)
{
    struct lane *lane = worker->lane;
    struct fg_job *job;

    pthread_mutex_lock(&lane->mutex);
    /* Queues are emptied before a worker ends: each job's done() is called. */
    while ((job = next_job(worker)) == NULL && !lane->stopping)
        sleep_idle(worker);
    if (job != NULL) {
        lane->queued--;
        atomic_fetch_add_explicit(&lane->running, 1, memory_order_relaxed);
        /* A job that might not run when it was queued may run now, or this worker was the one that
         * would look for it later. */
        wake_for_flows(lane);
    }
    pthread_mutex_unlock(&lane->mutex);
    return job;
}

static struct fg_work_flow *flow_of(const struct fg_job *owner)
{
    return owner == NULL ? NULL : owner->flow;
}

static void come_home(struct fg_msg *msg)
{
    struct fg_job *job = fg_container(msg, struct fg_job, msg);

    job->done(job);
}

static void run_job(struct lane *lane, struct fg_job *job)
{
    job->err.code = FG_OK;
    job->err.msg[0] = '\0';
    job->code = job->run(job, &job->err);
    fg_assert(job->code == FG_OK || job->code == job->err.code);

    /* Before done(), which may look at the lane, and after which the job is not ours. A job that
     * may run now this worker finds when it looks for its next job. */
    if (job->flow != NULL || job->helps) {
        pthread_mutex_lock(&lane->mutex);
        if (job->helps)
            fg_work_flows_returned(&lane->flows, flow_of(job->owner));
        else
            fg_work_flows_ended(&lane->flows, job->flow, fg_mono_ns(fg_clock_real()));
        pthread_mutex_unlock(&lane->mutex);
    }
    atomic_fetch_sub_explicit(&lane->running, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->ended, 1, memory_order_relaxed);
    if (job->home == NULL) {
        job->done(job);
        return;
    }
    job->msg.run = come_home;
    fg_loop_post(job->home, &job->msg);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct fg_job *job;

    (void)pthread_setname_np(pthread_self(), worker->name);
    if (worker->lane->bulk)
        fg_thread_lower_priority();
    while ((job = wait_job(worker)) != NULL) {
        fg_foreground_let_pass();
        run_job(worker->lane, job);
    }
    return NULL;
}

/* Prepares a job for one of the queues. Locked: the time orders them. */
static void prepare(struct lane *lane, struct fg_job *job)
{
    job->queued_mono_ns = fg_mono_ns(fg_clock_real());
    job->flow = NULL;
    job->owner = NULL;
    job->helps = false;
    lane->queued++;
}

/* Locked. */
static void enqueue_flow(struct lane *lane, const struct fg_flow *flow, struct fg_job *job)
{
    prepare(lane, job);
    fg_work_flows_add(&lane->flows, flow, job);
    wake_for_flows(lane);
}

/* Locked. */
static void enqueue_pinned(struct lane *lane, struct worker *worker, struct fg_job *job)
{
    prepare(lane, job);
    fg_work_queue_push(&worker->pinned, job);
    wake_one(worker);
}

/* pinned: NULL for any worker. */
static bool submit(struct lane *lane, struct worker *pinned, struct fg_job *job)
{
    static const struct fg_flow none;
    bool room;

    fg_assert(job->run != NULL && job->done != NULL);
    pthread_mutex_lock(&lane->mutex);
    /* A full queue refuses (429). It must not wait: the caller is a loop. */
    room = lane->n_workers > 0 && lane->queued < lane->queue_max && !lane->stopping;
    if (!room)
        lane->refused++;
    else if (pinned != NULL)
        enqueue_pinned(lane, pinned, job);
    else
        enqueue_flow(lane, &none, job);
    pthread_mutex_unlock(&lane->mutex);
    return room;
}

bool fg_work_submit(struct fg_work *work, enum fg_lane lane, struct fg_job *job)
{
    return submit(&work->lanes[lane], NULL, job);
}

enum fg_submit fg_work_submit_flow(struct fg_work *work, enum fg_lane lane_id,
                                   const struct fg_flow *flow, struct fg_job *job)
{
    struct lane *lane = &work->lanes[lane_id];
    enum fg_submit verdict = FG_SUBMIT_QUEUED;
    unsigned left, queued;

    fg_assert(job->run != NULL && job->done != NULL);
    pthread_mutex_lock(&lane->mutex);
    queued = fg_work_flows_queued(&lane->flows, flow->id);
    /* A flow may have as many jobs as it leaves room for: one alone takes half of the queue, the
     * next one half of the rest. So no tenant can fill the queue for the others. */
    left = lane->queue_max - FG_MIN(lane->queued, lane->queue_max);
    if (flow->queued_max > 0 && queued >= flow->queued_max)
        verdict = FG_SUBMIT_FLOW_FULL;
    else if (lane->n_workers == 0 || queued >= left || lane->stopping)
        verdict = FG_SUBMIT_LANE_FULL;
    if (verdict == FG_SUBMIT_QUEUED)
        enqueue_flow(lane, flow, job);
    else
        lane->refused++;
    pthread_mutex_unlock(&lane->mutex);
    return verdict;
}

void fg_work_charge(struct fg_work *work, enum fg_lane lane_id, struct fg_job *job, uint64_t cost)
{
    struct lane *lane = &work->lanes[lane_id];

    if (job->flow == NULL)
        return;
    pthread_mutex_lock(&lane->mutex);
    fg_work_flows_charge(&lane->flows, job->flow, cost);
    pthread_mutex_unlock(&lane->mutex);
}

static struct worker *worker_of(struct lane *lane, uint64_t pin)
{
    return lane->flows.workers == 0 ? NULL : &lane->workers[pin % lane->flows.workers];
}

bool fg_work_submit_pinned(struct fg_work *work, enum fg_lane lane, uint64_t pin,
                           struct fg_job *job)
{
    return submit(&work->lanes[lane], worker_of(&work->lanes[lane], pin), job);
}

bool fg_work_submit_helper(struct fg_work *work, enum fg_lane lane_id, const struct fg_job *owner,
                           struct fg_job *job)
{
    struct lane *lane = &work->lanes[lane_id];
    struct worker *worker;
    bool lent;

    fg_assert(job->run != NULL && job->done != NULL);
    pthread_mutex_lock(&lane->mutex);
    /* An idle worker that was woken for a job, or that a pinned job waits for, is not idle here. */
    worker = lane->stopping ? NULL : find_idle(lane);
    lent = worker != NULL &&
           fg_work_flows_lend(&lane->flows, flow_of(owner), fg_mono_ns(fg_clock_real()));
    if (lent) {
        prepare(lane, job);
        job->owner = owner;
        job->helps = true;
        fg_work_queue_push(&lane->helpers, job);
        wake_one(worker);
    }
    pthread_mutex_unlock(&lane->mutex);
    return lent;
}

bool fg_work_recalls(struct fg_work *work, enum fg_lane lane_id, const struct fg_job *owner)
{
    struct lane *lane = &work->lanes[lane_id];
    bool recalls;

    pthread_mutex_lock(&lane->mutex);
    recalls = fg_work_flows_recalls(&lane->flows, flow_of(owner), fg_mono_ns(fg_clock_real()));
    for (unsigned i = 0; i < lane->n_workers && !recalls; i++)
        recalls = lane->workers[i].pinned.first != NULL;
    pthread_mutex_unlock(&lane->mutex);
    return recalls;
}

static enum fg_code worker_start(struct lane *lane, const char *prefix, const char *lane_name,
                                 struct fg_err *err)
{
    struct worker *worker = &lane->workers[lane->n_workers];
    int rc;

    worker->lane = lane;
    (void)snprintf(worker->name, sizeof worker->name, "%.5s-%.6s-%u", prefix, lane_name,
                   lane->n_workers % 100);
    fg_cond_init(&worker->wake);
    rc = pthread_create(&worker->thread, NULL, worker_main, worker);
    if (rc != 0) {
        (void)pthread_cond_destroy(&worker->wake);
        return fg_fail_errno(err, rc, "worker %s", worker->name);
    }
    pthread_mutex_lock(&lane->mutex); /* workers that have started look for jobs */
    lane->n_workers++;
    pthread_mutex_unlock(&lane->mutex);
    return FG_OK;
}

static void lane_stop(struct lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    lane->stopping = true;
    for (unsigned i = 0; i < lane->n_workers; i++)
        wake_one(&lane->workers[i]);
    pthread_mutex_unlock(&lane->mutex);
}

static void lane_join(struct lane *lane)
{
    for (unsigned i = 0; i < lane->n_workers; i++)
        fg_assert(pthread_join(lane->workers[i].thread, NULL) == 0);
    for (unsigned i = 0; i < lane->n_workers; i++)
        (void)pthread_cond_destroy(&lane->workers[i].wake);
    fg_work_flows_done(&lane->flows);
    fg_assert(lane->queued == 0);
    (void)pthread_mutex_destroy(&lane->mutex);
    free(lane->workers);
}

void fg_work_destroy(struct fg_work *work)
{
    if (work == NULL)
        return;
    /* All at once: a job of one lane may wait for nothing in another, but may take its time. */
    for (size_t i = 0; i < FG_LANES; i++)
        lane_stop(&work->lanes[i]);
    for (size_t i = 0; i < FG_LANES; i++)
        lane_join(&work->lanes[i]);
    free(work);
}

enum fg_code fg_work_create(const char *name, const struct fg_lane_config lanes[FG_LANES],
                            struct fg_work **ret_work, struct fg_err *err)
{
    fg_auto(fg_work) *work = fg_new(struct fg_work);

    for (size_t i = 0; i < FG_LANES; i++) {
        fg_assert(pthread_mutex_init(&work->lanes[i].mutex, NULL) == 0);
        work->lanes[i].queue_max = lanes[i].queue_max;
        work->lanes[i].bulk = i == FG_LANE_BULK;
        work->lanes[i].flows.workers = lanes[i].threads;
        work->lanes[i].flows.guests = lanes[i].guests;
        work->lanes[i].flows.whole = lanes[i].whole;
        work->lanes[i].workers =
            fg_calloc((size_t)lanes[i].threads + lanes[i].guests, sizeof(struct worker));
    }
    for (size_t i = 0; i < FG_LANES; i++)
        for (unsigned t = 0; t < lanes[i].threads + lanes[i].guests; t++)
            if (worker_start(&work->lanes[i], name, lane_names[i], err) != FG_OK)
                return err->code;
    *ret_work = fg_take(work);
    return FG_OK;
}

unsigned fg_work_threads(const struct fg_work *work, enum fg_lane lane)
{
    return work->lanes[lane].n_workers - work->lanes[lane].flows.guests;
}

void fg_work_state(struct fg_work *work, enum fg_lane lane_id, struct fg_lane_state *ret_state)
{
    struct lane *lane = &work->lanes[lane_id];
    int64_t now;

    pthread_mutex_lock(&lane->mutex);
    now = fg_mono_ns(fg_clock_real());

    int64_t oldest = FG_MIN(now, head_mono_ns(&lane->helpers));

    for (unsigned i = 0; i < lane->n_workers; i++)
        oldest = FG_MIN(oldest, head_mono_ns(&lane->workers[i].pinned));
    *ret_state = (struct fg_lane_state){
        .queued = lane->queued,
        .running = atomic_load_explicit(&lane->running, memory_order_relaxed),
        .ended = atomic_load_explicit(&lane->ended, memory_order_relaxed),
        .refused = lane->refused,
        .oldest_age_ns = now - fg_work_flows_oldest_mono_ns(&lane->flows, oldest),
    };
    pthread_mutex_unlock(&lane->mutex);
}
