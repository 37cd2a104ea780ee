/* An L0 manifest is read or refused; what is read can be written, read again, shown and changed.
 * The checksum is put right, so that what lies behind it is reached. */
#include "common/base/crc32c.h"
#include "common/cluster/manifest/l0.h"

#include <stdlib.h>

enum { MEMORY_MAX = 64 << 20 };

static void look_at(const struct fg_l0 *l0, struct fg_arena *arena)
{
    struct fg_buf bytes, again, text;
    uint64_t *all = fg_arena_new(arena, uint64_t, l0->n_segments);
    struct fg_l0 read;
    struct fg_err err;
    bool changed;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    fg_buf_init(&again, FG_MANIFEST_MAX_BYTES);
    fg_buf_init(&text, MEMORY_MAX);
    fg_assert(fg_l0_encode(l0, &bytes, &err) == FG_OK);
    if (fg_l0_decode(fg_buf_slice(&bytes), arena, &read, &err) == FG_OK) {
        fg_assert(fg_l0_encode(&read, &again, &err) == FG_OK);
        fg_assert(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
    } else {
        fg_assert(fg_arena_used_bytes(arena) > MEMORY_MAX / 4); /* the arena is full */
    }
    fg_l0_json(l0, &text);
    for (uint32_t i = 0; all != NULL && i < l0->n_segments; i++) {
        all[i] = l0->segments[i].generation;
        fg_assert(fg_l0_segment(l0, all[i]) == &l0->segments[i]);
    }
    if (all != NULL &&
        fg_l0_retire(l0, all, l0->n_segments, 0, arena, &read, &changed, &err) == FG_OK)
        fg_assert(changed == (l0->n_segments > 0 && l0->n_gone < FG_L0_GONE_MAX));
    fg_buf_done(&bytes);
    fg_buf_done(&again);
    fg_buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(MEMORY_MAX);
    struct fg_buf whole;
    struct fg_l0 l0;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (fg_l0_decode(fg_buf_slice(&whole), arena, &l0, &err) == FG_OK)
        look_at(&l0, arena);
    fg_buf_done(&whole);
    fg_arena_destroy(arena);
    return 0;
}
