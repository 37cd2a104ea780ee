#include "common/base/envelope.h"

#include "common/base/crc32c.h"

/* magic (4), version (1), content, crc32c of all before it (4, little-endian). */
enum { HEAD_BYTES = FG_ENVELOPE_MAGIC_BYTES + 1, CRC_BYTES = 4 };

enum fg_code fg_envelope_open(const struct fg_envelope *envelope, struct fg_slice in,
                              struct fg_cur *ret_cur, struct fg_err *err)
{
    struct fg_cur tail;
    uint32_t crc, stored;

    if (in.len > envelope->max_bytes)
        return fg_fail(err, FG_E_TOO_LARGE, "%s of %zu bytes exceeds the limit of %zu",
                       envelope->what, in.len, envelope->max_bytes);
    if (in.len < HEAD_BYTES + CRC_BYTES || !fg_slice_starts(in, envelope->magic))
        return fg_fail(err, FG_E_CORRUPT,
                       "bad magic number in %s: %zu bytes that do not begin with %s",
                       envelope->what, in.len, envelope->magic);
    tail = fg_cur(fg_slice_sub(in, in.len - CRC_BYTES, CRC_BYTES));
    stored = fg_cur_le32(&tail);
    crc = fg_crc32c(fg_slice_sub(in, 0, in.len - CRC_BYTES));
    if (crc != stored)
        return fg_fail(err, FG_E_CORRUPT, "%s's crc %08x, stored %08x", envelope->what, crc,
                       stored);
    /* The version after the checksum: a damaged version byte must not pass for an object of a
     * newer program, which nobody may replace. */
    if (in.ptr[FG_ENVELOPE_MAGIC_BYTES] != envelope->version)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "%s of version %u, this program reads %u",
                       envelope->what, in.ptr[FG_ENVELOPE_MAGIC_BYTES], envelope->version);
    *ret_cur = fg_cur(fg_slice_sub(in, HEAD_BYTES, in.len - HEAD_BYTES - CRC_BYTES));
    return FG_OK;
}

void fg_envelope_begin(const struct fg_envelope *envelope, struct fg_buf *out)
{
    fg_buf_append(out, envelope->magic, FG_ENVELOPE_MAGIC_BYTES);
    fg_buf_putc(out, envelope->version);
}

enum fg_code fg_envelope_end(const struct fg_envelope *envelope, struct fg_buf *out, size_t start,
                             struct fg_err *err)
{
    struct fg_slice all = fg_slice_sub(fg_buf_slice(out), start, SIZE_MAX);

    fg_buf_le32(out, fg_crc32c(all));
    if (out->full || all.len + CRC_BYTES > envelope->max_bytes)
        return fg_fail(err, FG_E_LIMIT, "%s is larger than %zu bytes", envelope->what,
                       envelope->max_bytes);
    return FG_OK;
}

void *fg_envelope_list(struct fg_cur *cur, struct fg_arena *arena, size_t min_bytes, uint32_t max,
                       size_t size, uint32_t *ret_count)
{
    uint64_t count = fg_cur_count(cur, min_bytes);
    void *list = cur->bad || count > max ? NULL : fg_arena_calloc(arena, (size_t)count, size);

    *ret_count = list == NULL ? 0 : (uint32_t)count;
    if (list == NULL)
        fg_cur_fail(cur);
    return list;
}

struct fg_slice fg_envelope_later(struct fg_cur *cur, struct fg_arena *arena)
{
    /* Fields that a newer program has added. They are written back, so an older program in
     * between loses nothing. */
    struct fg_slice rest = fg_cur_take(cur, cur->left);
    struct fg_slice copy = {NULL, 0};

    if (cur->bad || rest.len == 0)
        return copy;
    copy = fg_arena_copy(arena, rest);
    if (copy.ptr == NULL)
        fg_cur_fail(cur);
    return copy;
}
