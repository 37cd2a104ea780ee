/* A push as protobuf, or framed (first byte odd): every slice that was read lies in the input. */
#include "common/net/connect.h"
#include "proto/push.h"

enum { ARENA_BYTES = 16 * 1024 * 1024 };

static void check_inside(struct fg_slice in, struct fg_slice part)
{
    if (part.len > 0)
        fg_assert(part.ptr >= in.ptr && part.ptr + part.len <= in.ptr + in.len);
}

static void check(struct fg_slice in, const struct fg_push *push)
{
    uint32_t n_profiles = 0;

    for (uint32_t i = 0; i < push->n_series; i++) {
        const struct fg_push_series *series = &push->series[i];

        for (size_t l = 0; l < series->labels.count; l++) {
            check_inside(in, series->labels.items[l].name);
            check_inside(in, series->labels.items[l].value);
        }
        for (uint32_t p = 0; p < series->n_profiles; p++)
            check_inside(in, series->profiles[p]);
        n_profiles += series->n_profiles;
    }
    fg_assert(n_profiles == push->n_profiles);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_connect_call call = {.body = fg_slice_sub(fg_bytes(data, size), 1, SIZE_MAX)};
    struct fg_arena *arena;
    struct fg_slice message;
    struct fg_buf inflated;
    struct fg_push push;
    struct fg_err err;

    if (size == 0)
        return 0;
    if (data[0] % 2 == 1)
        call.protocol = FG_CONNECT_GRPC_WEB;
    call.gzip = data[0] % 4 > 1;
    arena = fg_arena_create(ARENA_BYTES);
    fg_buf_init(&inflated, ARENA_BYTES);
    if (fg_connect_message(&call, ARENA_BYTES, &inflated, &message, &err) == FG_OK &&
        fg_push_read(message, arena, &push, &err) == FG_OK)
        check(message, &push);
    fg_buf_done(&inflated);
    fg_arena_destroy(arena);
    return 0;
}
