#include "common/model/flame.h"
#include "common/storage/rollup/crown_sum.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct crowned {
    struct fg_tree tree;
    struct fg_function_tree names;
    struct fg_function_values values;
    struct fg_crown crown;
};

static void crown_tree(struct crowned *crowned, uint32_t max_nodes)
{
    fg_function_tree_init(&crowned->names, &crowned->tree);
    fg_function_values_init(&crowned->values, &crowned->names);
    fg_function_values_set(&crowned->values, &crowned->names, crowned->tree.self);
    fg_crown_make(&crowned->names, &crowned->values, max_nodes, &crowned->crown);
}

static void crowned_done(struct crowned *crowned)
{
    fg_crown_done(&crowned->crown);
    fg_function_values_done(&crowned->values);
    fg_function_tree_done(&crowned->names);
    fg_tree_done(&crowned->tree);
}

static void sum_add(struct fg_crown_sum *sum, const struct crowned *crowned)
{
    fg_crown_sum_add_crown(sum, &crowned->names, &crowned->crown);
}

/* "main/a self+rest" for each node, by name and depth. */
static void write_crown(const struct crowned *crowned, struct fg_buf *out)
{
    const struct fg_crown *crown = &crowned->crown;

    for (uint32_t i = 0; i < crown->n_nodes; i++) {
        uint32_t node = crown->nodes[i];

        for (uint32_t up = crowned->names.parents[node]; up != FG_TREE_ROOT;
             up = crowned->names.parents[up])
            fg_buf_putc(out, '.');
        fg_buf_put(out, crowned->names.names[crowned->names.functions[node]]);
        fg_buf_printf(out, " %lld+%lld\n", (long long)crown->self[i], (long long)crown->rest[i]);
    }
    fg_buf_printf(out, "rest %lld cut %llu\n", (long long)crown->root_rest,
                  (unsigned long long)crown->cut_max);
}

static void assert_crown(const struct crowned *crowned, const char *want)
{
    struct fg_buf text;

    fg_buf_init(&text, 1 << 20);
    write_crown(crowned, &text);
    fg_buf_putc(&text, '\0');
    assert_string_equal((char *)text.ptr, want);
    fg_buf_done(&text);
}

static const struct {
    const char *text;
    int64_t value;
} stacks[] = {{"main;work;hash", 30}, {"main;work;sort", 10}, {"main;work", 1},
              {"main;idle", 9},       {"gc;mark", 10},        {"gc;sweep", 2}};

static const struct {
    const char *name;
    uint32_t max_nodes;
    const char *want;
} cases[] = {
    {"all", 100,
     "gc 0+0\n.mark 10+0\n.sweep 2+0\nmain 0+0\n.idle 9+0\n.work 1+0\n..hash 30+0\n..sort 10+0\n"
     "rest 0 cut 0\n"},
    {"the four heaviest", 4, "gc 0+12\nmain 0+9\n.work 1+10\n..hash 30+0\nrest 0 cut 10\n"},
    {"of equal ones the first", 5,
     "gc 0+2\n.mark 10+0\nmain 0+9\n.work 1+10\n..hash 30+0\nrest 0 cut 10\n"},
    {"one", 1, "main 0+50\nrest 12 cut 41\n"},
    {"none", 0, "rest 62 cut 50\n"},
};

static void crowns_keep_the_heaviest_nodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct crowned crowned;

        print_message("  %s\n", cases[i].name);
        fg_tree_init(&crowned.tree);
        for (size_t k = 0; k < FG_COUNT(stacks); k++)
            slow_tree_add(&crowned.tree, stacks[k].text, stacks[k].value);
        crown_tree(&crowned, cases[i].max_nodes);
        assert_crown(&crowned, cases[i].want);
        crowned_done(&crowned);
    }
}

/* The same stacks, whatever the order in which they came. */
static void crowns_do_not_depend_on_numbers(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        struct crowned forth, back;
        struct slow_stacks slow = {0};
        uint32_t max_nodes = (uint32_t)(slow_random(&random) % 60);
        struct fg_buf want, have;

        fg_tree_init(&forth.tree);
        fg_tree_init(&back.tree);
        for (unsigned i = 0; i < 50; i++)
            slow_add_random(&slow, &forth.tree, &random);
        for (size_t i = slow.count; i-- > 0;)
            slow_tree_add(&back.tree, slow.items[i].text, slow.items[i].value);
        crown_tree(&forth, max_nodes);
        crown_tree(&back, max_nodes);
        fg_buf_init(&want, 1 << 20);
        fg_buf_init(&have, 1 << 20);
        write_crown(&forth, &want);
        write_crown(&back, &have);
        assert_true(fg_slice_eq(fg_buf_slice(&want), fg_buf_slice(&have)));
        fg_buf_done(&want);
        fg_buf_done(&have);
        crowned_done(&forth);
        crowned_done(&back);
    }
}

static void nodes_with_negative_values_keep_their_parents(void **state)
{
    struct crowned crowned;

    (void)state;
    fg_tree_init(&crowned.tree);
    slow_tree_add(&crowned.tree, "main;a", 100);
    slow_tree_add(&crowned.tree, "main;b", -99);
    slow_tree_add(&crowned.tree, "other", 50);
    crown_tree(&crowned, 3);
    assert_true(crowned.crown.has_negatives);
    assert_crown(&crowned, "main 0+0\n.a 100+0\n.b -99+0\nrest 50 cut 50\n");
    crowned_done(&crowned);
}

/* ---- sums ---- */

enum { PARTS = 4 };

static int64_t total_at(const struct fg_tree *tree, const int64_t *totals, const struct fg_tree *of,
                        uint32_t node)
{
    uint32_t path[SLOW_DEPTH_MAX + 1], depth = 0, at = FG_TREE_ROOT;

    for (uint32_t up = node; up != FG_TREE_ROOT; up = of->parents[up])
        path[depth++] = up;
    while (depth > 0) {
        uint32_t next = FG_TREE_ROOT;

        depth--;
        for (uint32_t i = 0; i < tree->n_nodes && next == FG_TREE_ROOT; i++)
            if (tree->parents[i] == at &&
                fg_slice_eq(fg_tree_name(tree, i), fg_tree_name(of, path[depth])))
                next = i;
        if (next == FG_TREE_ROOT)
            return 0;
        at = next;
    }
    return totals[at];
}

/* Totals of the picture are never larger than in truth, and not smaller by more than the bound. */
static void assert_bound(const struct fg_tree *cut, const struct fg_tree *full, uint64_t bound)
{
    int64_t *have = fg_calloc((size_t)cut->n_nodes + 1, sizeof *have);
    int64_t *truth = fg_calloc((size_t)full->n_nodes + 1, sizeof *truth);

    (void)fg_tree_totals(cut, have);
    (void)fg_tree_totals(full, truth);
    for (uint32_t i = 0; i < cut->n_nodes; i++) {
        int64_t want;

        if (fg_slice_is(fg_tree_name(cut, i), "other"))
            continue;
        want = total_at(full, truth, cut, i);
        assert_true(have[i] <= want && (uint64_t)(want - have[i]) <= bound);
    }
    free(have);
    free(truth);
}

static void assert_same_picture(const struct fg_tree *a, const struct fg_tree *b)
{
    struct fg_buf left, right;

    fg_buf_init(&left, 1 << 20);
    fg_buf_init(&right, 1 << 20);
    fg_flame_write_tree(a, 0, &left);
    fg_flame_write_tree(b, 0, &right);
    assert_true(fg_slice_eq(fg_buf_slice(&left), fg_buf_slice(&right)));
    fg_buf_done(&left);
    fg_buf_done(&right);
}

/* Stacks whose weights differ as they do in profiles: few are heavy, most are light. */
static void add_skewed(struct slow_stacks *slow, struct fg_tree *tree, uint64_t *random)
{
    struct slow_stacks one = {0};
    struct fg_tree none;
    int64_t value = (int64_t)1 << slow_random(random) % 12;

    fg_tree_init(&none);
    slow_add_random(&one, &none, random);
    fg_tree_done(&none);
    if (one.count == 0)
        return;
    slow_add(slow, one.items[0].text, value);
    slow_tree_add(tree, one.items[0].text, value);
}

static bool try_sum(uint64_t seed, bool *ret_cut)
{
    uint64_t random = seed;
    size_t max_nodes = 1 + slow_random(&random) % 24;
    uint32_t crown_nodes = (uint32_t)(max_nodes + slow_random(&random) % 60);
    struct slow_stacks slow = {0};
    struct fg_tree full, want, have;
    struct fg_crown_verdict verdict;
    struct fg_crown_sum sum;

    fg_tree_init(&full);
    fg_tree_init(&want);
    fg_tree_init(&have);
    fg_crown_sum_init(&sum);
    *ret_cut = false;
    for (unsigned part = 0; part < PARTS; part++) {
        struct crowned crowned;

        fg_tree_init(&crowned.tree);
        for (unsigned i = 0; i < 30; i++)
            add_skewed(&slow, &crowned.tree, &random);
        fg_tree_merge(&full, &crowned.tree);
        crown_tree(&crowned, crown_nodes);
        *ret_cut = *ret_cut || crowned.crown.cut_max > 0;
        if (part == 0) { /* one is read in full */
            fg_crown_sum_add_tree(&sum, &crowned.tree);
        } else {
            sum_add(&sum, &crowned);
        }
        crowned_done(&crowned);
    }
    fg_crown_sum_finish(&sum);
    fg_crown_sum_truncate(&sum, max_nodes, &have, &verdict);
    fg_tree_truncate(&full, max_nodes, &want);
    if (verdict.exact)
        assert_same_picture(&have, &want);
    assert_bound(&have, &full, verdict.bound);
    fg_crown_sum_done(&sum);
    fg_tree_done(&full);
    fg_tree_done(&want);
    fg_tree_done(&have);
    return verdict.exact;
}

static void sums_of_crowns_stay_within_their_bounds(void **state)
{
    unsigned exact = 0, cut_and_exact = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        bool cut, is_exact = try_sum(seed, &cut);

        exact += is_exact;
        cut_and_exact += is_exact && cut;
    }
    print_message("  exact %u, of these with something cut %u\n", exact, cut_and_exact);
    assert_true(exact > 100 && cut_and_exact > 50 && exact < 2000);
}

/*
 * Values of which a few are all that fits: a crown has the saturated totals of its tree, and no
 * rest below zero, though the children of a node may add up to more than it has.
 */
static void sums_beyond_64_bits_saturate(void **state)
{
    uint64_t random = 11;

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        struct fg_crown_verdict verdict;
        struct crowned crowned;
        struct fg_crown_sum sum;
        struct fg_tree drawn;
        int64_t flat;

        fg_tree_init(&crowned.tree);
        for (unsigned i = 0; i < 50; i++) {
            struct slow_stacks ignored = {.count = 0};

            slow_add_random(&ignored, &crowned.tree, &random);
        }
        for (uint32_t i = 0; i < crowned.tree.n_nodes; i++)
            crowned.tree.self[i] = slow_random(&random) % 3 == 0 ? 1 : INT64_MAX / 4;
        crown_tree(&crowned, (uint32_t)(slow_random(&random) % 60));
        flat = crowned.crown.root_rest;
        assert_true(flat >= 0);
        for (uint32_t i = 0; i < crowned.crown.n_nodes; i++) {
            assert_true(crowned.crown.rest[i] >= 0);
            flat = fg_value_add(flat, fg_value_add(crowned.crown.self[i], crowned.crown.rest[i]));
        }
        assert_int_equal(flat, crowned.values.all);
        fg_crown_sum_init(&sum);
        sum_add(&sum, &crowned);
        fg_tree_init(&drawn);
        fg_crown_sum_finish(&sum);
        fg_crown_sum_truncate(&sum, 0, &drawn, &verdict);
        assert_int_equal(verdict.total, crowned.values.all);
        assert_int_equal(verdict.total, INT64_MAX);
        fg_tree_done(&drawn);
        fg_crown_sum_done(&sum);
        crowned_done(&crowned);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crowns_keep_the_heaviest_nodes),
        cmocka_unit_test(crowns_do_not_depend_on_numbers),
        cmocka_unit_test(nodes_with_negative_values_keep_their_parents),
        cmocka_unit_test(sums_of_crowns_stay_within_their_bounds),
        cmocka_unit_test(sums_beyond_64_bits_saturate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
