/* Flame graphs: how exact they are where they are made of crowns, and what they cost. */
#include "querier/blocks/blocks_impl.h"
#include "tests/lib/seeds.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Crowns of a few nodes only: what is said to be exact is, and else the bound holds. */
static void flame_graph_stays_within_its_bound(void **state)
{
    static const uint32_t crowns[] = {0, 1, 5, 20, 60};
    unsigned inexact = 0, graphs = 0;
    uint64_t nodes = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(5); seed++) {
        struct asker asker = {.random = seed};
        struct fg_err err;

        asker_init(&asker, seed, seed % 2 == 0 ? UINT64_C(64) << 20 : 100 * 1024, NULL);
        asker_blocks(&asker)->crown_nodes = crowns[seed % FG_COUNT(crowns)];
        asker.querier->refine_max_bytes = seed % 4 == 3 ? 3000 : 0;
        asker.world.rollups_permille = seed % 3 != 0 ? 750 : 0;
        asker_blocks(&asker)->sample_weight = 100;
        world_push(&asker.world, 150);
        for (unsigned i = 0; i < 60; i++) {
            asker_happen_any(&asker, ASKER_HAPPENINGS);
            fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
            for (unsigned k = 0; k < 6; k++, graphs++)
                asker_must(k % 3 == 2 ? asker_check_diff(&asker, &err)
                                      : asker_check_flamegraph(&asker, &err),
                           &err);
        }
        inexact += asker.inexact;
        nodes += asker.rollups;
        asker_done(&asker);
    }
    print_message("  %u of %u graphs with a bound, %llu rollups\n", inexact, graphs,
                  (unsigned long long)nodes);
    assert_true(inexact > graphs / 20 && inexact < graphs / 2);
}

/* Queries the flame graph of a service over all times. */
static struct qry_query *draw_all(struct asker *asker, const char *selector)
{
    static const struct qry_stack_filter all;
    struct qry_query *query = asker_begin(asker, 1);
    struct qry_selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_tree tree;
    struct fg_err err;

    assert_int_equal(fg_selector_parse(fg_cstr(selector), query->arena, &selection.selector, &err),
                     FG_OK);
    fg_tree_init(&tree);
    asker_must(qry_flamegraph_make(query, &selection, &all, 100, true, &tree, &err), &err);
    fg_tree_done(&tree);
    qry_selection_done(&selection);
    return query;
}

/* What nodes answer costs two requests an object: what there is of them, and crowns with names; or
 * one, if it is small. Of objects that others sum up nothing is read, unless it is asked for what
 * these cannot answer. */
static void rollups_cost_two_requests(void **state)
{
    enum { MANIFESTS = 2 };
    struct asker asker = {.random = 1};
    struct qry_query *query;
    uint64_t n_objects, profiles;

    (void)state;
    asker_init(&asker, 21, 0, NULL);
    asker.world.rollups_permille = 1000;
    asker_blocks(&asker)->sample_weight = 1000;
    for (unsigned i = 0; i < 5; i++) {
        world_push(&asker.world, 200);
        world_commit(&asker.world, 1000);
        for (unsigned k = 0; k < 10; k++)
            world_compact(&asker.world, 0);
    }
    query = draw_all(&asker, "{service_name=\"api\"}");
    n_objects = query->objects;
    profiles = query->profiles;
    assert_true(n_objects >= 5);
    assert_true(query->rollups >= n_objects);
    assert_true(query->requests > MANIFESTS + n_objects);
    assert_true(query->requests <= MANIFESTS + 2 * n_objects);
    asker_end(query);

    asker_blocks(&asker)->whole_max_bytes = UINT32_MAX;
    query = draw_all(&asker, "{service_name=\"api\"}");
    assert_int_equal(query->requests, n_objects);
    asker_end(query);
    asker_blocks(&asker)->whole_max_bytes = 0;

    world_sum(&asker.world, 0);
    fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
    query = draw_all(&asker, "{service_name=\"api\"}");
    assert_int_equal(query->objects, 1);
    assert_int_equal(query->profiles, profiles);
    assert_true(query->requests <= MANIFESTS + 2);
    asker_end(query);

    query = draw_all(&asker, "{service_name=\"api\", pod=~\"p[1-3]\"}");
    assert_int_equal(query->objects, 1);
    assert_true(query->requests <= MANIFESTS + 3);
    asker_end(query);

    /* No series has the label, but nothing says so but the blocks. */
    query = draw_all(&asker, "{service_name=\"api\", shelf!=\"x\"}");
    assert_in_range(query->objects, n_objects + 1, n_objects + 2);
    assert_int_equal(query->profiles, profiles);
    asker_end(query);
    asker_done(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flame_graph_stays_within_its_bound),
        cmocka_unit_test(rollups_cost_two_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
