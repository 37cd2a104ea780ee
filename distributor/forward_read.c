#include "distributor/forward_read.h"

/* A request of the largest profiles has a few dozen batches; each takes memory for its answer. */
enum { BATCHES_MAX = 4096 };

/* ---- the request ---- */

static enum fg_code check_via(const Forward__V1__PushRequest *request,
                              const struct fg_id *own_store, uint8_t *via, struct fg_err *err)
{
    if (request->n_via == 0 || request->n_via > FG_FORWARD_VIA_MAX)
        return fg_fail(err, FG_E_INVALID,
                       "forwarded by %zu servers, not by 1 to %d: do they forward in a circle?",
                       request->n_via, FG_FORWARD_VIA_MAX);
    for (size_t i = 0; i < request->n_via; i++) {
        if (request->via[i].len != FG_ID_BYTES)
            return fg_fail(err, FG_E_INVALID, "server %zu has an id of %zu bytes, not %d", i,
                           request->via[i].len, FG_ID_BYTES);
        memcpy(via + i * FG_ID_BYTES, request->via[i].data, FG_ID_BYTES);
        if (own_store != NULL && fg_id_eq(fg_id_get(request->via[i].data), *own_store))
            return fg_fail(err, FG_E_EXISTS,
                           "these profiles come from this server: servers forward in a circle");
    }
    return FG_OK;
}

enum fg_code dist_forward_check(const Forward__V1__PushRequest *request,
                                const struct fg_id *own_store,
                                uint8_t ret_via[FG_FORWARD_VIA_MAX * FG_ID_BYTES],
                                struct fg_err *err)
{
    if (request->version < FG_FORWARD_VERSION_MIN || request->version > FG_FORWARD_VERSION)
        return fg_fail(err, FG_E_PRECONDITION,
                       "version %u of forward.v1; this server reads %d to %d", request->version,
                       FG_FORWARD_VERSION_MIN, FG_FORWARD_VERSION);
    if (request->n_batches == 0 || request->n_batches > BATCHES_MAX)
        return fg_fail(err, FG_E_INVALID, "%zu batches, not 1 to %d", request->n_batches,
                       BATCHES_MAX);
    return check_via(request, own_store, ret_via, err);
}

enum fg_code dist_forward_check_parts(const Forward__V1__PushRequest *request, size_t payload_bytes,
                                      struct fg_err *err)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < request->n_batches; i++)
        bytes += request->batches[i]->bytes;
    return bytes == payload_bytes
               ? FG_OK
               : fg_fail(err, FG_E_INVALID, "batches of %llu bytes in a payload of %zu",
                         (unsigned long long)bytes, payload_bytes);
}

/* ---- a batch ---- */

/* Invalid for the sender, which divides the batch; what comes again as it is fails again. */
static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "the batch needs more memory than decoding may use");
}

/* A stack under the id of another one would be shown in its place for as long as the dictionary of
 * the service lives. */
static enum fg_code check_stacks(struct fg_batch *batch, const struct fg_decode_limits *limits,
                                 struct fg_arena *arena, struct fg_err *err)
{
    struct fg_decode_counts unused = {0};
    struct fg_builder *builder;

    if (batch->n_undefined == batch->n_stacks)
        return FG_OK;
    builder = fg_builder_create(arena, limits, batch, &unused);
    if (builder == NULL)
        return too_large(err);
    if (fg_builder_hash_locations(builder, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        const struct fg_stack *stack = &batch->stacks[i];

        if (stack->depth != FG_STACK_UNDEFINED &&
            !fg_id_eq(stack->id, fg_builder_stack_id(builder, batch->stack_locations + stack->first,
                                                     stack->depth)))
            return fg_fail(err, FG_E_INVALID, "stack %u is not the one that its id names", i);
    }
    return FG_OK;
}

static enum fg_code check_types(const struct fg_batch *batch, const struct fg_decode_limits *limits,
                                struct fg_err *err)
{
    size_t max = limits->label_value_max_bytes;

    for (uint32_t t = 0; t < batch->n_types; t++) {
        const struct fg_value_type *type = &batch->types[t];

        if (type->type.len == 0 || (max > 0 && (type->type.len > max || type->unit.len > max)))
            return fg_fail(err, FG_E_INVALID,
                           "sample type %u has a name of %zu and a unit of %zu bytes", t,
                           type->type.len, type->unit.len);
    }
    return FG_OK;
}

enum fg_code dist_forward_read_batch(struct fg_slice bytes, const Forward__V1__Batch *head,
                                     const struct fg_stack_names *names,
                                     const struct fg_decode_limits *limits, struct fg_arena *arena,
                                     struct fg_wire_batch *ret_wire, struct fg_batch *ret_batch,
                                     struct fg_err *err)
{
    enum fg_code code = names == NULL ? fg_batch_decode(bytes, arena, ret_wire, err)
                                      : fg_batch_decode_short(bytes, arena, names, ret_wire, err);

    if (code == FG_E_LIMIT)
        return too_large(err);
    if (code == FG_E_NOT_FOUND)
        return err->code;
    if (code != FG_OK)
        return err->code = FG_E_INVALID; /* data_loss would be a fault of this server */
    if (fg_wire_batch_get_sizes(ret_wire, head->sizes, head->n_sizes, err) != FG_OK)
        code = err->code = FG_E_INVALID;
    else if (!fg_batch_of_wire(ret_wire, arena, ret_batch))
        code = too_large(err);
    else if ((code = check_types(ret_batch, limits, err)) == FG_OK)
        code = check_stacks(ret_batch, limits, arena, err);
    if (code != FG_OK)
        fg_wire_batch_done(ret_wire);
    return code;
}

/* ---- a profile ---- */

enum fg_code dist_forward_check_values(const struct fg_profile *profile, uint32_t n_types,
                                       struct fg_err *err)
{
    const int64_t *value = profile->values;

    if (profile->duration_ns < 0)
        return fg_fail(err, FG_E_INVALID, "duration %lld ns", (long long)profile->duration_ns);
    for (uint32_t t = 0; t < n_types; t++) {
        int64_t sum = 0;

        for (uint32_t i = 0; i < profile->n_samples; i++)
            if (__builtin_add_overflow(sum, *value++, &sum))
                return fg_fail(err, FG_E_INVALID, "the sum of the values of type %u is too large",
                               t);
    }
    return FG_OK;
}
