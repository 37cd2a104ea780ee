/* A list of compactors is read or refused; what is read can be written, read again, and followed.
 * The checksum is put right, so that what lies behind it is reached. */
#include "common/base/crc32c.h"
#include "compactor/mates.h"

static void follow(const struct cmp_mates_list *list, struct fg_arena *arena)
{
    static struct cmp_mate room[MATES_MAX + 1];
    struct cmp_mates *mates = fg_new(struct cmp_mates);
    struct cmp_mates_list next, read;
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, MATES_MAX_BYTES);
    fg_assert(cmp_mates_init(mates, "somebody", 1, 4, &err) == FG_OK);
    for (int64_t now_ns = 0; now_ns < 6; now_ns++) {
        cmp_mates_read(mates, list, now_ns);
        if (cmp_mates_next(mates, list, now_ns % 2 == 1, room, &next, &err) != FG_OK)
            continue;
        fg_buf_clear(&bytes);
        if (cmp_mates_encode(&next, &bytes, &err) == FG_OK &&
            cmp_mates_decode(fg_buf_slice(&bytes), arena, &read, &err) == FG_OK)
            fg_assert(read.n == next.n);
    }
    fg_assert(cmp_mates_count(mates) == 1 && cmp_mates_own(mates, FG_LIT("tenant")));
    fg_buf_done(&bytes);
    free(mates);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(8 * MATES_ARENA_BYTES);
    struct cmp_mates_list list;
    struct fg_buf whole;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (cmp_mates_decode(fg_buf_slice(&whole), arena, &list, &err) == FG_OK)
        follow(&list, arena);
    fg_buf_done(&whole);
    fg_arena_destroy(arena);
    return 0;
}
