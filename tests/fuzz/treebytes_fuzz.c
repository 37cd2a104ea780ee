/* Tree bytes that are read and written are read again to the same stacks. */
#include "common/model/flame.h"
#include "deploy/cli/treebytes.h"

static bool read_stacks(struct fg_slice in, struct fg_tree *tree, struct fg_buf *out)
{
    struct fg_err err;

    if (cli_treebytes_decode(in, tree, &err) != FG_OK)
        return false;
    fg_flame_write_folded(tree, out);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_buf bytes, once, twice;
    struct fg_tree tree, again;

    fg_tree_init(&tree);
    fg_tree_init(&again);
    fg_buf_init(&bytes, 1 << 22);
    fg_buf_init(&once, 1 << 22);
    fg_buf_init(&twice, 1 << 22);
    if (read_stacks(fg_bytes(data, size), &tree, &once) && !once.full) {
        fg_flame_write_tree(&tree, 0, &bytes);
        fg_assert(read_stacks(fg_buf_slice(&bytes), &again, &twice));
        fg_assert(fg_slice_eq(fg_buf_slice(&once), fg_buf_slice(&twice)));
    }
    fg_buf_done(&bytes);
    fg_buf_done(&once);
    fg_buf_done(&twice);
    fg_tree_done(&tree);
    fg_tree_done(&again);
    return 0;
}
