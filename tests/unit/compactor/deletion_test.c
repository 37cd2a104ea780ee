/* Deletions: what they take, and when they end. */
#include "common/runtime/log.h"
#include "compactor/deletion.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void deleted_profiles_leave_all_blocks(void **state)
{
    struct world *world = fg_new(struct world);
    struct world_deletions counted;
    size_t before;
    struct fg_err err;

    (void)state;
    world_open(world, 13);
    world_arrive(world, 300, WORLD_NOW, 20 * FG_HOUR_NS);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    world_bury(world, "{service_name=\"shop\"}", WORLD_NOW - FG_HOUR_NS, WORLD_NOW);
    world_bury(world, "{service_name=\"shop\",pod=\"nobody\"}", INT64_MIN, INT64_MAX);
    before = world->n_profiles;
    world_keep(world, world_not_of_shop_that_hour);
    cmp_compaction_wake(world->compaction, FG_LIT("acme"));
    world_turn(world);
    assert_true(world->n_profiles < before);
    before -= world->n_profiles;
    world_arrive(world, 100, WORLD_NOW, FG_HOUR_NS); /* what ingesters still held, goes as well */
    before += world->n_profiles;
    world_keep(world, world_not_of_shop_that_hour);
    world_pass_time(world, 20 * FG_MINUTE_NS);
    world_turn(world);
    assert_int_equal(world_count_deletions(world).pending, 2); /* more may come */
    world_restart(world);
    world_pass_time(world, 4 * FG_HOUR_NS);
    world_let_end(world);
    world_turn(world);
    counted = world_count_deletions(world);
    assert_int_equal(counted.pending, 0);
    assert_int_equal(counted.ended, 2);
    assert_int_equal(counted.profiles, before - world->n_profiles);
    assert_int_equal(cmp_deletion_check(FG_LIT("{__profile_type__=\"a\"}"), 0, 1, &err),
                     FG_E_INVALID);
    assert_int_equal(cmp_deletion_check(FG_LIT("{a=}"), 0, 1, &err), FG_E_INVALID);
    assert_int_equal(cmp_deletion_check(FG_LIT("{}"), 1, 1, &err), FG_E_INVALID);
    world_close(world);
    free(world);
}

/* What a metric says. name: as in its line of the text. */
static int64_t metric(const struct world *world, const char *name)
{
    struct fg_buf text;
    const char *line;
    int64_t value;

    fg_buf_init(&text, 1024 * 1024);
    fg_registry_write(world->registry, &text);
    fg_buf_putc(&text, '\0');
    line = strstr((const char *)text.ptr, name);
    assert_non_null(line);
    value = strtoll(line + strlen(name), NULL, 10);
    fg_buf_done(&text);
    return value;
}

static int64_t oldest_deletion_s(const struct world *world)
{
    return metric(world, "\nflamegrid_compactor_oldest_deletion_seconds ");
}

/* An ingester that was away has what was deleted long ago, and commits it when it is back. */
static void a_deletion_waits_for_ingesters(void **state)
{
    struct world *world = fg_new(struct world);
    size_t before;

    (void)state;
    world_open(world, 14);
    world_arrive(world, 300, WORLD_NOW, 20 * FG_HOUR_NS);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    world_bury(world, "{service_name=\"shop\"}", WORLD_NOW - FG_HOUR_NS, WORLD_NOW);
    before = world->n_profiles;
    world_keep(world, world_not_of_shop_that_hour);
    cmp_compaction_wake(world->compaction, FG_LIT("acme"));
    world_turn(world);
    world_expect_status(world, "\"deletions_wait_for\":\"\"");
    for (int i = 0; i < 3; i++) { /* it asked, and nobody answers; days are no answer */
        world_pass_time(world, PLAN_DAY_NS);
        world_turn(world);
        world_turn(world);
        assert_int_equal(world_count_deletions(world).pending, 1);
        world_expect_status(world, "\"deletions_wait_for\":\"this server\"");
        assert_true(oldest_deletion_s(world) >= (i + 1) * PLAN_DAY_NS / FG_SECOND_NS);
        world_restart(world);
    }
    before -= world->n_profiles;
    world_arrive(world, 100, WORLD_NOW, FG_HOUR_NS);
    before += world->n_profiles;
    world_keep(world, world_not_of_shop_that_hour);
    world_pass_time(world, FG_HOUR_NS);
    assert_int_equal(world_be_clean(world), 1);
    world_turn(world); /* something was taken, so that this time does not count */
    assert_int_equal(world_be_clean(world), 2);
    world_turn(world);
    assert_int_equal(world_be_clean(world), 3);
    assert_int_equal(world_count_deletions(world).pending, 1);
    world_turn(world);
    assert_int_equal(world_count_deletions(world).pending, 0);
    assert_int_equal(world_count_deletions(world).profiles, before - world->n_profiles);
    world_pass_time(world, FG_HOUR_NS); /* counts are those of the begin of a pass */
    world_turn(world);
    assert_int_equal(oldest_deletion_s(world), 0);
    world_close(world);
    free(world);
}

/* Requests of a round. */
static uint64_t requests_of_turn(struct world *world)
{
    uint64_t before = world->mortal.seen;

    cmp_compaction_wake(world->compaction, FG_LIT("acme"));
    world_turn(world);
    return world->mortal.seen - before;
}

/* Deletions pend for hours, and each request takes a while. */
static void deletions_do_not_multiply_reads(void **state)
{
    struct world *world = fg_new(struct world);
    struct world_shape shape;
    uint64_t quiet;

    (void)state;
    world_open(world, 15);
    world_arrive(world, 300, WORLD_NOW, 3 * PLAN_DAY_NS);
    world_pass_time(world, 3 * PLAN_DAY_NS);
    world_turn(world);
    quiet = requests_of_turn(world);
    for (int i = 0; i < 25; i++) {
        char selector[64];

        /* Only labels of series tell of one half, and only rows of the other half. */
        (void)snprintf(selector, sizeof selector, "{pod=\"nobody-%d\"}", i);
        world_bury(world, selector, INT64_MIN, INT64_MAX);
        world_bury(world, "{service_name=\"shop\"}", WORLD_NOW - (1 + i) * FG_HOUR_NS,
                   WORLD_NOW - (1 + i) * FG_HOUR_NS + 1);
    }
    shape = world_shape_of(world);
    assert_true(shape.days >= 3);
    for (int i = 0; i < 2; i++) {
        /* Of each block the directory, the labels of each service, and a page of one of them. */
        assert_in_range(requests_of_turn(world), quiet, quiet + shape.days * (2 + MADE_SERVICES));
        assert_int_equal(requests_of_turn(world), quiet); /* and verdicts are kept */
        world_restart(world);
    }
    world_close(world);
    free(world);
}

enum { DAYS = 400 };
#define OLDEST (WORLD_NOW - (DAYS - 1) * PLAN_DAY_NS)

/* Of the first and of the last hour. */
static bool not_of_shop_at_ends(const struct made_profile *profile)
{
    return world_not_of_shop_that_hour(profile) &&
           (profile->tenant != 0 || profile->service != 2 ||
            profile->time_ns < OLDEST - FG_HOUR_NS || profile->time_ns >= OLDEST);
}

/* The compactor has one thread for all tenants: a search goes on in later rounds. */
static void a_long_search_lets_others_work(void **state)
{
    /* So many requests are enough for the search of a look, and for all else in a round. */
    enum { SEARCH_MAX = 1000, OTHERS_MAX = 100 };
    static const char uncovered[] = "\nflamegrid_compactor_uncovered_segments ";
    struct world *world = fg_new(struct world);
    uint64_t requests;
    size_t before;
    int rounds = 0;

    (void)state;
    world_open(world, 16);
    for (int i = 0; i < 5 * DAYS; i++)
        world_draw_at(world, WORLD_NOW - PLAN_DAY_NS * (i % DAYS) - 1 - i);
    world_arrive_last(world, world->n_profiles);
    world_pass_time(world, PLAN_DAY_NS);
    world_turn(world);
    world_bury(world, "{service_name=\"shop\"}", WORLD_NOW - FG_HOUR_NS, WORLD_NOW);
    world_bury(world, "{service_name=\"shop\"}", OLDEST - FG_HOUR_NS, OLDEST);
    world_bury(world, "{pod=\"nobody\"}", INT64_MIN, INT64_MAX);
    world_arrive(world, 100, WORLD_NOW - 2 * PLAN_DAY_NS, PLAN_DAY_NS);
    before = world->n_profiles;
    world_keep(world, not_of_shop_at_ends);
    assert_true(world->n_profiles < before);
    do {
        requests = world->mortal.seen;
        world_pass_time(world, FG_MINUTE_NS);
        world_try_round(world);
        requests = world->mortal.seen - requests;
        assert_in_range(requests, 1, SEARCH_MAX + OTHERS_MAX);
        assert_int_equal(metric(world, uncovered), 0); /* of both tenants */
        assert_true(rounds++ < 10);
    } while (requests > OTHERS_MAX);
    assert_true(rounds > 2);
    world_turn(world); /* and all has gone */
    world_pass_time(world, 4 * FG_HOUR_NS);
    world_let_end(world);
    assert_int_equal(world_count_deletions(world).pending, 0);
    world_close(world);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deleted_profiles_leave_all_blocks),
        cmocka_unit_test(a_deletion_waits_for_ingesters),
        cmocka_unit_test(deletions_do_not_multiply_reads),
        cmocka_unit_test(a_long_search_lets_others_work),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
