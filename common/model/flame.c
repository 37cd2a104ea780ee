#include "common/model/flame.h"

#include "common/model/flame_cut.h"
#include "common/model/flame_order.h"

enum { BAR_NUMBERS = 4 };

static void *new_array(size_t count, size_t size)
{
    return fg_calloc(FG_MAX(count, 1), size);
}

/* ---- bars ---- */

/* A tree on its way to bars. Breadth first: a level is a run of the queue. */
struct plotting {
    const struct fg_tree *tree;
    int64_t *totals; /* of nodes */
    int64_t all;
    struct fg_flame_order order;
    struct fg_flame *flame;
    int64_t *name_of_rank; /* index in flame->names */
    uint32_t *queue;       /* nodes */
    int64_t *xs;           /* where the bar of a queue's entry begins */
    size_t n_queued;
    int64_t *out; /* next number of flame->values */
};

/* *end: where the bar before ended; becomes where this one does. */
static void put_bar(struct plotting *plotting, uint32_t node, int64_t x, int64_t *end)
{
    const struct fg_tree *tree = plotting->tree;
    bool root = node == FG_TREE_ROOT;
    int64_t total = root ? plotting->all : plotting->totals[node];
    int64_t self = root ? 0 : tree->self[node];

    *plotting->out++ = fg_value_sub(x, *end);
    *plotting->out++ = total;
    *plotting->out++ = self;
    *plotting->out++ =
        root ? 0 : plotting->name_of_rank[plotting->order.ranks[tree->locations[node]]];
    *end = fg_value_add(x, total);
    plotting->flame->max_self = FG_MAX(plotting->flame->max_self, self);
}

/* The children of a bar that begins at x stand side by side behind its own part. */
static void queue_children(struct plotting *plotting, uint32_t node, int64_t x)
{
    struct fg_flame_children children = fg_flame_children(&plotting->order, node);

    if (node != FG_TREE_ROOT)
        x = fg_value_add(x, plotting->tree->self[node]);
    for (uint32_t k = 0; k < children.count; k++) {
        plotting->xs[plotting->n_queued] = x;
        plotting->queue[plotting->n_queued++] = children.nodes[k];
        x = fg_value_add(x, plotting->totals[children.nodes[k]]);
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
    int64_t end = 0;

    put_bar(plotting, FG_TREE_ROOT, 0, &end);
    end_level(plotting);
    queue_children(plotting, FG_TREE_ROOT, 0);
    while (done < plotting->n_queued) {
        size_t level_end = plotting->n_queued;

        for (end = 0; done < level_end; done++) {
            put_bar(plotting, plotting->queue[done], plotting->xs[done], &end);
            queue_children(plotting, plotting->queue[done], plotting->xs[done]);
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

static void plot(const struct fg_tree *tree, struct fg_flame *flame)
{
    struct plotting plotting = {.tree = tree, .flame = flame};
    size_t bars = (size_t)tree->n_nodes + 1;

    plotting.totals = new_array(tree->n_nodes, sizeof *plotting.totals);
    plotting.all = flame->total = fg_tree_sums(tree, tree->self, plotting.totals);
    fg_flame_order_init(&plotting.order, tree, true);
    plotting.name_of_rank = new_array(plotting.order.n_names, sizeof *plotting.name_of_rank);
    put_names(&plotting);
    plotting.queue = new_array(bars, sizeof *plotting.queue);
    plotting.xs = new_array(bars, sizeof *plotting.xs);
    flame->values = new_array(bars * BAR_NUMBERS, sizeof *flame->values);
    flame->level_ends = new_array(bars, sizeof *flame->level_ends);
    plotting.out = flame->values;
    put_levels(&plotting);
    free(plotting.queue);
    free(plotting.xs);
    free(plotting.name_of_rank);
    free(plotting.totals);
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

void fg_tree_truncate(const struct fg_tree *tree, size_t max_nodes, struct fg_tree *into)
{
    int64_t *totals;

    if (max_nodes == 0 || tree->n_nodes <= max_nodes) {
        fg_tree_merge(into, tree);
        return;
    }
    totals = new_array(tree->n_nodes, sizeof *totals);
    (void)fg_tree_sums(tree, tree->self, totals);
    fg_flame_cut(tree, &(struct fg_flame_weights){.totals = totals},
                 fg_flame_nth_largest(totals, tree->n_nodes, max_nodes), into);
    free(totals);
}

void fg_flame_make(const struct fg_tree *tree, size_t max_nodes, struct fg_flame *ret_flame)
{
    struct fg_tree cut;

    *ret_flame = (struct fg_flame){0};
    if (max_nodes == 0 || tree->n_nodes <= max_nodes) {
        plot(tree, ret_flame);
        return;
    }
    fg_tree_init(&cut);
    fg_tree_truncate(tree, max_nodes, &cut);
    plot(&cut, ret_flame);
    fg_tree_done(&cut);
}
