#include "common/base/str.h"
#include "querier/diff.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void fill(struct fg_crown_sum *sum, const char *const *stacks)
{
    struct fg_tree *tree = &(struct fg_tree){0};

    fg_crown_sum_init(sum);
    fg_tree_init(tree);
    for (; *stacks != NULL; stacks++) {
        struct fg_slice rest = fg_cstr(*stacks);
        uint32_t node = FG_TREE_ROOT;
        size_t blank = fg_slice_find(rest, ' ');
        int64_t value;

        assert_true(fg_parse_i64(fg_slice_sub(rest, blank + 1, SIZE_MAX), &value));
        rest = fg_slice_sub(rest, 0, blank);
        while (rest.len > 0) {
            size_t end = FG_MIN(fg_slice_find(rest, ';'), rest.len);

            node = fg_tree_child(
                tree, node, fg_symbols_name_location(&tree->symbols, fg_slice_sub(rest, 0, end)));
            rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
        }
        tree->self[node] += value;
    }
    fg_crown_sum_add_tree(sum, tree);
    fg_crown_sum_finish(sum);
    fg_tree_done(tree);
}

/* Writes levels as text, one a line: "name L+offset,total,self R+offset,total,self; ...". */
static void describe(const struct qry_diff *diff, struct fg_buf *out)
{
    size_t at = 0;

    for (size_t level = 0; level < diff->n_levels; level++) {
        for (; at < diff->level_ends[level]; at += 7) {
            const int64_t *bar = diff->values + at;

            fg_buf_printf(out, "%.*s %lld,%lld,%lld %lld,%lld,%lld; ", FG_S(diff->names[bar[6]]),
                          (long long)bar[0], (long long)bar[1], (long long)bar[2],
                          (long long)bar[3], (long long)bar[4], (long long)bar[5]);
        }
        fg_buf_putc(out, '\n');
    }
    fg_buf_putc(out, '\0');
}

static const char *const left_stacks[] = {"main;a;x 10", "main;a;y 5", "main;b 3",
                                          "main;onlyleft 4", NULL};
static const char *const right_stacks[] = {"main;a;x 2", "main;a;y 5", "main;b;deep;er 1",
                                           "main;c;z 30", NULL};

/* The answers that golden case 084 has for these trees. */
static const struct {
    size_t max_nodes;
    const char *want;
} cases[] = {
    {0, "total 0,22,0 0,38,0; \n"
        "main 0,22,0 0,38,0; \n"
        "a 0,15,0 0,7,0; b 0,3,3 0,1,0; c 0,0,0 0,30,0; onlyleft 0,4,4 0,0,0; \n"
        "x 0,10,10 0,2,2; y 0,5,5 0,5,5; deep 3,0,0 0,1,0; z 0,0,0 0,30,30; \n"
        "er 18,0,0 7,1,1; \n"},
    {3, "total 0,22,0 0,38,0; \n"
        "main 0,22,0 0,38,0; \n"
        "c 0,0,0 0,30,0; other 0,22,22 0,8,8; \n"
        "z 0,0,0 0,30,30; \n"},
    {2, "total 0,22,0 0,38,0; \n"
        "main 0,22,0 0,38,0; \n"
        "other 0,22,22 0,38,38; \n"},
};

static void diff_shows_both_sides(void **state)
{
    struct fg_crown_sum left, right;

    (void)state;
    fill(&left, left_stacks);
    fill(&right, right_stacks);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf text;
        struct fg_crown_verdict verdict;
        struct qry_diff diff;

        fg_buf_init(&text, 65536);
        qry_diff_make(&left, &right, cases[i].max_nodes, &diff, &verdict);
        assert_true(verdict.exact);
        describe(&diff, &text);
        assert_string_equal((const char *)text.ptr, cases[i].want);
        assert_int_equal(diff.left_ticks, 22);
        assert_int_equal(diff.right_ticks, 38);
        qry_diff_done(&diff);
        fg_buf_done(&text);
    }
    fg_crown_sum_done(&left);
    fg_crown_sum_done(&right);
}

/* Totals that do not fit are the largest number; those that fit are exact next to them. */
static void diff_clamps_sums_beyond_64_bits(void **state)
{
#define MOST "9223372036854775807"
    static const char *const sides[2][4] = {
        {"main;a " MOST, "main;b 5", "main;c " MOST, NULL},
        {"main;a " MOST, "main;c " MOST, "main " MOST, NULL},
    };
    static const struct {
        size_t max_nodes;
        const char *want;
    } draws[] = {
        {0, "total 0," MOST ",0 0," MOST ",0; \n"
            "main 0," MOST ",0 0," MOST "," MOST "; \n"
            "a 0," MOST "," MOST " " MOST "," MOST "," MOST "; b 0,5,5 0,0,0; "
            "c 0," MOST "," MOST " 0," MOST "," MOST "; \n"},
        {2, "total 0," MOST ",0 0," MOST ",0; \n"
            "main 0," MOST ",0 0," MOST "," MOST "; \n"
            "a 0," MOST "," MOST " " MOST "," MOST "," MOST "; c 0," MOST "," MOST " 0," MOST
            "," MOST "; other 0,5,5 0,0,0; \n"},
    };
    struct fg_crown_sum left, right;

    (void)state;
    fill(&left, sides[0]);
    fill(&right, sides[1]);
    for (size_t i = 0; i < FG_COUNT(draws); i++) {
        struct fg_crown_verdict verdict;
        struct fg_buf text;
        struct qry_diff diff;

        fg_buf_init(&text, 65536);
        qry_diff_make(&left, &right, draws[i].max_nodes, &diff, &verdict);
        describe(&diff, &text);
        assert_string_equal((const char *)text.ptr, draws[i].want);
        assert_int_equal(diff.left_ticks, INT64_MAX);
        assert_int_equal(diff.right_ticks, INT64_MAX);
        assert_int_equal(verdict.total, INT64_MAX);
        qry_diff_done(&diff);
        fg_buf_done(&text);
    }
    fg_crown_sum_done(&left);
    fg_crown_sum_done(&right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diff_shows_both_sides),
        cmocka_unit_test(diff_clamps_sums_beyond_64_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
