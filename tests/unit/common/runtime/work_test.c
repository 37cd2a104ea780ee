#include "common/runtime/work.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

enum { JOBS_MAX = 3000 };

/* What a test wants to know of each job, and a gate that holds the workers back. */
struct task {
    struct fg_job job;
    struct fg_loop *loop; /* where done() ought to be */
    sem_t *gate;          /* run() waits for it; NULL: does not */
    pthread_t ran_on;
    unsigned order; /* among all that ran */
    int nice;       /* of the thread that ran it, if read_nice() did */
    bool fails, at_home;
    _Atomic unsigned done_calls;
};

static struct task tasks[JOBS_MAX];
static _Atomic unsigned n_ran, n_done;

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct task *task = fg_container(job, struct task, job);

    if (task->gate != NULL)
        assert_int_equal(sem_wait(task->gate), 0);
    task->ran_on = pthread_self();
    task->order = atomic_fetch_add(&n_ran, 1);
    return task->fails ? fg_fail(err, FG_E_CORRUPT, "task failed") : FG_OK;
}

static void done(struct fg_job *job)
{
    struct task *task = fg_container(job, struct task, job);

    task->at_home = task->loop == NULL ? pthread_equal(pthread_self(), task->ran_on) != 0
                                       : fg_loop_is_current(task->loop);
    atomic_fetch_add(&task->done_calls, 1);
    atomic_fetch_add(&n_done, 1);
}

static int reset(void **state)
{
    (void)state;
    memset(tasks, 0, sizeof tasks);
    for (size_t i = 0; i < JOBS_MAX; i++) {
        tasks[i].job.run = run;
        tasks[i].job.done = done;
    }
    atomic_store(&n_ran, 0);
    atomic_store(&n_done, 0);
    return 0;
}

static struct fg_work *make_with_guests(unsigned threads, unsigned guests, unsigned queue_max)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = threads, .queue_max = queue_max, .guests = guests}};
    struct fg_work *work = NULL;
    struct fg_err err;

    assert_int_equal(fg_work_create("tst", lanes, &work, &err), FG_OK);
    return work;
}

static struct fg_work *make(unsigned threads, unsigned queue_max)
{
    return make_with_guests(threads, 0, queue_max);
}

static struct fg_lane_state state_of(struct fg_work *work)
{
    struct fg_lane_state now;

    fg_work_state(work, FG_LANE_INGEST, &now);
    return now;
}

static void wait_running(struct fg_work *work, unsigned n)
{
    while (state_of(work).running != n)
        (void)sched_yield();
}

static void done_runs_on_the_home_loop(void **state)
{
    struct fg_loop *loop = fg_loop_create("home");
    struct fg_work *work = make(2, 10);
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_loop_start(loop, &err), FG_OK);
    tasks[0].job.home = tasks[0].loop = loop;
    tasks[1].fails = true; /* and done on the worker */
    assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[0].job));
    assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[1].job));
    fg_work_destroy(work);
    fg_loop_stop(loop);
    fg_loop_destroy(loop);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&tasks[i].done_calls), 1);
        assert_true(tasks[i].at_home);
    }
    assert_int_equal(tasks[0].job.code, FG_OK);
    assert_int_equal(tasks[1].job.code, FG_E_CORRUPT);
    assert_int_equal(tasks[1].job.err.code, FG_E_CORRUPT);
    assert_string_equal(tasks[1].job.err.msg, "task failed");
}

static void a_full_lane_refuses_jobs(void **state)
{
    struct fg_work *work = make(1, 2);
    struct fg_lane_state now;
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    for (size_t i = 0; i < 4; i++)
        tasks[i].gate = &gate;
    assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[0].job));
    wait_running(work, 1);
    /* The bound is of both queues together. */
    assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[1].job));
    assert_true(fg_work_submit_pinned(work, FG_LANE_INGEST, 7, &tasks[2].job));
    assert_false(fg_work_submit(work, FG_LANE_INGEST, &tasks[3].job));
    assert_false(fg_work_submit_pinned(work, FG_LANE_INGEST, 7, &tasks[3].job));
    now = state_of(work);
    assert_int_equal(now.queued, 2);
    assert_int_equal(now.running, 1);
    assert_int_equal(now.refused, 2);
    assert_true(now.oldest_age_ns > 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 3);
    assert_int_equal(atomic_load(&tasks[3].done_calls), 0);
    assert_int_equal(sem_destroy(&gate), 0);
}

static void a_lane_accepts_jobs_again_after_it_was_full(void **state)
{
    struct fg_work *work = make(1, 1);
    struct fg_lane_state now;

    (void)state;
    for (size_t i = 0; i < 50; i++) {
        assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[i].job));
        while (atomic_load(&n_done) != i + 1)
            (void)sched_yield();
    }
    now = state_of(work);
    assert_int_equal(now.queued, 0);
    assert_int_equal(now.running, 0);
    assert_int_equal(now.refused, 0);
    assert_int_equal(now.oldest_age_ns, 0);
    fg_work_destroy(work);
}

static void a_lane_without_threads_refuses_jobs(void **state)
{
    struct fg_work *work = make(0, 100);

    (void)state;
    assert_false(fg_work_submit(work, FG_LANE_INGEST, &tasks[0].job));
    assert_false(fg_work_submit_pinned(work, FG_LANE_INGEST, 3, &tasks[0].job));
    assert_false(fg_work_submit(work, FG_LANE_BACKGROUND, &tasks[0].job));
    assert_int_equal(state_of(work).refused, 2);
    fg_work_destroy(work);
    fg_work_destroy(NULL);
}

/* Pinned and shared jobs mixed: each pin keeps its thread and its order, and all are run on the way
 * out. */
static void pinned_jobs_keep_thread_and_order(void **state)
{
    enum { THREADS = 3, PINS = 5 };
    struct fg_work *work = make(THREADS, JOBS_MAX);
    const struct task *last[PINS] = {NULL};

    (void)state;
    for (unsigned i = 0; i < JOBS_MAX; i++) {
        if (i % 6 < PINS)
            assert_true(fg_work_submit_pinned(work, FG_LANE_INGEST, i % 6, &tasks[i].job));
        else
            assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[i].job));
    }
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), JOBS_MAX);
    for (unsigned i = 0; i < JOBS_MAX; i++) {
        const struct task *task = &tasks[i], *before = i % 6 < PINS ? last[i % 6] : NULL;

        assert_int_equal(atomic_load(&task->done_calls), 1);
        if (before != NULL) {
            assert_true(pthread_equal(task->ran_on, before->ran_on));
            assert_true(task->order > before->order);
        }
        if (i % 6 < PINS)
            last[i % 6] = task;
    }
    /* 3 is to 0 as 4 is to 1: pin % threads. */
    assert_true(pthread_equal(last[0]->ran_on, last[3]->ran_on));
    assert_true(pthread_equal(last[1]->ran_on, last[4]->ran_on));
    assert_false(pthread_equal(last[0]->ran_on, last[1]->ran_on));
}

static enum fg_code read_nice(struct fg_job *job, struct fg_err *err)
{
    struct task *task = fg_container(job, struct task, job);

    (void)err;
    task->nice = getpriority(PRIO_PROCESS, 0);
    return FG_OK;
}

/* Only the threads of that lane, not the process. */
static void bulk_jobs_have_a_low_priority(void **state)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = 1, .queue_max = 1},
        [FG_LANE_BULK] = {.threads = 1, .queue_max = 1},
    };
    int ours = getpriority(PRIO_PROCESS, 0);
    struct fg_work *work = NULL;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_work_create("tst", lanes, &work, &err), FG_OK);
    for (size_t i = 0; i < 2; i++)
        tasks[i].job.run = read_nice;
    assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[0].job));
    assert_true(fg_work_submit(work, FG_LANE_BULK, &tasks[1].job));
    fg_work_destroy(work);
    assert_int_equal(tasks[0].nice, ours);
    assert_int_equal(tasks[1].nice, FG_MIN(ours + 5, 19));
    assert_int_equal(getpriority(PRIO_PROCESS, 0), ours);
}

/* A stuck worker keeps its pinned jobs waiting, and nothing else. */
static void shared_jobs_run_on_any_worker(void **state)
{
    struct fg_work *work = make(2, 100);
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    tasks[0].gate = &gate;
    assert_true(fg_work_submit_pinned(work, FG_LANE_INGEST, 0, &tasks[0].job));
    wait_running(work, 1);
    assert_true(fg_work_submit_pinned(work, FG_LANE_INGEST, 0, &tasks[1].job));
    for (size_t i = 2; i < 20; i++)
        assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[i].job));
    while (atomic_load(&n_done) != 18)
        (void)sched_yield();
    assert_int_equal(atomic_load(&tasks[1].done_calls), 0);
    assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 20);
    assert_int_equal(sem_destroy(&gate), 0);
}

/* What waits for one worker by name keeps nobody from lending the other, but only that one. */
static void helpers_run_on_idle_workers_only(void **state)
{
    struct fg_work *work = make(2, 100);
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    for (size_t i = 0; i < 4; i++)
        tasks[i].gate = &gate;
    assert_true(fg_work_submit_pinned(work, FG_LANE_INGEST, 0, &tasks[0].job));
    wait_running(work, 1);
    assert_true(fg_work_submit_pinned(work, FG_LANE_INGEST, 0, &tasks[1].job));
    while (!fg_work_submit_helper(work, FG_LANE_INGEST, NULL,
                                  &tasks[2].job)) /* as soon as it sleeps */
        (void)sched_yield();
    assert_false(fg_work_submit_helper(work, FG_LANE_INGEST, NULL, &tasks[3].job));
    assert_int_equal(state_of(work).refused, 0);
    wait_running(work, 2);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 3);
    assert_false(pthread_equal(tasks[2].ran_on, tasks[1].ran_on));
    assert_int_equal(sem_destroy(&gate), 0);
}

/* The head that waited longer goes first, whichever queue it is in. */
static void neither_queue_starves(void **state)
{
    struct fg_work *work = make(1, 100);
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    tasks[0].gate = &gate;
    assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[0].job));
    wait_running(work, 1);
    for (unsigned i = 1; i < 60; i++) {
        struct timespec tick = {0, 1000}; /* so that no two have the same age */

        if (i % 3 == 0)
            assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[i].job));
        else
            assert_true(fg_work_submit_pinned(work, FG_LANE_INGEST, i, &tasks[i].job));
        (void)nanosleep(&tick, NULL);
    }
    assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(tasks[i].order, i);
    assert_int_equal(sem_destroy(&gate), 0);
}

/* Submits itself again until it is refused: only the end of the lane can do that here. */
static struct fg_work *endless_work;
static _Atomic unsigned endless_refusals;

static void again(struct fg_job *job)
{
    if (!fg_work_submit(endless_work, FG_LANE_INGEST, job))
        atomic_fetch_add(&endless_refusals, 1);
}

static void destroy_refuses_new_jobs(void **state)
{
    (void)state;
    atomic_store(&endless_refusals, 0);
    endless_work = make(2, 10);
    tasks[0].job.done = again;
    assert_true(fg_work_submit(endless_work, FG_LANE_INGEST, &tasks[0].job));
    while (atomic_load(&n_ran) < 10)
        (void)sched_yield();
    assert_int_equal(atomic_load(&endless_refusals), 0);
    fg_work_destroy(endless_work); /* comes back, although the job never ends by itself */
    assert_int_equal(atomic_load(&endless_refusals), 1);
}

/* ---- flows ---- */

static bool submit_flow(struct fg_work *work, uint64_t id, struct fg_job *job)
{
    return fg_work_submit_flow(work, FG_LANE_INGEST, &(struct fg_flow){.id = id}, job) ==
           FG_SUBMIT_QUEUED;
}

static void wait_done(unsigned n)
{
    while (atomic_load(&n_done) != n)
        (void)sched_yield();
}

/* One flow alone has half of the queue, and no other is refused for it. */
static void a_full_flow_does_not_refuse_other_flows(void **state)
{
    struct fg_work *work = make(1, 8);
    unsigned taken[3] = {0}, n = 0;
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    for (size_t i = 0; i < 300; i++)
        tasks[i].gate = &gate;
    assert_true(submit_flow(work, 1, &tasks[n++].job));
    wait_running(work, 1);
    for (uint64_t flow = 1; flow <= 3; flow++) {
        for (int i = 0; i < 50; i++)
            if (submit_flow(work, flow, &tasks[n].job)) {
                taken[flow - 1]++;
                n++;
            }
    }
    assert_int_equal(taken[0], 4); /* of 8 */
    assert_int_equal(taken[1], 2); /* of what is left */
    assert_int_equal(taken[2], 1);
    assert_int_equal(state_of(work).queued, 7);
    assert_int_equal(state_of(work).refused, 150 - 7);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work); /* runs all that is queued */
    assert_int_equal(atomic_load(&n_done), n);
    assert_int_equal(sem_destroy(&gate), 0);
}

/* A flow with many jobs waiting holds up a short one by no more than one job. */
static void flows_take_turns(void **state)
{
    enum { MANY = 20 };
    struct fg_work *work = make(1, 100);
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    for (size_t i = 0; i < MANY + 3; i++)
        tasks[i].gate = &gate;
    for (size_t i = 0; i < MANY; i++)
        assert_true(submit_flow(work, 7, &tasks[i].job));
    wait_running(work, 1);
    for (size_t i = MANY; i < MANY + 3; i++)
        assert_true(submit_flow(work, 8, &tasks[i].job));
    for (size_t i = 0; i < MANY + 3; i++)
        assert_int_equal(sem_post(&gate), 0);
    wait_done(MANY + 3);
    for (unsigned i = 1; i < MANY; i++)
        assert_true(tasks[i].order > tasks[i - 1].order); /* in order within a flow */
    for (unsigned i = 0; i < 3; i++)
        assert_in_range(tasks[MANY + i].order, 2 * i + 1, 2 * i + 2);
    fg_work_destroy(work);
    assert_int_equal(sem_destroy(&gate), 0);
}

/* A flow alone uses all workers, and yet the first job of another one finds a thread. From then on
 * it leaves a worker to others. */
static void a_flow_leaves_a_worker_to_active_flows(void **state)
{
    struct fg_work *work = make_with_guests(4, 1, 100);
    sem_t gate, other;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0) + sem_init(&other, 0, 0), 0);
    for (size_t i = 0; i < 10; i++) {
        tasks[i].gate = &gate;
        assert_true(submit_flow(work, 1, &tasks[i].job));
    }
    wait_running(work, 4);
    tasks[10].gate = &other;
    assert_true(submit_flow(work, 2, &tasks[10].job));
    wait_running(work, 5);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sem_post(&gate), 0);
    wait_done(3);
    wait_running(work, 4); /* three of the first flow and one of the second */
    assert_int_equal(state_of(work).queued, 4);
    assert_true(fg_work_submit(work, FG_LANE_INGEST, &tasks[11].job));
    wait_done(4); /* a job without a flow is of another one, too */
    assert_int_equal(sem_post(&other), 0);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 12);
    assert_int_equal(sem_destroy(&gate) + sem_destroy(&other), 0);
}

/* In a whole lane a flow keeps none idle, and the first job of another one still finds a thread. */
static void a_flow_of_a_whole_lane_uses_all_workers(void **state)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = 4, .queue_max = 100, .guests = 1, .whole = true}};
    struct fg_work *work = NULL;
    struct fg_err err;
    sem_t gate, other;

    (void)state;
    assert_int_equal(fg_work_create("test", lanes, &work, &err), FG_OK);
    assert_int_equal(sem_init(&gate, 0, 0) + sem_init(&other, 0, 0), 0);
    for (size_t i = 0; i < 10; i++) {
        tasks[i].gate = &gate;
        assert_true(submit_flow(work, 1, &tasks[i].job));
    }
    wait_running(work, 4);
    tasks[10].gate = &other;
    assert_true(submit_flow(work, 2, &tasks[10].job));
    wait_running(work, 5);
    assert_int_equal(sem_post(&other), 0);
    wait_done(1);
    wait_running(work, 4);
    assert_int_equal(sem_post(&gate), 0);
    wait_done(2);
    wait_running(work, 4); /* although the other flow was active just now */
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 11);
    assert_int_equal(sem_destroy(&gate) + sem_destroy(&other), 0);
}

/* Helpers of a job are taken from the workers that its flow may use. */
static void helpers_are_recalled_for_other_flows(void **state)
{
    struct fg_work *work = make_with_guests(2, 2, 100);
    sem_t gate, helping;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0) + sem_init(&helping, 0, 0), 0);
    for (size_t i = 0; i < 4; i++)
        tasks[i].gate = &gate;
    tasks[1].gate = &helping;
    assert_true(submit_flow(work, 1, &tasks[0].job));
    wait_running(work, 1);
    /* As soon as a worker sleeps. */
    while (!fg_work_submit_helper(work, FG_LANE_INGEST, &tasks[0].job, &tasks[1].job))
        (void)sched_yield();
    wait_running(work, 2);
    assert_false(fg_work_recalls(work, FG_LANE_INGEST, &tasks[0].job));
    assert_false(fg_work_submit_helper(work, FG_LANE_INGEST, &tasks[0].job, &tasks[2].job));
    assert_true(submit_flow(work, 2, &tasks[3].job));
    wait_running(work, 3);
    assert_true(fg_work_recalls(work, FG_LANE_INGEST, &tasks[0].job));
    assert_int_equal(sem_post(&helping), 0);
    wait_done(1);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 3);
    assert_int_equal(sem_destroy(&gate) + sem_destroy(&helping), 0);
}

/* No job comes or ends any more when the other flow becomes inactive: a worker looks by itself. */
static void a_job_starts_when_other_flows_become_inactive(void **state)
{
    struct fg_work *work = make_with_guests(2, 2, 100);
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    assert_true(submit_flow(work, 2, &tasks[0].job));
    wait_done(1);
    tasks[1].gate = &gate;
    assert_true(submit_flow(work, 1, &tasks[1].job));
    wait_running(work, 1);
    assert_true(submit_flow(work, 1, &tasks[2].job));
    wait_done(2);
    assert_int_equal(atomic_load(&tasks[1].done_calls), 0);
    assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 3);
    assert_int_equal(sem_destroy(&gate), 0);
}

/* Waits until a job of the lane has waited for that long, or none waits. */
static void wait_age(struct fg_work *work, int64_t age_ns)
{
    struct fg_lane_state now = state_of(work);

    for (; now.queued > 0 && now.oldest_age_ns < age_ns; now = state_of(work))
        (void)sched_yield();
}

/* The worker that sleeps only until then is lent meanwhile: another one looks in its place. */
static void a_job_starts_although_who_looks_for_it_is_lent(void **state)
{
    struct fg_work *work = make_with_guests(4, 1, 100);
    sem_t gate;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    for (size_t i = 1; i < 4; i++)
        tasks[i].gate = &gate;
    tasks[5].gate = &gate;
    assert_true(submit_flow(work, 2, &tasks[0].job));
    wait_done(1);
    for (size_t i = 1; i < 4; i++)
        assert_true(submit_flow(work, 1, &tasks[i].job));
    wait_running(work, 3);
    assert_true(submit_flow(work, 1, &tasks[4].job));
    wait_age(work, 50 * FG_MS_NS); /* usually a worker sleeps again by then, to look for it */
    while (!fg_work_submit_helper(work, FG_LANE_INGEST, NULL, &tasks[5].job))
        (void)sched_yield(); /* until one sleeps in any case */
    wait_done(2);
    assert_int_equal(atomic_load(&tasks[4].done_calls), 1);
    for (size_t i = 1; i < 5; i++)
        assert_int_equal(sem_post(&gate), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 6);
    assert_int_equal(sem_destroy(&gate), 0);
}

/* All workers were busy when the jobs came, so none was woken for them: the one that ends the
 * helper runs both, the second one when its flow may use all workers again. */
static void the_end_of_a_helper_starts_jobs(void **state)
{
    struct fg_work *work = make(2, 100);
    sem_t gates[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sem_init(&gates[i], 0, 0), 0);
        tasks[i].gate = &gates[i];
    }
    assert_true(submit_flow(work, 1, &tasks[0].job));
    wait_running(work, 1);
    while (!fg_work_submit_helper(work, FG_LANE_INGEST, &tasks[0].job, &tasks[1].job))
        (void)sched_yield(); /* until the other worker sleeps */
    wait_running(work, 2);
    assert_true(submit_flow(work, 1, &tasks[2].job));
    assert_true(submit_flow(work, 2, &tasks[3].job));
    assert_true(fg_work_recalls(work, FG_LANE_INGEST, &tasks[0].job));
    assert_int_equal(sem_post(&gates[1]), 0);
    wait_done(2); /* the helper, and the job of the flow that has none running */
    assert_int_equal(atomic_load(&tasks[3].done_calls), 1);
    wait_done(3); /* once the second flow is not active any more */
    assert_int_equal(atomic_load(&tasks[2].done_calls), 1);
    assert_int_equal(sem_post(&gates[0]), 0);
    fg_work_destroy(work);
    assert_int_equal(atomic_load(&n_done), 4);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sem_destroy(&gates[i]), 0);
}

struct submitter {
    struct fg_work *work;
    size_t from, to;
};

static void *submit_some(void *arg)
{
    const struct submitter *submitter = arg;

    for (size_t i = submitter->from; i < submitter->to; i++)
        while (i % 5 == 0 ? !fg_work_submit(submitter->work, FG_LANE_INGEST, &tasks[i].job)
                          : !submit_flow(submitter->work, i % 7, &tasks[i].job))
            (void)sched_yield();
    return NULL;
}

/* No job is forgotten by idle workers, whatever the order in which they come and end. */
static void all_jobs_of_flows_run(void **state)
{
    struct fg_work *work = make(5, 16);
    struct submitter submitters[3];
    pthread_t threads[3];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(threads); i++) {
        submitters[i] = (struct submitter){work, i * 1000, (i + 1) * 1000};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_some, &submitters[i]), 0);
    }
    for (size_t i = 0; i < FG_COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    wait_done(3000); /* without anything that wakes the workers once more */
    fg_work_destroy(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(done_runs_on_the_home_loop, reset),
        cmocka_unit_test_setup(a_full_lane_refuses_jobs, reset),
        cmocka_unit_test_setup(a_full_flow_does_not_refuse_other_flows, reset),
        cmocka_unit_test_setup(flows_take_turns, reset),
        cmocka_unit_test_setup(a_flow_leaves_a_worker_to_active_flows, reset),
        cmocka_unit_test_setup(a_flow_of_a_whole_lane_uses_all_workers, reset),
        cmocka_unit_test_setup(helpers_are_recalled_for_other_flows, reset),
        cmocka_unit_test_setup(a_job_starts_when_other_flows_become_inactive, reset),
        cmocka_unit_test_setup(a_job_starts_although_who_looks_for_it_is_lent, reset),
        cmocka_unit_test_setup(the_end_of_a_helper_starts_jobs, reset),
        cmocka_unit_test_setup(all_jobs_of_flows_run, reset),
        cmocka_unit_test_setup(a_lane_accepts_jobs_again_after_it_was_full, reset),
        cmocka_unit_test_setup(a_lane_without_threads_refuses_jobs, reset),
        cmocka_unit_test_setup(pinned_jobs_keep_thread_and_order, reset),
        cmocka_unit_test_setup(bulk_jobs_have_a_low_priority, reset),
        cmocka_unit_test_setup(shared_jobs_run_on_any_worker, reset),
        cmocka_unit_test_setup(helpers_run_on_idle_workers_only, reset),
        cmocka_unit_test_setup(neither_queue_starves, reset),
        cmocka_unit_test_setup(destroy_refuses_new_jobs, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
