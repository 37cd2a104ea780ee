/*
 * A recording is refused or becomes batches that survive identifying and the wire; so is what comes
 * as its labels. Once more with the size in its header made right, so that inputs of any length get
 * behind it.
 */
#include "proto/jfr/jfr.h"
#include "tests/lib/batch_follow.h"

static void look(const struct fg_batch *batch)
{
    fg_assert(batch->n_types > 0 && batch->n_types <= 2 && batch->n_profiles > 0);
    for (uint32_t s = 0; s < batch->n_stacks; s++)
        for (uint32_t i = 0; i < batch->stacks[s].depth; i++)
            fg_assert(batch->stack_locations[batch->stacks[s].first + i] < batch->n_locations);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];

        for (uint32_t i = 0; i < profile->n_samples; i++)
            fg_assert(profile->stacks[i] < batch->n_stacks);
        for (size_t i = 0; i < (size_t)profile->n_samples * batch->n_types; i++)
            fg_assert(profile->values[i] >= 0);
    }
}

static enum fg_code follow(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    (void)err;
    look(batch);
    batch_follow(batch, arg);
    return FG_OK;
}

static void decode(struct fg_slice in, struct fg_slice labels)
{
    struct fg_label series[] = {{FG_LIT("service_name"), FG_LIT("shop")}};
    struct fg_jfr_request request = {
        .upload = {.labels = {series, 1}, .limits = FG_DECODE_LIMITS_DEFAULT},
        .sample_rate = 100,
        .labels = labels,
    };
    struct fg_arena *arena = fg_arena_create(64 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_err err;

    /* Shorter than what fuzzing comes up with, so that something is cut. */
    request.upload.limits.symbol_max_bytes = 20;
    request.upload.limits.stack_depth_max = 5;
    if (fg_jfr_decode(in, &request, arena, follow, arena, &counts, &err) != FG_OK)
        fg_assert(err.code == FG_E_DECODE || err.code == FG_E_INVALID ||
                  err.code == FG_E_TOO_LARGE || err.code == FG_E_LIMIT);
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* contexts 1 {zone="a"} and 2 {span_id="…", zone="b"}; strings 1 to 5 */
    static const char labels[] = "\x0a\x0a\x08\x01\x12\x06\x0a\x04\x08\x01\x10\x02"
                                 "\x0a\x10\x08\x02\x12\x0c\x0a\x04\x08\x01\x10\x03\x0a\x04\x08\x04"
                                 "\x10\x05\x12\x08\x08\x01\x12\x04zone\x12\x05\x08\x02\x12\x01"
                                 "a\x12\x05\x08\x03\x12\x01"
                                 "b\x12\x0b\x08\x04\x12\x07span_id\x12\x14\x08\x05\x12\x10"
                                 "0123456789abcdef";
    struct fg_slice in = fg_bytes(data, size);
    struct fg_buf sized;

    decode(in, fg_bytes(labels, sizeof labels - 1));
    decode(in, in);
    decode(fg_bytes(NULL, 0), in);
    if (size < 16)
        return 0;
    fg_buf_init(&sized, SIZE_MAX);
    fg_buf_put(&sized, in);
    for (unsigned i = 0; i < 8; i++)
        sized.ptr[8 + i] = (uint8_t)((uint64_t)size >> 8 * (7 - i));
    decode(fg_buf_slice(&sized), fg_bytes(labels, sizeof labels - 1));
    fg_buf_done(&sized);
    return 0;
}
