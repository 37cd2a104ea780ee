/* Tests that layers add up to the same list, in whatever order they come and whoever adds them, and
 * that the list has what its trees have. */
#include "common/model/flame.h"
#include "common/storage/rollup/crown_sum.h"
#include "querier/blocks/layers.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NUMBERS_MAX = 20, STACKS = 25, SEEDS = 200 };

static struct fg_work *make_workers(unsigned threads)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = threads, .queue_max = 16}};
    struct fg_work *work = NULL;
    struct fg_err err;

    assert_int_equal(fg_work_create("tst", lanes, &work, &err), FG_OK);
    return work;
}

/* Some numbers have a tree, which are also merged node by node. */
struct trees {
    struct fg_tree items[NUMBERS_MAX], merged;
    bool there[NUMBERS_MAX];
    uint32_t count;
};

static void trees_init(struct trees *trees, uint64_t *random)
{
    *trees = (struct trees){.count = (uint32_t)(1 + slow_random(random) % NUMBERS_MAX)};
    fg_tree_init(&trees->merged);
    for (uint32_t i = 0; i < trees->count; i++) {
        struct slow_stacks ignored = {.count = 0};

        fg_tree_init(&trees->items[i]);
        trees->there[i] = slow_random(random) % 4 != 0;
        for (unsigned k = 0; trees->there[i] && k < STACKS; k++)
            slow_add_random(&ignored, &trees->items[i], random);
        fg_tree_merge(&trees->merged, &trees->items[i]);
    }
}

static void trees_done(struct trees *trees)
{
    for (uint32_t i = 0; i < trees->count; i++)
        fg_tree_done(&trees->items[i]);
    fg_tree_done(&trees->merged);
}

static struct fg_crown_layer *add_in_random_order(const struct trees *trees, struct fg_work *work,
                                                  uint64_t *random)
{
    struct fg_task_group *group = fg_task_group_create(work, FG_LANE_QUERY, NULL);
    struct fg_crown_layer *sum = NULL;
    uint32_t order[NUMBERS_MAX];
    struct qry_layers layers;
    struct fg_err err;

    for (uint32_t i = 0; i < trees->count; i++) {
        uint32_t k = (uint32_t)(slow_random(random) % (i + 1));

        order[i] = i;
        order[i] = order[k];
        order[k] = i;
    }
    qry_layers_init(&layers, group, trees->count, UINT64_MAX);
    for (uint32_t i = 0; i < trees->count; i++) {
        if (trees->there[order[i]])
            assert_int_equal(qry_layers_put(&layers, order[i],
                                            fg_crown_layer_of_tree(&trees->items[order[i]]), &err),
                             FG_OK);
        if (slow_random(random) % 2 == 0)
            (void)fg_task_group_end_one(group);
    }
    assert_int_equal(qry_layers_finish(&layers, &sum, &err), FG_OK);
    assert_int_equal(layers.bytes, sum == NULL ? 0 : fg_crown_layer_bytes(sum));
    qry_layers_done(&layers);
    fg_task_group_destroy(group);
    return sum;
}

static void assert_same_list(const struct fg_crown_layer *a, const struct fg_crown_layer *b)
{
    uint32_t n_a = fg_crown_names_count(a->names), n_b = fg_crown_names_count(b->names);
    const struct fg_slice *names_a = fg_crown_names_items(a->names);
    const struct fg_slice *names_b = fg_crown_names_items(b->names);

    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_memory_equal(a->nodes, b->nodes, a->n_nodes * sizeof *a->nodes);
    assert_int_equal(n_a, n_b);
    for (uint32_t i = 0; i < n_a; i++)
        assert_true(fg_slice_eq(names_a[i], names_b[i]));
}

/* The sum takes the layer over. */
static void assert_sum_of_trees(struct fg_crown_layer *layer, const struct trees *trees)
{
    struct fg_buf have, want;
    struct fg_crown_sum sum;

    fg_buf_init(&have, 1 << 20);
    fg_buf_init(&want, 1 << 20);
    fg_crown_sum_init(&sum);
    fg_crown_sum_put(&sum, layer);
    fg_crown_sum_finish(&sum);
    fg_flame_write_tree(&sum.tree, 0, &have);
    fg_flame_write_tree(&trees->merged, 0, &want);
    assert_true(fg_slice_eq(fg_buf_slice(&have), fg_buf_slice(&want)));
    fg_crown_sum_done(&sum);
    fg_buf_done(&have);
    fg_buf_done(&want);
}

static void layers_add_up_to_the_same_in_any_order(void **state)
{
    struct fg_work *work = make_workers(2);
    unsigned none = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct fg_crown_layer *alone, *helped;
        uint64_t random = seed;
        struct trees trees;

        trees_init(&trees, &random);
        alone = add_in_random_order(&trees, NULL, &random);
        helped = add_in_random_order(&trees, work, &random);
        assert_int_equal(alone == NULL, helped == NULL);
        none += alone == NULL;
        if (alone != NULL) {
            assert_same_list(alone, helped);
            assert_sum_of_trees(alone, &trees);
        }
        fg_crown_layer_destroy(helped);
        trees_done(&trees);
    }
    assert_true(none > 0 && none < SEEDS / 4);
    fg_work_destroy(work);
}

static void layers_beyond_the_limit_are_refused(void **state)
{
    struct fg_task_group *group = fg_task_group_create(NULL, FG_LANE_QUERY, NULL);
    struct slow_stacks ignored = {.count = 0};
    struct fg_crown_layer *sum = NULL;
    struct qry_layers layers;
    uint64_t random = 7;
    struct fg_tree tree;
    struct fg_err err;

    (void)state;
    fg_tree_init(&tree);
    for (unsigned i = 0; i < STACKS; i++)
        slow_add_random(&ignored, &tree, &random);
    for (unsigned fits = 0; fits < 2; fits++) {
        struct fg_crown_layer *first = fg_crown_layer_of_tree(&tree);

        /* Two layers are there at a time, and then their sum, which is not larger. */
        qry_layers_init(&layers, group, 2, 2 * fg_crown_layer_bytes(first) - 1 + fits);
        assert_int_equal(qry_layers_put(&layers, 0, first, &err), FG_OK);
        assert_int_equal(qry_layers_put(&layers, 1, fg_crown_layer_of_tree(&tree), &err),
                         fits ? FG_OK : FG_E_LIMIT);
        if (fits)
            assert_int_equal(qry_layers_finish(&layers, &sum, &err), FG_OK);
        qry_layers_done(&layers);
    }
    assert_non_null(sum);
    fg_crown_layer_destroy(sum);
    fg_tree_done(&tree);
    fg_task_group_destroy(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_add_up_to_the_same_in_any_order),
        cmocka_unit_test(layers_beyond_the_limit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
