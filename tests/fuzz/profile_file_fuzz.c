/* A file of any format, as somebody uploads it to look at it: found out, decoded, and drawn as a
 * tree of each of its sample types. The first byte is the name's. */
#include "common/model/batch_tree.h"
#include "proto/profile_file.h"

static enum fg_code take(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    const size_t max_bytes = 16 << 20;
    struct fg_tree tree, names;

    (void)arg;
    for (uint32_t t = 0; t < batch->n_types; t++) {
        fg_tree_init(&tree);
        fg_tree_init(&names);
        if (fg_batch_tree_add(batch, t, max_bytes, &tree, err) == FG_OK)
            fg_tree_names(&tree, &names);
        else
            fg_assert(err->code == FG_E_TOO_LARGE);
        fg_tree_done(&tree);
        fg_tree_done(&names);
    }
    return FG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"",        "a.pb",   "a.folded",     "a.lines",
                                        "a.jfr",   "a.trie", "a.tree",       "a.json",
                                        "a.pb.gz", ".gz",    "a.perf_script"};
    struct fg_slice content = fg_bytes(data + (size > 0), size > 0 ? size - 1 : 0);
    const char *name = size > 0 ? names[data[0] % FG_COUNT(names)] : "";
    const struct fg_profile_file file = {
        .content = content,
        .format = fg_file_format_find(fg_cstr(name), content),
        .untyped = {FG_LIT("file"), FG_LIT("")},
        .time_ns = 1,
        .limits = FG_DECODE_LIMITS_DEFAULT,
    };
    fg_auto(fg_arena) *arena = fg_arena_create(64 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_err err;

    if (fg_profile_file_decode(&file, arena, take, NULL, &counts, &err) != FG_OK)
        fg_assert(err.code == FG_E_DECODE || err.code == FG_E_INVALID ||
                  err.code == FG_E_TOO_LARGE);
    return 0;
}
