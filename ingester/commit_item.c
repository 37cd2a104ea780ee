#include "ingester/commit_item.h"

#include <stdlib.h>

void ing_commit_item_init(struct ing_commit_item *item)
{
    *item = (struct ing_commit_item){0};
    fg_store_batch_init(&item->defs);
    /* No limit: the batch that it encodes has passed the limits of a message. */
    fg_buf_init(&item->records, SIZE_MAX);
}

void ing_commit_item_done(struct ing_commit_item *item)
{
    fg_store_batch_done(&item->defs);
    fg_buf_done(&item->records);
    free(item->profiles);
    free(item->marks);
}

void ing_commit_item_mark(struct ing_commit_item *item, struct ing_commit_mark mark)
{
    if (item->n_marks == item->cap_marks) {
        item->cap_marks = FG_MAX(4, item->cap_marks * 2);
        item->marks = fg_realloc(item->marks, item->cap_marks * sizeof *item->marks);
    }
    item->marks[item->n_marks++] = mark;
}

void ing_commit_item_set_marks(const struct ing_commit_item *item)
{
    for (uint32_t i = 0; i < item->n_marks; i++) {
        const struct ing_commit_mark *mark = &item->marks[i];

        /* Types first: a reader that sees `durable` finds them set. */
        if (mark->types != NULL)
            (void)atomic_fetch_or(mark->types, mark->bits);
        atomic_store(mark->durable, true);
    }
}

uint64_t ing_commit_item_bytes(const struct ing_commit_item *item)
{
    return sizeof *item + item->records.len + item->defs.ops.len;
}
