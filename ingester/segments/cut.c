/* The cut: which rounds are due, and their way through seal, upload, swap and mark. */
#include "ingester/segments/segments_impl.h"

#include <stdlib.h>

/* How much may be open, in sizes of a segment, before the turn of others is not waited for: what
 * three heads hold is a third of each first, so that each cuts its own when it has three. */
enum { SEGMENTS_OPEN_MAX = 4 };

/* ---- time ---- */

/* What those take who are before us. */
static int64_t turns_ns(const struct ing_segments *segments, const struct ing_segments_round *round)
{
    return round->rank * segments->config.turn_ns;
}

/* Is it closed, and has been for so long that it is our turn? */
static bool is_turn(const struct ing_segments *segments, const struct ing_segments_round *round)
{
    return segments->wall_ns >=
           fg_time_add(ing_segments_closed_wall_ns(segments, round), turns_ns(segments, round));
}

/* When an open round makes a cut necessary. */
static int64_t due_wall_ns(const struct ing_segments *segments,
                           const struct ing_segments_round *round)
{
    const struct ing_segments_config *config = &segments->config;
    int64_t closed = ing_segments_closed_wall_ns(segments, round);
    int64_t lingered = fg_time_add(round->opened_wall_ns, config->linger_ns);
    int64_t oldest = fg_time_add(round->opened_wall_ns, config->open_max_ns);

    return fg_time_add(FG_MIN(FG_MAX(closed, lingered), oldest), turns_ns(segments, round));
}

/* ---- the cut ---- */

static bool all_committed(const struct ing_segments *segments)
{
    for (uint32_t i = 0; i < segments->pinned.n; i++)
        if (segments->pinned.rounds[i]->state != ROUND_COMMITTED)
            return false;
    return true;
}

/* What is waited for comes first, so that no flood of other data can keep it. */
static int compare_urgency(const void *left, const void *right)
{
    const struct ing_segments_round *const *a = left, *const *b = right;

    if (((*a)->drain != 0) != ((*b)->drain != 0))
        return (*a)->drain != 0 ? -1 : 1;
    return ((*a)->group.window > (*b)->group.window) - ((*a)->group.window < (*b)->group.window);
}

/* ---- aside ---- */

/* Is anything set aside that the next cut of such rounds takes? */
static bool has_to_retry(struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;
    bool any = false;

    if (table->by_state[ROUND_ASIDE] == 0 || !(segments->look || segments->draining))
        return false;
    for (uint32_t i = 0; i < table->n_rounds; i++) {
        struct ing_segments_round *round = table->rounds[i];

        if (round->state != ROUND_ASIDE)
            continue;
        round->retry |= segments->mono_ns >= segments->retry_mono_ns;
        any |= round->retry;
    }
    if (segments->mono_ns >= segments->retry_mono_ns)
        segments->retry_mono_ns = fg_time_add(segments->mono_ns, segments->config.aside_retry_ns);
    return any;
}

/* As pin(), for rounds that are set aside: a cut of their own, so that they stop no others. Those
 * that are to be salvaged are not mixed with others. */
static void pin_aside(struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;
    uint64_t bytes = 0;

    segments->pinned.n = 0;
    for (uint32_t i = 0; i < table->n_rounds && (i == 0 || bytes < segments->config.cut_bytes);
         i++) {
        struct ing_segments_round *round = table->rounds[i];

        if (round->state != ROUND_ASIDE || !round->retry ||
            (segments->pinned.n > 0 && segments->pinned.rounds[0]->salvage != round->salvage))
            continue;
        bytes += round->bytes;
        ing_round_list_add(&segments->pinned, round);
    }
}

/* Which rounds of the cut are set aside: the suspects, else half of it, which is tried again at
 * once; of a single round that. */
static void choose_misfits(struct ing_segments *segments, const struct ing_segments_event *event)
{
    const struct ing_round_list *pinned = &segments->pinned;

    segments->misfits.n = 0;
    segments->retry_misfits = event->n_suspects == 0 && pinned->n > 1;
    for (uint32_t i = 0; i < event->n_suspects; i++) {
        const struct ing_head_round_key *key = &event->suspects[i];
        struct ing_segments_round *round =
            ing_table_round(&segments->table, &key->group, key->number);

        if (round != NULL && round->state == ROUND_SEALED) /* it may be held since */
            ing_round_list_add(&segments->misfits, round);
    }
    for (uint32_t i = pinned->n / 2; event->n_suspects == 0 && i < pinned->n; i++)
        ing_round_list_add(&segments->misfits, pinned->rounds[i]);
    ing_round_list_keep(&segments->misfits, ROUND_SEALED);
}

void ing_cut_is_aside(struct ing_segments *segments)
{
    ing_round_list_keep(&segments->misfits, ROUND_SEALED); /* some may be held meanwhile */
    for (uint32_t i = 0; i < segments->misfits.n; i++) {
        ing_table_set_state(&segments->table, segments->misfits.rounds[i], ROUND_ASIDE);
        segments->misfits.rounds[i]->retry = segments->retry_misfits;
        segments->misfits.rounds[i]->salvage &= segments->retry_misfits;
    }
    if (segments->table.by_state[ROUND_ASIDE] == segments->misfits.n)
        segments->retry_mono_ns = fg_time_add(segments->mono_ns, segments->config.aside_retry_ns);
    segments->misfits.n = 0;
    ing_round_list_drop(&segments->pinned, ROUND_ASIDE);
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

static bool is_due(const struct ing_segments *segments, const struct ing_segments_round *round)
{
    return round->drain != 0 || due_wall_ns(segments, round) <= segments->wall_ns;
}

/* Does some open round need a cut? */
static bool is_cut_due(const struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;

    if (table->by_state[ROUND_OPEN] == 0)
        return false;
    if (is_enough(segments, 0))
        return true;
    for (uint32_t i = 0; (segments->look || segments->draining) && i < table->n_rounds; i++) {
        const struct ing_segments_round *round = table->rounds[i];

        if (round->state == ROUND_OPEN && round->profiles > 0 && is_due(segments, round))
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
    for (uint32_t i = 0; i < table->n_rounds; i++) {
        struct ing_segments_round *round = table->rounds[i];

        if (round->state == ROUND_OPEN && round->profiles > 0 &&
            (is_enough(segments, round->rank) || is_turn(segments, round) ||
             is_due(segments, round)))
            ing_round_list_add(&segments->pinned, round);
    }
    if (segments->pinned.n > 0)
        qsort(segments->pinned.rounds, segments->pinned.n, sizeof(void *), compare_urgency);
    while (n < segments->pinned.n && (n == 0 || bytes < segments->config.cut_bytes))
        bytes += segments->pinned.rounds[n++]->bytes;
    segments->pinned.n = n;
}

void ing_cut_sealed(struct ing_segments *segments)
{
    ing_round_list_drop(&segments->pinned, ROUND_COMMITTED);
    segments->last_cut++;
    segments->unfit = 0;
    for (uint32_t i = 0; i < segments->pinned.n; i++) {
        struct ing_segments_round *round = segments->pinned.rounds[i];

        ing_table_set_state(&segments->table, round, ROUND_SEALED);
        round->cut = segments->last_cut;
        round->retry = false;
    }
    segments->cut = CUT_SEALED;
    segments->cut_pause = (struct ing_pause){0};
}

void ing_cut_marked(struct ing_segments *segments)
{
    for (uint32_t i = 0; i < segments->marking.n; i++)
        segments->marking.rounds[i]->marked = true;
    segments->marking.n = 0;
    segments->pinned.n = 0;
    segments->cut = CUT_IDLE;
    segments->cut_pause = (struct ing_pause){0};
}

void ing_cut_uploaded(struct ing_segments *segments, bool nothing)
{
    if (nothing) /* of writes that failed and were not there after all */
        for (uint32_t i = 0; i < segments->pinned.n; i++)
            if (segments->pinned.rounds[i]->state == ROUND_SEALED)
                ing_segments_commit_round(segments, segments->pinned.rounds[i], segments->gen);
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

    ing_round_list_drop(&segments->pinned,
                        ROUND_COMMITTED); /* of a seal that failed, some may be held since */
    if (segments->pinned.n == 0) {
        segments->cut = CUT_IDLE;
        return;
    }
    segments->cut = CUT_SEALING;
    ing_segments_emit_rounds(effects, SEGMENTS_SEAL, &segments->pinned, segments);
    effect = &effects->effects[effects->n - 1];
    effect->cut = segments->last_cut + 1;
}

static void begin_set_aside(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    segments->cut = CUT_SETTING_ASIDE;
    ing_segments_emit_rounds(effects, SEGMENTS_SET_ASIDE, &segments->misfits, segments);
}

static void begin_upload(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    ing_round_list_keep(&segments->pinned, ROUND_SEALED);
    segments->upload = (struct fg_segment_id){segments->config.writer, segments->last_cut,
                                              ing_segments_draw(segments)};
    segments->stale = false;
    segments->cut = CUT_UPLOADING;
    ing_segments_emit_rounds(effects, SEGMENTS_UPLOAD, &segments->pinned, segments);
    effects->effects[effects->n - 1].salvage =
        segments->pinned.n > 0 && segments->pinned.rounds[0]->salvage;
}

static void begin_mark(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    segments->marking.n = 0;
    for (uint32_t i = 0; i < segments->pinned.n; i++)
        if (!segments->pinned.rounds[i]->marked)
            ing_round_list_add(&segments->marking, segments->pinned.rounds[i]);
    if (segments->marking.n == 0) { /* all were found by comparing */
        ing_cut_marked(segments);
        return;
    }
    segments->cut = CUT_MARKING;
    ing_segments_emit_rounds(effects, SEGMENTS_MARK, &segments->marking, segments);
}

/* Nothing has happened to the rounds since the upload, and they agree with the manifest that it
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
    ing_segments_emit_rounds(effects, SEGMENTS_SWAP, &segments->pinned, segments);
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
        ing_round_list_keep(&segments->misfits, ROUND_SEALED);
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
