#include "common/model/flame.h"
#include "common/model/flame_cut.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct stack {
    const char *text;
    int64_t value;
};

static void make_tree(struct fg_tree *tree, const struct stack *stacks)
{
    fg_tree_init(tree);
    for (; stacks->text != NULL; stacks++)
        slow_tree_add(tree, stacks->text, stacks->value);
}

/* Levels as text: numbers with blanks, names in place of their index, a line for each level. */
static void assert_levels(const struct fg_flame *flame, const char *want)
{
    struct fg_buf buf;
    size_t at = 0;

    fg_buf_init(&buf, 1 << 20);
    for (size_t level = 0; level < flame->n_levels; level++) {
        for (; at < flame->level_ends[level]; at++)
            if (at % 4 == 3)
                fg_buf_printf(&buf, "%.*s ", FG_S(flame->names[flame->values[at]]));
            else
                fg_buf_printf(&buf, "%lld ", (long long)flame->values[at]);
        fg_buf_putc(&buf, '\n');
    }
    fg_buf_putc(&buf, '\0');
    assert_string_equal((char *)buf.ptr, want);
    fg_buf_done(&buf);
}

static const struct stack golden[] = {{"main", 3},     {"main;b;x", 4}, {"main;b", 1},
                                      {"main;a;y", 2}, {"main;a", 2},   {NULL, 0}};

static void levels_are_of_sorted_siblings(void **state)
{
    struct fg_flame flame;
    struct fg_tree tree;

    (void)state;
    make_tree(&tree, golden);
    fg_flame_make(&tree, 0, &flame);
    assert_levels(&flame, "0 12 0 total \n0 12 3 main \n3 4 2 a 0 5 1 b \n5 2 2 y 1 4 4 x \n");
    assert_int_equal(flame.total, 12);
    assert_int_equal(flame.max_self, 4);
    assert_int_equal(flame.n_names, 6);
    fg_flame_done(&flame);
    fg_tree_done(&tree);
}

static void empty_tree_is_one_bar(void **state)
{
    struct fg_flame flame;
    struct fg_tree tree;
    struct fg_buf buf;

    (void)state;
    fg_tree_init(&tree);
    fg_flame_make(&tree, 5, &flame);
    assert_levels(&flame, "0 0 0 total \n");
    fg_flame_done(&flame);
    fg_buf_init(&buf, 64);
    fg_flame_write_tree(&tree, 5, &buf);
    assert_int_equal(buf.len, 0);
    fg_tree_done(&tree);
    fg_buf_done(&buf);
}

static void small_nodes_become_other(void **state)
{
    static const struct {
        size_t max_nodes;
        const char *want;
    } cases[] = {
        {1, "0 12 0 total \n0 12 3 main \n3 9 9 other \n"},
        {2, "0 12 0 total \n0 12 3 main \n3 5 1 b 0 4 4 other \n4 4 4 other \n"},
        {3, "0 12 0 total \n0 12 3 main \n3 4 2 a 0 5 1 b \n5 2 2 other 1 4 4 x \n"}, /* a tie */
        {5, "0 12 0 total \n0 12 3 main \n3 4 2 a 0 5 1 b \n5 2 2 y 1 4 4 x \n"},
    };
    struct fg_flame flame;
    struct fg_tree tree;

    (void)state;
    make_tree(&tree, golden);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_flame_make(&tree, cases[i].max_nodes, &flame);
        assert_levels(&flame, cases[i].want);
        assert_int_equal(flame.total, 12);
        fg_flame_done(&flame);
    }
    fg_tree_done(&tree);
}

/* Golden case 076, except what is below the function "other". */
static void unusual_names_are_kept(void **state)
{
    static const struct stack stacks[] = {
        {"other;x", 6}, {"total;total", 4}, {"total;a", 3}, {"z;", 1}, {NULL, 0}};
    struct fg_flame flame;
    struct fg_tree tree;

    (void)state;
    make_tree(&tree, stacks);
    fg_flame_make(&tree, 0, &flame);
    assert_levels(&flame, "0 14 0 total \n0 7 0 total 0 1 0 z 0 6 0 other \n"
                          "0 3 3 a 0 4 4 total 0 1 1  0 6 6 x \n");
    assert_int_equal(flame.n_names, 6);
    fg_flame_done(&flame);
    fg_tree_done(&tree);
}

static int descending(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a < b) - (a > b);
}

static void nth_largest_equals_that_of_a_sorted_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        int64_t values[97], sorted[97];
        uint64_t random = seed;

        print_message("  seed %u\n", (unsigned)seed);
        for (size_t i = 0; i < FG_COUNT(values); i++)
            values[i] = (int64_t)slow_random(&random) >> (slow_random(&random) % 64);
        memcpy(sorted, values, sizeof values);
        qsort(sorted, FG_COUNT(sorted), sizeof *sorted, descending);
        for (size_t rank = 1; rank <= FG_COUNT(values); rank++)
            assert_int_equal(fg_flame_nth_largest(values, FG_COUNT(values), rank),
                             sorted[rank - 1]);
    }
}

/* Whatever is cut, totals are exact and every bar lies inside one of the level above. */
static void bars_nest_and_totals_stay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct slow_stacks ignored = {.count = 0};
        struct fg_tree tree;
        int64_t *totals, all;
        uint64_t random = seed;

        print_message("  seed %u\n", (unsigned)seed);
        fg_tree_init(&tree);
        for (int i = 0; i < 200; i++)
            slow_add_random(&ignored, &tree, &random);
        totals = fg_malloc(tree.n_nodes * sizeof *totals);
        all = fg_tree_totals(&tree, totals);
        for (size_t max_nodes = 0; max_nodes < 300; max_nodes = max_nodes * 2 + 1) {
            struct fg_flame flame;
            int64_t self_sum = 0;

            fg_flame_make(&tree, max_nodes, &flame);
            assert_int_equal(flame.total, all);
            for (size_t i = 0; i < flame.level_ends[flame.n_levels - 1]; i += 4) {
                assert_true(flame.values[i] >= 0);
                assert_true(flame.values[i + 2] <= flame.values[i + 1]);
                self_sum += flame.values[i + 2];
            }
            assert_int_equal(self_sum, all);
            fg_flame_done(&flame);
        }
        free(totals);
        fg_tree_done(&tree);
    }
}

static void tree_bytes_have_the_last_sibling_first(void **state)
{
    struct fg_tree tree;
    struct fg_buf buf;

    (void)state;
    make_tree(&tree, golden);
    fg_buf_init(&buf, 1024);
    fg_flame_write_tree(&tree, 2, &buf);
    assert_true(fg_slice_eq(fg_buf_slice(&buf), FG_LIT("\0\0\1\4main\3\2\5other\4\0\1b\1\1"
                                                       "\5other\4\0")));
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

static void top_counts_recursion_once(void **state)
{
    static const struct stack stacks[] = {
        {"a;b;a", 5}, {"a;c", 2}, {"b;b", 1}, {"\n", 1}, {NULL, 0}};
    static const struct {
        const char *name;
        int64_t self, total;
    } want[] = {{"a", 5, 7}, {"b", 1, 6}, {"c", 2, 2}, {"\n", 1, 1}};
    struct fg_top_row *rows;
    struct fg_tree tree;
    struct fg_buf buf;
    size_t n_rows;

    (void)state;
    make_tree(&tree, stacks);
    rows = fg_flame_top(&tree, &n_rows);
    assert_int_equal(n_rows, FG_COUNT(want));
    for (size_t i = 0; i < n_rows; i++) {
        assert_true(fg_slice_is(rows[i].name, want[i].name));
        assert_int_equal(rows[i].self, want[i].self);
        assert_int_equal(rows[i].total, want[i].total);
    }
    free(rows);
    fg_buf_init(&buf, 1024);
    fg_flame_write_folded(&tree, &buf);
    assert_true(fg_slice_is(fg_buf_slice(&buf), "  1\na;b;a 5\na;c 2\nb;b 1\n"));
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

/* What folded text is made of must not end a frame or a stack in the middle of a name. */
static void folded_stacks_can_be_read_back(void **state)
{
    struct fg_tree tree;
    struct fg_buf buf;
    uint32_t node;

    (void)state;
    fg_tree_init(&tree);
    node = fg_tree_child(&tree, FG_TREE_ROOT,
                         fg_symbols_name_location(&tree.symbols, FG_LIT("Lcom/a;.run")));
    node = fg_tree_child(&tree, node,
                         fg_symbols_name_location(&tree.symbols, FG_LIT(";two\r\nlines;")));
    fg_tree_add(&tree, node, 7);
    fg_buf_init(&buf, 1024);
    fg_flame_write_folded(&tree, &buf);
    assert_true(fg_slice_is(fg_buf_slice(&buf), "Lcom/a:.run;:two  lines: 7\n"));
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

/* One chain of a hundred thousand calls: nothing recurses, and what is quadratic ends at the cap.
 */
static void deep_trees_do_not_overflow_the_stack(void **state)
{
    enum { DEEP = 100000 };
    struct fg_top_row *rows;
    struct fg_flame flame;
    struct fg_tree tree;
    struct fg_buf buf;
    uint32_t location, node = FG_TREE_ROOT;
    size_t n_rows;

    (void)state;
    fg_tree_init(&tree);
    location = fg_symbols_name_location(&tree.symbols, FG_LIT("f"));
    for (int i = 0; i < DEEP; i++) {
        node = fg_tree_child(&tree, node, location);
        fg_tree_add(&tree, node, 1);
    }
    fg_flame_make(&tree, 1000, &flame);
    assert_int_equal(flame.n_levels, 1002);
    assert_int_equal(flame.max_self, DEEP - 1000);
    fg_flame_done(&flame);
    rows = fg_flame_top(&tree, &n_rows);
    assert_int_equal(rows[0].total, DEEP);
    free(rows);
    fg_buf_init(&buf, 1 << 20);
    fg_flame_write_folded(&tree, &buf);
    assert_true(buf.full);
    fg_buf_clear(&buf);
    fg_flame_write_tree(&tree, 0, &buf);
    assert_false(buf.full);
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_of_sorted_siblings),
        cmocka_unit_test(empty_tree_is_one_bar),
        cmocka_unit_test(small_nodes_become_other),
        cmocka_unit_test(unusual_names_are_kept),
        cmocka_unit_test(nth_largest_equals_that_of_a_sorted_array),
        cmocka_unit_test(bars_nest_and_totals_stay),
        cmocka_unit_test(tree_bytes_have_the_last_sibling_first),
        cmocka_unit_test(top_counts_recursion_once),
        cmocka_unit_test(folded_stacks_can_be_read_back),
        cmocka_unit_test(deep_trees_do_not_overflow_the_stack),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
