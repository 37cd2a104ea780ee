/* Text of any kind becomes a batch or an error; sums are what their lines add up to. */
#include "proto/folded.h"

static void decode(struct fg_slice in, enum fg_text_format format)
{
    struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                                {FG_LIT("service_name"), FG_LIT("shop")}};
    struct fg_folded_request request = {
        .upload = {.labels = {labels, 2}, .limits = FG_DECODE_LIMITS_DEFAULT},
        .format = format,
        .factor = 10};
    struct fg_value_type type = {FG_LIT("samples"), FG_LIT("count")};
    struct fg_batch batch = {.types = &type, .n_types = 1};
    struct fg_arena *arena = fg_arena_create(256 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_err err;

    request.upload.limits.stack_depth_max = 20;
    request.upload.limits.symbol_max_bytes = 30;
    if (fg_folded_decode(in, &request, arena, &batch, &counts, &err) == FG_OK) {
        fg_assert(batch.n_profiles <= 1);
        for (uint32_t i = 0; batch.n_profiles == 1 && i < batch.profiles[0].n_samples; i++) {
            fg_assert(batch.profiles[0].values[i] > 0 && batch.profiles[0].values[i] % 10 == 0);
            fg_assert(batch.stacks[batch.profiles[0].stacks[i]].depth <= 20);
        }
        fg_batch_identify(&batch, FG_LIT("tenant"), FG_LIT("host"), FG_LIT(""));
    }
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(fg_bytes(data, size), FG_TEXT_FOLDED);
    decode(fg_bytes(data, size), FG_TEXT_LINES);
    return 0;
}
