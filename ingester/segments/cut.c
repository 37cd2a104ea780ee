/* The cut: which chunks are due, and their way through seal, upload, swap and mark. */
#include "ingester/segments/segments_impl.h"

#include <stdlib.h>

/* How much may be open, in sizes of a segment, before the turn of others is not waited for: what
 * three heads hold is a third of each first, so that each cuts its own when it has three. */
enum { SEGMENTS_OPEN_MAX = 4 };

/* ---- time ---- */

/* What those take who are before us. */
static int64_t turns_ns(const struct ing_segments *segments, const struct ing_segments_chunk *chunk)
{
    return chunk->rank * segments->config.turn_ns;
}

/* Is it closed, and has been for so long that it is our turn? */
static bool is_turn(const struct ing_segments *segments, const struct ing_segments_chunk *chunk)
{
    return segments->wall_ns >=
           fg_time_add(ing_segments_closed_wall_ns(segments, chunk), turns_ns(segments, chunk));
}

/* When an open chunk makes a cut necessary. */
static int64_t due_wall_ns(const struct ing_segments *segments,
                           const struct ing_segments_chunk *chunk)
{
    const struct ing_segments_config *config = &segments->config;
    int64_t closed = ing_segments_closed_wall_ns(segments, chunk);
    int64_t lingered = fg_time_add(chunk->opened_wall_ns, config->linger_ns);
    int64_t oldest = fg_time_add(chunk->opened_wall_ns, config->open_max_ns);

    return fg_time_add(FG_MIN(FG_MAX(closed, lingered), oldest), turns_ns(segments, chunk));
}

/* ---- the cut ---- */

static bool all_committed(const struct ing_segments *segments)
{
    for (uint32_t i = 0; i < segments->pinned.n; i++)
        if (segments->pinned.chunks[i]->state != CHUNK_COMMITTED)
            return false;
    return true;
}

/* What is waited for comes first, so that no flood of other data can keep it. */
static int compare_urgency(const void *left, const void *right)
{
    const struct ing_segments_chunk *const *a = left, *const *b = right;

    if (((*a)->drain != 0) != ((*b)->drain != 0))
        return (*a)->drain != 0 ? -1 : 1;
    return ((*a)->group.window > (*b)->group.window) - ((*a)->group.window < (*b)->group.window);
}

/* ---- aside ---- */

/* Is anything set aside that the next cut of such chunks takes? */
static bool has_to_retry(struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;
    bool any = false;

    if (table->by_state[CHUNK_ASIDE] == 0 || !(segments->look || segments->draining))
        return false;
    for (uint32_t i = 0; i < table->n_chunks; i++) {
        struct ing_segments_chunk *chunk = table->chunks[i];

        if (chunk->state != CHUNK_ASIDE)
            continue;
        chunk->retry |= segments->mono_ns >= segments->retry_mono_ns;
        any |= chunk->retry;
    }
    if (segments->mono_ns >= segments->retry_mono_ns)
        segments->retry_mono_ns = fg_time_add(segments->mono_ns, segments->config.aside_retry_ns);
    return any;
}

/* As pin(), for chunks that are set aside: a cut of their own, so that they stop no others. Those
 * that are to be salvaged are not mixed with others. */
static void pin_aside(struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;
    uint64_t bytes = 0;

    segments->pinned.n = 0;
    for (uint32_t i = 0; i < table->n_chunks && (i == 0 || bytes < segments->config.cut_bytes);
         i++) {
        struct ing_segments_chunk *chunk = table->chunks[i];

        if (chunk->state != CHUNK_ASIDE || !chunk->retry ||
            (segments->pinned.n > 0 && segments->pinned.chunks[0]->salvage != chunk->salvage))
            continue;
        bytes += chunk->bytes;
        ing_chunk_list_add(&segments->pinned, chunk);
    }
}

/* Which chunks of the cut are set aside: the suspects, else half of it, which is tried again at
 * once; of a single chunk that. */
static void choose_misfits(struct ing_segments *segments, const struct ing_segments_event *event)
{
    const struct ing_chunk_list *pinned = &segments->pinned;

    segments->misfits.n = 0;
    segments->retry_misfits = event->n_suspects == 0 && pinned->n > 1;
    for (uint32_t i = 0; i < event->n_suspects; i++) {
        const struct ing_head_chunk_key *key = &event->suspects[i];
        struct ing_segments_chunk *chunk =
            ing_table_chunk(&segments->table, &key->group, key->number);

        if (chunk != NULL && chunk->state == CHUNK_SEALED) /* it may be held since */
            ing_chunk_list_add(&segments->misfits, chunk);
    }
    for (uint32_t i = pinned->n / 2; event->n_suspects == 0 && i < pinned->n; i++)
        ing_chunk_list_add(&segments->misfits, pinned->chunks[i]);
    ing_chunk_list_keep(&segments->misfits, CHUNK_SEALED);
}

void ing_cut_is_aside(struct ing_segments *segments)
{
    ing_chunk_list_keep(&segments->misfits, CHUNK_SEALED); /* some may be held meanwhile */
    for (uint32_t i = 0; i < segments->misfits.n; i++) {
        ing_table_set_state(&segments->table, segments->misfits.chunks[i], CHUNK_ASIDE);
        segments->misfits.chunks[i]->retry = segments->retry_misfits;
        segments->misfits.chunks[i]->salvage &= segments->retry_misfits;
    }
    if (segments->table.by_state[CHUNK_ASIDE] == segments->misfits.n)
        segments->retry_mono_ns = fg_time_add(segments->mono_ns, segments->config.aside_retry_ns);
    segments->misfits.n = 0;
    ing_chunk_list_drop(&segments->pinned, CHUNK_ASIDE);
    segments->cut = segments->pinned.n == 0 ? CUT_IDLE : CUT_SEALED;
    segments->cut_pause = (struct ing_pause){0};
    segments->unfit = 0;
}

/* ---- what is due ---- */

/* There is so much that a segment can be made of it, whatever its age. */
static bool is_enough(const struct ing_segments *segments, uint8_t rank)
{
    const struct ing_table *table = &segments->table;
    uint64_t cut_bytes = segments->config.cut_bytes;

    return (rank == 0 && table->first_bytes >= cut_bytes) ||
           table->open_bytes >= SEGMENTS_OPEN_MAX * cut_bytes;
}

static bool is_due(const struct ing_segments *segments, const struct ing_segments_chunk *chunk)
{
    return chunk->drain != 0 || due_wall_ns(segments, chunk) <= segments->wall_ns;
}

/* Does some open chunk need a cut? */
static bool is_cut_due(const struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;

    if (table->by_state[CHUNK_OPEN] == 0)
        return false;
    if (is_enough(segments, 0))
        return true;
    for (uint32_t i = 0; (segments->look || segments->draining) && i < table->n_chunks; i++) {
        const struct ing_segments_chunk *chunk = table->chunks[i];

        if (chunk->state == CHUNK_OPEN && chunk->profiles > 0 && is_due(segments, chunk))
            return true;
    }
    return false;
}

/*
 * What the cut takes: everything, when there is so much, else in our turn what is waited for,
 * closed or due; the oldest windows first, and no more than makes a segment of the usual size, as
 * there may be hours of it when the bucket was away.
 */
static void pin(struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;
    uint64_t bytes = 0;
    uint32_t n = 0;

    segments->pinned.n = 0;
    for (uint32_t i = 0; i < table->n_chunks; i++) {
        struct ing_segments_chunk *chunk = table->chunks[i];

        if (chunk->state == CHUNK_OPEN && chunk->profiles > 0 &&
            (is_enough(segments, chunk->rank) || is_turn(segments, chunk) ||
             is_due(segments, chunk)))
            ing_chunk_list_add(&segments->pinned, chunk);
    }
    if (segments->pinned.n > 0)
        qsort(segments->pinned.chunks, segments->pinned.n, sizeof(void *), compare_urgency);
    while (n < segments->pinned.n && (n == 0 || bytes < segments->config.cut_bytes))
        bytes += segments->pinned.chunks[n++]->bytes;
    segments->pinned.n = n;
}

void ing_cut_sealed(struct ing_segments *segments)
{
    ing_chunk_list_drop(&segments->pinned, CHUNK_COMMITTED);
    segments->last_cut++;
    segments->unfit = 0;
    for (uint32_t i = 0; i < segments->pinned.n; i++) {
        struct ing_segments_chunk *chunk = segments->pinned.chunks[i];

        ing_table_set_state(&segments->table, chunk, CHUNK_SEALED);
        chunk->cut = segments->last_cut;
        chunk->retry = false;
    }
    segments->cut = CUT_SEALED;
    segments->cut_pause = (struct ing_pause){0};
}

void ing_cut_marked(struct ing_segments *segments)
{
    for (uint32_t i = 0; i < segments->marking.n; i++)
        segments->marking.chunks[i]->marked = true;
    segments->marking.n = 0;
    segments->pinned.n = 0;
    segments->cut = CUT_IDLE;
    segments->cut_pause = (struct ing_pause){0};
}

void ing_cut_uploaded(struct ing_segments *segments, bool nothing)
{
    if (nothing) /* of writes that failed and were not there after all */
        for (uint32_t i = 0; i < segments->pinned.n; i++)
            if (segments->pinned.chunks[i]->state == CHUNK_SEALED)
                ing_segments_commit_chunk(segments, segments->pinned.chunks[i], segments->gen);
    segments->cut = CUT_UPLOADED;
    segments->cut_pause = (struct ing_pause){0};
    segments->unfit = 0;
    segments->uploaded_mono_ns = segments->mono_ns;
    segments->rechecked = false;
    segments->read_now = true;
}

/* Whatever is said of it. */
void ing_cut_swapped(struct ing_segments *segments)
{
    segments->cut = CUT_SWAPPED;
    segments->rechecked = false;
    segments->read_now = true;
}

void ing_cut_failed(struct ing_segments *segments, const struct ing_segments_event *event)
{
    segments->unfit += event->unfit;
    if (event->failed == SEGMENTS_SWAP)
        ing_cut_swapped(segments);
    else if (event->failed == SEGMENTS_SEAL) /* the same again: some of it may be written */
        segments->cut = CUT_PINNED;
    else
        segments->cut = CUT_SEALED;
    if (event->unfit && segments->unfit >= SEGMENTS_TRIES)
        choose_misfits(segments, event);
    ing_segments_fail(segments, &segments->cut_pause);
}

static void begin_seal(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    struct ing_segments_effect *effect;

    ing_chunk_list_drop(&segments->pinned,
                        CHUNK_COMMITTED); /* of a seal that failed, some may be held since */
    if (segments->pinned.n == 0) {
        segments->cut = CUT_IDLE;
        return;
    }
    segments->cut = CUT_SEALING;
    ing_segments_emit_chunks(effects, SEGMENTS_SEAL, &segments->pinned, segments);
    effect = &effects->effects[effects->n - 1];
    effect->cut = segments->last_cut + 1;
}

static void begin_set_aside(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    segments->cut = CUT_SETTING_ASIDE;
    ing_segments_emit_chunks(effects, SEGMENTS_SET_ASIDE, &segments->misfits, segments);
}

static void begin_upload(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    ing_chunk_list_keep(&segments->pinned, CHUNK_SEALED);
    segments->upload = (struct fg_segment_id){segments->config.writer, segments->last_cut,
                                              ing_segments_draw(segments)};
    segments->stale = false;
    segments->cut = CUT_UPLOADING;
    ing_segments_emit_chunks(effects, SEGMENTS_UPLOAD, &segments->pinned, segments);
    effects->effects[effects->n - 1].salvage =
        segments->pinned.n > 0 && segments->pinned.chunks[0]->salvage;
}

static void begin_mark(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    segments->marking.n = 0;
    for (uint32_t i = 0; i < segments->pinned.n; i++)
        if (!segments->pinned.chunks[i]->marked)
            ing_chunk_list_add(&segments->marking, segments->pinned.chunks[i]);
    if (segments->marking.n == 0) { /* all were found by comparing */
        ing_cut_marked(segments);
        return;
    }
    segments->cut = CUT_MARKING;
    ing_segments_emit_chunks(effects, SEGMENTS_MARK, &segments->marking, segments);
}

/* Nothing has happened to the chunks since the upload, and they agree with the manifest that it
 * goes onto. (cas-recheck) */
static bool may_swap(const struct ing_segments *segments)
{
    if (segments->follow != FOLLOW_IDLE || !segments->rechecked)
        return false;
    return !ing_segments_keeps(segments, FG_RULE_BIT_CAS_RECHECK) ||
           (segments->settled && segments->gen == segments->seen);
}

static bool is_too_old(const struct ing_segments *segments)
{
    return segments->mono_ns - segments->uploaded_mono_ns > segments->config.upload_max_age_ns;
}

static void advance_uploaded(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    if ((segments->stale && ing_segments_keeps(segments, FG_RULE_BIT_CAS_RECHECK)) ||
        is_too_old(segments)) {
        begin_upload(segments, effects);
        return;
    }
    if (!may_swap(segments))
        return;
    segments->cut = CUT_SWAPPING;
    ing_segments_emit_chunks(effects, SEGMENTS_SWAP, &segments->pinned, segments);
    effects->effects[effects->n - 1].clean = ing_segments_clean(segments);
}

void ing_cut_advance(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    if (!ing_segments_is_over(segments, &segments->cut_pause))
        return;
    switch (segments->cut) {
    case CUT_IDLE:
        /* Nothing is sealed before the bucket was there: what is open can still be joined. */
        if (!segments->settled)
            return;
        if (is_cut_due(segments))
            pin(segments);
        else if (has_to_retry(segments))
            pin_aside(segments);
        else
            return;
        begin_seal(segments, effects);
        return;
    case CUT_PINNED:
        begin_seal(segments, effects);
        return;
    case CUT_SEALED:
        ing_chunk_list_keep(&segments->misfits, CHUNK_SEALED);
        if (all_committed(segments))
            begin_mark(segments, effects);
        else if (segments->misfits.n > 0)
            begin_set_aside(segments, effects);
        else if (segments->settled)
            begin_upload(segments, effects);
        return;
    case CUT_UPLOADED:
    case CUT_SWAPPED:
        if (all_committed(segments))
            begin_mark(segments, effects);
        else if (segments->cut == CUT_UPLOADED || segments->rechecked)
            advance_uploaded(segments, effects);
        return;
    case CUT_SEALING:
    case CUT_SETTING_ASIDE:
    case CUT_UPLOADING:
    case CUT_SWAPPING:
    case CUT_MARKING:
        return;
    }
}
