#include "deploy/cli/treebytes.h"

enum { RECORD_MIN_BYTES = 3 }; /* a node without name and children; see querier/API.md#tree-bytes */

/* A node on the path from the root to the current one. The path is on the heap, because the sender
 * chooses the depth. */
struct treebytes_level {
    uint32_t node;
    uint64_t children; /* yet to come */
};

struct treebytes_decoder {
    struct fg_cur cur;
    struct fg_tree *tree;
    struct treebytes_level *levels;
    size_t n_levels, cap_levels;
};

static void push_level(struct treebytes_decoder *decoder, uint32_t node, uint64_t children)
{
    if (children == 0)
        return;
    if (decoder->n_levels == decoder->cap_levels) {
        decoder->cap_levels = FG_MAX(2 * decoder->cap_levels, 64);
        decoder->levels =
            fg_realloc(decoder->levels, decoder->cap_levels * sizeof *decoder->levels);
    }
    decoder->levels[decoder->n_levels++] = (struct treebytes_level){node, children};
}

static void read_node(struct treebytes_decoder *decoder, uint32_t parent)
{
    struct fg_slice name = fg_cur_lenbytes(&decoder->cur);
    uint64_t self = fg_cur_varint(&decoder->cur);
    uint64_t children = fg_cur_count(&decoder->cur, RECORD_MIN_BYTES);

    if (decoder->cur.bad)
        return;
    uint32_t location = fg_symbols_name_location(&decoder->tree->symbols, name);
    uint32_t node = fg_tree_child(decoder->tree, parent, location);
    fg_tree_add(decoder->tree, node, (int64_t)self);
    push_level(decoder, node, children);
}

enum fg_code cli_treebytes_decode(struct fg_slice in, struct fg_tree *tree, struct fg_err *err)
{
    struct treebytes_decoder decoder = {.cur = fg_cur(in), .tree = tree};

    if (in.len == 0)
        return FG_OK;
    /* Numbers of nodes have 32 bits. */
    if (in.len / RECORD_MIN_BYTES >= FG_TREE_ROOT)
        return fg_fail(err, FG_E_DECODE, "tree of %zu bytes is too large", in.len);
    (void)fg_cur_lenbytes(&decoder.cur); /* the root has no name */
    fg_tree_add(tree, FG_TREE_ROOT, (int64_t)fg_cur_varint(&decoder.cur));
    push_level(&decoder, FG_TREE_ROOT, fg_cur_count(&decoder.cur, RECORD_MIN_BYTES));
    while (decoder.n_levels > 0 && !decoder.cur.bad) {
        struct treebytes_level *level = &decoder.levels[decoder.n_levels - 1];
        uint32_t parent = level->node;

        fg_assert(level->children > 0);
        /* Popped before its last child, so that a chain of any length needs one level. */
        if (--level->children == 0)
            decoder.n_levels--;
        read_node(&decoder, parent);
    }
    free(decoder.levels);
    if (!fg_cur_end(&decoder.cur))
        return fg_fail(err, FG_E_DECODE, "tree of %zu bytes is %s", in.len,
                       decoder.cur.bad ? "cut short" : "followed by something else");
    return FG_OK;
}
