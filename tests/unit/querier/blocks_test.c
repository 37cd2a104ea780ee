/* Tests reads of blocks against a simple model: profiles move from heads to segments to blocks, and
 * every query has the same answer at every moment. */
#include "querier/blocks/blocks_impl.h"
#include "tests/lib/seeds.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Each query reads the manifests: each profile counts once wherever it is. */
static void every_query_is_right_at_every_moment(void **state)
{
    uint64_t nodes = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(6); seed++) {
        struct asker asker = {.random = seed};
        struct fg_err err;

        asker_init(&asker, seed, seed % 2 == 0 ? UINT64_C(64) << 20 : 100 * 1024, NULL);
        asker.world.rollups_permille = 750;
        asker_blocks(&asker)->sample_weight = (uint32_t)(1 + seed % 3 * 100);
        world_push(&asker.world, 150);
        for (unsigned i = 0; i < 60; i++) {
            asker_happen_any(&asker, ASKER_HAPPENINGS);
            fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
            for (unsigned k = 0; k < 6; k++)
                asker_must(asker_check_any(&asker, true, &err), &err);
        }
        nodes += asker.rollups;
        asker_done(&asker);
    }
    print_message("  %llu rollups in pictures\n", (unsigned long long)nodes);
    assert_true(nodes > 50);
}

/* Manifests are up to ten seconds old: a query notices removed objects when it reads them. */
static void outdated_snapshot_is_taken_again(void **state)
{
    uint64_t again = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(6); seed++) {
        uint64_t happenings = seed % 2 == 0 ? ASKER_HAPPENINGS_WITHOUT_DELETIONS : ASKER_HAPPENINGS;
        struct asker asker = {.random = seed, .keeps_all = seed % 2 == 0};
        struct fg_err err;

        asker_init(&asker, seed, 0, NULL);
        world_push(&asker.world, 150);
        for (unsigned i = 0; i < 60; i++) {
            asker_happen_any(&asker, happenings);
            fg_clock_manual_advance(&asker.clock, FG_SECOND_NS);
            for (unsigned k = 0; k < 4; k++)
                asker_must(asker_check_any(&asker, false, &err), &err);
        }
        again += fg_metric_get(asker_blocks(&asker)->metrics, BLOCKS_AGAIN);
        asker_done(&asker);
    }
    assert_true(again > 0);
}

static size_t stacks_between(struct asker *asker, int64_t start_ns, int64_t end_ns)
{
    static const struct qry_stack_filter all;
    struct qry_query *query = asker_begin(asker, 7);
    struct qry_selection selection = {.start_ns = start_ns, .end_ns = end_ns};
    struct fg_tree tree;
    struct fg_err err;
    size_t n = 0;

    fg_tree_init(&tree);
    for (size_t i = 0; i < FG_COUNT(asker_types); i++) {
        selection.type_text = asker_types[i];
        asker_must(qry_collect_tree(query, &selection, &all, false, &tree, &err), &err);
    }
    for (uint32_t i = 0; i < tree.n_nodes; i++)
        n += tree.self[i] != 0;
    n += tree.root_self != 0;
    fg_tree_done(&tree);
    asker_end(query);
    return n;
}

/* One profile, and ranges that begin or end on it, before it and after it. */
static void ranges_include_both_ends(void **state)
{
    (void)state;
    for (unsigned place = 0; place < 3; place++) {
        struct asker asker = {.random = 1};
        int64_t at_ns;

        asker_init(&asker, 20, 0, NULL);
        do {
            asker.world.n_profiles = 0;
            world_push(&asker.world, 1);
        } while (asker.world.profiles[0].n_samples == 0 || asker.world.profiles[0].series % 4 == 1);
        if (place > 0)
            world_commit(&asker.world, 1000);
        while (place > 1 && asker.world.n_blocks == 0)
            world_compact(&asker.world, asker.world.profiles[0].tenant);
        at_ns = asker.world.profiles[0].time_ns;
        assert_true(stacks_between(&asker, at_ns, at_ns) > 0);
        assert_true(stacks_between(&asker, INT64_MIN, at_ns) > 0);
        assert_true(stacks_between(&asker, at_ns, INT64_MAX) > 0);
        assert_int_equal(stacks_between(&asker, INT64_MIN, at_ns - 1), 0);
        assert_int_equal(stacks_between(&asker, at_ns + 1, INT64_MAX), 0);
        asker_done(&asker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_query_is_right_at_every_moment),
        cmocka_unit_test(outdated_snapshot_is_taken_again),
        cmocka_unit_test(ranges_include_both_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
