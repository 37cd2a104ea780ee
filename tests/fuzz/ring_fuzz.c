/* A ring is read or refused; what is read can be written, read again, shown and
 * changed. The checksum is put right, so that what lies behind it is reached. */
#include "common/base/crc32c.h"
#include "common/cluster/ring/ring.h"
#include "common/cluster/ring/shard.h"

enum { JSON_MAX_BYTES = 64 << 20 };

/* What a change makes can be written and read. */
static void change(const struct fg_ring *ring, const struct fg_ring_change *change,
                   struct fg_arena *arena)
{
    struct fg_ring next, read;
    struct fg_buf bytes;
    struct fg_err err;
    bool changed;

    if (fg_ring_apply(ring, change, arena, &next, &changed, &err) != FG_OK)
        return;
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    if (fg_ring_encode(&next, &bytes, &err) == FG_OK)
        fg_assert(fg_ring_decode(fg_buf_slice(&bytes), arena, &read, &err) == FG_OK);
    fg_assert(fg_ring_apply(&next, change, arena, &read, &changed, &err) == FG_OK && !changed);
    fg_buf_done(&bytes);
}

static void change_all(const struct fg_ring *ring, struct fg_arena *arena)
{
    struct fg_ring_change join = {.kind = FG_RING_JOIN,
                                  .name = FG_LIT("somebody"),
                                  .address = FG_LIT("tcp://h:1"),
                                  .replicas = 2};
    struct fg_ring_change replicate = {.kind = FG_RING_REPLICATE, .replicas = 1};
    struct fg_ring_change widen = {.kind = FG_RING_WIDEN,
                                   .name = FG_LIT("a tenant"),
                                   .shard_factor = FG_SHARD_FACTOR_MAX,
                                   .since_ns = 5};

    change(ring, &join, arena);
    change(ring, &replicate, arena);
    change(ring, &widen, arena);
    for (uint32_t i = 0; i < FG_MIN(ring->n_members, 4); i++) {
        struct fg_ring_change about = {.name = ring->members[i].name,
                                       .store = ring->members[i].store,
                                       .revision = fg_ring_newest(ring)};

        fg_assert(fg_ring_find(ring, about.name) == i);
        for (int kind = FG_RING_LEAVE; kind <= FG_RING_FORGET; kind++) {
            about.kind = (enum fg_ring_change_kind)kind;
            change(ring, &about, arena);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_buf whole, text;
    struct fg_ring ring;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_init(&text, JSON_MAX_BYTES);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (fg_ring_decode(fg_buf_slice(&whole), arena, &ring, &err) == FG_OK) {
        change_all(&ring, arena);
        fg_ring_json(&ring, &text);
        fg_assert(!text.full);
        fg_buf_clear(&whole);
        fg_assert(fg_ring_encode(&ring, &whole, &err) == FG_OK);
    }
    fg_buf_done(&whole);
    fg_buf_done(&text);
    fg_arena_destroy(arena);
    return 0;
}
