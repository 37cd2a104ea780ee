/* A batch off the wire is refused, or every number in it is one of what is there. */
#include "proto/builder/builder.h"

static void look(const struct fg_wire_batch *batch)
{
    fg_assert(batch->n_types > 0 && batch->n_types <= FG_BATCH_TYPES_MAX);
    for (uint32_t s = 0; s < batch->n_stacks; s++)
        for (uint32_t i = 0; batch->stacks[s].locations != NULL && i < batch->stacks[s].depth; i++)
            fg_assert(batch->stacks[s].locations[i] < batch->symbols.n_locations);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];

        (void)fg_labels_hash(&profile->labels);
        for (uint32_t i = 0; i < profile->n_samples; i++)
            fg_assert(profile->stacks[i] < batch->n_stacks);
        for (size_t i = 0; i < (size_t)profile->n_samples * batch->n_types; i++)
            fg_assert(profile->values[i] >= 0);
        for (uint32_t i = 0; i < profile->n_links; i++)
            fg_assert(profile->links[i].sample < profile->n_samples);
    }
}

/* What another server forwards becomes a batch again, whose stacks are hashed. */
static void rebuild(const struct fg_wire_batch *wire, struct fg_arena *arena)
{
    struct fg_decode_limits limits = {0};
    struct fg_decode_counts counts = {0};
    struct fg_builder *builder;
    struct fg_batch batch;
    struct fg_err err;
    uint32_t n_undefined = 0;

    if (!fg_batch_of_wire(wire, arena, &batch))
        return;
    builder = fg_builder_create(arena, &limits, &batch, &counts);
    if (builder == NULL || fg_builder_hash_locations(builder, &err) != FG_OK)
        return;
    for (uint32_t i = 0; i < batch.n_stacks; i++) {
        const struct fg_stack *stack = &batch.stacks[i];

        if (stack->depth == FG_STACK_UNDEFINED)
            n_undefined++;
        else
            (void)fg_builder_stack_id(builder, batch.stack_locations + stack->first, stack->depth);
    }
    fg_assert(n_undefined == batch.n_undefined);
}

/* Numbers that come with a batch are sizes of its profiles, or refused. Here they are bytes of the
 * input. */
static void give_sizes(struct fg_wire_batch *batch, const uint8_t *data, size_t size)
{
    struct fg_cur cur = fg_cur(fg_bytes(data, size));
    uint64_t numbers[64];
    size_t count = FG_MIN(2 * (size_t)batch->n_profiles, FG_COUNT(numbers));
    struct fg_err err;

    for (size_t i = 0; i < count; i++)
        numbers[i] = fg_cur_varint(&cur);
    if (fg_wire_batch_get_sizes(batch, numbers, count, &err) != FG_OK) {
        fg_assert(err.code == FG_E_CORRUPT);
        return;
    }
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        fg_assert(batch->profiles[i].size.known || batch->profiles[i].size.raw_bytes == 0);
}

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(64 << 20);
    const struct fg_stack_names names = {find_names, NULL};
    bool is_short = size > 0 && data[0] == 2;
    struct fg_wire_batch batch;
    struct fg_err err;

    if ((is_short ? fg_batch_decode_short(fg_bytes(data, size), arena, &names, &batch, &err)
                  : fg_batch_decode(fg_bytes(data, size), arena, &batch, &err)) == FG_OK) {
        look(&batch);
        give_sizes(&batch, data, size);
        rebuild(&batch, arena);
        fg_wire_batch_done(&batch);
    } else {
        fg_assert(err.code == FG_E_CORRUPT || err.code == FG_E_LIMIT ||
                  (is_short && err.code == FG_E_NOT_FOUND));
    }
    fg_arena_destroy(arena);
    return 0;
}
