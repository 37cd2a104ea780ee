/* An OTLP request is read as one of the version that the first byte says; 0 finds the version. */
#include "proto/otlp/otlp.h"
#include "tests/lib/batch_follow.h"

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    fg_assert(batch->n_profiles > 0 && batch->n_types == 1);
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

    if (size > 0) {
        request.version = data[0] % (FG_OTLP_1_10 + 1);
        if (fg_otlp_decode(fg_bytes(data + 1, size - 1), &request, arena, on_batch, follow, &result,
                           &counts, &err) == FG_OK)
            fg_assert(result.version != FG_OTLP_ANY &&
                      (request.version == FG_OTLP_ANY || result.version == request.version));
    }
    fg_arena_destroy(follow);
    fg_arena_destroy(arena);
    return 0;
}
