/*
 * Writes the function tree of the stacks, for readers that need function names only:
 *
 *   NMR   n zigzag: node + 1 - that of the rank before
 *   NMT   n varints: how far up from the node before its parent is, 0: that node itself;
 *         n varints: name. Depth first, siblings by name
 *   NMS   as STR
 */
#include "common/storage/block/writer_impl.h"

/* New numbers of the nodes and names that stacks need. */
struct function_tree_writing {
    struct fg_buf *raw;
    uint32_t *stacks; /* of a rank: node + 1 */
    uint32_t *parents, *functions;
    struct fg_slice *names;
    uint32_t n_stacks, n_nodes, n_names;
};

static void encode_ranks(void *arg, uint32_t from, uint32_t to)
{
    const struct function_tree_writing *writing = arg;
    uint32_t before = from == 0 ? 0 : writing->stacks[from - 1];

    for (uint32_t i = from; i < to; i++) {
        fg_buf_zigzag(writing->raw, (int64_t)writing->stacks[i] - (int64_t)before);
        before = writing->stacks[i];
    }
}

/* Counts the steps from the node before up to the parent of this one. All nodes together take
 * each step once, as in TRI, so this is linear. */
static uint32_t steps_up(const struct function_tree_writing *writing, uint32_t node)
{
    uint32_t at = node - 1, steps = 0;

    if (node == 0)
        return 0;
    for (; at != writing->parents[node]; at = writing->parents[at])
        steps++;
    return steps;
}

static void encode_nodes(void *arg, uint32_t from, uint32_t to)
{
    const struct function_tree_writing *writing = arg;

    for (uint32_t i = from; i < to; i++)
        fg_buf_varint(writing->raw, steps_up(writing, i));
    for (uint32_t i = from; i < to; i++)
        fg_buf_varint(writing->raw, writing->functions[i]);
}

/* Returns the node of the part's function tree that a rank has. */
static uint32_t node_of(const struct fg_block_part_out *part, uint32_t rank)
{
    uint32_t stack = part->ranks.stacks[rank];

    return stack == 0 ? part->names->no_stack
                      : part->names->nodes[part->order.nodes.olds[stack - 1]];
}

/* Numbers what stacks need: nodes[i] and names[i] are numbers from 0, or FG_MAP_NONE. */
static void number(const struct fg_block_part_out *part, struct function_tree_writing *writing,
                   uint32_t *nodes, uint32_t *names)
{
    const struct fg_function_tree *all = part->names;

    memset(nodes, 0xff, all->n_nodes * sizeof *nodes); /* FG_MAP_NONE */
    memset(names, 0xff, all->n_names * sizeof *names);
    for (uint32_t i = 0; i < part->ranks.n_stacks; i++) {
        fg_assert(node_of(part, i) < all->n_nodes);
        nodes[node_of(part, i)] = 0;
    }
    /* A parent has a smaller number than its children. */
    for (uint32_t i = all->n_nodes; i-- > 0;)
        if (nodes[i] == 0) {
            names[all->functions[i]] = 0;
            if (all->parents[i] != FG_TREE_ROOT)
                nodes[all->parents[i]] = 0;
        }
    for (uint32_t i = 0; i < all->n_nodes; i++)
        if (nodes[i] == 0)
            nodes[i] = writing->n_nodes++;
    for (uint32_t i = 0; i < all->n_names; i++)
        if (names[i] == 0)
            names[i] = writing->n_names++;
}

static void fill(const struct fg_block_part_out *part, const uint32_t *nodes, const uint32_t *names,
                 struct function_tree_writing *writing)
{
    const struct fg_function_tree *all = part->names;

    for (uint32_t i = 0; i < all->n_nodes; i++) {
        uint32_t parent = all->parents[i];

        if (nodes[i] == FG_MAP_NONE)
            continue;
        writing->parents[nodes[i]] = parent == FG_TREE_ROOT ? FG_TREE_ROOT : nodes[parent];
        writing->functions[nodes[i]] = names[all->functions[i]];
    }
    for (uint32_t i = 0; i < all->n_names; i++)
        if (names[i] != FG_MAP_NONE)
            writing->names[names[i]] = all->names[i];
    for (uint32_t i = 0; i < writing->n_stacks; i++)
        writing->stacks[i] = nodes[node_of(part, i)] + 1;
}

void fg_block_part_function_tree(struct fg_block_writer *writer,
                                 const struct fg_function_tree *names)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_PART && !writer->part.derived);
    fg_assert(names->n_from == writer->part.order.tree->n_nodes);
    writer->part.names = names;
}

enum fg_code fg_block_write_function_tree(struct fg_block_writer *writer, struct fg_err *err)
{
    const struct fg_block_part_out *part = &writer->part;
    struct fg_arena *arena = writer->arena; /* it has no end */
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct function_tree_writing writing = {.raw = &writer->raw, .n_stacks = part->ranks.n_stacks};
    uint32_t *nodes, *names;
    enum fg_code code;

    if (part->names == NULL)
        return FG_OK;
    nodes = fg_arena_new(arena, uint32_t, part->names->n_nodes);
    names = fg_arena_new(arena, uint32_t, part->names->n_names);
    fg_assert(nodes != NULL && names != NULL);
    number(part, &writing, nodes, names);
    writing.stacks = fg_arena_new(arena, uint32_t, writing.n_stacks);
    writing.parents = fg_arena_new(arena, uint32_t, writing.n_nodes);
    writing.functions = fg_arena_new(arena, uint32_t, writing.n_nodes);
    writing.names = fg_arena_new(arena, struct fg_slice, writing.n_names);
    fg_assert(writing.stacks != NULL && writing.parents != NULL && writing.functions != NULL &&
              writing.names != NULL);
    fill(part, nodes, names, &writing);
    code = fg_block_items_put(writer, FG_BLOCK_NMR, writing.n_stacks, encode_ranks, &writing, err);
    if (code == FG_OK)
        code =
            fg_block_items_put(writer, FG_BLOCK_NMT, writing.n_nodes, encode_nodes, &writing, err);
    if (code == FG_OK)
        code = fg_block_texts_put(writer, FG_BLOCK_NMS, writing.names, writing.n_names, err);
    fg_arena_release(arena, mark);
    return code;
}
