/* The cut: which chunks are due, and their way through seal, upload, swap and mark. */
#include "ingester/segments/segments_core_impl.h"

#include <stdlib.h>

/* How many segments of the usual size may be open before a head stops waiting for its turn. With
 * three replicas each head is the first owner of a third of its data, so it reaches its own limit
 * when three times as much is open. Above that, other owners did not commit in their turns. */
enum { SEGMENTS_OPEN_MAX = 4 };

/* ---- time ---- */

/* Returns the turns of the owners before us. */
static int64_t turns_ns(const struct ing_segments_core *core,
                        const struct ing_segments_chunk *chunk)
{
    return chunk->rank * core->config.failover_after_ns;
}

/* Returns true if the window is over and the turns of the owners before us are, too. */
static bool is_turn(const struct ing_segments_core *core, const struct ing_segments_chunk *chunk)
{
    return core->wall_ns >=
           fg_time_add(ing_core_closed_wall_ns(core, chunk), turns_ns(core, chunk));
}

/* Returns when an open chunk makes a cut necessary. */
static int64_t due_wall_ns(const struct ing_segments_core *core,
                           const struct ing_segments_chunk *chunk)
{
    /* A chunk of a current window is due when the window is over. A chunk that began later lingers,
     * so that late profiles share a segment. open_max bounds both, since a client with a wrong
     * clock can name a window in the far future. */
    const struct ing_segments_core_config *config = &core->config;
    int64_t closed = ing_core_closed_wall_ns(core, chunk);
    int64_t lingered = fg_time_add(chunk->opened_wall_ns, config->linger_ns);
    int64_t oldest = fg_time_add(chunk->opened_wall_ns, config->open_max_ns);

    return fg_time_add(FG_MIN(FG_MAX(closed, lingered), oldest), turns_ns(core, chunk));
}

/* ---- the cut ---- */

static bool all_committed(const struct ing_segments_core *core)
{
    for (uint32_t i = 0; i < core->pinned.n; i++)
        if (core->pinned.chunks[i]->state != CHUNK_COMMITTED)
            return false;
    return true;
}

/* Chunks that a DRAIN waits for come first, so that no flood of other data can delay it. */
static int compare_urgency(const void *left, const void *right)
{
    const struct ing_segments_chunk *const *a = left, *const *b = right;

    if (((*a)->drain != 0) != ((*b)->drain != 0))
        return (*a)->drain != 0 ? -1 : 1;
    return ((*a)->group.window > (*b)->group.window) - ((*a)->group.window < (*b)->group.window);
}

/* ---- aside ---- */

/* Returns true if a chunk that is set aside is to be tried again. */
static bool has_to_retry(struct ing_segments_core *core)
{
    const struct ing_chunk_table *table = &core->table;
    bool any = false;

    /* At most once in LOOK_AGAIN_NS, except during a DRAIN: this walks all chunks on the thread
     * that writes. */
    if (table->by_state[CHUNK_ASIDE] == 0 || !(core->look || core->draining))
        return false;
    for (uint32_t i = 0; i < table->n_chunks; i++) {
        struct ing_segments_chunk *chunk = table->chunks[i];

        if (chunk->state != CHUNK_ASIDE)
            continue;
        chunk->retry |=
            core->mono_ns >= (chunk->keyless ? core->keyless_mono_ns : core->retry_mono_ns);
        any |= chunk->retry;
    }
    /* The flags are set now and stay until a cut takes the chunks, so the next hour begins here,
     * even if this cut fails. */
    if (core->mono_ns >= core->retry_mono_ns)
        core->retry_mono_ns = fg_time_add(core->mono_ns, core->config.aside_retry_ns);
    if (core->mono_ns >= core->keyless_mono_ns)
        core->keyless_mono_ns = fg_time_add(core->mono_ns, core->config.keyless_retry_ns);
    return any;
}

/* Pins chunks that are set aside for a cut of their own, so that they stop no others. Chunks to
 * salvage and other chunks do not share a cut. */
static void pin_aside(struct ing_segments_core *core)
{
    const struct ing_chunk_table *table = &core->table;
    uint64_t bytes = 0;

    core->pinned.n = 0;
    for (uint32_t i = 0; i < table->n_chunks && (i == 0 || bytes < core->config.cut_bytes); i++) {
        struct ing_segments_chunk *chunk = table->chunks[i];

        /* A cut is a salvage as a whole, so the first chunk decides for all; the others wait for
         * the next cut. */
        if (chunk->state != CHUNK_ASIDE || !chunk->retry ||
            (core->pinned.n > 0 && core->pinned.chunks[0]->salvage != chunk->salvage))
            continue;
        bytes += chunk->bytes;
        ing_chunk_list_add(&core->pinned, chunk);
    }
}

/* Chooses which chunks of the cut to set aside: the suspects, or else half of the cut, which is
 * tried again at once; or a single chunk. */
static void choose_misfits(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    const struct ing_chunk_list *pinned = &core->pinned;

    fg_assert(!event->keyless || event->n_suspects > 0);
    core->misfits.n = 0;
    core->keyless_misfits = event->keyless;
    core->retry_misfits = event->n_suspects == 0 && pinned->n > 1;
    for (uint32_t i = 0; i < event->n_suspects; i++) {
        const struct ing_head_chunk_key *key = &event->suspects[i];
        struct ing_segments_chunk *chunk =
            ing_chunk_table_chunk(&core->table, &key->group, key->number);

        if (chunk != NULL && chunk->state == CHUNK_SEALED) /* it may be committed since */
            ing_chunk_list_add(&core->misfits, chunk);
    }
    /* With a single chunk the half is that chunk: pinned->n / 2 is 0. */
    for (uint32_t i = pinned->n / 2; event->n_suspects == 0 && i < pinned->n; i++)
        ing_chunk_list_add(&core->misfits, pinned->chunks[i]);
    ing_chunk_list_keep(&core->misfits, CHUNK_SEALED);
}

void ing_cut_is_aside(struct ing_segments_core *core)
{
    ing_chunk_list_keep(&core->misfits, CHUNK_SEALED); /* some may be committed meanwhile */
    for (uint32_t i = 0; i < core->misfits.n; i++) {
        ing_chunk_table_set_state(&core->table, core->misfits.chunks[i], CHUNK_ASIDE);
        core->misfits.chunks[i]->retry = core->retry_misfits;
        core->misfits.chunks[i]->keyless = core->keyless_misfits;
        /* A salvage that failed is over. Halves of a cut keep the wish, since they are tried again
         * at once. */
        core->misfits.chunks[i]->salvage &= core->retry_misfits;
    }
    /* The first chunks that are set aside start the clock; others join the retry of those before.
     */
    if (core->table.by_state[CHUNK_ASIDE] == core->misfits.n)
        core->retry_mono_ns = fg_time_add(core->mono_ns, core->config.aside_retry_ns);
    /* A clock that runs goes on: cuts that fail more often than it ends must not put it off. */
    if (core->keyless_misfits && core->mono_ns >= core->keyless_mono_ns)
        core->keyless_mono_ns = fg_time_add(core->mono_ns, core->config.keyless_retry_ns);
    core->misfits.n = 0;
    ing_chunk_list_drop(&core->pinned, CHUNK_ASIDE);
    core->cut = core->pinned.n == 0 ? CUT_IDLE : CUT_SEALED;
    core->cut_pause = (struct ing_pause){0};
    core->unfit = 0;
}

/* ---- what is due ---- */

/* Returns true if so much is open that it makes a segment, whatever its age. */
static bool is_enough(const struct ing_segments_core *core, uint8_t rank)
{
    const struct ing_chunk_table *table = &core->table;
    /* Rank 0 goes by the bytes of its own shards. Other ranks go by the total only: if that grows
     * to several segments, the owners before this one do not commit, and waiting longer costs disk.
     */
    uint64_t cut_bytes = core->config.cut_bytes;

    return (rank == 0 && table->first_bytes >= cut_bytes) ||
           table->open_bytes >= SEGMENTS_OPEN_MAX * cut_bytes;
}

static bool is_due(const struct ing_segments_core *core, const struct ing_segments_chunk *chunk)
{
    return chunk->drain != 0 || due_wall_ns(core, chunk) <= core->wall_ns;
}

/* Returns true if an open chunk needs a cut. */
static bool is_cut_due(const struct ing_segments_core *core)
{
    const struct ing_chunk_table *table = &core->table;

    if (table->by_state[CHUNK_OPEN] == 0)
        return false;
    if (is_enough(core, 0))
        return true;
    for (uint32_t i = 0; (core->look || core->draining) && i < table->n_chunks; i++) {
        const struct ing_segments_chunk *chunk = table->chunks[i];

        if (chunk->state == CHUNK_OPEN && chunk->profiles > 0 && is_due(core, chunk))
            return true;
    }
    return false;
}

/* Chooses the chunks of a cut: everything, if there is enough for a segment; or else chunks that a
 * DRAIN waits for, or that are due and it is our turn. The oldest windows first, and no more than a
 * segment of the usual size, since there may be hours of data after the bucket was unreachable. */
static void pin(struct ing_segments_core *core)
{
    const struct ing_chunk_table *table = &core->table;
    uint64_t bytes = 0;
    uint32_t n = 0;

    core->pinned.n = 0;
    for (uint32_t i = 0; i < table->n_chunks; i++) {
        struct ing_segments_chunk *chunk = table->chunks[i];

        if (chunk->state == CHUNK_OPEN && chunk->profiles > 0 &&
            (is_enough(core, chunk->rank) || is_turn(core, chunk) || is_due(core, chunk)))
            ing_chunk_list_add(&core->pinned, chunk);
    }
    if (core->pinned.n > 0)
        qsort(core->pinned.chunks, core->pinned.n, sizeof(void *), compare_urgency);
    /* At least one chunk, however large it is, or the head would never get rid of it. */
    while (n < core->pinned.n && (n == 0 || bytes < core->config.cut_bytes))
        bytes += core->pinned.chunks[n++]->bytes;
    core->pinned.n = n;
}

void ing_cut_sealed(struct ing_segments_core *core)
{
    /* A COMPARE may have found some of them committed while the seal was written. */
    ing_chunk_list_drop(&core->pinned, CHUNK_COMMITTED);
    /* Only now, after the number is durable: it must never name two different cuts, or the manifest
     * could say that this one entered while it has the other. */
    core->last_cut++;
    core->sealed_cut = core->last_cut;
    core->unfit = 0;
    for (uint32_t i = 0; i < core->pinned.n; i++) {
        struct ing_segments_chunk *chunk = core->pinned.chunks[i];

        ing_chunk_table_set_state(&core->table, chunk, CHUNK_SEALED);
        chunk->cut = core->last_cut;
        chunk->retry = false;
    }
    core->cut = CUT_SEALED;
    core->cut_pause = (struct ing_pause){0};
}

void ing_cut_marked(struct ing_segments_core *core)
{
    for (uint32_t i = 0; i < core->marking.n; i++)
        core->marking.chunks[i]->marked = true;
    core->marking.n = 0;
    core->pinned.n = 0;
    core->cut = CUT_IDLE;
    core->cut_pause = (struct ing_pause){0};
}

void ing_cut_uploaded(struct ing_segments_core *core, bool nothing)
{
    /* Nothing to swap, so no manifest will ever list these chunks. Any generation is right for
     * them; readers are served at `gen`. */
    if (nothing) /* their profiles were in failed writes only */
        for (uint32_t i = 0; i < core->pinned.n; i++)
            if (core->pinned.chunks[i]->state == CHUNK_SEALED)
                ing_core_commit_chunk(core, core->pinned.chunks[i], core->gen);
    core->cut = CUT_UPLOADED;
    core->cut_pause = (struct ing_pause){0};
    core->unfit = 0;
    core->uploaded_mono_ns = core->mono_ns;
    core->uploaded_wall_ns = core->wall_ns;
    /* A swap needs a manifest that was read after the upload (cas-recheck): what others committed
     * meanwhile must not enter twice. */
    core->rechecked = false;
    core->read_now = true;
}

/* The answer to the swap does not matter: the manifest tells whether the cut entered. */
void ing_cut_swapped(struct ing_segments_core *core)
{
    core->cut = CUT_SWAPPED;
    core->rechecked = false;
    core->read_now = true;
}

void ing_cut_failed(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    core->unfit += event->unfit;
    if (event->failed == SEGMENTS_SWAP)
        ing_cut_swapped(core);
    else if (event->failed == SEGMENTS_SEAL) /* repeat the same seal: it may have been written */
        core->cut = CUT_PINNED;
    else /* UPLOAD: under a new name. MARK, SET_ASIDE: CUT_SEALED leads back to them. */
        core->cut = CUT_SEALED;
    if (event->keyless || (event->unfit && core->unfit >= SEGMENTS_TRIES))
        choose_misfits(core, event);
    ing_core_fail(core, &core->cut_pause);
}

static void begin_seal(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    struct ing_segments_effect *effect;

    ing_chunk_list_drop(&core->pinned,
                        CHUNK_COMMITTED); /* of a failed seal, some may be committed since */
    if (core->pinned.n == 0) {
        core->cut = CUT_IDLE;
        return;
    }
    core->cut = CUT_SEALING;
    ing_core_emit_chunks(effects, SEGMENTS_SEAL, &core->pinned, core);
    effect = &effects->effects[effects->n - 1];
    /* The same number after a failed seal: the store may have that seal, and this one replaces it.
     */
    effect->cut = core->last_cut + 1;
}

bool ing_cut_is_ours(const struct ing_segments_core *core, const struct fg_l0 *l0,
                     const struct fg_l0_writer *writer)
{
    const struct fg_l0_segment *segment = fg_l0_segment(l0, writer->generation);

    if (writer->cut != core->last_cut)
        return writer->cut < core->last_cut;
    /* An earlier start has sealed it, and may have swapped it in under a name that is not known. */
    if (core->sealed_cut != core->last_cut)
        return true;
    if (segment == NULL || !fg_id_eq(segment->id.writer, core->config.writer) ||
        segment->id.cut != writer->cut) /* it came and went, or the manifest was rebuilt */
        return core->swapped_cut == core->last_cut;
    for (uint32_t i = 0; core->nonces_cut == core->last_cut && i < core->n_nonces; i++)
        if (core->nonces[i] == segment->id.nonce)
            return true;
    return false;
}

static void begin_upload(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    /* A manifest that is being read may have an earlier upload of this cut, whose swap arrived
     * late. Then its chunks have to be marked at once, which an upload would put off until its end.
     */
    if (core->follow == FOLLOW_READING)
        return;
    ing_chunk_list_keep(&core->pinned, CHUNK_SEALED);
    /* A new name for each upload. An earlier PUT of this cut may still be under way and arrive
     * later, with other content: the manifest must describe exactly one object of a name. */
    core->upload = (struct fg_segment_id){core->config.writer, core->last_cut, ing_core_draw(core)};
    /* All names of the cut are kept, for ing_cut_is_ours(). */
    if (core->nonces_cut != core->last_cut)
        core->n_nonces = 0;
    core->nonces_cut = core->last_cut;
    if (core->n_nonces == core->cap_nonces) {
        core->cap_nonces = FG_MAX(16, core->cap_nonces * 2);
        core->nonces = fg_realloc(core->nonces, core->cap_nonces * sizeof *core->nonces);
    }
    core->nonces[core->n_nonces++] = core->upload.nonce;
    core->stale = false;
    core->cut = CUT_UPLOADING;
    ing_core_emit_chunks(effects, SEGMENTS_UPLOAD, &core->pinned, core);
    effects->effects[effects->n - 1].salvage =
        core->pinned.n > 0 && core->pinned.chunks[0]->salvage;
}

static void begin_mark(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    core->marking.n = 0;
    for (uint32_t i = 0; i < core->pinned.n; i++)
        if (!core->pinned.chunks[i]->marked)
            ing_chunk_list_add(&core->marking, core->pinned.chunks[i]);
    if (core->marking.n == 0) { /* a COMPARE found all of them */
        ing_cut_marked(core);
        return;
    }
    core->cut = CUT_MARKING;
    ing_core_emit_chunks(effects, SEGMENTS_MARK, &core->marking, core);
}

/* Returns true if the chunks have not changed since the upload, and agree with the manifest that
 * the swap goes onto (cas-recheck). */
static bool may_swap(const struct ing_segments_core *core)
{
    /* A read that is under way replaces the manifest that the swap goes onto; a COMPARE may yet
     * take chunks out of the segment. */
    if (core->follow != FOLLOW_IDLE || !core->rechecked)
        return false;
    return !ing_core_keeps(core, FG_RULE_BIT_CAS_RECHECK) ||
           (core->settled && core->gen == core->seen);
}

/* By either clock: while a machine sleeps the monotonic one stands still, and the garbage
 * collection goes on. */
static bool is_upload_old(const struct ing_segments_core *core)
{
    return core->mono_ns - core->uploaded_mono_ns > core->config.upload_max_age_ns ||
           core->wall_ns - core->uploaded_wall_ns > core->config.upload_max_age_ns;
}

static void advance_uploaded(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    /* Stale: a COMPARE found profiles of the segment in the bucket, so the object has too much. Too
     * old: the garbage collection may delete an object that no manifest lists. */
    if ((core->stale && ing_core_keeps(core, FG_RULE_BIT_CAS_RECHECK)) || is_upload_old(core)) {
        begin_upload(core, effects);
        return;
    }
    if (!may_swap(core))
        return;
    core->cut = CUT_SWAPPING;
    core->swapped_cut = core->last_cut;
    ing_core_emit_chunks(effects, SEGMENTS_SWAP, &core->pinned, core);
    /* What the store is clean of rides along, so a busy store sends no reports. */
    effects->effects[effects->n - 1].clean = ing_core_clean(core);
}

/* Ends the cut that is under way while another program cuts for the same store. Its chunks are set
 * aside, also on the disk: after a restart the number of the cut would seem to be committed. */
static void abandon(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    if (core->cut == CUT_PINNED) { /* the store may say that they are sealed: first know it */
        begin_seal(core, effects);
        return;
    }
    if (core->cut != CUT_SEALED && core->cut != CUT_UPLOADED && core->cut != CUT_SWAPPED)
        return;
    if (all_committed(core)) {
        begin_mark(core, effects);
        return;
    }
    core->misfits.n = 0;
    for (uint32_t i = 0; i < core->pinned.n; i++)
        ing_chunk_list_add(&core->misfits, core->pinned.chunks[i]);
    ing_chunk_list_keep(&core->misfits, CHUNK_SEALED);
    core->retry_misfits = true; /* nothing is wrong with them */
    core->keyless_misfits = false;
    core->cut = CUT_SETTING_ASIDE;
    ing_core_emit_chunks(effects, SEGMENTS_SET_ASIDE, &core->misfits, core);
}

void ing_cut_advance(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    if (!ing_core_is_over(core, &core->cut_pause))
        return;
    if (core->copied) {
        abandon(core, effects);
        return;
    }
    switch (core->cut) {
    case CUT_IDLE:
        /* Seal nothing before the head has settled: until then a COMPARE may still move profiles
         * into open chunks. */
        if (!core->settled)
            return;
        if (is_cut_due(core))
            pin(core);
        else if (has_to_retry(core))
            pin_aside(core);
        else
            return;
        begin_seal(core, effects);
        return;
    case CUT_PINNED:
        begin_seal(core, effects);
        return;
    case CUT_SEALED:
        ing_chunk_list_keep(&core->misfits, CHUNK_SEALED);
        if (all_committed(core)) {
            begin_mark(core, effects);
        } else if (core->misfits.n > 0) {
            core->cut = CUT_SETTING_ASIDE;
            ing_core_emit_chunks(effects, SEGMENTS_SET_ASIDE, &core->misfits, core);
        } else if (core->settled) {
            /* An unsettled head waits: a COMPARE of everything is due, and would make this upload
             * stale. */
            begin_upload(core, effects);
        }
        return;
    case CUT_UPLOADED:
    case CUT_SWAPPED:
        if (all_committed(core))
            begin_mark(core, effects);
        /* After a swap only a manifest read since then tells that the cut is not in it; then swap
         * again. */
        else if (core->cut == CUT_UPLOADED || core->rechecked)
            advance_uploaded(core, effects);
        return;
    case CUT_SEALING:
    case CUT_SETTING_ASIDE:
    case CUT_UPLOADING:
    case CUT_SWAPPING:
    case CUT_MARKING:
        return;
    }
}
