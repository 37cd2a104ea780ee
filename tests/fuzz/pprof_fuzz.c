/* A pprof with any quirk is refused or becomes a batch that survives identifying and the wire. */
#include "proto/pprof/pprof.h"
#include "tests/lib/batch_follow.h"

static void decode(struct fg_slice in, unsigned quirks)
{
    struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                                {FG_LIT("service_name"), FG_LIT("shop")}};
    struct fg_pprof_request request = {
        .upload = {.labels = {labels, 2}, .limits = FG_DECODE_LIMITS_DEFAULT}, .quirks = quirks};
    struct fg_arena *arena = fg_arena_create(256 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_batch batch;
    struct fg_err err;

    if (quirks != 0) /* shorter than what fuzzing comes up with, so that something is cut */
        request.upload.limits.symbol_max_bytes = request.upload.limits.stack_depth_max = 5;
    if (fg_pprof_decode(in, &request, arena, &batch, &info, &counts, &err) == FG_OK)
        batch_follow(&batch, arena);
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(fg_bytes(data, size), 0);
    decode(fg_bytes(data, size), FG_PPROF_SCRIPT_NAMES | FG_PPROF_DOTNET | FG_PPROF_GO);
    return 0;
}
