/* Checks queries whose answer is a tree or a drawing of one against the model. */
#include "common/model/flame.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- trees as text --- */

struct stack_line {
    char *path;
    int64_t value;
};

static void write_location(const struct fg_symbols *symbols, uint32_t number, struct fg_buf *out)
{
    const struct fg_location *at = &symbols->locations[number];

    fg_buf_printf(out, ";%llx", (unsigned long long)at->address);
    if (at->mapping != FG_NO_MAPPING)
        fg_buf_printf(out, "[%.*s]",
                      FG_S(fg_symbols_text(symbols, symbols->mappings[at->mapping].build_id)));
    for (uint32_t i = 0; i < at->n_lines; i++) {
        const struct fg_line *line = &symbols->lines[at->first_line + i];
        const struct fg_function *function = &symbols->functions[line->function];

        fg_buf_printf(out, " %.*s/%.*s@%.*s:%lld", FG_S(fg_symbols_text(symbols, function->name)),
                      FG_S(fg_symbols_text(symbols, function->system_name)),
                      FG_S(fg_symbols_text(symbols, function->filename)), (long long)line->line);
    }
}

static void write_path(const struct fg_tree *tree, uint32_t node, struct fg_buf *out)
{
    if (node == FG_TREE_ROOT)
        return;
    write_path(tree, tree->parents[node], out);
    write_location(&tree->symbols, tree->locations[node], out);
}

static int line_order(const void *a, const void *b)
{
    return strcmp(((const struct stack_line *)a)->path, ((const struct stack_line *)b)->path);
}

char *asker_tree_text(const struct fg_tree *tree, struct fg_arena *arena)
{
    struct stack_line *lines = fg_arena_new(arena, struct stack_line, (size_t)tree->n_nodes + 1);
    struct fg_buf path, out;
    size_t n = 0;
    char *text;

    fg_buf_init(&path, SIZE_MAX);
    fg_buf_init(&out, SIZE_MAX);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        fg_buf_clear(&path);
        write_path(tree, i, &path);
        if (tree->self[i] != 0)
            lines[n++] =
                (struct stack_line){fg_arena_text(arena, fg_buf_slice(&path)), tree->self[i]};
    }
    if (n > 1)
        qsort(lines, n, sizeof *lines, line_order);
    fg_buf_printf(&out, "%lld\n", (long long)tree->root_self);
    for (size_t i = 0; i < n; i++)
        fg_buf_printf(&out, "%s %lld\n", lines[i].path, (long long)lines[i].value);
    text = fg_arena_text(arena, fg_buf_slice(&out));
    fg_buf_done(&path);
    fg_buf_done(&out);
    return text;
}

enum fg_code asker_check_tree(struct asker *asker, struct fg_err *err)
{
    struct fg_tree found, want;
    struct qry_stack_filter stacks;
    struct ask ask;
    bool names_only = asker_draw(asker, 2) == 0;

    ask_begin(asker, &ask);
    if (asker_draw(asker, 4) == 0)
        ask_for_all_time(&ask);
    asker_draw_stacks(asker, &stacks, ask.query->arena);
    fg_tree_init(&found);
    fg_tree_init(&want);
    enum fg_code code = asker_whole(
        ask.query, qry_collect_tree(ask.query, &ask.selection, &stacks, names_only, &found, err),
        err);
    if (code == FG_OK) {
        world_select(&asker->world, &ask.asked, &stacks, names_only, &want);
        assert_string_equal(asker_tree_text(&found, ask.query->arena),
                            asker_tree_text(&want, ask.query->arena));
    }
    fg_tree_done(&found);
    fg_tree_done(&want);
    ask_end(&ask);
    return code;
}

/* --- flame graphs, drawn the slow way --- */

static bool is_other(const struct fg_tree *tree, uint32_t node)
{
    return node != FG_TREE_ROOT && fg_slice_is(fg_tree_name(tree, node), "other");
}

/* Nodes below an "other" become its own value. */
static void fold_others(const struct fg_tree *tree, struct fg_tree *into)
{
    uint32_t placed[4096];

    assert_true(tree->n_nodes <= FG_COUNT(placed));
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t above = tree->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above];

        placed[i] =
            is_other(into, parent)
                ? parent
                : fg_tree_child(into, parent,
                                fg_symbols_name_location(&into->symbols, fg_tree_name(tree, i)));
        fg_tree_add(into, placed[i], tree->self[i]);
    }
}

static void draw_slowly(const struct fg_tree *tree, size_t max_nodes, bool fold,
                        struct fg_tree *into)
{
    struct fg_tree folded;

    fg_tree_init(&folded);
    if (fold)
        fold_others(tree, &folded);
    fg_tree_truncate(fold ? &folded : tree, max_nodes, into);
    fg_tree_done(&folded);
}

/* Returns the node with the same path in another tree. */
static uint32_t find_path(const struct fg_tree *tree, const struct fg_tree *of, uint32_t node)
{
    uint32_t parent;

    if (node == FG_TREE_ROOT)
        return FG_TREE_ROOT;
    parent = find_path(tree, of, of->parents[node]);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        if (tree->parents[i] == parent &&
            fg_slice_eq(fg_tree_name(tree, i), fg_tree_name(of, node)))
            return i;
    fail_msg("a node that is not there: %.*s", FG_S(fg_tree_name(of, node)));
    return 0;
}

static bool below_other(const struct fg_tree *tree, uint32_t node)
{
    for (; node != FG_TREE_ROOT; node = tree->parents[node])
        if (is_other(tree, node))
            return true;
    return false;
}

/* Each bar that is not a remainder is too small by at most the bound. */
static void assert_bound(const struct fg_tree *found, const struct fg_tree *all, uint64_t bound)
{
    int64_t found_totals[4096], totals[4096];

    assert_true(found->n_nodes <= FG_COUNT(found_totals) && all->n_nodes <= FG_COUNT(totals));
    assert_true(fg_tree_totals(found, found_totals) == fg_tree_totals(all, totals));
    for (uint32_t i = 0; i < found->n_nodes; i++) {
        int64_t total;

        if (below_other(found, i))
            continue;
        total = totals[find_path(all, found, i)];
        assert_true(found_totals[i] <= total);
        assert_true((uint64_t)(total - found_totals[i]) <= bound);
    }
}

enum fg_code asker_check_flamegraph(struct asker *asker, struct fg_err *err)
{
    struct fg_tree found, want, all;
    struct qry_stack_filter stacks;
    struct ask ask;
    size_t max_nodes = 1 + asker_draw(asker, asker_draw(asker, 2) == 0 ? 40 : 400);
    bool fold = asker_draw(asker, 2) == 0;

    ask_begin(asker, &ask);
    if (asker_draw(asker, 4) == 0)
        ask_for_all_time(&ask);
    if (asker_draw(asker, 3) == 0)
        asker_draw_stacks(asker, &stacks, ask.query->arena);
    else
        stacks = (struct qry_stack_filter){0};
    ask.query->refine = asker_draw(asker, 5) == 0;
    fg_tree_init(&found);
    fg_tree_init(&want);
    fg_tree_init(&all);
    enum fg_code code = asker_whole(
        ask.query,
        qry_flamegraph_make(ask.query, &ask.selection, &stacks, max_nodes, fold, &found, err), err);
    if (code == FG_OK) {
        world_select(&asker->world, &ask.asked, &stacks, true, &all);
        draw_slowly(&all, max_nodes, fold, &want);
        found.root_self = want.root_self = 0; /* no flame graph shows it */
        if (ask.query->inexact)
            assert_bound(&found, &all, ask.query->bound);
        else
            assert_string_equal(asker_tree_text(&found, ask.query->arena),
                                asker_tree_text(&want, ask.query->arena));
        assert_false(ask.query->refine && ask.query->inexact);
        asker->rollups += ask.query->rollups;
        asker->inexact += ask.query->inexact;
    }
    fg_tree_done(&found);
    fg_tree_done(&want);
    fg_tree_done(&all);
    ask_end(&ask);
    return code;
}

/* --- differences --- */

static void diff_slowly(struct asker *asker, const struct ask asks[2], size_t max_nodes,
                        struct qry_diff *ret_diff)
{
    static const struct qry_stack_filter all;
    struct fg_crown_verdict verdict;
    struct fg_crown_sum sums[2];

    for (unsigned i = 0; i < 2; i++) {
        struct fg_tree tree;

        fg_tree_init(&tree);
        world_select(&asker->world, &asks[i].asked, &all, true, &tree);
        fg_crown_sum_init(&sums[i]);
        fg_crown_sum_add_tree(&sums[i], &tree);
        fg_crown_sum_finish(&sums[i]);
        fg_tree_done(&tree);
    }
    qry_diff_make(&sums[0], &sums[1], max_nodes, ret_diff, &verdict);
    assert_true(verdict.exact);
    fg_crown_sum_done(&sums[0]);
    fg_crown_sum_done(&sums[1]);
}

static void assert_same_diff(const struct qry_diff *found, const struct qry_diff *want)
{
    assert_int_equal(found->n_values, want->n_values);
    assert_int_equal(found->max_self, want->max_self);
    for (size_t i = 0; i < found->n_values; i++)
        if (i % 7 == 6)
            assert_true(fg_slice_eq(found->names[found->values[i]], want->names[want->values[i]]));
        else
            assert_true(found->values[i] == want->values[i]);
}

enum fg_code asker_check_diff(struct asker *asker, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    struct ask asks[2];
    struct qry_side sides[2] = {0};
    struct qry_diff found, want;
    size_t max_nodes = 1 + asker_draw(asker, asker_draw(asker, 2) == 0 ? 40 : 400);

    for (unsigned i = 0; i < 2; i++) {
        ask_begin(asker, &asks[i]);
        sides[i] = (struct qry_side){asks[i].selection, &all};
    }
    asks[1].asked.tenants = asks[0].asked.tenants; /* both sides are one query's */
    asks[1].asked.deletions = asks[0].asked.deletions;
    enum fg_code code = asker_whole(
        asks[0].query,
        qry_flamegraph_diff(asks[0].query, &sides[0], &sides[1], max_nodes, &found, err), err);
    if (code == FG_OK) {
        diff_slowly(asker, asks, max_nodes, &want);
        assert_true(found.left_ticks == want.left_ticks);
        assert_true(found.right_ticks == want.right_ticks);
        if (!asks[0].query->inexact)
            assert_same_diff(&found, &want);
        asker->inexact += asks[0].query->inexact;
        qry_diff_done(&want);
    }
    qry_diff_done(&found);
    ask_end(&asks[0]);
    ask_end(&asks[1]);
    return code;
}
