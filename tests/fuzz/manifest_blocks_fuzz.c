/* As manifest_l0_fuzz.c, for a tenant's manifest. */
#include "common/base/crc32c.h"
#include "common/cluster/manifest/blocks.h"

#include <stdlib.h>

enum { MEMORY_MAX = 64 << 20 };

static void look_at(const struct fg_blocks *blocks, struct fg_arena *arena)
{
    struct fg_id *all = fg_arena_new(arena, struct fg_id, blocks->n_blocks);
    struct fg_blocks_change change = {.replace = all, .n_replace = blocks->n_blocks};
    struct fg_l0 none = fg_l0_none();
    struct fg_buf bytes, again, text;
    struct fg_deletions deletions;
    struct fg_blocks read;
    struct fg_err err;
    bool changed;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    fg_buf_init(&again, FG_MANIFEST_MAX_BYTES);
    fg_buf_init(&text, MEMORY_MAX);
    fg_assert(fg_blocks_encode(blocks, &bytes, &err) == FG_OK);
    if (fg_blocks_decode(fg_buf_slice(&bytes), blocks->tenant, arena, &read, &err) == FG_OK) {
        fg_assert(fg_blocks_encode(&read, &again, &err) == FG_OK);
        fg_assert(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
    } else {
        fg_assert(fg_arena_used_bytes(arena) > MEMORY_MAX / 4); /* the arena is full */
    }
    fg_blocks_json(blocks, &text);
    if (fg_blocks_deletions(blocks, arena, &deletions, &err) == FG_OK)
        fg_deletions_done(&deletions);
    for (uint32_t i = 0; all != NULL && i < blocks->n_blocks; i++) {
        all[i] = blocks->blocks[i].id;
        fg_assert(fg_blocks_find(blocks, all[i]) == &blocks->blocks[i]);
    }
    if (all != NULL &&
        fg_blocks_apply(blocks, &none, &change, 0, arena, &read, &changed, &err) == FG_OK)
        fg_assert(read.n_blocks == 0 && read.n_gone == blocks->n_gone + blocks->n_blocks);
    fg_buf_done(&bytes);
    fg_buf_done(&again);
    fg_buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(MEMORY_MAX);
    struct fg_buf whole;
    struct fg_blocks blocks;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (fg_blocks_decode(fg_buf_slice(&whole), FG_LIT("t"), arena, &blocks, &err) == FG_OK)
        look_at(&blocks, arena);
    fg_buf_done(&whole);
    fg_arena_destroy(arena);
    return 0;
}
