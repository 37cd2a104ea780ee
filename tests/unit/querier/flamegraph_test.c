/* Flame graphs: how exact they are where they are made of crowns, and what they cost. */
#include "common/model/flame.h"
#include "common/storage/bucket/impl.h"
#include "querier/blocks/blocks_impl.h"
#include "tests/lib/seeds.h"
#include "tests/unit/querier/asker.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

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

/* A bucket that damages what it has not been read of before the test says so. */
struct spoiler {
    struct fg_bucket bucket;
    struct fg_bucket *inner; /* answers within send */
    pthread_mutex_t lock;    /* several threads may read */
    struct {
        struct fg_id object;
        uint64_t offset, length;
    } known[4096];
    unsigned n_known, n_spoilt;
    bool spoils;
};

/* Returns whether a read is a known one. Notes it if it is not and nothing is to be damaged yet. */
static bool is_known(struct spoiler *spoiler, const struct fg_bucket_request *request)
{
    struct fg_id object = fg_hash128(fg_cstr(request->name));
    bool known = false;

    (void)pthread_mutex_lock(&spoiler->lock);
    for (unsigned i = 0; i < spoiler->n_known && !known; i++)
        known = fg_id_eq(spoiler->known[i].object, object) &&
                spoiler->known[i].offset <= request->offset &&
                spoiler->known[i].offset + spoiler->known[i].length >=
                    request->offset + request->length;
    if (!known && !spoiler->spoils) {
        fg_assert(spoiler->n_known < FG_COUNT(spoiler->known));
        spoiler->known[spoiler->n_known].object = object;
        spoiler->known[spoiler->n_known].offset = request->offset;
        spoiler->known[spoiler->n_known++].length = request->length;
        known = true;
    }
    spoiler->n_spoilt += !known;
    (void)pthread_mutex_unlock(&spoiler->lock);
    return known;
}

static void spoiler_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct spoiler *spoiler = fg_container(bucket, struct spoiler, bucket);
    struct fg_bucket_request inner = {.verb = request->verb,
                                      .name = request->name,
                                      .offset = request->offset,
                                      .length = request->length,
                                      .content_max_bytes = request->content_max_bytes};

    (void)fg_bucket_call(spoiler->inner, &inner);
    fg_bucket_take_answer(request, &inner);
    if (!is_known(spoiler, request) && request->body.len > 0)
        memset(request->body.ptr, 0xee, request->body.len);
    fg_bucket_finish(request);
}

static void spoiler_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket, (void)request; /* it was done within send */
}

/* How a flame graph is asked for. */
struct asked_graph {
    size_t max_nodes;
    bool partial, exact;
};

struct drawn_graph {
    struct fg_buf bytes;
    char said[128]; /* of it in the response */
};

/* Draws the flame graph of everything. */
static enum fg_code draw(struct asker *asker, const struct asked_graph *graph,
                         struct drawn_graph *drawn)
{
    static const struct qry_stack_filter all;
    struct qry_query *query = asker_begin(asker, 1);
    struct qry_selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_tree tree;
    struct fg_err err;
    enum fg_code code;

    query->partial = graph->partial;
    query->refine = graph->exact;
    fg_tree_init(&tree);
    code = qry_flamegraph_make(query, &selection, &all, graph->max_nodes, true, &tree, &err);
    fg_buf_init(&drawn->bytes, SIZE_MAX);
    if (code == FG_OK)
        fg_flame_write_tree(&tree, graph->max_nodes, &drawn->bytes);
    (void)snprintf(drawn->said, sizeof drawn->said,
                   "complete %d, exact %d, bound %llu, profiles %llu",
                   !query->incomplete && query->missing.len == 0, !query->inexact,
                   (unsigned long long)query->bound, (unsigned long long)query->profiles);
    fg_tree_done(&tree);
    asker_end(query);
    return code;
}

/* Samples that only a refinement needs are damaged: the answer is the one without it. */
static void a_refinement_that_fails_costs_nothing(void **state)
{
    enum { CROWN_NODES = 20, BEYOND = 100 };
    static const struct fg_bucket_ops ops = {spoiler_send, spoiler_cancel, NULL};
    static const struct asked_graph graphs[] = {{CROWN_NODES, false, false},
                                                {CROWN_NODES, true, false},
                                                {BEYOND, false, false},
                                                {BEYOND, true, false}};
    static const struct asked_graph exact = {CROWN_NODES, false, true};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(graphs); i++) {
        struct asker asker = {.random = 1, .keeps_all = true};
        struct spoiler *spoiler = fg_new(struct spoiler);
        struct drawn_graph without, with, none;

        print_message("  %zu nodes, partial %d\n", graphs[i].max_nodes, graphs[i].partial);
        asker_init(&asker, 21, 0, NULL); /* nothing is cached, and objects are read in ranges */
        asker_blocks(&asker)->crown_nodes = CROWN_NODES;
        asker_blocks(&asker)->sample_weight = 1000;
        asker.world.rollups_permille = 1000;
        world_push(&asker.world, 200);
        world_commit(&asker.world, 1000);
        world_compact(&asker.world, 0);
        spoiler->bucket.ops = &ops;
        spoiler->inner = asker_blocks(&asker)->bucket;
        (void)pthread_mutex_init(&spoiler->lock, NULL);
        asker_blocks(&asker)->bucket = &spoiler->bucket;

        assert_int_equal(draw(&asker, &graphs[i], &without), FG_OK);
        assert_non_null(strstr(without.said, "complete 1, exact 0"));
        spoiler->spoils = true;
        asker.querier->refine_max_bytes = UINT64_MAX;
        assert_int_equal(draw(&asker, &graphs[i], &with), FG_OK);
        assert_true(spoiler->n_spoilt > 0);
        assert_string_equal(with.said, without.said);
        assert_true(fg_slice_eq(fg_buf_slice(&with.bytes), fg_buf_slice(&without.bytes)));
        assert_int_equal(draw(&asker, &exact, &none), FG_E_UNAVAILABLE);

        fg_buf_done(&without.bytes);
        fg_buf_done(&with.bytes);
        fg_buf_done(&none.bytes);
        asker_blocks(&asker)->bucket = spoiler->inner;
        (void)pthread_mutex_destroy(&spoiler->lock);
        free(spoiler);
        asker_done(&asker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flame_graph_stays_within_its_bound),
        cmocka_unit_test(rollups_cost_two_requests),
        cmocka_unit_test(a_refinement_that_fails_costs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
