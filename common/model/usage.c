#include "common/model/usage.h"

#include "common/base/value.h"

uint64_t fg_usage_sum(uint64_t a, uint64_t b)
{
    /* What fg_usage_get() accepts. */
    return b > (uint64_t)INT64_MAX - FG_MIN(a, (uint64_t)INT64_MAX) ? (uint64_t)INT64_MAX : a + b;
}

void fg_usage_count(struct fg_usage *usage, struct fg_profile_size size, uint64_t samples)
{
    if (!size.known)
        return;
    fg_usage_add(usage, &(struct fg_usage){1, samples, size.wire_bytes, size.raw_bytes});
}

void fg_usage_add(struct fg_usage *usage, const struct fg_usage *more)
{
    usage->profiles = fg_usage_sum(usage->profiles, more->profiles);
    usage->samples = fg_usage_sum(usage->samples, more->samples);
    usage->wire_bytes = fg_usage_sum(usage->wire_bytes, more->wire_bytes);
    usage->raw_bytes = fg_usage_sum(usage->raw_bytes, more->raw_bytes);
}

bool fg_usage_eq(const struct fg_usage *a, const struct fg_usage *b)
{
    return a->profiles == b->profiles && a->samples == b->samples &&
           a->wire_bytes == b->wire_bytes && a->raw_bytes == b->raw_bytes;
}

void fg_usage_put(struct fg_buf *out, const struct fg_usage *usage)
{
    fg_buf_varint(out, usage->profiles);
    fg_buf_varint(out, usage->samples);
    fg_buf_varint(out, usage->wire_bytes);
    fg_buf_varint(out, usage->raw_bytes);
}

struct fg_usage fg_usage_get(struct fg_cur *cur)
{
    struct fg_usage usage = {.profiles = fg_cur_varint(cur)};

    usage.samples = fg_cur_varint(cur);
    usage.wire_bytes = fg_cur_varint(cur);
    usage.raw_bytes = fg_cur_varint(cur);
    /* Sums saturate, and samples need a profile: anything else is damage. */
    if (usage.profiles > INT64_MAX || usage.samples > INT64_MAX || usage.wire_bytes > INT64_MAX ||
        usage.raw_bytes > INT64_MAX ||
        (usage.profiles == 0 && (usage.samples | usage.wire_bytes | usage.raw_bytes) != 0))
        fg_cur_fail(cur);
    return cur->bad ? (struct fg_usage){0} : usage;
}

/* Returns the part of `bytes` that belongs to the first `before` of `all`. Each share is the
 * difference of two such parts, so that all shares add up to the whole. 128 bits, since both
 * factors may be large. */
static uint64_t part_of(uint64_t bytes, uint64_t before, uint64_t all)
{
    return (uint64_t)((unsigned __int128)bytes * FG_MIN(before, all) / all);
}

uint64_t fg_usage_share(uint64_t bytes, uint64_t from, uint64_t to, uint64_t of)
{
    return part_of(bytes, to, of) - part_of(bytes, FG_MIN(from, to), of);
}

static uint32_t narrow(uint64_t bytes)
{
    return (uint32_t)FG_MIN(bytes, (uint64_t)UINT32_MAX);
}

void fg_profile_sizes_share(uint64_t wire_bytes, uint64_t raw_bytes, const uint64_t *weights,
                            size_t n, struct fg_profile_size *ret_sizes)
{
    uint64_t all = 0, before = 0;

    for (size_t i = 0; i < n; i++)
        all = fg_usage_sum(all, weights[i]);
    for (size_t i = 0; i < n; i++) {
        /* Without weights each profile has the same share. */
        uint64_t after = all == 0 ? i + 1 : FG_MIN(fg_usage_sum(before, weights[i]), all);
        uint64_t of = all == 0 ? n : all;

        ret_sizes[i] = (struct fg_profile_size){
            .known = true,
            .wire_bytes = narrow(fg_usage_share(wire_bytes, before, after, of)),
            .raw_bytes = narrow(fg_usage_share(raw_bytes, before, after, of)),
        };
        before = after;
    }
}
