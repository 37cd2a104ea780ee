/* JSON becomes protobuf of a bounded size, or an error; and then what otlp_fuzz says. */
#include "proto/otlp/json.h"
#include "proto/otlp/otlp.h"
#include "tests/lib/batch_follow.h"

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    batch_follow(batch, arg);
    (void)err;
    return FG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_otlp_request request = {.upload = {.limits = FG_DECODE_LIMITS_DEFAULT},
                                      .form = FG_OTLP_JSON};
    struct fg_arena *arena = fg_arena_create(64 << 20), *follow = fg_arena_create(64 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_otlp_result result;
    enum fg_otlp_version version;
    enum fg_code code, json_code;
    struct fg_buf binary;
    struct fg_err err;

    fg_buf_init(&binary, SIZE_MAX);
    json_code = fg_otlp_json(fg_bytes(data, size), arena, &binary, &version, &err);
    fg_assert(json_code != FG_OK || binary.len <= 4 * size);
    code = fg_otlp_decode(fg_bytes(data, size), &request, arena, on_batch, follow, &result, &counts,
                          &err);
    fg_assert(json_code == FG_OK || code == json_code);
    fg_buf_done(&binary);
    fg_arena_destroy(follow);
    fg_arena_destroy(arena);
    return 0;
}
