#include "common/runtime/task_group.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

enum { TASKS = 3000 };

struct piece {
    struct fg_task task;
    sem_t *post, *wait; /* on its way; NULL: none. The owner does not wait */
    pthread_t ran_on;
    uint64_t value; /* set by run() */
    bool fails, end_fails;
    unsigned runs, ends, ends_unrun; /* each is of one thread at a time */
};

static struct piece pieces[TASKS];
static pthread_t owner;
static uint64_t sum;

static enum fg_code run(struct fg_task *task, struct fg_err *err)
{
    struct piece *piece = fg_container(task, struct piece, task);

    if (piece->post != NULL)
        assert_int_equal(sem_post(piece->post), 0);
    if (piece->wait != NULL && !pthread_equal(pthread_self(), owner))
        assert_int_equal(sem_wait(piece->wait), 0);
    piece->ran_on = pthread_self();
    piece->runs++;
    piece->value = (uint64_t)(piece - pieces);
    return piece->fails ? fg_fail(err, FG_E_CORRUPT, "run %d", (int)(piece - pieces)) : FG_OK;
}

static enum fg_code end(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct piece *piece = fg_container(task, struct piece, task);

    assert_true(pthread_equal(pthread_self(), owner));
    piece->ends++;
    piece->ends_unrun += !ran;
    sum += piece->value;
    return piece->end_fails ? fg_fail(err, FG_E_LIMIT, "end %d", (int)(piece - pieces)) : FG_OK;
}

static int reset(void **state)
{
    (void)state;
    memset(pieces, 0, sizeof pieces);
    for (size_t i = 0; i < TASKS; i++)
        pieces[i].task = (struct fg_task){.run = run, .end = end};
    owner = pthread_self();
    sum = 0;
    return 0;
}

static struct fg_work *make(unsigned threads)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = threads, .queue_max = 10}};
    struct fg_work *work = NULL;
    struct fg_err err;

    assert_int_equal(fg_work_create("tst", lanes, &work, &err), FG_OK);
    return work;
}

static void without_helpers_the_owner_runs_all_tasks(void **state)
{
    struct fg_task_group *group = fg_task_group_create(NULL, FG_LANE_QUERY, NULL);
    struct fg_err err;

    (void)state;
    assert_false(fg_task_group_end_one(group));
    for (size_t i = 0; i < 10; i++) {
        fg_task_group_put(group, &pieces[i].task);
        assert_int_equal(pieces[i].runs, 1);
        assert_int_equal(pieces[i].ends, 0);
    }
    assert_true(fg_task_group_has_tasks(group));
    assert_true(fg_task_group_end_one(group));
    assert_int_equal(pieces[0].ends, 1);
    assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
    assert_false(fg_task_group_has_tasks(group));
    assert_int_equal(sum, 45);
    fg_task_group_destroy(group);
    fg_task_group_destroy(NULL);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads <= 4; threads++) {
        struct fg_work *work = make(threads);
        struct fg_task_group *group = fg_task_group_create(work, FG_LANE_QUERY, NULL);
        struct fg_err err;

        (void)reset(NULL);
        for (size_t i = 0; i < TASKS; i++) {
            fg_task_group_put(group, &pieces[i].task);
            if (i % 3 == 0)
                (void)fg_task_group_end_one(group);
            if (i % 1000 == 999)
                assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
        }
        fg_task_group_destroy(group);
        fg_work_destroy(work);
        assert_int_equal(sum, (uint64_t)TASKS * (TASKS - 1) / 2);
        for (size_t i = 0; i < TASKS; i++) {
            assert_int_equal(pieces[i].runs, 1);
            assert_int_equal(pieces[i].ends, 1);
        }
    }
}

/* Sooner or later the worker is asleep when the first is put. It waits there until the owner has
 * run the second. */
static void idle_workers_run_tasks(void **state)
{
    struct fg_work *work = make(1);
    struct fg_task_group *group = fg_task_group_create(work, FG_LANE_QUERY, NULL);
    struct fg_err err;
    sem_t gate;

    (void)state;
    do {
        (void)reset(NULL);
        assert_int_equal(sem_init(&gate, 0, 0), 0);
        pieces[0].wait = pieces[1].post = &gate;
        fg_task_group_put(group, &pieces[0].task);
        fg_task_group_put(group, &pieces[1].task);
        assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
        assert_int_equal(pieces[0].ends + pieces[1].ends, 2);
    } while (pthread_equal(pieces[0].ran_on, owner));
    assert_true(pthread_equal(pieces[1].ran_on, owner));
    fg_task_group_destroy(group);
    fg_work_destroy(work);
    assert_int_equal(sem_destroy(&gate), 0);
}

static void helpers_stay_within_the_limit(void **state)
{
    struct fg_work *work = make(2);
    struct fg_task_group *group = fg_task_group_create(work, FG_LANE_QUERY, NULL);
    struct fg_err err;

    (void)state;
    fg_task_group_limit(group, 0);
    fg_task_group_put(group, &pieces[0].task);
    assert_int_equal(pieces[0].runs, 1);
    assert_true(pthread_equal(pieces[0].ran_on, owner));
    assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
    fg_task_group_destroy(group);
    fg_work_destroy(work);
}

static _Atomic bool job_ran;

static enum fg_code run_job(struct fg_job *job, struct fg_err *err)
{
    (void)job, (void)err;
    atomic_store(&job_ran, true);
    return FG_OK;
}

static void job_done(struct fg_job *job)
{
    (void)job;
}

/* Puts one that a helper has to run, and waits until it is there. */
static void put_at_helper(struct fg_task_group *group, sem_t *begun, sem_t *gate)
{
    struct fg_err err;

    for (;;) {
        (void)reset(NULL);
        pieces[0].post = begun;
        pieces[0].wait = gate;
        fg_task_group_put(group, &pieces[0].task);
        if (pieces[0].runs == 0) /* the owner has not; and nobody else has, behind the gate */
            break;
        assert_int_equal(sem_wait(begun), 0);
        assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
    }
    assert_int_equal(sem_wait(begun), 0);
}

/* A helper has one more task only if no job waits for it. */
static void helpers_return_if_a_job_waits(void **state)
{
    struct fg_work *work = make(1);
    struct fg_task_group *group = fg_task_group_create(work, FG_LANE_QUERY, NULL);
    struct fg_job job = {.run = run_job, .done = job_done}, other = job;
    struct fg_err err;
    sem_t begun, gate;

    (void)state;
    assert_int_equal(sem_init(&begun, 0, 0) + sem_init(&gate, 0, 0), 0);
    atomic_store(&job_ran, false);
    put_at_helper(group, &begun, &gate);
    fg_task_group_put(group, &pieces[1].task);
    fg_task_group_put(group, &pieces[2].task);
    assert_false(fg_work_recalls(work, FG_LANE_QUERY, NULL));
    assert_true(fg_work_submit(work, FG_LANE_QUERY, &job));
    assert_true(fg_work_recalls(work, FG_LANE_QUERY, NULL));
    assert_false(fg_work_submit_helper(work, FG_LANE_QUERY, NULL, &other));
    assert_int_equal(sem_post(&gate), 0);
    while (!atomic_load(&job_ran))
        (void)sched_yield();
    assert_int_equal(pieces[1].runs + pieces[2].runs, 0);
    assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
    assert_int_equal(pieces[1].runs + pieces[2].runs, 2);
    fg_task_group_destroy(group);
    fg_work_destroy(work);
    assert_int_equal(sem_destroy(&begun) + sem_destroy(&gate), 0);
}

/* While a helper is there put() runs nothing. */
static void the_group_is_full_if_enough_tasks_wait(void **state)
{
    struct fg_work *work = make(1);
    struct fg_task_group *group = fg_task_group_create(work, FG_LANE_QUERY, NULL);
    struct fg_err err;
    sem_t begun, gate;
    size_t put = 1;

    (void)state;
    assert_int_equal(sem_init(&begun, 0, 0) + sem_init(&gate, 0, 0), 0);
    put_at_helper(group, &begun, &gate);
    while (!fg_task_group_is_full(group))
        fg_task_group_put(group, &pieces[put++].task);
    assert_true(put > 100);
    assert_int_equal(pieces[1].runs, 0);
    assert_true(fg_task_group_run_one(group));
    assert_int_equal(pieces[1].runs, 1);
    assert_false(fg_task_group_is_full(group));
    assert_int_equal(sem_post(&gate), 0);
    assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
    assert_int_equal(sum, put * (put - 1) / 2);
    fg_task_group_destroy(group);
    fg_work_destroy(work);
    assert_int_equal(sem_destroy(&begun) + sem_destroy(&gate), 0);
}

/* The first in the order of put, whoever is faster; and what is not run is ended. */
static void the_first_failure_counts(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads <= 4; threads++) {
        struct fg_work *work = make(threads);
        struct fg_task_group *group = fg_task_group_create(work, FG_LANE_QUERY, NULL);
        struct fg_err err;

        for (unsigned round = 0; round < 50; round++) {
            size_t put = 0;

            (void)reset(NULL);
            for (size_t i = 7; i < 100; i += 1 + round % 5)
                pieces[i].fails = true;
            while (put < 100 && !fg_task_group_has_failed(group))
                fg_task_group_put(group, &pieces[put++].task);
            assert_int_equal(fg_task_group_finish(group, &err), FG_E_CORRUPT);
            assert_string_equal(err.msg, "run 7");
            for (size_t i = 0; i < put; i++) {
                assert_int_equal(pieces[i].ends, 1);
                assert_int_equal(pieces[i].ends_unrun, pieces[i].runs == 0 || pieces[i].fails);
            }
            assert_int_equal(fg_task_group_finish(group, &err), FG_OK); /* as at first */
        }
        fg_task_group_destroy(group);
        fg_work_destroy(work);
    }
}

static void a_failing_end_fails_the_group(void **state)
{
    struct fg_task_group *group = fg_task_group_create(NULL, FG_LANE_QUERY, NULL);
    struct fg_err err;

    (void)state;
    pieces[2].end_fails = true;
    pieces[3].fails = true;
    for (size_t i = 0; i < 4; i++)
        fg_task_group_put(group, &pieces[i].task);
    assert_int_equal(fg_task_group_finish(group, &err), FG_E_LIMIT);
    assert_string_equal(err.msg, "end 2");
    assert_int_equal(pieces[3].ends, 1);
    fg_task_group_destroy(group);
}

static void a_stopped_group_begins_no_task(void **state)
{
    struct fg_task_group *group = fg_task_group_create(NULL, FG_LANE_QUERY, NULL);
    struct fg_err err;

    (void)state;
    fg_task_group_put(group, &pieces[0].task);
    fg_task_group_stop(group);
    fg_task_group_put(group, &pieces[1].task);
    assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
    assert_int_equal(pieces[0].ends_unrun, 0);
    assert_int_equal(pieces[1].ends_unrun, 1);
    assert_int_equal(pieces[1].runs, 0);
    fg_task_group_put(group, &pieces[2].task);
    assert_int_equal(pieces[2].runs, 1);
    assert_int_equal(fg_task_group_finish(group, &err), FG_OK);
    fg_task_group_destroy(group);
}

static void *nudge(void *arg)
{
    fg_task_group_nudge(arg);
    return NULL;
}

static void a_nudge_ends_the_wait(void **state)
{
    struct fg_task_group *group = fg_task_group_create(NULL, FG_LANE_QUERY, NULL);
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, nudge, group), 0);
    fg_task_group_wait(group, FG_HOUR_NS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fg_task_group_nudge(group);
    fg_task_group_wait(group, FG_HOUR_NS);
    fg_task_group_destroy(group);
}

static void a_wait_without_a_nudge_ends(void **state)
{
    struct fg_task_group *group = fg_task_group_create(NULL, FG_LANE_QUERY, NULL);

    (void)state;
    fg_task_group_wait(group, FG_MS_NS);
    fg_task_group_destroy(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_helpers_the_owner_runs_all_tasks, reset),
        cmocka_unit_test_setup(every_task_runs_once, reset),
        cmocka_unit_test_setup(idle_workers_run_tasks, reset),
        cmocka_unit_test_setup(helpers_stay_within_the_limit, reset),
        cmocka_unit_test_setup(helpers_return_if_a_job_waits, reset),
        cmocka_unit_test_setup(the_group_is_full_if_enough_tasks_wait, reset),
        cmocka_unit_test_setup(the_first_failure_counts, reset),
        cmocka_unit_test_setup(a_failing_end_fails_the_group, reset),
        cmocka_unit_test_setup(a_stopped_group_begins_no_task, reset),
        cmocka_unit_test_setup(a_nudge_ends_the_wait, reset),
        cmocka_unit_test_setup(a_wait_without_a_nudge_ends, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
