/* A decoded tree survives everything that is done with trees, and a merge of it is it. */
#include "common/model/flame.h"
#include "common/model/pprof_write.h"

static void draw(const struct fg_tree *tree, struct fg_buf *out)
{
    const struct fg_pprof_head head = {.time_ns = 1};
    struct fg_flame flame;
    struct fg_tree names;
    size_t n_rows;

    fg_tree_init(&names);
    fg_tree_names(tree, &names);
    fg_flame_make(&names, 3, &flame);
    fg_flame_done(&flame);
    free(fg_flame_top(&names, &n_rows));
    fg_flame_write_tree(&names, 2, out);
    fg_flame_write_folded(tree, out);
    fg_pprof_write(tree, &head, out);
    fg_tree_done(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_tree tree, copy;
    struct fg_buf once, twice;
    struct fg_err err;

    fg_tree_init(&tree);
    fg_tree_init(&copy);
    fg_buf_init(&once, 1 << 22);
    fg_buf_init(&twice, 1 << 22);
    if (fg_tree_decode(&tree, fg_bytes(data, size), &err) == FG_OK) {
        fg_tree_encode(&tree, &once);
        fg_assert(fg_tree_decode(&copy, fg_buf_slice(&once), &err) == FG_OK);
        fg_tree_encode(&copy, &twice);
        fg_assert(fg_slice_eq(fg_buf_slice(&once), fg_buf_slice(&twice)));
        draw(&tree, &once);
    }
    fg_buf_done(&once);
    fg_buf_done(&twice);
    fg_tree_done(&tree);
    fg_tree_done(&copy);
    return 0;
}
