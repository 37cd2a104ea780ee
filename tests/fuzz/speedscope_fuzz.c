/* A speedscope file becomes batches of positive values, or an error. */
#include "proto/speedscope.h"
#include "tests/lib/batch_follow.h"

static enum fg_code name_series(const struct fg_speedscope_profile *profile, void *arg,
                                struct fg_speedscope_series *ret_series, struct fg_err *err)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("wall")},
                                       {FG_LIT("service_name"), FG_LIT("shop")}};

    (void)arg;
    (void)err;
    *ret_series = (struct fg_speedscope_series){
        .labels = {labels, 2},
        .type = {FG_LIT("wall"), profile->name.len % 2 == 0 ? FG_LIT("nanoseconds") : FG_LIT("x")},
        .factor = 10,
    };
    return FG_OK;
}

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    (void)err;
    fg_assert(batch->n_profiles == 1);
    for (uint32_t i = 0; i < batch->profiles[0].n_samples; i++) {
        fg_assert(batch->profiles[0].values[i] > 0);
        fg_assert(batch->stacks[batch->profiles[0].stacks[i]].depth <= 20);
    }
    batch_follow(batch, arg);
    return FG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(64 << 20), *follow = fg_arena_create(64 << 20);
    struct fg_speedscope_request request = {.upload = {.limits = FG_DECODE_LIMITS_DEFAULT},
                                            .namer = name_series};
    struct fg_decode_counts counts = {0};
    struct fg_err err;

    request.upload.limits.stack_depth_max = 20;
    request.upload.limits.symbol_max_bytes = 5;
    (void)!fg_speedscope_decode(fg_bytes(data, size), &request, arena, on_batch, follow, &counts,
                                &err);
    fg_arena_destroy(follow);
    fg_arena_destroy(arena);
    return 0;
}
