/* The text of `perf script` becomes a batch in which each sample counts 1 of one event, or an
 * error. */
#include "proto/perf_script.h"
#include "tests/lib/batch_follow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("file")},
                                       {FG_LIT("service_name"), FG_LIT("file")}};
    struct fg_arena *arena = fg_arena_create(64 << 20), *follow = fg_arena_create(64 << 20);
    struct fg_upload upload = {.labels = {labels, 2}, .limits = FG_DECODE_LIMITS_DEFAULT};
    struct fg_decode_counts counts = {0};
    struct fg_slice in = fg_bytes(data, size);
    struct fg_batch batch;
    struct fg_err err;

    upload.limits.stack_depth_max = 20;
    upload.limits.symbol_max_bytes = 5;
    upload.limits.samples_max = 1000;
    (void)!fg_perf_script_is(in);
    if (fg_perf_script_decode(in, &upload, arena, &batch, &counts, &err) == FG_OK) {
        fg_assert(batch.n_types >= 1 && batch.n_types <= FG_PERF_EVENTS_MAX);
        for (uint32_t i = 0; batch.n_profiles == 1 && i < batch.profiles[0].n_samples; i++)
            fg_assert(batch.stacks[batch.profiles[0].stacks[i]].depth <= 20);
        batch_follow(&batch, follow);
    } else {
        fg_assert(err.code == FG_E_DECODE || err.code == FG_E_INVALID ||
                  err.code == FG_E_TOO_LARGE);
    }
    fg_arena_destroy(follow);
    fg_arena_destroy(arena);
    return 0;
}
