/* An OTLP request is refused or its batches survive identifying and the wire; all are counted. */
#include "proto/otlp/otlp.h"
#include "tests/lib/batch_follow.h"

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    fg_assert(batch->n_profiles > 0 && batch->n_types == 1);
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        fg_assert(batch->stacks[i].depth <= 20);
    batch_follow(batch, arg);
    (void)err;
    return FG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_otlp_request request = {.upload = {.limits = FG_DECODE_LIMITS_DEFAULT}};
    struct fg_arena *arena = fg_arena_create(64 << 20), *follow = fg_arena_create(64 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_otlp_result result;
    struct fg_err err;

    /* Shorter than what fuzzing comes up with, so that something is cut. */
    request.upload.limits.symbol_max_bytes = 5;
    request.upload.limits.stack_depth_max = 20;
    if (fg_otlp_decode(fg_bytes(data, size), &request, arena, on_batch, follow, &result, &counts,
                       &err) == FG_OK)
        fg_assert((result.rejected > 0) == (result.message[0] != '\0'));
    fg_arena_destroy(follow);
    fg_arena_destroy(arena);
    return 0;
}
