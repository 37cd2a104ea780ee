/*
 * Effects of the step core that change the head: a cut is sealed, chunks are set aside, taken in,
 * marked committed, or evicted. Each is one durable batch, after which the chunks in memory follow.
 */
#include "common/runtime/log.h"
#include "ingester/segments/segments_impl.h"

static const int64_t FAILING_TO_TELL_NS = FG_MINUTE_NS; /* shorter failures pass by themselves */

void ing_segments_effect_failed(struct ing_segments *segments, enum ing_segments_effect_kind kind,
                                const struct fg_err *err)
{
    static const char *const names[] = {
        [SEGMENTS_READ] = "read",       [SEGMENTS_COMPARE] = "compare",
        [SEGMENTS_TAKE_IN] = "take_in", [SEGMENTS_SEAL] = "seal",
        [SEGMENTS_UPLOAD] = "upload",   [SEGMENTS_SET_ASIDE] = "set_aside",
        [SEGMENTS_SWAP] = "swap",       [SEGMENTS_MARK] = "mark",
        [SEGMENTS_EVICT] = "evict",     [SEGMENTS_REPORT] = "report",
    };

    int64_t now_ns = fg_mono_ns(segments->config.clock);
    int64_t *since = &segments->failing_since_mono_ns[kind];

    if (err->code == FG_E_CANCELED) /* by ing_segments_stop() */
        return;
    fg_metric_add(segments->metrics, METRIC_FAILED_READ + (unsigned)kind, 1);
    fg_log_warn("segment commit step failed, will retry", fg_ls("step", names[kind]),
                fg_ls("err", err->msg));
    /* Damage does not pass by itself, so it is told at once. */
    *since = *since == 0 ? now_ns : *since;
    if (now_ns - *since >= FAILING_TO_TELL_NS || err->code == FG_E_CORRUPT)
        fg_condition_raise(segments->failing, "segments cannot be committed, step %s fails: %s",
                           names[kind], err->msg);
}

void ing_segments_effect_ended(struct ing_segments *segments, enum ing_segments_effect_kind kind)
{
    bool any = false;

    segments->failing_since_mono_ns[kind] = 0;
    for (size_t i = 0; i < FG_COUNT(segments->failing_since_mono_ns); i++)
        any |= segments->failing_since_mono_ns[i] != 0;
    if (!any)
        fg_condition_clear(segments->failing);
}

static struct ing_head_chunk_key key_of(const struct ing_segments_chunk *chunk)
{
    return (struct ing_head_chunk_key){chunk->group, chunk->number};
}

/* Moves a chunk to the state that the effect is about. */
static void set_state(struct ing_head_chunk *chunk, const struct ing_segments_effect *effect,
                      const struct ing_segments_chunk *to)
{
    switch (effect->kind) {
    case SEGMENTS_SEAL:
        chunk->state = CHUNK_SEALED;
        chunk->cut = (uint32_t)effect->cut;
        break;
    case SEGMENTS_SET_ASIDE:
    case SEGMENTS_TAKE_IN:
        chunk->state = CHUNK_ASIDE;
        break;
    default:
        fg_assert(effect->kind == SEGMENTS_MARK);
        chunk->state = CHUNK_COMMITTED;
        chunk->generation = to->generation;
        break;
    }
}

/* Writes the chunks as they are to be. */
static enum fg_code write_chunks(struct ing_segments *segments,
                                 const struct ing_segments_effect *effect,
                                 struct fg_store_batch *batch, struct fg_err *err)
{
    for (uint32_t i = 0; i < effect->n_chunks; i++) {
        const struct ing_head_chunk_key key = key_of(effect->chunks[i]);
        struct ing_head_chunk chunk;

        if (!ing_head_chunks_find(segments->config.chunks, &key, &chunk))
            continue; /* its profiles were in a write that failed */
        set_state(&chunk, effect, effect->chunks[i]);
        ing_head_chunk_put(&chunk, batch);
    }
    /* In each of these writes: a restart then refuses a manifest that is older than what the chunks
     * were compared with. */
    ing_head_chunks_put_seen(ing_segments_core_seen(segments->core), batch);
    /* No undo: if the batch reaches the disk after all, the core repeats the same effect, and a
     * start finds a state that the core could have reached. */
    return ing_head_writer_write(segments->config.writer, batch, NULL, err);
}

/* Changes the chunks in memory likewise, which is what queries see. */
static void apply_chunks(struct ing_segments *segments, const struct ing_segments_effect *effect)
{
    for (uint32_t i = 0; i < effect->n_chunks; i++) {
        const struct ing_head_chunk_key key = key_of(effect->chunks[i]);
        struct ing_head_chunk chunk;

        if (!ing_head_chunks_find(segments->config.chunks, &key, &chunk))
            continue;
        set_state(&chunk, effect, effect->chunks[i]);
        ing_head_chunks_set(segments->config.chunks, &chunk);
    }
}

static enum fg_code seal(struct ing_segments *segments, const struct ing_segments_effect *effect,
                         struct fg_store_batch *batch, struct fg_err *err)
{
    struct fg_err later;

    /* In the batch of the chunks: a restart must never give their number to another cut. */
    ing_head_chunks_put_cuts((uint32_t)effect->cut, batch);
    if (write_chunks(segments, effect, batch, err) != FG_OK)
        return err->code;
    apply_chunks(segments, effect);
    ing_head_chunks_set_cuts(segments->config.chunks, (uint32_t)effect->cut);
    fg_metric_add(segments->metrics, METRIC_CUTS, 1);
    /* After the cut is durable. A failure only delays the deletion of dictionaries to the next cut.
     */
    if (ing_retire_cut(segments->config.retire, &later) != FG_OK)
        fg_log_warn("dictionaries could not start a new generation, keeping the old one",
                    fg_ls("err", later.msg));
    return FG_OK;
}

static enum fg_code evict(struct ing_segments *segments, const struct ing_segments_effect *effect,
                          struct fg_store_batch *batch, struct fg_err *err)
{
    for (uint32_t i = 0; i < effect->n_chunks; i++) {
        const struct ing_head_chunk_key key = key_of(effect->chunks[i]);
        struct ing_head_chunk chunk;

        /* No other place has the profiles of a chunk that is not committed. */
        fg_assert(!ing_head_chunks_find(segments->config.chunks, &key, &chunk) ||
                  chunk.state == CHUNK_COMMITTED);
        ing_head_chunk_delete(&key, batch);
    }
    ing_head_chunks_put_seen(ing_segments_core_seen(segments->core), batch);
    /* The store before the memory. A reader that still finds a chunk in memory leaves it out: the
     * core has raised `safe` before this effect, and readers wait for the end of the step. */
    if (ing_head_writer_write(segments->config.writer, batch, NULL, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < effect->n_chunks; i++) {
        const struct ing_head_chunk_key key = key_of(effect->chunks[i]);

        ing_head_chunks_remove(segments->config.chunks, &key);
    }
    fg_metric_add(segments->metrics, METRIC_EVICTED, effect->n_chunks);
    return FG_OK;
}

struct ing_segments_event ing_segments_change_head(struct ing_segments *segments,
                                                   const struct ing_segments_effect *effect)
{
    enum ing_segments_event_kind done;
    struct fg_store_batch batch;
    enum fg_code code;
    struct fg_err err;

    fg_store_batch_init(&batch);
    switch (effect->kind) {
    case SEGMENTS_SEAL:
        code = seal(segments, effect, &batch, &err);
        done = SEGMENTS_SEALED;
        break;
    case SEGMENTS_SET_ASIDE:
    case SEGMENTS_TAKE_IN:
        code = write_chunks(segments, effect, &batch, &err);
        if (code == FG_OK)
            apply_chunks(segments, effect);
        done = effect->kind == SEGMENTS_TAKE_IN ? SEGMENTS_TAKEN_IN : SEGMENTS_IS_ASIDE;
        break;
    case SEGMENTS_MARK:
        code = write_chunks(segments, effect, &batch, &err);
        /* Also if the write failed: the manifest has the segment, so a query that knows it must not
         * get its profiles from here as well. A restart learns it from the manifest, too. */
        apply_chunks(segments, effect);
        fg_metric_add(segments->metrics, METRIC_COMMITTED, code == FG_OK);
        done = SEGMENTS_MARKED;
        break;
    default:
        fg_assert(effect->kind == SEGMENTS_EVICT);
        code = evict(segments, effect, &batch, &err);
        done = SEGMENTS_EVICTED;
        break;
    }
    fg_store_batch_done(&batch);
    if (code != FG_OK) {
        ing_segments_effect_failed(segments, effect->kind, &err);
        return (struct ing_segments_event){.kind = SEGMENTS_FAILED, .failed = effect->kind};
    }
    ing_segments_effect_ended(segments, effect->kind);
    return (struct ing_segments_event){.kind = done};
}
