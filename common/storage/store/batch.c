#include "common/storage/store/batch.h"

enum {
    /* RocksDB takes 4 GiB; a group commit is some MiB. A batch of this size is a bug or a flood,
     * and has to end as an error. */
    BATCH_MAX_BYTES = 256 * 1024 * 1024,
};

void fg_store_batch_init(struct fg_store_batch *batch)
{
    fg_buf_init(&batch->ops, BATCH_MAX_BYTES);
    batch->count = 0;
}

void fg_store_batch_done(struct fg_store_batch *batch)
{
    fg_buf_done(&batch->ops);
}

void fg_store_batch_clear(struct fg_store_batch *batch)
{
    fg_buf_clear(&batch->ops);
    batch->count = 0;
}

static void append(struct fg_store_batch *batch, enum fg_store_kind kind, unsigned family,
                   struct fg_slice key)
{
    fg_assert(family < FG_STORE_FAMILIES_MAX);
    fg_buf_putc(&batch->ops, (uint8_t)kind);
    fg_buf_putc(&batch->ops, (uint8_t)family);
    fg_buf_lenbytes(&batch->ops, key);
    batch->count++;
}

void fg_store_put(struct fg_store_batch *batch, unsigned family, struct fg_slice key,
                  struct fg_slice value)
{
    append(batch, FG_STORE_PUT, family, key);
    fg_buf_lenbytes(&batch->ops, value);
}

void fg_store_delete(struct fg_store_batch *batch, unsigned family, struct fg_slice key)
{
    append(batch, FG_STORE_DELETE, family, key);
}

void fg_store_delete_range(struct fg_store_batch *batch, unsigned family, struct fg_slice from,
                           struct fg_slice to)
{
    /* An empty range is nothing to delete; RocksDB would refuse the whole batch for one. */
    if (fg_slice_cmp(from, to) >= 0)
        return;
    append(batch, FG_STORE_DELETE_RANGE, family, from);
    fg_buf_lenbytes(&batch->ops, to);
}

void fg_store_batch_append(struct fg_store_batch *batch, const struct fg_store_batch *other)
{
    fg_buf_put(&batch->ops, fg_buf_slice(&other->ops));
    /* fg_buf_put() of a full buffer copies only what fits, so its mark has to come along. */
    batch->ops.full |= other->ops.full;
    batch->count += other->count;
}

enum fg_code fg_store_batch_check(const struct fg_store_batch *batch, struct fg_err *err)
{
    if (batch->ops.full)
        return fg_fail(err, FG_E_LIMIT, "batch of %u operations is larger than %zu bytes",
                       batch->count, batch->ops.max_bytes);
    return FG_OK;
}

struct fg_store_op fg_store_batch_read(struct fg_cur *cur, unsigned n_families)
{
    struct fg_store_op op = {.kind = (enum fg_store_kind)fg_cur_u8(cur)};

    op.family = fg_cur_u8(cur);
    op.key = fg_cur_lenbytes(cur);
    if (op.kind != FG_STORE_DELETE)
        op.value = fg_cur_lenbytes(cur);
    fg_assert(!cur->bad && op.kind >= FG_STORE_PUT && op.kind <= FG_STORE_DELETE_RANGE);
    fg_assert(op.family < n_families);
    return op;
}
