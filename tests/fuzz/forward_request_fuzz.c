/* A forwarded request, whose payload is not compressed: what is taken of it can be followed to the
 * end, and the stacks are those that their ids name. */
#include "distributor/forward_read.h"
#include "tests/lib/batch_follow.h"

enum { ARENA_BYTES = 16 * 1024 * 1024 };

/* Some are known. */
static bool find_names(void *arg, const uint64_t *shorts, uint32_t n, struct fg_id *ids)
{
    (void)arg;
    for (uint32_t i = 0; i < n; i++) {
        if (shorts[i] % 7 == 6)
            return false;
        ids[i] = (struct fg_id){shorts[i], 0};
    }
    return true;
}

static void read_batch(const Forward__V1__Batch *head, struct fg_slice bytes, bool is_short)
{
    const struct fg_stack_names names = {find_names, NULL};
    const struct fg_decode_limits limits = FG_DECODE_LIMITS_DEFAULT;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_wire_batch wire;
    struct fg_batch batch;
    struct fg_err err;

    if (dist_forward_read_batch(bytes, head, is_short ? &names : NULL, &limits, arena, &wire,
                                &batch, &err) != FG_OK) {
        fg_assert(err.code == FG_E_INVALID || err.code == FG_E_TOO_LARGE ||
                  (is_short && err.code == FG_E_NOT_FOUND));
        return;
    }
    for (uint32_t i = 0; i < batch.n_profiles; i++)
        if (dist_forward_check_values(&batch.profiles[i], batch.n_types, &err) != FG_OK)
            fg_assert(err.code == FG_E_INVALID);
    if (batch.n_undefined == 0)
        batch_follow(&batch, arena);
    fg_wire_batch_done(&wire);
}

static void read_request(const Forward__V1__PushRequest *request)
{
    const struct fg_id own = {7, 7};
    struct fg_slice rest = fg_bytes(request->payload.data, request->payload.len);
    uint8_t via[FG_FORWARD_VIA_MAX * FG_ID_BYTES];
    struct fg_err err;

    if (dist_forward_check(request, &own, via, &err) != FG_OK ||
        dist_forward_check_parts(request, rest.len, &err) != FG_OK)
        return;
    fg_assert(request->n_via > 0 && request->n_via <= FG_FORWARD_VIA_MAX);
    for (size_t i = 0; i < request->n_batches; i++) {
        read_batch(request->batches[i], fg_slice_sub(rest, 0, request->batches[i]->bytes),
                   request->version > 1);
        rest = fg_slice_sub(rest, request->batches[i]->bytes, rest.len);
    }
    fg_assert(rest.len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Forward__V1__PushRequest *request = forward__v1__push_request__unpack(NULL, size, data);

    if (request != NULL)
        read_request(request);
    forward__v1__push_request__free_unpacked(request, NULL);
    return 0;
}
