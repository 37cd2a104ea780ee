/* Tests several threads: helpers of a query, and concurrent queries. */
#include "common/model/flame.h"
#include "querier/blocks/blocks_impl.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

/* --- one query, several workers --- */

static const unsigned helpers[] = {0, 1, 3};

/* Writes the drawn flame graph, not the sum: the order of its nodes is undefined. */
static void write_flamegraph(const struct ask *ask, struct fg_buf *out)
{
    static const struct qry_stack_filter all;
    struct qry_query *query = ask->query;
    struct fg_tree tree;
    struct fg_err err;

    fg_tree_init(&tree);
    asker_must(qry_flamegraph_make(query, &ask->selection, &all, 30, true, &tree, &err), &err);
    fg_flame_write_tree(&tree, 30, out);
    fg_buf_printf(out, "%d %llu", query->inexact, (unsigned long long)query->bound);
    fg_tree_done(&tree);
}

static void write_tree(struct asker *asker, const struct ask *ask, struct fg_buf *out)
{
    struct qry_stack_filter stacks;
    struct fg_tree tree;
    struct fg_err err;

    asker_draw_stacks(asker, &stacks, ask->query->arena);
    fg_tree_init(&tree);
    asker_must(qry_collect_tree(ask->query, &ask->selection, &stacks, asker_draw(asker, 2) == 0,
                                &tree, &err),
               &err);
    fg_tree_encode(&tree, out);
    fg_tree_done(&tree);
}

/* Writes the time series in the order of the answer. */
static void write_points(const struct ask *ask, struct fg_buf *out)
{
    static char pod[] = "pod";
    char *group_by[] = {pod};
    struct qry_points *series;
    struct fg_err err;
    size_t n;

    asker_must(qry_collect_points(ask->query, &ask->selection, FG_MINUTE_NS, group_by, 1, &series,
                                  &n, &err),
               &err);
    qry_points_order(series, &n, 0);
    for (size_t i = 0; i < n; i++) {
        fg_labels_encode(&series[i].labels, out);
        for (size_t k = 0; k < series[i].n; k++)
            fg_buf_printf(out, " %lld: %lld, %llu", (long long)series[i].items[k].k,
                          (long long)series[i].items[k].sum,
                          (unsigned long long)series[i].items[k].count);
    }
}

static char *answer_bytes(struct asker *asker, struct fg_arena *arena)
{
    struct fg_buf out;
    struct ask ask;
    char *text;

    fg_buf_init(&out, SIZE_MAX);
    ask_begin(asker, &ask);
    switch (asker_draw(asker, 3)) {
    case 0:
        write_flamegraph(&ask, &out);
        break;
    case 1:
        write_tree(asker, &ask, &out);
        break;
    default:
        write_points(&ask, &out);
        break;
    }
    fg_buf_printf(&out, " of %llu", (unsigned long long)ask.query->profiles);
    text = fg_arena_printf(arena, "%zu bytes, %016llx", out.len,
                           (unsigned long long)fg_hash64(fg_buf_slice(&out)));
    ask_end(&ask);
    fg_buf_done(&out);
    return text;
}

/* Queries with an empty cache, and with the cache that the previous query filled. */
static void number_of_helpers_does_not_change_results(void **state)
{
    enum { QUERIES = 120 };

    (void)state;
    for (uint64_t cold = 0; cold < 2; cold++) {
        struct asker asker = {.random = 0};
        fg_auto(fg_arena) *arena = fg_arena_create(ASKER_ARENA_BYTES);
        char *first[QUERIES];

        asker_init(&asker, 20 + cold, cold == 1 ? 0 : UINT64_C(64) << 20, NULL);
        asker.world.rollups_permille = 750;
        asker_blocks(&asker)->crown_nodes = 40;
        world_settle(&asker.world);
        world_sum(&asker.world, 0);
        for (size_t h = 0; h < FG_COUNT(helpers); h++) {
            asker_help_with(&asker, helpers[h]);
            asker.random = 77;
            for (unsigned i = 0; i < QUERIES; i++) {
                char *found = answer_bytes(&asker, arena);

                if (h == 0)
                    first[i] = found;
                assert_string_equal(found, first[i]);
            }
        }
        asker_done(&asker);
    }
}

/* The query reports the same error whichever thread finds it, and whatever other errors there are.
 */
static void first_error_wins_with_any_number_of_helpers(void **state)
{
    struct asker asker = {.random = 5};
    struct world_objects list = {.n = 0};
    struct fg_bucket_request read = {.verb = FG_BUCKET_GET, .content_max_bytes = 1 << 20};
    unsigned found = 0;

    (void)state;
    asker_init(&asker, 9, 0, NULL);
    world_push(&asker.world, 40);
    world_commit(&asker.world, 1000);
    world_objects_list(&asker.world, FG_NAME_SEGMENTS, &list);
    read.name = list.names[0];
    assert_int_equal(fg_bucket_call(asker.world.bucket, &read), FG_OK);
    for (size_t i = 0; i < read.body.len / 2; i += 97) {
        struct fg_bucket_request write = {
            .verb = FG_BUCKET_PUT, .name = read.name, .content = fg_buf_slice(&read.body)};
        struct fg_err first, err;
        enum fg_code code = FG_OK;

        read.body.ptr[i] ^= 0x20;
        read.body.ptr[read.body.len / 2 + i] ^= 0x20;
        assert_int_equal(fg_bucket_call(asker.world.bucket, &write), FG_OK);
        for (size_t h = 0; h < FG_COUNT(helpers); h++) {
            asker_help_with(&asker, helpers[h]);
            if (h == 0)
                code = asker_ask_all(&asker, false, &first);
            else
                assert_int_equal(asker_ask_all(&asker, false, &err), code);
            if (h > 0 && code != FG_OK)
                assert_string_equal(err.msg, first.msg);
        }
        found += code == FG_E_UNAVAILABLE;
        read.body.ptr[i] ^= 0x20;
        read.body.ptr[read.body.len / 2 + i] ^= 0x20;
        fg_bucket_clear(&write);
    }
    assert_true(found > read.body.len / 2 / 97 / 4);
    fg_bucket_clear(&read);
    world_objects_free(&list);
    asker_done(&asker);
}

/* A clock that advances by one whenever it is read. */
struct counting_clock {
    struct fg_clock clock;
    _Atomic int64_t looks;
};

static int64_t count_look(struct fg_clock *clock)
{
    return atomic_fetch_add(&fg_container(clock, struct counting_clock, clock)->looks, 1);
}

/* The deadline passes at each moment at which a query reads the clock, in any task. The query
 * leaves nothing behind that another query waits for. */
static void deadline_at_any_moment_leaves_nothing_behind(void **state)
{
    static const struct fg_clock_ops ops = {.wall_ns = count_look, .mono_ns = count_look};
    static const struct qry_stack_filter all;

    (void)state;
    for (size_t h = 0; h < FG_COUNT(helpers); h++) {
        struct asker asker = {.random = 5};
        struct counting_clock clock = {.clock = {&ops}};
        struct qry_selection selection = {
            .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
        enum fg_code code = FG_E_DEADLINE;
        int64_t k = 0;

        asker_init(&asker, 30, 0, NULL);
        asker_help_with(&asker, helpers[h]);
        world_settle(&asker.world);
        asker.querier->clock = &clock.clock;
        for (; code == FG_E_DEADLINE; k++) {
            struct qry_query *query = asker_begin(&asker, 7);
            struct fg_tree tree;
            struct fg_err err;

            fg_tree_init(&tree);
            query->deadline_mono_ns = atomic_load(&clock.looks) + k;
            code = qry_collect_tree(query, &selection, &all, false, &tree, &err);
            fg_tree_done(&tree);
            asker_end(query);
            assert_int_equal(asker_cache(&asker).entries, 0);
        }
        assert_int_equal(code, FG_OK);
        assert_true(k > 30);
        asker.querier->clock = &asker.clock.clock;
        asker_done(&asker);
    }
}

/* --- several queries at a time --- */

static void *ask_many(void *arg)
{
    struct fg_err err;

    for (unsigned i = 0; i < 60; i++)
        asker_must(asker_check_tree(arg, &err), &err);
    return NULL;
}

/* All use one cache that is too small for them. */
static void concurrent_queries_get_their_own_results(void **state)
{
    struct asker asker = {.random = 5};
    struct asker crowd[4]; /* on one world, which does not change */
    pthread_t threads[4];

    (void)state;
    asker_init(&asker, 12, 150000, NULL);
    world_settle(&asker.world);
    for (size_t i = 0; i < FG_COUNT(crowd); i++) {
        crowd[i] = asker;
        crowd[i].random = i / 2; /* pairs run the same queries */
    }
    for (size_t i = 0; i < FG_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, &crowd[i]), 0);
    for (size_t i = 0; i < FG_COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(asker_cache(&asker).bytes <= 150000);
    asker_done(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_of_helpers_does_not_change_results),
        cmocka_unit_test(first_error_wins_with_any_number_of_helpers),
        cmocka_unit_test(deadline_at_any_moment_leaves_nothing_behind),
        cmocka_unit_test(concurrent_queries_get_their_own_results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
