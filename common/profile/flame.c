#include "common/profile/flame.h"

#include "common/profile/flame_cut.h"
#include "common/profile/flame_order.h"

enum { SINGLE_NUMBERS = 4, DIFF_NUMBERS = 7 }; /* of one bar */

static void *new_array(size_t count, size_t size)
{
    return fg_calloc(FG_MAX(count, 1), size);
}

static void sum_columns(const struct fg_tree *tree, struct fg_flame_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++) {
        columns->totals[i] = new_array(tree->n_nodes, sizeof(int64_t));
        columns->all[i] = fg_tree_sums(tree, columns->self[i], columns->totals[i]);
    }
}

static void free_totals(struct fg_flame_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        free(columns->totals[i]);
}

/* ---- bars ---- */

/* A tree on its way to bars. Breadth first: a level is a run of the queue. */
struct plotting {
    const struct fg_tree *tree;
    const struct fg_flame_columns *columns;
    struct fg_flame_order order;
    struct fg_flame *flame;
    int64_t *name_of_rank; /* index in flame->names */
    uint32_t *queue;       /* nodes */
    int64_t *xs[2];        /* where the bar of a queue's entry begins */
    size_t n_queued;
    int64_t *out; /* next number of flame->values */
};

static int64_t total_of(const struct plotting *plotting, size_t column, uint32_t node)
{
    const struct fg_flame_columns *columns = plotting->columns;

    return node == FG_TREE_ROOT ? columns->all[column] : columns->totals[column][node];
}

static int64_t self_of(const struct plotting *plotting, size_t column, uint32_t node)
{
    return node == FG_TREE_ROOT ? 0 : plotting->columns->self[column][node];
}

/* ends: where the bar before ended, by column; becomes where this one does. */
static void put_bar(struct plotting *plotting, uint32_t node, const int64_t *x, int64_t *ends)
{
    struct fg_flame *flame = plotting->flame;

    fg_assert(plotting->columns->count <= 2);
    for (size_t i = 0; i < plotting->columns->count; i++) {
        int64_t total = total_of(plotting, i, node), self = self_of(plotting, i, node);

        *plotting->out++ = fg_value_sub(x[i], ends[i]);
        *plotting->out++ = total;
        *plotting->out++ = self;
        ends[i] = fg_value_add(x[i], total);
        flame->max_self = FG_MAX(flame->max_self, self);
    }
    *plotting->out++ =
        node == FG_TREE_ROOT
            ? 0
            : plotting->name_of_rank[plotting->order.ranks[plotting->tree->locations[node]]];
}

/* The children of a bar stand side by side behind its own part. x is the bar's, and used up. */
static void queue_children(struct plotting *plotting, uint32_t node, int64_t *x)
{
    struct fg_flame_children children = fg_flame_children(&plotting->order, node);

    for (size_t i = 0; i < plotting->columns->count; i++)
        x[i] = fg_value_add(x[i], self_of(plotting, i, node));
    for (uint32_t k = 0; k < children.count; k++) {
        for (size_t i = 0; i < plotting->columns->count; i++) {
            plotting->xs[i][plotting->n_queued] = x[i];
            x[i] = fg_value_add(x[i], plotting->columns->totals[i][children.nodes[k]]);
        }
        plotting->queue[plotting->n_queued++] = children.nodes[k];
    }
}

static void end_level(struct plotting *plotting)
{
    struct fg_flame *flame = plotting->flame;

    flame->level_ends[flame->n_levels++] = (size_t)(plotting->out - flame->values);
}

static void put_levels(struct plotting *plotting)
{
    size_t done = 0;

    put_bar(plotting, FG_TREE_ROOT, (int64_t[2]){0, 0}, (int64_t[2]){0, 0});
    end_level(plotting);
    queue_children(plotting, FG_TREE_ROOT, (int64_t[2]){0, 0});
    while (done < plotting->n_queued) {
        size_t level_end = plotting->n_queued;
        int64_t ends[2] = {0, 0};

        for (; done < level_end; done++) {
            int64_t x[2] = {plotting->xs[0][done], plotting->xs[1][done]};

            put_bar(plotting, plotting->queue[done], x, ends);
            queue_children(plotting, plotting->queue[done], x);
        }
        end_level(plotting);
    }
}

/* Every name once; a function called like the root shares its name. */
static void put_names(struct plotting *plotting)
{
    const struct fg_flame_order *order = &plotting->order;
    const struct fg_slice root = FG_LIT("total");
    struct fg_flame *flame = plotting->flame;
    size_t bytes = root.len;

    for (uint32_t i = 0; i < order->n_names; i++)
        bytes += order->names[i].len;
    fg_buf_init(&flame->text, bytes);
    fg_assert(fg_buf_reserve(&flame->text, bytes)); /* so that the text does not move any more */
    flame->names = new_array((size_t)order->n_names + 1, sizeof *flame->names);
    flame->names[flame->n_names++] = fg_bytes(flame->text.ptr, root.len);
    fg_buf_put(&flame->text, root);
    for (uint32_t i = 0; i < order->n_names; i++) {
        if (fg_slice_eq(order->names[i], root))
            continue; /* name_of_rank is 0 */
        plotting->name_of_rank[i] = (int64_t)flame->n_names;
        flame->names[flame->n_names++] =
            fg_bytes(flame->text.ptr + flame->text.len, order->names[i].len);
        fg_buf_put(&flame->text, order->names[i]);
    }
}

static void plot(const struct fg_tree *tree, const struct fg_flame_columns *columns,
                 struct fg_flame *flame)
{
    struct plotting plotting = {.tree = tree, .columns = columns, .flame = flame};
    size_t bars = (size_t)tree->n_nodes + 1;
    size_t numbers = columns->count == 2 ? DIFF_NUMBERS : SINGLE_NUMBERS;

    fg_flame_order_init(&plotting.order, tree, true);
    plotting.name_of_rank = new_array(plotting.order.n_names, sizeof *plotting.name_of_rank);
    put_names(&plotting);
    plotting.queue = new_array(bars, sizeof *plotting.queue);
    for (size_t i = 0; i < FG_COUNT(plotting.xs); i++)
        plotting.xs[i] = new_array(bars, sizeof(int64_t));
    flame->values = new_array(bars * numbers, sizeof *flame->values);
    flame->level_ends = new_array(bars, sizeof *flame->level_ends);
    plotting.out = flame->values;
    put_levels(&plotting);
    free(plotting.queue);
    free(plotting.xs[0]);
    free(plotting.xs[1]);
    free(plotting.name_of_rank);
    fg_flame_order_done(&plotting.order);
}

void fg_flame_done(struct fg_flame *flame)
{
    free(flame->names);
    free(flame->values);
    free(flame->level_ends);
    fg_buf_done(&flame->text);
    *flame = (struct fg_flame){0};
}

/* ---- one tree ---- */

void fg_tree_truncate(const struct fg_tree *tree, size_t max_nodes, struct fg_tree *into)
{
    struct fg_flame_columns columns = {.count = 1, .self = {tree->self}};
    int64_t least, *second;

    if (max_nodes == 0 || tree->n_nodes <= max_nodes) {
        fg_tree_merge(into, tree);
        return;
    }
    sum_columns(tree, &columns);
    least = fg_flame_nth_largest(columns.totals[0], tree->n_nodes, max_nodes);
    fg_flame_cut(tree, &columns, columns.totals[0], least, into, &second);
    free_totals(&columns);
}

static void plot_single(const struct fg_tree *tree, struct fg_flame *flame)
{
    struct fg_flame_columns columns = {.count = 1, .self = {tree->self}};

    sum_columns(tree, &columns);
    flame->total = columns.all[0];
    plot(tree, &columns, flame);
    free_totals(&columns);
}

void fg_flame_make(const struct fg_tree *tree, size_t max_nodes, struct fg_flame *ret_flame)
{
    struct fg_tree cut;

    *ret_flame = (struct fg_flame){0};
    if (max_nodes == 0 || tree->n_nodes <= max_nodes) {
        plot_single(tree, ret_flame);
        return;
    }
    fg_tree_init(&cut);
    fg_tree_truncate(tree, max_nodes, &cut);
    plot_single(&cut, ret_flame);
    fg_tree_done(&cut);
}

/* ---- two trees ---- */

static void plot_diff(const struct fg_tree *tree, const struct fg_flame_columns *columns,
                      struct fg_flame *flame)
{
    flame->left_ticks = columns->all[0];
    flame->right_ticks = columns->all[1];
    flame->total = fg_value_add(flame->left_ticks, flame->right_ticks);
    plot(tree, columns, flame);
}

/* The larger of the two totals of every node, and of the root behind them. */
static int64_t *diff_weights(const struct fg_tree *tree, const struct fg_flame_columns *columns)
{
    int64_t *weights = new_array((size_t)tree->n_nodes + 1, sizeof *weights);

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        weights[i] = FG_MAX(columns->totals[0][i], columns->totals[1][i]);
    weights[tree->n_nodes] = FG_MAX(columns->all[0], columns->all[1]);
    return weights;
}

static void plot_diff_cut(const struct fg_tree *tree, const struct fg_flame_columns *columns,
                          size_t max_nodes, struct fg_flame *flame)
{
    struct fg_flame_columns cut_columns = {.count = 2};
    int64_t *weights = diff_weights(tree, columns);
    int64_t least = fg_flame_nth_largest(weights, (size_t)tree->n_nodes + 1, max_nodes);
    struct fg_tree cut;

    fg_tree_init(&cut);
    fg_flame_cut(tree, columns, weights, least, &cut, &cut_columns.self[1]);
    cut_columns.self[0] = cut.self;
    sum_columns(&cut, &cut_columns);
    plot_diff(&cut, &cut_columns, flame);
    free_totals(&cut_columns);
    free(cut_columns.self[1]);
    fg_tree_done(&cut);
    free(weights);
}

/* Both trees in one, its self values being the right one's; those of the left one are returned,
 * owned. */
static int64_t *merge_sides(const struct fg_tree *left, const struct fg_tree *right,
                            struct fg_tree *both)
{
    uint32_t n_left;
    int64_t *left_self;

    fg_tree_merge(both, left);
    n_left = both->n_nodes;
    left_self = new_array((size_t)n_left + right->n_nodes, sizeof *left_self);
    if (n_left > 0) {
        memcpy(left_self, both->self, n_left * sizeof *left_self);
        memset(both->self, 0, n_left * sizeof *both->self);
    }
    fg_tree_merge(both, right);
    return left_self;
}

void fg_flame_make_diff(const struct fg_tree *left, const struct fg_tree *right, size_t max_nodes,
                        struct fg_flame *ret_flame)
{
    struct fg_flame_columns columns = {.count = 2};
    struct fg_tree both;

    *ret_flame = (struct fg_flame){0};
    fg_tree_init(&both);
    columns.self[0] = merge_sides(left, right, &both);
    columns.self[1] = both.self;
    sum_columns(&both, &columns);
    if (max_nodes == 0 || both.n_nodes < max_nodes)
        plot_diff(&both, &columns, ret_flame);
    else
        plot_diff_cut(&both, &columns, max_nodes, ret_flame);
    free_totals(&columns);
    free(columns.self[0]);
    fg_tree_done(&both);
}
