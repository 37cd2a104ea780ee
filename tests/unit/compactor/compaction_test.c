/* Segments become hourly blocks, these become daily blocks, and settled blocks get parent rollups.
 */
#include "common/runtime/log.h"
#include "compactor/edit.h"
#include "tests/lib/made_keys.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MEMORY_FROM_BYTES = 512 * 1024 };

/* Hours, then the day, then nothing but what is needed. */
static void segments_become_hourly_then_daily_blocks(void **state)
{
    struct world *world = fg_new(struct world);
    struct made_keys *keys = *state; /* NULL: nothing is encrypted */
    struct world_shape shape;

    world_open(world, 1);
    world_encrypt(world, keys == NULL ? NULL : &keys->keys);
    for (int k = 0; k < 12; k++) { /* two hours */
        world_pass_time(world, 10 * FG_MINUTE_NS);
        world_arrive(world, 30, world->clock.wall_ns, 10 * FG_MINUTE_NS);
        world_turn(world);
    }
    world_pass_time(world, 11 * FG_MINUTE_NS);
    world_turn(world);
    shape = world_shape_of(world);
    assert_int_equal(shape.hours, 4); /* two hours of two tenants */
    world_pass_time(world, 26 * FG_HOUR_NS);
    world_turn(world);
    shape = world_shape_of(world);
    assert_int_equal(shape.hours, 0);
    assert_int_equal(shape.days, 2);
    assert_int_equal(shape.segments, 0);
    world_pass_time(world, 2 * FG_HOUR_NS);
    world_turn(world);
    world_turn(world);
    shape = world_shape_of(world);
    assert_int_equal(shape.gone, 0);
    assert_int_equal(shape.objects, 2 + 1 + 2);  /* blocks, L0, tenants' manifests */
    assert_in_range(world->mortal.tidied, 2, 5); /* once in six hours, while it has turns */
    world_close(world);
    free(world);
}

static struct fg_id some_tenants_block(struct world *world)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *manifest = NULL;
    struct fg_err err;
    struct fg_id id;

    world_must(cmp_env_read_manifest(&env, FG_LIT("acme"), &manifest, &err), &err);
    assert_true(manifest->blocks.n_blocks > 0);
    id = manifest->blocks.blocks[0].id;
    fg_manifest_unref(manifest);
    return id;
}

static bool is_there(struct world *world, const char *name)
{
    struct fg_bucket_request head = {.verb = FG_BUCKET_HEAD, .name = name};
    bool there = fg_bucket_call(world->memory, &head) == FG_OK;

    fg_bucket_clear(&head);
    return there;
}

/*
 * A tenant's manifest is lost once its blocks are all there is: they are no orphans, however old,
 * and no second manifest begins; other tenants go on. When it is back all is as before.
 */
static void blocks_of_a_lost_manifest_are_kept(void **state)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET, .content_max_bytes = 1 << 20},
                             remove = {.verb = FG_BUCKET_DELETE};
    struct world *world = fg_new(struct world);
    char manifest[FG_NAME_MAX_BYTES], block[FG_NAME_MAX_BYTES];
    struct fg_err err;

    (void)state;
    world_open(world, 5);
    world_arrive(world, 60, WORLD_NOW, FG_HOUR_NS);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    world_pass_time(world, FG_HOUR_NS);
    world_turn(world); /* the segment has left the L0 manifest */
    assert_int_equal(world_shape_of(world).segments, 0);
    world_must(fg_name_blocks(manifest, FG_LIT("acme"), &err), &err);
    world_must(fg_name_block(block, FG_LIT("acme"), some_tenants_block(world), &err), &err);
    get.name = remove.name = manifest;
    assert_int_equal(fg_bucket_call(world->memory, &get), FG_OK);
    assert_int_equal(fg_bucket_call(world->memory, &remove), FG_OK);

    for (int k = 0; k < 6; k++) {
        world_pass_time(world, PLAN_DAY_NS / 2);
        world_try_round(world);
    }
    assert_true(is_there(world, block));
    assert_false(is_there(world, manifest));
    world_expect_status(world, "the manifest of tenant acme is missing");

    world_put(world, manifest, fg_buf_slice(&get.body));
    fg_bucket_clear(&get);
    world_pass_time(world, PLAN_DAY_NS);
    world_turn(world);
    world_check(world);
    world_close(world);
    free(world);
}

/* Expired files go, whatever manifests there are; others stay, and so does what is not ours. */
static void expired_ad_hoc_profiles_are_deleted(void **state)
{
    static const char foreign[] = "tenants/nobody/adhoc/notes.txt";
    struct world *world = fg_new(struct world);
    char old[FG_NAME_ADHOC_MAX_BYTES], young[FG_NAME_ADHOC_MAX_BYTES];
    struct fg_adhoc_name name = {.tenant = "nobody", .file = "cpu.pb.gz"};
    struct fg_err err;

    (void)state;
    world_open(world, 1);
    world_arrive(world, 1, WORLD_NOW, FG_HOUR_NS);
    fg_adhoc_id_write((struct fg_id){1, 2}, name.id);
    name.uploaded_ms = WORLD_NOW / FG_MS_NS;
    world_must(fg_name_adhoc(old, &name, &err), &err);
    fg_adhoc_id_write((struct fg_id){1, 3}, name.id);
    name.uploaded_ms += 6 * PLAN_DAY_NS / FG_MS_NS;
    world_must(fg_name_adhoc(young, &name, &err), &err);
    world_put(world, old, FG_LIT("old"));
    world_put(world, young, FG_LIT("young"));
    world_put(world, foreign, FG_LIT("notes"));
    world_pass_time(world, 6 * PLAN_DAY_NS);
    world_turn(world);
    assert_true(is_there(world, old));
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    assert_false(is_there(world, old));
    assert_true(is_there(world, young));
    assert_true(is_there(world, foreign));
    world_close(world);
    free(world);
}

static void late_and_old_data_is_folded_into_its_day(void **state)
{
    struct world *world = fg_new(struct world);
    struct world_shape shape;

    (void)state;
    world_open(world, 2);
    world_arrive(world, 200, WORLD_NOW, PLAN_DAY_NS / 2);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    world_arrive(world, 1, WORLD_NOW - FG_HOUR_NS, FG_HOUR_NS); /* late: less than 1 % */
    world_arrive(world, 60, WORLD_NOW - 300 * PLAN_DAY_NS, 5 * PLAN_DAY_NS); /* and of last year */
    world_pass_time(world, 10 * FG_MINUTE_NS);
    world_turn(world);
    shape = world_shape_of(world);
    assert_in_range(shape.days, 10, 2 + 2 + 12); /* with a patch, and six days of two tenants */
    world_pass_time(world, PLAN_DAY_NS + FG_HOUR_NS);
    world_turn(world);
    assert_int_equal(world_shape_of(world).days, shape.days - 1); /* the patch is part of the day */
    world_close(world);
    free(world);
}

/* A segment of some profiles of the hour, all of one instance and so of few shards. */
static void arrive_from(struct world *world, size_t n, uint32_t instance)
{
    for (size_t i = 0; i < n;) {
        world_draw_at(world, WORLD_NOW - FG_HOUR_NS + (int64_t)world->drawn);
        if (world->profiles[world->n_profiles - 1].instance == instance)
            i++;
        else
            world->n_profiles--;
    }
    world_arrive_last(world, n);
}

/* Do the blocks of a tenant's hour divide its shards? Returns how many there are. */
static uint32_t count_halves(struct world *world)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *manifest = NULL;
    struct fg_err err;
    uint32_t n;

    world_must(cmp_env_read_manifest(&env, FG_LIT("acme"), &manifest, &err), &err);
    n = manifest->blocks.n_blocks;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct fg_blocks_entry *a = &manifest->blocks.blocks[i];
            const struct fg_blocks_entry *b = &manifest->blocks.blocks[k];

            assert_int_equal(a->level, PLAN_HOUR);
            assert_int_equal(a->start_ns, b->start_ns);
            assert_true(a->shard_first > b->shard_last || b->shard_first > a->shard_last);
        }
    fg_manifest_unref(manifest);
    return n;
}

/* A day that does not fit into memory at once is written by halves of its shards; the less there is
 * the more of them, until a single shard does not fit either, and nothing is lost. */
static void a_job_is_halved_if_memory_is_small(void **state)
{
    uint32_t before = 1, most = 0;
    bool fits = true;

    (void)state;
    for (uint64_t memory = MEMORY_FROM_BYTES; fits; memory -= memory / 8) {
        struct world *world = fg_new(struct world);
        struct fg_err err;
        uint32_t n;

        world_open(world, 29);
        world->settings.memory_max_bytes = memory;
        world_restart(world);
        for (uint32_t k = 0; k < 60; k++)
            arrive_from(world, 6, k % MADE_INSTANCES);
        world_pass_time(world, FG_HOUR_NS);
        world_must(cmp_compaction_pass(world->compaction, &err), &err);
        world_check(world);
        n = count_halves(world);
        fits = n > 0;
        assert_true(!fits || n >= before);
        before = n;
        most = FG_MAX(most, n);
        print_message("  %llu bytes: %u blocks\n", (unsigned long long)memory, n);
        world_close(world);
        free(world);
    }
    assert_in_range(most, 3, MADE_SERVICES * MADE_INSTANCES);
}

/* Days of a month: rollups of 6 hours while there are hourly blocks, then of weeks and the month.
 */
static void parent_rollups_of_weeks_are_built_and_rebuilt(void **state)
{
    const int64_t month = 28 * PLAN_DAY_NS;
    struct world *world = fg_new(struct world);
    struct world_shape shape;

    (void)state;
    world_open(world, 3);
    world_pass_time(world, month - WORLD_NOW % month);
    for (int day = 0; day < 30; day++)
        for (int quarter = 0; quarter < 4; quarter++) {
            for (int k = 0; k < (day < 28 ? 1 : 6); k++) {
                world_pass_time(world, day < 28 ? 6 * FG_HOUR_NS : FG_HOUR_NS);
                world_arrive(world, 20, world->clock.wall_ns, FG_HOUR_NS);
            }
            world_turn(world);
        }
    world_pass_time(world, 12 * FG_MINUTE_NS);
    world_turn(world);
    shape = world_shape_of(world);
    assert_in_range(shape.nodes, 2 * (4 + 1), 2 * (4 + 1 + 4)); /* of two tenants */
    assert_in_range(world->n_nodes_parts, 50, SIZE_MAX);
    world_verify(world, ", and 9 of rollups of these; usage of ");
    world_close(world);
    free(world);
}

/* The segment of ten minutes of profiles that end in them, as those of a service that is always
 * there do: the first begin before. They have 10 s each. */
static void arrive_steadily(struct world *world, size_t n, int64_t until_ns)
{
    int64_t each_ns = 10 * FG_MINUTE_NS / (int64_t)n;

    for (size_t i = 0; i < n; i++)
        world_draw_at(world,
                      until_ns - 10 * FG_MINUTE_NS - 5 * FG_SECOND_NS + (int64_t)i * each_ns);
    world_arrive_last(world, n);
}

/* Each window's segment comes a minute after its end. */
static void live_steadily(struct world *world, uint32_t windows)
{
    struct fg_err err;

    for (uint32_t w = 0; w < windows; w++) {
        world_pass_time(world, 10 * FG_MINUTE_NS);
        arrive_steadily(world, 12, world->clock.wall_ns - FG_MINUTE_NS);
        world_must(cmp_compaction_pass(world->compaction, &err), &err);
    }
    world_check(world);
}

/* What begins in one hour and ends in the next is no block of its own: of the open day there is one
 * of each hour, and nodes over 6 of them; of a day that is over one. */
static void steady_data_makes_a_block_an_hour(void **state)
{
    struct world *world = fg_new(struct world);
    struct world_shape shape;

    (void)state;
    world_open(world, 21);
    world_pass_time(world, FG_MINUTE_NS);
    live_steadily(world, 6 * 20);
    shape = world_shape_of(world);
    assert_int_equal(shape.hours, 2 * 19); /* of two tenants; the last hour is segments */
    assert_int_equal(shape.nodes, 2 * 3);
    live_steadily(world, 6 * 5 + 1);
    shape = world_shape_of(world);
    assert_in_range(shape.hours, 2 * 25 + 1, 2 * 26); /* what came at midnight is apart */
    live_steadily(world, 6);
    shape = world_shape_of(world);
    assert_int_equal(shape.days, 2 + 1); /* the first profile of all begins the day before */
    assert_int_equal(shape.hours, 2 * 2);
    assert_int_equal(shape.nodes, 0);
    world_verify(world, "\n");
    world_close(world);
    free(world);
}

/* Late data is a patch, unless it is little and of the hour before. */
static void late_data_of_the_open_day(void **state)
{
    struct world *world = fg_new(struct world);
    uint32_t hours;

    (void)state;
    world_open(world, 23);
    world_pass_time(world, FG_MINUTE_NS);
    live_steadily(world, 6 * 5);
    hours = world_shape_of(world).hours;
    world_arrive(world, 6, WORLD_NOW + 3 * FG_HOUR_NS, FG_MINUTE_NS);
    live_steadily(world, 1);
    assert_int_equal(world_shape_of(world).hours, hours + 2 + 2); /* patches, and one more hour */
    live_steadily(world, 12);
    assert_int_equal(world_shape_of(world).hours, hours + 2 + 2 * 3);
    world_verify(world, "\n");
    world_close(world);
    free(world);
}

int main(void)
{
    struct made_keys keys;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_become_hourly_then_daily_blocks),
        cmocka_unit_test_prestate(segments_become_hourly_then_daily_blocks, &keys),
        cmocka_unit_test(blocks_of_a_lost_manifest_are_kept),
        cmocka_unit_test(expired_ad_hoc_profiles_are_deleted),
        cmocka_unit_test(late_and_old_data_is_folded_into_its_day),
        cmocka_unit_test(a_job_is_halved_if_memory_is_small),
        cmocka_unit_test(parent_rollups_of_weeks_are_built_and_rebuilt),
        cmocka_unit_test(steady_data_makes_a_block_an_hour),
        cmocka_unit_test(late_data_of_the_open_day),
    };

    fg_log_set_level(FG_LOG_ERROR);
    made_keys_init(&keys, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
