#include "common/runtime/work_flows.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { JOBS = 64 * 1024, MIB = 1024 * 1024 };

/* Which flow and which job of it, in the order in which they start. */
struct world {
    struct fg_work_flows flows;
    struct fg_job jobs[JOBS];
    size_t n_jobs;
};

static void add_limited(struct world *world, const struct fg_flow *flow)
{
    fg_assert(world->n_jobs < JOBS);
    fg_work_flows_add(&world->flows, flow, &world->jobs[world->n_jobs++]);
}

static void add(struct world *world, uint64_t id)
{
    add_limited(world, &(struct fg_flow){.id = id});
}

/* Starts the next job; NULL: none may start. */
static struct fg_work_flow *start(struct world *world, unsigned n_workers)
{
    struct fg_work_flow *flow = fg_work_flows_next(&world->flows, n_workers);

    if (flow != NULL)
        assert_ptr_equal(fg_work_flows_start(&world->flows, flow)->flow, flow);
    return flow;
}

/* Runs the next job at this cost and returns the id of its flow. */
static uint64_t run(struct world *world, uint64_t cost)
{
    struct fg_work_flow *flow = start(world, 1);
    uint64_t id;

    assert_non_null(flow);
    id = flow->flow.id;
    fg_work_flows_charge(&world->flows, flow, cost);
    fg_work_flows_ended(&world->flows, flow);
    return id;
}

static void end_all(struct world *world)
{
    while (fg_work_flows_next(&world->flows, 1) != NULL)
        (void)run(world, 0);
    fg_work_flows_done(&world->flows);
    free(world);
}

static void cheap_flow_runs_more_jobs_than_costly_flow(void **state)
{
    struct world *world = fg_new(struct world);
    uint64_t spent[3] = {0};

    (void)state;
    for (int i = 0; i < 10000; i++) {
        add(world, 1);
        add(world, 2);
    }
    for (int i = 0; i < 5000; i++) {
        /* One costs a hundred times as much as the other. */
        const struct fg_work_flow *flow = fg_work_flows_next(&world->flows, 1);
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
    struct world *world = fg_new(struct world);
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
    struct world *world = fg_new(struct world);
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
    struct world *world = fg_new(struct world);
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
    struct world *world = fg_new(struct world);
    struct fg_work_flow *flow, *other;

    (void)state;
    for (int i = 0; i < 3; i++)
        add_limited(world, &(struct fg_flow){.id = 1, .running_max = 1});
    flow = start(world, 16);
    assert_non_null(flow);
    assert_null(start(world, 16));
    add(world, 2);
    other = start(world, 16);
    assert_non_null(other);
    assert_int_equal(other->flow.id, 2);
    fg_work_flows_ended(&world->flows, other);
    fg_work_flows_ended(&world->flows, flow);
    assert_int_equal(fg_work_flows_queued(&world->flows, 1), 2);
    end_all(world);
}

/* A tenant that comes and goes under ever new names does not make the lane slow or large. */
static void idle_flows_are_bounded(void **state)
{
    struct world *world = fg_new(struct world);
    struct fg_work_flow *flow;
    unsigned n = 0;

    (void)state;
    for (uint64_t id = 1; id <= 10 * FLOWS_IDLE_MAX; id++) {
        add(world, id);
        flow = start(world, 2);
        assert_non_null(flow);
        fg_work_flows_charge(&world->flows, flow, id * MIB);
        fg_work_flows_ended(&world->flows, flow);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_flow_runs_more_jobs_than_costly_flow),
        cmocka_unit_test(flow_that_asks_one_by_one_keeps_its_costs),
        cmocka_unit_test(flow_does_not_save_up_while_it_is_idle),
        cmocka_unit_test(giant_job_is_forgiven_in_part),
        cmocka_unit_test(flow_keeps_to_its_own_limit_of_running_jobs),
        cmocka_unit_test(idle_flows_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
