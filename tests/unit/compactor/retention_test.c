/* Blocks whose retention is over are dropped, or replaced by rollups that are kept for longer. */
#include "common/runtime/log.h"
#include "tests/lib/made_keys.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool is_kept(const struct made_profile *profile)
{
    return profile->time_ns >= WORLD_NOW - 2 * PLAN_DAY_NS;
}

static void four_days(struct fg_limit_settings *limits)
{
    limits->retention_period_ns = 4 * PLAN_DAY_NS;
    limits->retention_period_rollups_ns = 1;
}

static void expired_blocks_are_dropped(void **state)
{
    struct world *world = fg_new(struct world);
    struct fg_err err;

    (void)state;
    world_open(world, 17);
    world_arrive(world, 100, WORLD_NOW - 3 * PLAN_DAY_NS, PLAN_DAY_NS);
    world_arrive(world, 100, WORLD_NOW, PLAN_DAY_NS / 2);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    tenants_free(world->tenants, &world->limits);
    world->tenants = world->config.tenants =
        tenants_make(&world->limits, four_days, true, world->registry);
    /* It is WORLD_NOW + 2 days: spans that end before WORLD_NOW - 2 days go, and what arrives of
     * them is never written. */
    world_restart(world);
    world_arrive(world, 50, WORLD_NOW - 10 * PLAN_DAY_NS, PLAN_DAY_NS);
    world_pass_time(world, 20 * FG_MINUTE_NS);
    world_must(cmp_compaction_pass(world->compaction, &err), &err);
    world_keep(world, is_kept);
    world_check(world);
    world_close(world);
    free(world);
}

/*
 * A disk that is full has no room for a merge. What is over goes all the same, since that makes
 * room; the merge is made once there is some.
 */
static void a_full_scratch_disk_does_not_stop_retention(void **state)
{
    struct world *world = fg_new(struct world);
    struct world_shape before, after;
    struct fg_disk *full;
    struct fg_err err;

    (void)state;
    world_open(world, 23);
    world_arrive(world, 100, WORLD_NOW - 3 * PLAN_DAY_NS, PLAN_DAY_NS);
    world_arrive(world, 100, WORLD_NOW, PLAN_DAY_NS / 2);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    tenants_free(world->tenants, &world->limits);
    world->tenants = world->config.tenants =
        tenants_make(&world->limits, four_days, true, world->registry);
    world_must(fg_disk_watch(&(struct fg_disk_config){.path = "/tmp",
                                                      .role = "full",
                                                      .reserve_bytes = UINT64_C(1) << 60},
                             &full, &err),
               &err);
    world->config.disk = full;
    world_restart(world);
    world_arrive(world, 50, WORLD_NOW + 2 * PLAN_DAY_NS, FG_HOUR_NS);
    world_pass_time(world, 2 * FG_HOUR_NS);
    before = world_shape_of(world);
    world_must(cmp_compaction_pass(world->compaction, &err), &err);
    after = world_shape_of(world);
    assert_int_equal(after.segments, before.segments); /* not merged */
    assert_true(after.days < before.days);
    world_expect_status(world, "a merge of ");

    world->config.disk = NULL;
    world_restart(world);
    fg_disk_unwatch(full);
    world_must(cmp_compaction_pass(world->compaction, &err), &err);
    world_keep(world, is_kept);
    world_check(world);
    assert_true(world_shape_of(world).segments < before.segments);
    world_close(world);
    free(world);
}

static int64_t split;

static bool is_after_split(const struct made_profile *profile)
{
    return profile->time_ns >= split;
}

static bool not_of_shop(const struct made_profile *profile)
{
    return profile->tenant != 0 || profile->service != 2;
}

static void nodes_for_long(struct fg_limit_settings *limits)
{
    limits->retention_period_ns = 7 * PLAN_DAY_NS;
    limits->retention_period_rollups_ns = 100 * PLAN_DAY_NS;
}

/* Weeks lose their profiles and keep rollups of every service; a deletion removes the rollups of
 * the services that it may name. */
static void rollups_outlive_profiles(void **state)
{
    struct world *world = fg_new(struct world);
    struct made_keys *keys = *state; /* NULL: nothing is encrypted */
    const int64_t week = 7 * PLAN_DAY_NS;
    struct fg_usage billed;
    uint64_t kept;
    size_t all;

    world_open(world, 19);
    world_encrypt(world, keys == NULL ? NULL : &keys->keys);
    world_pass_time(world, WORLD_NOW + 2 * week - world->clock.wall_ns);
    world_pass_time(world, week - world->clock.wall_ns % week); /* weeks begin now */
    const int64_t first = world->clock.wall_ns;
    for (int day = 0; day < 7; day++) {
        world_pass_time(world, PLAN_DAY_NS);
        world_arrive(world, 60, world->clock.wall_ns - 1, PLAN_DAY_NS - 2);
        if (day % 3 == 0)
            world_turn(world);
    }
    world_pass_time(world, 3 * PLAN_DAY_NS);
    world_turn(world);
    all = world->n_profiles;
    if (keys != NULL)
        keys->newest++; /* what was written until now has the key before */
    tenants_free(world->tenants, &world->limits);
    world->tenants = world->config.tenants =
        tenants_make(&world->limits, nodes_for_long, true, world->registry);
    world_restart(world);
    world_arrive(world, 40, first + 8 * PLAN_DAY_NS, PLAN_DAY_NS / 2); /* of the week after */
    world_pass_time(world, 3 * FG_HOUR_NS);
    world_turn(world); /* all of it is there yet */
    billed = world_usage(world);
    world_pass_time(world, first + 2 * week - world->clock.wall_ns);
    split = first + week;
    world_keep(world, is_after_split);
    world_turn(world);
    world->n_alone = 0;
    world->alone_usage = (struct fg_usage){0};
    world_check(world);
    assert_int_equal(world->n_alone, all);
    world_verify(world, "profiles that were dropped, in 1 blocks; usage of ");
    fg_usage_add(&world->alone_usage, &world->usage); /* nothing of the bill is gone with them */
    assert_true(fg_usage_eq(&world->alone_usage, &billed));

    world_bury(world, "{service_name=\"shop\",pod=\"nobody\"}", first, first + PLAN_DAY_NS);
    world_keep(world, not_of_shop); /* of the next week too, as the second deletion says */
    world_bury(world, "{service_name=\"shop\"}", first + week, first + 2 * week);
    cmp_compaction_wake(world->compaction, FG_LIT("acme"));
    world_turn(world);
    kept = world->n_alone;
    world->n_alone = 0;
    world_check(world);
    assert_in_range(world->n_alone, 1, kept - 1);
    world_verify(world, "profiles that were dropped, in 1 blocks; usage of ");

    /* In the end rollups are too old as well. */
    world_pass_time(world, 110 * PLAN_DAY_NS);
    world->n_profiles = 0;
    world_turn(world);
    world->n_alone = 0;
    world_check(world);
    assert_int_equal(world->n_alone, 0);
    world_close(world);
    free(world);
}

/* A bit of a block of the tenant that has profiles of then, `at` bytes from its begin or, where
 * that is negative, its end. */
static void flip(struct world *world, int64_t time_ns, int64_t at)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *blocks = NULL;
    char name[FG_NAME_MAX_BYTES] = "";
    struct fg_buf object;
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, FG_LIT("acme"), &blocks, &err), &err);
    for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks.blocks[i];

        if (!block->derived && block->start_ns <= time_ns && block->end_ns > time_ns)
            world_must(fg_name_block(name, FG_LIT("acme"), block->id, &err), &err);
    }
    world_get(world, name, &object);
    object.ptr[at < 0 ? (int64_t)object.len + at : at] ^= 1;
    world_put(world, name, fg_buf_slice(&object));
    fg_buf_done(&object);
    fg_manifest_unref(blocks);
}

/* Counts the first tenant's profiles in blocks, and those of them that are left only in rollups. */
static uint64_t kept_of_acme(struct world *world, uint64_t *ret_alone)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *blocks = NULL;
    uint64_t profiles = 0;
    struct fg_err err;

    *ret_alone = 0;
    world_must(cmp_env_read_manifest(&env, FG_LIT("acme"), &blocks, &err), &err);
    for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks.blocks[i];

        profiles += !block->derived || block->rollup_only ? block->profiles : 0;
        *ret_alone += block->rollup_only ? block->profiles : 0;
    }
    fg_manifest_unref(blocks);
    return profiles;
}

/* Rounds until what failed was tried in every way. */
static void look_again(struct world *world)
{
    struct fg_err err;

    for (int i = 0; i < 4; i++) {
        world_pass_time(world, FG_HOUR_NS);
        world_must(cmp_compaction_pass(world->compaction, &err), &err);
    }
}

/* A week of which one day cannot be read, and a retention from now on that is over for all of it.
 * Returns how many profiles it has. */
static uint64_t break_a_day(struct world *world, int64_t place, int64_t *ret_first)
{
    const int64_t week = 7 * PLAN_DAY_NS;
    uint64_t all, alone;

    world_pass_time(world, week - world->clock.wall_ns % week);
    *ret_first = world->clock.wall_ns;
    for (int day = 0; day < 7; day++) {
        world_pass_time(world, PLAN_DAY_NS);
        world_arrive(world, 30, world->clock.wall_ns - 1, PLAN_DAY_NS - 2);
    }
    world_pass_time(world, 3 * PLAN_DAY_NS);
    world_turn(world);
    all = kept_of_acme(world, &alone);
    flip(world, *ret_first + 3 * PLAN_DAY_NS, place);
    tenants_free(world->tenants, &world->limits);
    world->tenants = world->config.tenants =
        tenants_make(&world->limits, nodes_for_long, true, world->registry);
    return all;
}

/* One day of a week cannot be read: the others become rollups, deletions of them end, and what is
 * broken goes a fortnight late; where it is mended, it is kept as any other. */
static void a_broken_block_holds_up_no_other(void **state)
{
    static const int64_t places[] = {-1, 40}; /* its directory, and what nodes are made of */

    (void)state;
    for (size_t k = 0; k < FG_COUNT(places) * 2; k++) {
        struct world *world = fg_new(struct world);
        const int64_t week = 7 * PLAN_DAY_NS, place = places[k / 2];
        uint64_t all, alone, broken;
        int64_t first;

        world_open(world, 31 + k);
        all = break_a_day(world, place, &first);
        world_bury(world, "{service_name=\"nobody\"}", first, first + week);
        world_restart(world);
        world_pass_time(world, first + 2 * week - world->clock.wall_ns + FG_HOUR_NS);
        look_again(world);
        assert_int_equal(kept_of_acme(world, &alone), all);
        assert_in_range(alone, 1, all - 1);
        broken = all - alone;
        world_expect_status(world, "\"error\":\"retention");
        if (k % 2 == 0) {
            flip(world, first + 3 * PLAN_DAY_NS, place);
            look_again(world);
            assert_int_equal(kept_of_acme(world, &alone), all);
            assert_int_equal(alone, all);
        } else {
            world_pass_time(world, 15 * PLAN_DAY_NS);
            look_again(world);
            assert_int_equal(kept_of_acme(world, &alone), all - broken);
            assert_int_equal(alone, all - broken);
        }
        world_let_end(world);
        assert_int_equal(world_count_deletions(world).pending, 0);
        world_close(world);
        free(world);
    }
}

/* What has been over for long when a compactor meets it is tried for a day, since what is wrong
 * may be right again: then nothing is lost. */
static void broken_block_is_tried_for_a_day(void **state)
{
    (void)state;
    for (int mended = 0; mended < 2; mended++) {
        struct world *world = fg_new(struct world);
        uint64_t all, alone;
        int64_t first;

        world_open(world, 37);
        all = break_a_day(world, 40, &first);
        world_restart(world);
        world_pass_time(world, 35 * PLAN_DAY_NS);
        for (int i = 0; i < 5; i++) /* 20 hours */
            look_again(world);
        assert_int_equal(kept_of_acme(world, &alone), all);
        assert_in_range(alone, 1, all - 1);
        if (mended == 1)
            flip(world, first + 3 * PLAN_DAY_NS, 40);
        for (int i = 0; i < 3; i++)
            look_again(world);
        assert_int_equal(kept_of_acme(world, &alone), mended == 1 ? all : alone);
        assert_in_range(alone, 1, mended == 1 ? all : all - 1);
        world_close(world);
        free(world);
    }
}

int main(void)
{
    struct made_keys keys;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expired_blocks_are_dropped),
        cmocka_unit_test(a_full_scratch_disk_does_not_stop_retention),
        cmocka_unit_test(rollups_outlive_profiles),
        cmocka_unit_test_prestate(rollups_outlive_profiles, &keys),
        cmocka_unit_test(a_broken_block_holds_up_no_other),
        cmocka_unit_test(broken_block_is_tried_for_a_day),
    };

    fg_log_set_level(FG_LOG_ERROR);
    made_keys_init(&keys, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
