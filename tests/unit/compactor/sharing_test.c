/* Two compactors over one bucket. */
#include "common/runtime/log.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

/* Two that think the tenants are theirs, in turns: nothing is done twice. */
static void two_compactors_on_one_tenant_lose_nothing(void **state)
{
    struct world *world = fg_new(struct world);
    char scratch[80];
    struct cmp_config config;
    struct cmp_compaction *other;
    struct fg_err err;

    (void)state;
    world_open(world, 9);
    (void)snprintf(scratch, sizeof scratch, "%s-other", world->scratch);
    config = world->config;
    config.scratch = scratch;
    world_must(cmp_compaction_create(&config, NULL, &other, &err), &err);
    for (int k = 0; k < 30; k++) {
        world_pass_time(world, FG_HOUR_NS);
        world_arrive(world, 20, world->clock.wall_ns, FG_HOUR_NS);
        world_must(cmp_compaction_pass(k % 2 == 0 ? world->compaction : other, &err), &err);
        world_must(cmp_compaction_pass(k % 2 == 0 ? other : world->compaction, &err), &err);
        world_check(world);
    }
    cmp_compaction_destroy(other);
    assert_int_equal(rmdir(scratch), 0);
    world_close(world);
    free(world);
}

static uint32_t count_own(struct cmp_compaction *compaction)
{
    struct fg_slice rest;
    struct fg_buf status;
    uint32_t count = 0;
    size_t at;

    fg_buf_init(&status, SIZE_MAX);
    cmp_compaction_status(compaction, &status);
    rest = fg_buf_slice(&status);
    while ((at = fg_slice_search(rest, "\"own\":true")) != SIZE_MAX) {
        count++;
        rest = fg_slice_sub(rest, at + 1, rest.len);
    }
    fg_buf_done(&status);
    return count;
}

/* An hour in which so many of them say that they are there. */
static void turn_for_an_hour(struct world *world, struct fg_membership *const *memberships, int n)
{
    for (int64_t at = 0; at < FG_HOUR_NS; at += FG_MINUTE_NS) {
        world_pass_time(world, FG_MINUTE_NS);
        for (int i = 0; i < n; i++) {
            struct fg_err err;

            world_must(fg_membership_step(memberships[i], &err), &err);
        }
    }
}

static void open_two(struct world *world, const char *const names[2],
                     struct fg_membership *memberships[2], char scratches[2][80],
                     struct cmp_compaction *both[2])
{
    for (int i = 0; i < 2; i++) {
        const struct fg_membership_config one = {world->memory, &world->clock.clock,
                                                 FG_NAME_COMPACTORS, "compactor", names[i]};
        struct cmp_config config = world->config;
        struct fg_err err;

        world_must(fg_membership_create(&one, &memberships[i], &err), &err);
        (void)snprintf(scratches[i], sizeof scratches[i], "%s-%d", world->scratch, i);
        config.scratch = scratches[i];
        world_must(cmp_compaction_create(&config, memberships[i], &both[i], &err), &err);
    }
}

static void close_two(struct fg_membership *memberships[2], char scratches[2][80],
                      struct cmp_compaction *both[2])
{
    for (int i = 0; i < 2; i++) {
        cmp_compaction_destroy(both[i]);
        fg_membership_destroy(memberships[i]);
        assert_int_equal(rmdir(scratches[i]), 0);
    }
}

/* Two who know of each other: each has its tenants, and all of them when the other falls silent. */
static void compactors_share_tenants(void **state)
{
    static const char *const names[] = {"one", "two"};
    struct world *world = fg_new(struct world);
    struct fg_membership *memberships[2];
    struct cmp_compaction *both[2];
    char scratches[2][80];
    struct fg_err err;

    (void)state;
    world_open(world, 9);
    open_two(world, names, memberships, scratches, both);
    for (int k = 0; k < 60; k++) {
        bool alone = k >= 30;

        turn_for_an_hour(world, memberships, alone ? 1 : 2);
        world_arrive(world, 20, world->clock.wall_ns, FG_HOUR_NS);
        world_must(cmp_compaction_pass(both[0], &err), &err);
        if (!alone)
            world_must(cmp_compaction_pass(both[1], &err), &err);
        world_check(world);
        if (k > 2) { /* the one that has fallen silent has no rounds either */
            assert_int_equal(count_own(both[0]), alone ? MADE_TENANTS : 1);
            assert_int_equal(count_own(both[1]), MADE_TENANTS - 1);
        }
    }
    world_pass_time(world, 2 * FG_HOUR_NS);
    world_must(fg_membership_step(memberships[0], &err), &err);
    world_must(cmp_compaction_pass(both[0], &err), &err);
    world_pass_time(world, FG_HOUR_NS);
    world_must(cmp_compaction_pass(both[0], &err), &err);
    assert_in_range(world_shape_of(world).segments, 0, 2);
    close_two(memberships, scratches, both);
    world_close(world);
    free(world);
}

/* Whoever retires segments goes on where the manifest of another one's tenant is broken. */
static void a_broken_manifest_of_another_tenant_holds_up_none(void **state)
{
    struct world *world = fg_new(struct world);
    struct fg_membership *memberships[2];
    struct cmp_compaction *keeper;
    struct cmp_config config;
    char scratch[80];
    int number, others = 0;
    struct fg_err err;

    (void)state;
    world_open(world, 9);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 2; i++) {
            const struct fg_membership_config one = {world->memory, &world->clock.clock,
                                                     FG_NAME_COMPACTORS, "compactor",
                                                     i == 0 ? "one" : "two"};

            if (k == 0)
                world_must(fg_membership_create(&one, &memberships[i], &err), &err);
            world_must(fg_membership_step(memberships[i], &err), &err);
        }
    number = fg_membership_owns(memberships[0], FG_LIT("")) ? 0 : 1;
    config = world->config;
    (void)snprintf(scratch, sizeof scratch, "%s-0", world->scratch);
    config.scratch = scratch;
    world_must(cmp_compaction_create(&config, memberships[number], &keeper, &err), &err);
    world_arrive(world, 60, world->clock.wall_ns, FG_HOUR_NS);
    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        char name[FG_NAME_MAX_BYTES];

        if (fg_membership_owns(memberships[number], fg_cstr(made_tenant(t))))
            continue;
        others++;
        world_must(fg_name_blocks(name, fg_cstr(made_tenant(t)), &err), &err);
        world_put(world, name, FG_LIT("nothing that was ever written"));
    }
    assert_in_range(others, 1, MADE_TENANTS);
    world_must(cmp_compaction_pass(keeper, &err), &err);
    cmp_compaction_destroy(keeper);
    for (int i = 0; i < 2; i++)
        fg_membership_destroy(memberships[i]);
    assert_int_equal(rmdir(scratch), 0);
    world_close(world);
    free(world);
}

/* Asked of one, carried out by the other within a minute: not at its next look of every ten. */
static void a_deletion_asked_of_another_compactor(void **state)
{
    static const char *const names[] = {"one", "two"};
    struct world *world = fg_new(struct world);
    struct fg_membership *memberships[2];
    struct cmp_compaction *both[2];
    char scratches[2][80];
    size_t owner, before;
    struct fg_err err;

    (void)state;
    world_open(world, 13);
    open_two(world, names, memberships, scratches, both);
    turn_for_an_hour(world, memberships, 2);
    owner = fg_membership_owns(memberships[0], FG_LIT("acme")) ? 0 : 1;
    world_arrive(world, 300, WORLD_NOW, 20 * FG_HOUR_NS);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    turn_for_an_hour(world, memberships, 2);
    for (size_t i = 0; i < 2; i++)
        world_must(cmp_compaction_pass(both[i], &err), &err);
    before = world->n_profiles;
    world_bury(world, "{service_name=\"shop\"}", WORLD_NOW - FG_HOUR_NS, WORLD_NOW);
    world_keep(world, world_not_of_shop_that_hour);
    cmp_compaction_wake(both[1 - owner], FG_LIT("acme"));
    for (size_t i = 0; i < 2; i++) { /* each turn in either order */
        world_must(fg_membership_step(memberships[1 - owner], &err), &err);
        world_must(fg_membership_step(memberships[owner], &err), &err);
    }
    world_must(cmp_compaction_pass(both[1 - owner], &err), &err);
    assert_int_equal(world_count_deletions(world).profiles, 0); /* not by who is not its own */
    world_must(cmp_compaction_pass(both[owner], &err), &err);
    assert_int_equal(world_count_deletions(world).profiles, before - world->n_profiles);
    world_check(world);
    close_two(memberships, scratches, both);
    world_close(world);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_compactors_on_one_tenant_lose_nothing),
        cmocka_unit_test(compactors_share_tenants),
        cmocka_unit_test(a_broken_manifest_of_another_tenant_holds_up_none),
        cmocka_unit_test(a_deletion_asked_of_another_compactor),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
