/* Flamebearer JSON becomes a batch of positive values, or an error. */
#include "proto/flamebearer.h"
#include "tests/lib/batch_follow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("file")},
                                       {FG_LIT("service_name"), FG_LIT("file")}};
    struct fg_arena *arena = fg_arena_create(64 << 20), *follow = fg_arena_create(64 << 20);
    struct fg_flamebearer_request request = {
        .upload = {.labels = {labels, 2}, .limits = FG_DECODE_LIMITS_DEFAULT},
        .untyped = {FG_LIT("file"), FG_LIT("")}};
    struct fg_decode_counts counts = {0};
    struct fg_batch batch;
    struct fg_err err;

    request.upload.limits.stack_depth_max = 20;
    request.upload.limits.symbol_max_bytes = 5;
    request.upload.limits.samples_max = 1000;
    if (fg_flamebearer_decode(fg_bytes(data, size), &request, arena, &batch, &counts, &err) ==
        FG_OK) {
        fg_assert(batch.n_profiles <= 1 && batch.n_types == 1);
        for (uint32_t i = 0; batch.n_profiles == 1 && i < batch.profiles[0].n_samples; i++) {
            fg_assert(batch.profiles[0].values[i] > 0);
            fg_assert(batch.stacks[batch.profiles[0].stacks[i]].depth <= 20);
        }
        batch_follow(&batch, follow);
    } else {
        fg_assert(err.code == FG_E_DECODE || err.code == FG_E_INVALID ||
                  err.code == FG_E_TOO_LARGE);
    }
    fg_arena_destroy(follow);
    fg_arena_destroy(arena);
    return 0;
}
