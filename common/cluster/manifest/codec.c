#include "common/cluster/manifest/codec.h"

/* A span is its start and its length: two times near each other take a few bytes less. Unsigned,
 * since the length of all time does not fit an int64_t. */
void fg_manifest_put_span(struct fg_buf *out, int64_t from, int64_t to)
{
    fg_buf_zigzag(out, from);
    fg_buf_varint(out, (uint64_t)to - (uint64_t)from);
}

void fg_manifest_get_span(struct fg_cur *cur, int64_t *ret_from, int64_t *ret_to)
{
    *ret_from = fg_cur_zigzag(cur);
    *ret_to = (int64_t)((uint64_t)*ret_from + fg_cur_varint(cur));
    /* The sum wrapped around: no encoder wrote this. */
    if (*ret_to < *ret_from)
        fg_cur_fail(cur);
}

void fg_manifest_put_segment_id(struct fg_buf *out, const struct fg_segment_id *id)
{
    fg_buf_id(out, id->writer);
    fg_buf_varint(out, id->cut);
    fg_buf_le64(out, id->nonce);
}

struct fg_segment_id fg_manifest_get_segment_id(struct fg_cur *cur)
{
    struct fg_segment_id id = {.writer = fg_cur_id(cur)};

    id.cut = fg_cur_varint(cur);
    id.nonce = fg_cur_le64(cur);
    return id;
}
