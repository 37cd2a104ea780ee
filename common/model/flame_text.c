/* Function trees in other forms than bars: tree bytes, collapsed stacks, a table of functions. */
#include "common/base/str.h"
#include "common/model/flame.h"
#include "common/model/flame_order.h"
#include "common/model/function_tree.h"

/* ---- tree bytes ---- */

static void put_record(struct fg_slice name, int64_t self, uint32_t children, struct fg_buf *out)
{
    fg_buf_lenbytes(out, name);
    fg_buf_varint(out, (uint64_t)self);
    fg_buf_varint(out, children);
}

static uint32_t push_children(const struct fg_flame_order *order, uint32_t node, uint32_t *stack,
                              uint32_t depth)
{
    struct fg_flame_children children = fg_flame_children(order, node);

    if (children.count > 0)
        memcpy(stack + depth, children.nodes, children.count * sizeof *stack);
    return depth + children.count;
}

/* Writes nodes depth first. The child that was pushed last is written first, so siblings come in
 * descending order. */
static void write_records(const struct fg_tree *tree, struct fg_buf *out)
{
    uint32_t *stack = fg_malloc(tree->n_nodes * sizeof *stack);
    struct fg_flame_order order;
    uint32_t depth;

    fg_flame_order_init(&order, tree, false);
    put_record(FG_LIT(""), 0, fg_flame_children(&order, FG_TREE_ROOT).count, out);
    depth = push_children(&order, FG_TREE_ROOT, stack, 0);
    while (depth > 0 && !out->full) {
        uint32_t node = stack[--depth];

        put_record(fg_tree_name(tree, node), tree->self[node],
                   fg_flame_children(&order, node).count, out);
        depth = push_children(&order, node, stack, depth);
    }
    fg_flame_order_done(&order);
    free(stack);
}

void fg_flame_write_tree(const struct fg_tree *tree, size_t max_nodes, struct fg_buf *out)
{
    struct fg_tree cut;

    if (tree->n_nodes == 0)
        return;
    if (max_nodes == 0 || tree->n_nodes <= max_nodes) {
        write_records(tree, out);
        return;
    }
    fg_tree_init(&cut);
    fg_tree_truncate(tree, max_nodes, &cut);
    write_records(&cut, out);
    fg_tree_done(&cut);
}

/* ---- collapsed stacks ---- */

/* Lines as they come, to be sorted: their ends in text. */
struct folded {
    const struct fg_tree *tree;
    struct fg_buf text;
    size_t *ends;
    size_t n_lines;
    uint32_t *path; /* nodes of one stack, leaf first */
};

/* A line end in a name would end the stack's line, a ';' the frame. */
static void put_frame(struct fg_buf *text, struct fg_slice name)
{
    size_t from = text->len;

    fg_buf_put(text, name);
    for (size_t i = from; i < text->len; i++) {
        if (text->ptr[i] == '\n' || text->ptr[i] == '\r')
            text->ptr[i] = ' ';
        else if (text->ptr[i] == ';')
            text->ptr[i] = ':';
    }
}

static void put_stack(struct folded *folded, uint32_t leaf)
{
    const struct fg_tree *tree = folded->tree;
    size_t depth = 0;

    for (uint32_t node = leaf; node != FG_TREE_ROOT; node = tree->parents[node])
        folded->path[depth++] = node;
    /* Stops at the limit: a deep tree would fill gigabytes otherwise. */
    while (depth > 0 && !folded->text.full) {
        put_frame(&folded->text, fg_tree_name(tree, folded->path[--depth]));
        fg_buf_putc(&folded->text, depth > 0 ? ';' : ' ');
    }
    fg_buf_i64(&folded->text, tree->self[leaf]);
    fg_buf_putc(&folded->text, '\n');
    folded->ends[folded->n_lines++] = folded->text.len;
}

static int compare_lines(const void *a, const void *b)
{
    return fg_slice_cmp(*(const struct fg_slice *)a, *(const struct fg_slice *)b);
}

static void put_sorted(const struct folded *folded, struct fg_buf *out)
{
    struct fg_slice text = fg_buf_slice(&folded->text);
    struct fg_slice *lines = fg_malloc(FG_MAX(folded->n_lines, 1) * sizeof *lines);
    size_t from = 0;

    for (size_t i = 0; i < folded->n_lines; i++) {
        lines[i] = fg_slice_sub(text, from, folded->ends[i] - from);
        from = folded->ends[i];
    }
    /* Sorted, so that equal trees give equal text. */
    qsort(lines, folded->n_lines, sizeof *lines, compare_lines);
    for (size_t i = 0; i < folded->n_lines; i++)
        fg_buf_put(out, lines[i]);
    free(lines);
}

void fg_flame_write_folded(const struct fg_tree *tree, struct fg_buf *out)
{
    size_t room = FG_MAX((size_t)tree->n_nodes, 1);
    struct folded folded = {.tree = tree};

    /* The cap is out's: a tree as deep as it has nodes gives text of the square of their number. */
    fg_buf_init(&folded.text, out->max_bytes);
    folded.ends = fg_malloc(room * sizeof *folded.ends);
    folded.path = fg_malloc(room * sizeof *folded.path);
    for (uint32_t i = 0; i < tree->n_nodes && !folded.text.full; i++)
        if (tree->self[i] != 0)
            put_stack(&folded, i);
    put_sorted(&folded, out);
    out->full = out->full || folded.text.full;
    free(folded.path);
    free(folded.ends);
    fg_buf_done(&folded.text);
}

/* ---- the table ---- */

static int compare_rows(const void *left, const void *right)
{
    const struct fg_top_row *a = left, *b = right;

    if (a->total != b->total)
        return a->total > b->total ? -1 : 1;
    return fg_slice_cmp(a->name, b->name);
}

struct fg_top_row *fg_flame_top(const struct fg_tree *tree, size_t *ret_rows)
{
    struct fg_function_tree names;
    struct fg_function_values values;
    struct fg_top_row *rows;

    fg_function_tree_init(&names, tree);
    fg_function_values_init(&values, &names);
    fg_function_values_set(&values, &names, tree->self);
    rows = fg_malloc(FG_MAX((size_t)names.n_names, 1) * sizeof *rows);
    for (uint32_t i = 0; i < names.n_names; i++)
        rows[i] =
            (struct fg_top_row){names.names[i], values.function_self[i], values.function_totals[i]};
    *ret_rows = names.n_names;
    qsort(rows, *ret_rows, sizeof *rows, compare_rows);
    fg_function_values_done(&values);
    fg_function_tree_done(&names);
    return rows;
}
