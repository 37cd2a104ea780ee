#include "common/runtime/work_flows.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { JOBS = 64 * 1024, MIB = 1024 * 1024 };

/* Which flow and which job of it, in the order in which they start. */
struct world {
    struct fg_work_flows flows;
    int64_t now_ns;
    struct fg_job jobs[JOBS];
    size_t n_jobs;
};

static struct world *world_create(unsigned workers, unsigned guests)
{
    struct world *world = fg_new(struct world);

    world->flows.workers = workers;
    world->flows.guests = guests;
    world->now_ns = 100 * FG_SECOND_NS;
    return world;
}

static void add_limited(struct world *world, const struct fg_flow *flow)
{
    fg_assert(world->n_jobs < JOBS);
    world->jobs[world->n_jobs].queued_mono_ns = world->now_ns;
    fg_work_flows_add(&world->flows, flow, &world->jobs[world->n_jobs++]);
}

static void add(struct world *world, uint64_t id)
{
    add_limited(world, &(struct fg_flow){.id = id});
}

/* Starts the next job; NULL: none may start. */
static struct fg_work_flow *start(struct world *world)
{
    struct fg_work_flow *flow = fg_work_flows_next(&world->flows, world->now_ns);

    if (flow != NULL)
        assert_ptr_equal(fg_work_flows_start(&world->flows, flow)->flow, flow);
    return flow;
}

/* Runs the next job at this cost and returns the id of its flow. */
static uint64_t run(struct world *world, uint64_t cost)
{
    struct fg_work_flow *flow = start(world);
    uint64_t id;

    assert_non_null(flow);
    id = flow->flow.id;
    fg_work_flows_charge(&world->flows, flow, cost);
    fg_work_flows_ended(&world->flows, flow, world->now_ns);
    return id;
}

static void end_all(struct world *world)
{
    while (fg_work_flows_next(&world->flows, world->now_ns) != NULL)
        (void)run(world, 0);
    fg_work_flows_done(&world->flows);
    free(world);
}

static void cheap_flow_runs_more_jobs_than_costly_flow(void **state)
{
    struct world *world = world_create(1, 0);
    uint64_t spent[3] = {0};

    (void)state;
    for (int i = 0; i < 10000; i++) {
        add(world, 1);
        add(world, 2);
    }
    for (int i = 0; i < 5000; i++) {
        /* One costs a hundred times as much as the other. */
        const struct fg_work_flow *flow = fg_work_flows_next(&world->flows, world->now_ns);
        uint64_t cost = flow->flow.id == 1 ? 10 * MIB : MIB / 10, id;

        id = run(world, cost);
        spent[id] += cost + FLOW_JOB_COST;
    }
    /* Both get the same, to within one job. */
    assert_true(spent[1] <= spent[2] + 11 * MIB && spent[2] <= spent[1] + 11 * MIB);
    end_all(world);
}

static void flow_that_asks_one_by_one_keeps_its_costs(void **state)
{
    struct world *world = world_create(1, 0);
    unsigned light = 0;

    (void)state;
    add(world, 1);
    assert_int_equal(run(world, 100 * MIB), 1); /* the flow is idle now */
    add(world, 2);
    (void)run(world, 0);
    for (;;) {
        /* Flow 1 asks its next question among many of the other. */
        if (light == 0)
            add(world, 1);
        add(world, 2);
        if (run(world, MIB - FLOW_JOB_COST) == 1)
            break;
        light++;
    }
    /* What it was ahead; the first job of flow 2 began where that of flow 1 had begun. */
    assert_in_range(light, 98, 102);
    end_all(world);
}

static void flow_does_not_save_up_while_it_is_idle(void **state)
{
    struct world *world = world_create(1, 0);
    unsigned in_a_row = 0;

    (void)state;
    add(world, 2);
    (void)run(world, 0);
    for (int i = 0; i < 1000; i++) {
        add(world, 1);
        (void)run(world, MIB);
    }
    for (int i = 0; i < 10; i++) {
        add(world, 1);
        add(world, 2);
    }
    while (run(world, MIB) == 2)
        in_a_row++;
    assert_true(in_a_row <= 2);
    end_all(world);
}

static void giant_job_is_forgiven_in_part(void **state)
{
    struct world *world = world_create(1, 0);
    unsigned light = 0;

    (void)state;
    add(world, 1);
    (void)run(world, UINT64_MAX);
    for (add(world, 1);; light++) {
        add(world, 2);
        if (run(world, 16 * MIB - FLOW_JOB_COST) == 1)
            break;
    }
    assert_in_range(light, 63, 65); /* FLOW_AHEAD_MAX */
    end_all(world);
}

static void flow_keeps_to_its_own_limit_of_running_jobs(void **state)
{
    struct world *world = world_create(16, 0);
    struct fg_work_flow *flow, *other;

    (void)state;
    for (int i = 0; i < 3; i++)
        add_limited(world, &(struct fg_flow){.id = 1, .running_max = 1});
    flow = start(world);
    assert_non_null(flow);
    assert_null(start(world));
    add(world, 2);
    other = start(world);
    assert_non_null(other);
    assert_int_equal(other->flow.id, 2);
    fg_work_flows_ended(&world->flows, other, world->now_ns);
    fg_work_flows_ended(&world->flows, flow, world->now_ns);
    assert_int_equal(fg_work_flows_queued(&world->flows, 1), 2);
    end_all(world);
}

/* A tenant that comes and goes under ever new names does not make the lane slow or large. */
static void idle_flows_are_bounded(void **state)
{
    struct world *world = world_create(2, 0);
    struct fg_work_flow *flow;
    unsigned n = 0;

    (void)state;
    for (uint64_t id = 1; id <= 10 * FLOWS_IDLE_MAX; id++) {
        add(world, id);
        flow = start(world);
        assert_non_null(flow);
        fg_work_flows_charge(&world->flows, flow, id * MIB);
        fg_work_flows_ended(&world->flows, flow, world->now_ns);
        assert_true(world->flows.n_idle <= FLOWS_IDLE_MAX);
    }
    flow = world->flows.turn;
    do {
        n++;
        flow = flow->next;
    } while (flow != world->flows.turn);
    assert_int_equal(n, world->flows.n_idle);
    end_all(world);
}

/* Starts a job of that flow, which has to be next. */
static struct fg_work_flow *start_of(struct world *world, uint64_t id)
{
    struct fg_work_flow *flow;

    add(world, id);
    flow = start(world);
    assert_non_null(flow);
    assert_int_equal(flow->flow.id, id);
    return flow;
}

static void flow_leaves_a_worker_while_another_one_is_active(void **state)
{
    struct world *world = world_create(4, 2);
    struct fg_work_flow *heavy = NULL, *light;

    (void)state;
    for (int i = 0; i < 4; i++)
        heavy = start_of(world, 1);
    add(world, 1);
    assert_null(start(world)); /* alone, it uses all workers and no guest */
    light = start_of(world, 2);
    for (int i = 0; i < 2; i++)
        fg_work_flows_ended(&world->flows, heavy, world->now_ns);
    assert_ptr_equal(start(world), heavy);
    add(world, 1);
    assert_null(start(world)); /* three of four, and the other flow's job is the fourth */
    fg_work_flows_ended(&world->flows, light, world->now_ns);
    assert_null(start(world)); /* the worker stays free for the next job of the other flow */
    world->now_ns += FLOW_RECENT_NS - 1;
    assert_null(start(world));
    world->now_ns++;
    assert_ptr_equal(start(world), heavy);
    for (int i = 0; i < 4; i++)
        fg_work_flows_ended(&world->flows, heavy, world->now_ns);
    end_all(world);
}

static void first_job_of_a_flow_waits_for_no_other(void **state)
{
    enum { WORKERS = 2, GUESTS = 3 };
    struct world *world = world_create(WORKERS, GUESTS);
    struct fg_work_flow *flows[WORKERS + GUESTS];

    (void)state;
    for (uint64_t i = 0; i < WORKERS + GUESTS; i++)
        flows[i] = start_of(world, i);
    add(world, 99);
    assert_null(start(world)); /* that many are enough */
    for (size_t i = 0; i < WORKERS + GUESTS; i++)
        fg_work_flows_ended(&world->flows, flows[i], world->now_ns);
    end_all(world);
}

/* A worker that sleeps has to know when to look, since nothing else happens then. */
static void time_alone_makes_a_job_startable(void **state)
{
    struct world *world = world_create(2, 2);
    struct fg_work_flow *heavy, *light;

    (void)state;
    assert_true(fg_work_flows_ripe_mono_ns(&world->flows, world->now_ns) == INT64_MAX);
    light = start_of(world, 2);
    heavy = start_of(world, 1);
    add(world, 1);
    /* As long as the other flow has a job, only its end helps. */
    assert_true(fg_work_flows_ripe_mono_ns(&world->flows, world->now_ns) == INT64_MAX);
    world->now_ns += 3 * FLOW_RECENT_NS;
    fg_work_flows_ended(&world->flows, light, world->now_ns);

    int64_t ripe_ns = fg_work_flows_ripe_mono_ns(&world->flows, world->now_ns);
    assert_true(ripe_ns == world->now_ns + FLOW_RECENT_NS);
    world->now_ns = ripe_ns - 1;
    assert_true(fg_work_flows_ripe_mono_ns(&world->flows, world->now_ns) == ripe_ns);
    assert_null(start(world));
    assert_false(fg_work_flows_lend(&world->flows, heavy, world->now_ns));
    world->now_ns = ripe_ns;
    assert_true(fg_work_flows_ripe_mono_ns(&world->flows, world->now_ns) == INT64_MAX);
    assert_ptr_equal(start(world), heavy);
    add(world, 1); /* it waits for a worker, not for time */
    assert_true(fg_work_flows_ripe_mono_ns(&world->flows, world->now_ns) == INT64_MAX);
    for (int i = 0; i < 2; i++)
        fg_work_flows_ended(&world->flows, heavy, world->now_ns);
    end_all(world);
}

static void helpers_count_as_workers_of_their_flow(void **state)
{
    struct world *world = world_create(3, 1);
    struct fg_work_flow *heavy = start_of(world, 1), *light;

    (void)state;
    assert_true(fg_work_flows_lend(&world->flows, heavy, world->now_ns));
    assert_true(fg_work_flows_lend(&world->flows, heavy, world->now_ns));
    assert_false(fg_work_flows_lend(&world->flows, heavy, world->now_ns)); /* no worker is idle */
    assert_false(fg_work_flows_recalls(&world->flows, heavy, world->now_ns));
    light = start_of(world, 2);
    assert_true(fg_work_flows_recalls(&world->flows, heavy, world->now_ns));
    fg_work_flows_returned(&world->flows, heavy);
    assert_false(fg_work_flows_recalls(&world->flows, heavy, world->now_ns));
    fg_work_flows_ended(&world->flows, light, world->now_ns);
    assert_false(fg_work_flows_lend(&world->flows, heavy, world->now_ns)); /* not the last one */
    world->now_ns += FLOW_RECENT_NS;
    assert_true(fg_work_flows_lend(&world->flows, heavy, world->now_ns));
    add(world, 1); /* a job goes before helpers of another one, even if it is of the same flow */
    assert_true(fg_work_flows_recalls(&world->flows, heavy, world->now_ns));
    fg_work_flows_returned(&world->flows, heavy);
    fg_work_flows_returned(&world->flows, heavy);
    fg_work_flows_ended(&world->flows, heavy, world->now_ns);
    end_all(world);
}

/* ---- a lane in virtual time ---- */

enum { SIM_WORKERS = 4, SIM_THREADS = 2 * SIM_WORKERS, HEAVY = 1, LIGHT = 2, HEAVY_JOBS = 100 };
static const int64_t PIECE_MAX_NS = 2 * FG_MS_NS;

/* A job is so many pieces, which its own thread runs and those that help it. */
struct sim_job {
    struct fg_job job;
    unsigned waiting, under_way;
    int64_t asked_ns;
};

struct sim_thread {
    struct sim_job *job; /* NULL: idle */
    bool helps;
    int64_t until_ns; /* end of its piece; INT64_MAX: waits for those that help */
};

struct sim {
    struct fg_work_flows flows;
    struct sim_thread threads[SIM_THREADS];
    struct sim_job heavy[HEAVY_JOBS], light;
    int64_t now_ns;
    uint64_t random;
    unsigned answers; /* to the light flow */
};

static uint64_t draw(struct sim *sim, uint64_t n)
{
    sim->random = sim->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (sim->random >> 33) % n;
}

static void ask(struct sim *sim, uint64_t id, struct sim_job *job, unsigned pieces)
{
    job->waiting = pieces;
    job->asked_ns = job->job.queued_mono_ns = sim->now_ns;
    fg_work_flows_add(&sim->flows, &(struct fg_flow){.id = id}, &job->job);
}

static void ask_heavy(struct sim *sim, struct sim_job *job)
{
    ask(sim, HEAVY, job, 1 + (unsigned)draw(sim, 100));
}

static void begin_piece(struct sim *sim, struct sim_thread *thread)
{
    thread->job->waiting--;
    thread->job->under_way++;
    thread->until_ns = sim->now_ns + 1 + (int64_t)draw(sim, (uint64_t)PIECE_MAX_NS);
}

static struct sim_thread *idle_thread(struct sim *sim)
{
    for (size_t i = 0; i < SIM_THREADS; i++)
        if (sim->threads[i].job == NULL)
            return &sim->threads[i];
    return NULL;
}

static void put_to_work(struct sim *sim, struct sim_thread *thread, struct sim_job *job, bool helps)
{
    assert_non_null(thread);
    thread->job = job;
    thread->helps = helps;
    begin_piece(sim, thread);
}

/* Starts what may start, and lends what is idle. */
static void dispatch(struct sim *sim)
{
    struct fg_work_flow *flow;
    struct sim_thread *idle;

    while ((idle = idle_thread(sim)) != NULL &&
           (flow = fg_work_flows_next(&sim->flows, sim->now_ns)) != NULL) {
        struct fg_job *job = fg_work_flows_start(&sim->flows, flow);

        put_to_work(sim, idle, fg_container(job, struct sim_job, job), false);
    }
    for (size_t i = 0; i < SIM_THREADS; i++) {
        struct sim_job *job = sim->threads[i].job;

        while (job != NULL && !sim->threads[i].helps && job->waiting > 0 &&
               fg_work_flows_lend(&sim->flows, job->job.flow, sim->now_ns))
            put_to_work(sim, idle_thread(sim), job, true);
    }
}

static void end_job(struct sim *sim, struct sim_job *job)
{
    fg_work_flows_charge(&sim->flows, job->job.flow, MIB);
    fg_work_flows_ended(&sim->flows, job->job.flow, sim->now_ns);
    if (job == &sim->light)
        sim->answers++;
    else
        ask_heavy(sim, job);
}

/* The thread has run its piece. */
static void end_piece(struct sim *sim, struct sim_thread *thread)
{
    struct sim_job *job = thread->job;

    if (thread->until_ns != INT64_MAX)
        job->under_way--;
    if (thread->helps &&
        (job->waiting == 0 || fg_work_flows_recalls(&sim->flows, job->job.flow, sim->now_ns))) {
        fg_work_flows_returned(&sim->flows, job->job.flow);
        thread->job = NULL;
    } else if (job->waiting > 0) {
        begin_piece(sim, thread);
        return;
    } else {
        thread->until_ns = INT64_MAX;
    }
    if (job->waiting + job->under_way > 0)
        return;
    for (size_t i = 0; i < SIM_THREADS; i++)
        if (sim->threads[i].job == job) {
            sim->threads[i].job = NULL;
            end_job(sim, job);
            return;
        }
}

/* Ends all jobs that run and drops those that wait. */
static void free_sim(struct sim *sim)
{
    struct fg_work_flow *flow;

    for (size_t i = 0; i < SIM_THREADS; i++)
        if (sim->threads[i].job != NULL && sim->threads[i].helps)
            fg_work_flows_returned(&sim->flows, sim->threads[i].job->job.flow);
    for (size_t i = 0; i < SIM_THREADS; i++)
        if (sim->threads[i].job != NULL && !sim->threads[i].helps)
            fg_work_flows_ended(&sim->flows, sim->threads[i].job->job.flow, sim->now_ns);
    while ((flow = fg_work_flows_next(&sim->flows, sim->now_ns)) != NULL) {
        (void)fg_work_flows_start(&sim->flows, flow);
        fg_work_flows_ended(&sim->flows, flow, sim->now_ns);
    }
    fg_work_flows_done(&sim->flows);
    free(sim);
}

static struct sim_thread *first_to_end(struct sim *sim)
{
    struct sim_thread *first = NULL;

    for (size_t i = 0; i < SIM_THREADS; i++)
        if (sim->threads[i].job != NULL &&
            (first == NULL || sim->threads[i].until_ns < first->until_ns))
            first = &sim->threads[i];
    assert_non_null(first);
    return first;
}

static void run_until(struct sim *sim, int64_t until_ns)
{
    struct sim_thread *first;

    while (dispatch(sim), first = first_to_end(sim), first->until_ns <= until_ns) {
        sim->now_ns = first->until_ns;
        end_piece(sim, first);
    }
    sim->now_ns = until_ns;
}

static unsigned threads_in_use(const struct sim *sim)
{
    unsigned n = 0;

    for (size_t i = 0; i < SIM_THREADS; i++)
        n += sim->threads[i].job != NULL;
    return n;
}

/* A flow asks for a hundred times as much as there is time for. The job of another one starts at
 * once, and has a worker of its own after one piece of the other's jobs at most: from then on no
 * more threads run than there are workers. */
static void flow_at_a_hundred_times_its_share_delays_others_by_one_piece(void **state)
{
    struct sim *sim = fg_new(struct sim);

    (void)state;
    *sim = (struct sim){.flows = {.workers = SIM_WORKERS, .guests = SIM_THREADS - SIM_WORKERS},
                        .now_ns = FG_HOUR_NS,
                        .random = 18};
    for (size_t i = 0; i < HEAVY_JOBS; i++)
        ask_heavy(sim, &sim->heavy[i]);
    run_until(sim, sim->now_ns + FG_SECOND_NS);
    assert_int_equal(threads_in_use(sim), SIM_WORKERS); /* alone it uses everything */
    for (unsigned i = 0; i < 2000; i++) {
        unsigned answers = sim->answers;

        ask(sim, LIGHT, &sim->light, 1);
        dispatch(sim);
        assert_int_equal(sim->light.waiting, 0); /* it has started */
        /* Jobs that were running when the flow came the first time run to their end. */
        if (i > 100 && sim->light.under_way > 0) {
            run_until(sim, sim->now_ns + PIECE_MAX_NS);
            assert_true(threads_in_use(sim) <= SIM_WORKERS);
        }
        run_until(sim, sim->now_ns + PIECE_MAX_NS);
        assert_int_equal(sim->answers, answers + 1);
        run_until(sim, sim->now_ns + (int64_t)draw(sim, (uint64_t)FLOW_RECENT_NS / 2));
        assert_true(threads_in_use(sim) <= SIM_WORKERS - 1 || i <= 100);
    }
    run_until(sim, sim->now_ns + 2 * FLOW_RECENT_NS);
    assert_int_equal(threads_in_use(sim), SIM_WORKERS); /* alone again */
    free_sim(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_flow_runs_more_jobs_than_costly_flow),
        cmocka_unit_test(flow_that_asks_one_by_one_keeps_its_costs),
        cmocka_unit_test(flow_does_not_save_up_while_it_is_idle),
        cmocka_unit_test(giant_job_is_forgiven_in_part),
        cmocka_unit_test(flow_keeps_to_its_own_limit_of_running_jobs),
        cmocka_unit_test(idle_flows_are_bounded),
        cmocka_unit_test(flow_leaves_a_worker_while_another_one_is_active),
        cmocka_unit_test(first_job_of_a_flow_waits_for_no_other),
        cmocka_unit_test(time_alone_makes_a_job_startable),
        cmocka_unit_test(helpers_count_as_workers_of_their_flow),
        cmocka_unit_test(flow_at_a_hundred_times_its_share_delays_others_by_one_piece),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
