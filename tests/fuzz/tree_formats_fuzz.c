/* Tree and trie become a batch whose values are multiples of the factor, or an error. */
#include "proto/tree_formats.h"
#include "tests/lib/batch_follow.h"

static void decode(struct fg_slice in, enum fg_tree_format format)
{
    struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                                {FG_LIT("service_name"), FG_LIT("shop")}};
    struct fg_tree_request request = {
        .upload = {.labels = {labels, 2}, .limits = FG_DECODE_LIMITS_DEFAULT},
        .format = format,
        .factor = 10};
    struct fg_value_type type = {FG_LIT("samples"), FG_LIT("count")};
    struct fg_batch batch = {.types = &type, .n_types = 1};
    struct fg_arena *arena = fg_arena_create(64 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_err err;

    request.upload.limits.stack_depth_max = 20;
    request.upload.limits.symbol_max_bytes = 30;
    if (fg_tree_format_decode(in, &request, arena, &batch, &counts, &err) == FG_OK) {
        fg_assert(batch.n_profiles <= 1);
        for (uint32_t i = 0; batch.n_profiles == 1 && i < batch.profiles[0].n_samples; i++) {
            fg_assert(batch.profiles[0].values[i] > 0 && batch.profiles[0].values[i] % 10 == 0);
            fg_assert(batch.stacks[batch.profiles[0].stacks[i]].depth <= 20);
        }
        batch_follow(&batch, arena);
    }
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(fg_bytes(data, size), FG_FORMAT_TREE);
    decode(fg_bytes(data, size), FG_FORMAT_TRIE);
    return 0;
}
