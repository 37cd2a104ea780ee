/*
 * Ids in records and messages: 16 bytes as fg_id_put() writes them.
 *
 * Pure.
 */
#ifndef FG_COMMON_BASE_ID_CODEC_H
#define FG_COMMON_BASE_ID_CODEC_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/hash.h"

/* Appends an id. */
static inline void fg_buf_id(struct fg_buf *out, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];

    fg_id_put(bytes, id);
    fg_buf_append(out, bytes, sizeof bytes);
}

/* Reads an id. If the input ends before, the cursor fails and the id is zero. */
static inline struct fg_id fg_cur_id(struct fg_cur *cur)
{
    struct fg_slice bytes = fg_cur_take(cur, FG_ID_BYTES);

    return cur->bad ? (struct fg_id){0, 0} : fg_id_get(bytes.ptr);
}

#endif
