/* Whatever fails, or whenever it is stopped and started again, nothing is lost. */
#include "common/runtime/log.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/seeds.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Days of work, with faults all the time. */
static void compaction_survives_random_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(1); seed++) {
        struct world *world = fg_new(struct world);

        world_open(world, seed);
        world->settings.job_max_bytes = 30000; /* so that days are divided */
        world_restart(world);
        fg_bucket_faulty_set(world->faulty, &(struct fg_bucket_faults){.seed = seed,
                                                                       .lose_request_permille = 10,
                                                                       .lose_answer_permille = 20,
                                                                       .refuse_permille = 20,
                                                                       .tear_permille = 10});
        for (int k = 0; k < 40; k++) {
            world_pass_time(world, FG_HOUR_NS);
            world_arrive(world, 40, world->clock.wall_ns,
                         k % 7 == 0 ? 3 * PLAN_DAY_NS : FG_HOUR_NS);
            world_try_round(world);
            world_check(world);
            if (k % 11 == 0)
                world_restart(world);
        }
        fg_bucket_faulty_set(world->faulty, &(struct fg_bucket_faults){.seed = seed});
        for (int k = 0; k < 6; k++) {
            world_pass_time(world, PLAN_DAY_NS);
            world_turn(world);
        }
        assert_int_equal(world_shape_of(world).hours + world_shape_of(world).segments +
                             world_shape_of(world).gone,
                         0);
        world_close(world);
        free(world);
    }
}

/* The same little life each time, in which one thing goes wrong, or all from there on. */
enum wrong { REFUSED, ANSWER_LOST, KILLED };

/* false: it was over before the k-th request. */
static bool live_with(struct world *world, enum wrong wrong, uint64_t k)
{
    uint64_t before;

    world_arrive(world, 20, WORLD_NOW, FG_HOUR_NS);
    world_arrive(world, 20, WORLD_NOW, 2 * FG_HOUR_NS);
    world_pass_time(world, 2 * FG_HOUR_NS);
    world_try_round(world);
    world_arrive(world, 20, WORLD_NOW, PLAN_DAY_NS);
    world_pass_time(world, 3 * FG_HOUR_NS);
    before = world->mortal.seen;
    if (wrong == KILLED)
        world->mortal.left = k - 1;
    else
        fg_bucket_faulty_fail(world->faulty, k, wrong == ANSWER_LOST);
    world_try_round(world);
    world_pass_time(world, 2 * FG_HOUR_NS);
    world_try_round(world); /* deletes what was replaced */
    world_check(world);
    return world->mortal.seen - before >= k;
}

static void heal(struct world *world)
{
    world->mortal.left = UINT64_MAX;
    fg_bucket_faulty_fail(world->faulty, 0, false);
    world_restart(world);
    for (int i = 0; i < 4; i++) {
        world_pass_time(world, 2 * PLAN_DAY_NS);
        world_turn(world);
    }
}

static void survives(enum wrong wrong)
{
    uint64_t k = 1;

    for (bool more = true; more; k++) {
        struct world *world = fg_new(struct world);
        struct world_shape shape;

        world_open(world, 7);
        more = live_with(world, wrong, k);
        heal(world);
        shape = world_shape_of(world);
        assert_int_equal(shape.segments + shape.hours + shape.gone, 0);
        /* Orphans too are gone: blocks of days, two manifests, and the first. */
        assert_int_equal(shape.objects, shape.days + 3);
        world_close(world);
        free(world);
    }
    assert_true(k > 30); /* there was something to fail */
}

static void compaction_survives_every_refused_request(void **state)
{
    (void)state;
    survives(REFUSED);
}

static void compaction_survives_every_lost_answer(void **state)
{
    (void)state;
    survives(ANSWER_LOST);
}

static void compaction_survives_a_kill_at_every_request(void **state)
{
    (void)state;
    survives(KILLED);
}

/* A source that was spoilt is an error that is told, and nothing is lost but that. */
static void a_damaged_segment_holds_up_no_other_data(void **state)
{
    struct world *world = fg_new(struct world);
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object, status;
    struct fg_err err;

    (void)state;
    world_open(world, 11);
    world_arrive(world, 30, WORLD_NOW, FG_HOUR_NS);
    world_arrive(world, 30, WORLD_NOW, FG_HOUR_NS);
    fg_name_segment(name, &(struct fg_segment_id){{5, 5}, 1, 1});
    world_get(world, name, &object);
    object.ptr[40] ^= 1;
    world_put(world, name, fg_buf_slice(&object));
    world_pass_time(world, 2 * FG_HOUR_NS);
    world_must(cmp_compaction_pass(world->compaction, &err), &err);
    fg_buf_init(&status, SIZE_MAX);
    cmp_compaction_status(world->compaction, &status);
    assert_true(fg_slice_search(fg_buf_slice(&status), name) != SIZE_MAX);
    world_pass_time(world, FG_HOUR_NS);
    world_must(cmp_compaction_pass(world->compaction, &err),
               &err); /* the other one goes in alone */
    fg_buf_clear(&status);
    cmp_compaction_status(world->compaction, &status);
    assert_true(fg_slice_search(fg_buf_slice(&status), "\"uncovered_segments\":1") != SIZE_MAX);
    assert_int_equal(world_shape_of(world).days, 2);
    object.ptr[40] ^= 1;
    world_put(world, name, fg_buf_slice(&object));
    world_pass_time(world, FG_HOUR_NS);
    world_turn(world);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    assert_int_equal(world_shape_of(world).segments, 0);
    fg_buf_done(&object);
    fg_buf_done(&status);
    world_close(world);
    free(world);
}

static void delete_object(struct world *world, const char *name)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_DELETE, .name = name};

    assert_int_equal(fg_bucket_call(world->memory, &request), FG_OK);
    fg_bucket_clear(&request);
}

/* One of several segments is gone: the others go into blocks in the same round, the tenant does not
 * count as failing, and the one goes in when it is there again. */
static void a_lost_segment_holds_up_no_other_data(void **state)
{
    struct world *world = fg_new(struct world);
    struct fg_manifest *l0 = NULL;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object;
    struct cmp_env env;
    struct fg_err err;

    (void)state;
    world_open(world, 12);
    for (int i = 0; i < 4; i++)
        world_arrive(world, 30, WORLD_NOW, FG_HOUR_NS);
    env = world_env(world);
    world_must(cmp_env_read_manifest(&env, FG_LIT(""), &l0, &err), &err);
    fg_name_segment(name, &l0->l0.segments[1].id);
    fg_manifest_unref(l0);
    world_get(world, name, &object);
    delete_object(world, name);
    world_pass_time(world, 2 * FG_HOUR_NS);
    world_must(cmp_compaction_pass(world->compaction, &err), &err);
    world_must(cmp_compaction_pass(world->compaction, &err), &err);
    world_expect_status(world, "\"uncovered_segments\":1,");
    world_expect_status(world, "\"set_aside\":1,\"failures\":0,");
    world_expect_status(world, name);
    world_put(world, name, fg_buf_slice(&object));
    world_pass_time(world, 2 * FG_HOUR_NS);
    world_turn(world);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    world_expect_status(world, "\"set_aside\":0,\"failures\":0,");
    assert_int_equal(world_shape_of(world).segments, 0);
    fg_buf_done(&object);
    world_close(world);
    free(world);
}

/* A block of an hour is gone, or has a byte that is not right: the others become the day all the
 * same. */
static void a_lost_block_holds_up_no_other_data(void **state)
{
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        struct world *world = fg_new(struct world);
        struct fg_manifest *blocks = NULL;
        char name[FG_NAME_MAX_BYTES];
        struct fg_buf object;
        struct cmp_env env;
        uint32_t hour_block = 0;
        struct fg_err err;

        world_open(world, 13);
        for (int64_t hour = 1; hour <= 5; hour++) {
            world_pass_time(world, FG_HOUR_NS);
            world_arrive(world, 20, world->clock.wall_ns, FG_HOUR_NS / 2);
        }
        world_pass_time(world, 2 * FG_HOUR_NS);
        world_turn(world);
        assert_int_equal(world_shape_of(world).hours, 2 * 5); /* of two tenants */
        env = world_env(world);
        world_must(cmp_env_read_manifest(&env, FG_LIT("acme"), &blocks, &err), &err);
        while (blocks->blocks.blocks[hour_block].derived)
            hour_block++;
        world_must(fg_name_block(name, FG_LIT("acme"), blocks->blocks.blocks[hour_block].id, &err),
                   &err);
        world_get(world, name, &object);
        object.ptr[object.len / 3] ^= 1;
        if (missing == 1)
            delete_object(world, name);
        else
            world_put(world, name, fg_buf_slice(&object));
        world_pass_time(world, PLAN_DAY_NS);
        for (int i = 0; i < 3; i++)
            world_must(cmp_compaction_pass(world->compaction, &err), &err);
        assert_int_equal(world_shape_of(world).hours, 1);
        assert_int_equal(world_shape_of(world).days, 2);
        world_expect_status(world, "\"set_aside\":1,\"failures\":0,");
        object.ptr[object.len / 3] ^= 1;
        world_put(world, name, fg_buf_slice(&object));
        for (int i = 0; i < 3; i++) {
            world_pass_time(world, PLAN_DAY_NS);
            world_turn(world);
        }
        assert_int_equal(world_shape_of(world).hours, 0);
        fg_buf_done(&object);
        fg_manifest_unref(blocks);
        world_close(world);
        free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compaction_survives_random_faults),
        cmocka_unit_test(compaction_survives_every_refused_request),
        cmocka_unit_test(compaction_survives_every_lost_answer),
        cmocka_unit_test(compaction_survives_a_kill_at_every_request),
        cmocka_unit_test(a_damaged_segment_holds_up_no_other_data),
        cmocka_unit_test(a_lost_segment_holds_up_no_other_data),
        cmocka_unit_test(a_lost_block_holds_up_no_other_data),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
