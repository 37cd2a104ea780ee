/* Eviction: which chunks leave the head, and when. */
#include "ingester/segments/segments_core_impl.h"

/*
 * A committed chunk is evicted after a time in which queriers could read the manifest that lists
 * it; time in which the bucket is unreachable does not count, since queries continue with an older
 * manifest. Chunks of a window that is still open stay longer: while they are here, an id of
 * ordinary data is known to be new without a lookup in the bucket.
 */
static bool was_shown(const struct ing_segments_core *core, const struct ing_segments_chunk *chunk)
{
    /* Measured to the last read of the manifest, not to now: while the bucket is unreachable no
     * time passes. */
    return core->config.evict_after_ns == 0 ||
           core->manifest_mono_ns - chunk->committed_mono_ns >= core->config.evict_after_ns;
}

/* Returns true if nothing but a pin may keep the chunk. */
static bool may_evict(const struct ing_segments_core *core, const struct ing_segments_chunk *chunk)
{
    /* Marked: until then the cut lists the chunk (unpin_marked()), and the store may say that it is
     * sealed. Not above `gen`: that would raise `safe` above it, and no snapshot at all could be
     * served. */
    return chunk->state == CHUNK_COMMITTED && chunk->marked && chunk->generation <= core->gen &&
           was_shown(core, chunk) &&
           (ing_core_is_closed(core, chunk) ||
            core->wall_ns >= fg_time_add(chunk->opened_wall_ns, core->config.open_max_ns));
}

static bool is_pinned(const struct ing_segments_core *core, const struct ing_segments_chunk *chunk)
{
    return core->config.pins != NULL && core->config.pins(core->config.pins_arg, &chunk->group);
}

/* Their pushes were duplicates or failed after the admission. The store does not have these chunks.
 */
void ing_evict_empty(struct ing_segments_core *core)
{
    struct ing_chunk_list *list = &core->empty;

    list->n = 0;
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        if ((chunk->state == CHUNK_OPEN || chunk->state == CHUNK_UNCHECKED) &&
            chunk->profiles == 0 &&
            core->wall_ns >= fg_time_add(chunk->opened_wall_ns, core->config.linger_ns))
            ing_chunk_list_add(list, chunk);
    }
    if (list->n > 0)
        ing_chunk_table_remove(&core->table, list->chunks, list->n);
}

void ing_evict_advance(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    if (!core->look || core->is_evicting || !core->settled ||
        !ing_core_is_over(core, &core->evict_pause))
        return;
    core->evicting.n = 0;
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (!may_evict(core, chunk))
            continue;
        /* Before the effect, since a failed write may delete them all the same. Also for a chunk
         * that is only kept, so that deletions need not wait for it: a reader of an older snapshot
         * would get profiles from it. */
        core->safe = FG_MAX(core->safe, chunk->generation);
        chunk->kept = is_pinned(core, chunk);
        if (chunk->kept)
            continue;
        ing_chunk_list_add(&core->evicting, chunk);
        /* Its ids leave the head, so an id that is not here is no longer known to be new. */
        ing_chunk_table_group(&core->table, &chunk->group)->whole = false;
    }
    if (core->evicting.n == 0)
        return;
    core->is_evicting = true;
    ing_core_emit_chunks(effects, SEGMENTS_EVICT, &core->evicting, core);
}

void ing_evict_done(struct ing_segments_core *core)
{
    ing_chunk_table_remove(&core->table, core->evicting.chunks, core->evicting.n);
    core->evicting.n = 0;
    core->is_evicting = false;
    core->evict_pause = (struct ing_pause){0};
}

void ing_evict_failed(struct ing_segments_core *core)
{
    /* `safe` stays raised, since the chunks may be deleted; they remain in the table and go with
     * the next attempt. */
    core->is_evicting = false;
    core->evicting.n = 0;
    ing_core_fail(core, &core->evict_pause);
}
