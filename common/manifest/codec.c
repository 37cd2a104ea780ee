#include "common/manifest/codec.h"

#include "common/base/crc32c.h"

enum { HEAD_BYTES = MANIFEST_MAGIC_BYTES + 1, CRC_BYTES = 4 };

enum fg_code manifest_open(struct fg_slice in, const char *magic, struct fg_cur *ret_cur,
                           struct fg_err *err)
{
    struct fg_cur tail;
    struct fg_slice fields;
    uint32_t crc, stored;

    if (in.len > FG_MANIFEST_MAX_BYTES)
        return fg_fail(err, FG_E_TOO_LARGE, "manifest of %zu bytes, more than %d", in.len,
                       FG_MANIFEST_MAX_BYTES);
    if (in.len < HEAD_BYTES + CRC_BYTES || !fg_slice_starts(in, magic))
        return fg_fail(err, FG_E_CORRUPT, "no manifest: %zu bytes that do not begin with %s",
                       in.len, magic);
    tail = fg_cur(fg_slice_sub(in, in.len - CRC_BYTES, CRC_BYTES));
    stored = fg_cur_le32(&tail);
    crc = fg_crc32c(fg_slice_sub(in, 0, in.len - CRC_BYTES));
    if (crc != stored)
        return fg_fail(err, FG_E_CORRUPT, "manifest's crc %08x, stored %08x", crc, stored);
    if (in.ptr[MANIFEST_MAGIC_BYTES] != MANIFEST_VERSION)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "manifest of version %u, this program reads %d",
                       in.ptr[MANIFEST_MAGIC_BYTES], MANIFEST_VERSION);
    fields = fg_slice_sub(in, HEAD_BYTES, in.len - HEAD_BYTES - CRC_BYTES);
    *ret_cur = fg_cur(fields);
    return FG_OK;
}

void manifest_begin(struct fg_buf *out, const char *magic)
{
    fg_buf_append(out, magic, MANIFEST_MAGIC_BYTES);
    fg_buf_putc(out, MANIFEST_VERSION);
}

enum fg_code manifest_end(struct fg_buf *out, size_t start, struct fg_err *err)
{
    struct fg_slice all = fg_slice_sub(fg_buf_slice(out), start, SIZE_MAX);

    fg_buf_le32(out, fg_crc32c(all));
    if (out->full || all.len + CRC_BYTES > FG_MANIFEST_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "manifest is larger than %d bytes", FG_MANIFEST_MAX_BYTES);
    return FG_OK;
}

void manifest_put_id(struct fg_buf *out, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];

    fg_id_put(bytes, id);
    fg_buf_append(out, bytes, sizeof bytes);
}

struct fg_id manifest_get_id(struct fg_cur *cur)
{
    struct fg_slice bytes = fg_cur_take(cur, FG_ID_BYTES);

    return cur->bad ? (struct fg_id){0} : fg_id_get(bytes.ptr);
}

void manifest_put_span(struct fg_buf *out, int64_t from, int64_t to)
{
    fg_buf_zigzag(out, from);
    fg_buf_varint(out, (uint64_t)to - (uint64_t)from);
}

void manifest_get_span(struct fg_cur *cur, int64_t *ret_from, int64_t *ret_to)
{
    *ret_from = fg_cur_zigzag(cur);
    *ret_to = (int64_t)((uint64_t)*ret_from + fg_cur_varint(cur));
    if (*ret_to < *ret_from)
        fg_cur_fail(cur);
}

void manifest_put_segment_id(struct fg_buf *out, const struct fg_segment_id *id)
{
    manifest_put_id(out, id->writer);
    fg_buf_varint(out, id->cut);
    fg_buf_le64(out, id->nonce);
}

struct fg_segment_id manifest_get_segment_id(struct fg_cur *cur)
{
    struct fg_segment_id id = {.writer = manifest_get_id(cur)};

    id.cut = fg_cur_varint(cur);
    id.nonce = fg_cur_le64(cur);
    return id;
}

void *manifest_list(struct fg_cur *cur, struct fg_arena *arena, size_t min_bytes, uint32_t max,
                    size_t size, uint32_t *ret_count)
{
    uint64_t count = fg_cur_count(cur, min_bytes);
    void *list = count > max ? NULL : fg_arena_calloc(arena, (size_t)count, size);

    *ret_count = list == NULL ? 0 : (uint32_t)count;
    if (list == NULL)
        fg_cur_fail(cur);
    return list;
}

struct fg_slice manifest_later(struct fg_cur *cur, struct fg_arena *arena)
{
    struct fg_slice rest = fg_cur_take(cur, cur->left);
    struct fg_slice copy = {NULL, 0};

    if (cur->bad || rest.len == 0)
        return copy;
    copy = fg_arena_copy(arena, rest);
    if (copy.ptr == NULL)
        fg_cur_fail(cur);
    return copy;
}
