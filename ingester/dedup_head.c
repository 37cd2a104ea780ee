#include "ingester/dedup_head.h"

#include <stdlib.h>

enum fg_code ing_dedup_head_find(struct fg_store *store, const struct ing_head_profile_key *key,
                                 const uint32_t *numbers, uint32_t n_numbers, bool *ret_found,
                                 struct fg_err *err)
{
    /* The key follows from the content except for the number of the chunk, so each possible place
     * costs one look-up. */
    struct ing_head_profile_key there = *key;
    bool found = false;
    enum fg_code code = FG_OK;
    struct fg_buf bytes;

    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    for (uint32_t i = 0; i < n_numbers && !found && code == FG_OK; i++) {
        there.chunk.number = numbers[i];
        fg_buf_clear(&bytes);
        ing_head_put_profile_key(&bytes, &there);
        code = fg_store_contains(store, HEAD_PROFILES, fg_buf_slice(&bytes), &found, err);
    }
    fg_buf_done(&bytes);
    if (code == FG_OK)
        *ret_found = found;
    return code;
}

bool ing_dedup_batch_add(struct ing_dedup_batch *batch, struct fg_id id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&batch->map, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&batch->map, &walk))
        if (fg_id_eq(batch->ids[i], id))
            return false;
    if (batch->n == batch->cap) {
        batch->cap = FG_MAX(256, batch->cap * 2);
        batch->ids = fg_realloc(batch->ids, batch->cap * sizeof *batch->ids);
    }
    fg_map_add(&batch->map, fg_id_table(id), batch->n);
    batch->ids[batch->n++] = id;
    return true;
}

void ing_dedup_batch_clear(struct ing_dedup_batch *batch)
{
    fg_map_clear(&batch->map);
    batch->n = 0;
}

void ing_dedup_batch_done(struct ing_dedup_batch *batch)
{
    free(batch->ids);
    fg_map_done(&batch->map);
}
