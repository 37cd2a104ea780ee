/* A list of compactors is read or refused; what is read can be written, read again, and followed.
 * The checksum is put right, so that what lies behind it is reached. */
#include "common/base/crc32c.h"
#include "common/cluster/membership/membership_core.h"

static void follow(const struct fg_member_list *list, struct fg_arena *arena)
{
    static struct fg_member room[FG_MEMBERS_MAX + 1];
    struct fg_membership_core *core = fg_new(struct fg_membership_core);
    struct fg_member_list next, read;
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, FG_MEMBER_LIST_MAX_BYTES);
    fg_assert(fg_membership_core_init(core, "compactor", "somebody", 1, 4, &err) == FG_OK);
    for (int64_t now_ns = 0; now_ns < 6; now_ns++) {
        fg_membership_core_read(core, list, now_ns);
        if (fg_membership_core_next(core, list, now_ns % 2 == 1, room, &next, &err) != FG_OK)
            continue;
        fg_buf_clear(&bytes);
        if (fg_member_list_encode(&next, &bytes, &err) == FG_OK &&
            fg_member_list_decode(fg_buf_slice(&bytes), arena, &read, &err) == FG_OK)
            fg_assert(read.n == next.n);
    }
    fg_assert(fg_membership_core_count(core) == 1 &&
              fg_membership_core_owns(core, FG_LIT("tenant")));
    fg_buf_done(&bytes);
    free(core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(8 * FG_MEMBER_LIST_ARENA_BYTES);
    struct fg_member_list list;
    struct fg_buf whole;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (fg_member_list_decode(fg_buf_slice(&whole), arena, &list, &err) == FG_OK)
        follow(&list, arena);
    fg_buf_done(&whole);
    fg_arena_destroy(arena);
    return 0;
}
