#include "tests/lib/batch_follow.h"

void batch_follow(struct fg_batch *batch, struct fg_arena *arena)
{
    bool *define = fg_arena_new(arena, bool, batch->n_stacks);
    struct fg_wire_batch wire;
    struct fg_buf bytes;
    struct fg_err err;

    if (define == NULL)
        return;
    memset(define, true, batch->n_stacks);
    fg_batch_identify(batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT(""));
    fg_buf_init(&bytes, SIZE_MAX);
    fg_batch_encode(batch, define, &bytes);
    if (fg_batch_decode(fg_buf_slice(&bytes), arena, &wire, &err) == FG_OK) {
        fg_assert(wire.n_profiles == batch->n_profiles && wire.n_stacks == batch->n_stacks);
        fg_wire_batch_done(&wire);
    } else {
        fg_assert(err.code == FG_E_LIMIT);
    }
    fg_buf_done(&bytes);
}
