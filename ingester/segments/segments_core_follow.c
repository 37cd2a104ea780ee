/* Follows the manifest, and compares with what others have committed. */
#include "ingester/segments/segments_core_impl.h"

#include <stdlib.h>

/* A failed COMPARE may mean that the segment has left the manifest, so read that again. TAKE_IN is
 * a write of the head and says nothing about the bucket. A COMPARE pauses by itself, too: reads
 * that succeed in between would otherwise make it repeat at once. */
void ing_follow_failed(struct ing_segments_core *core, enum ing_segments_effect_kind failed)
{
    core->follow = FOLLOW_IDLE;
    core->read_now |= failed != SEGMENTS_TAKE_IN;
    ing_core_fail(core, &core->follow_pause);
    if (failed == SEGMENTS_COMPARE)
        ing_core_fail(core, &core->compare_pause);
}

/* Returns which of our cuts the manifest has. Cuts enter in order, so the last one stands for all
 * before. Only the last one can be unmarked, so its generation is that of all sealed chunks. */
static bool own_cut(const struct ing_segments_core *core, const struct fg_l0 *l0, uint64_t *ret_cut,
                    uint64_t *ret_generation)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, core->config.writer);

    if (writer == NULL)
        return false;
    if (!ing_core_keeps(core, FG_RULE_BIT_SETTLE_ON_REJOIN) &&
        fg_l0_segment(l0, writer->generation) == NULL)
        return false; /* the segment came and went unseen */
    *ret_cut = writer->cut;
    *ret_generation = writer->generation;
    return true;
}

/* If the manifest has a cut that this store never made, a later state of the store made it: the
 * disk was restored from a backup. The same number then means another cut. So chunks that are
 * sealed here are sealed again under a free number, after a COMPARE has told which are committed.
 */
static void check_last_cut(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, core->config.writer);

    if (core->started || writer == NULL || writer->cut <= core->last_cut)
        return;
    core->store_went_back = true;
    core->last_cut = writer->cut;
    for (uint32_t i = 0; i < core->pinned.n; i++) {
        ing_chunk_table_set_state(&core->table, core->pinned.chunks[i], CHUNK_ASIDE);
        core->pinned.chunks[i]->retry = true;
    }
    core->pinned.n = 0;
    core->cut = CUT_IDLE;
}

/* If the manifest has a cut that nobody but a program with a copy of this store can have made, no
 * number of a cut tells any more what is committed. So nothing is cut from here on, what is sealed
 * is set aside, and the head is compared with everything, and from then on with each segment. */
static void check_copied(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, core->config.writer);

    if (writer == NULL || !core->started)
        return;
    if (!core->copied && !ing_cut_is_ours(core, l0, writer)) {
        core->copied = true;
        core->settled = false;
        core->settling = true;
    }
    /* Not during a seal, which has a number already. */
    if (core->copied && core->cut != CUT_SEALING)
        core->last_cut = FG_MAX(core->last_cut, writer->cut);
}

static void follow_own(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    uint64_t cut, generation;

    /* Here, and nowhere else, a cut becomes committed: lost answers, late swaps and crashes all end
     * here. */
    if (core->copied || !own_cut(core, l0, &cut, &generation))
        return;
    for (uint32_t i = 0; i < core->pinned.n; i++) {
        struct ing_segments_chunk *chunk = core->pinned.chunks[i];

        if (chunk->state == CHUNK_SEALED && chunk->cut <= cut) {
            ing_core_commit_chunk(core, chunk, generation);
            /* Readers go by the marks of chunks. From this step on they may know the segment, so
             * the chunks are marked in it and not after a pause of failed tries. */
            core->cut_pause = (struct ing_pause){0};
        }
    }
}

/* Returns true if an unknown segment may contain profiles that our chunks have, or profiles of a
 * group that we believe to have all of. */
static bool has_to_compare(const struct ing_segments_core *core)
{
    for (uint32_t i = 0; i < core->table.n_groups; i++) {
        const struct ing_chunk_table_group *group = core->table.groups[i];

        if (group->whole && ing_segments_core_may_hold(core, &group->key))
            return true;
    }
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        const struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (chunk->state != CHUNK_COMMITTED && ing_segments_core_may_hold(core, &chunk->group))
            return true;
    }
    return false;
}

/* Notes that all chunks agree with the objects of every generation up to `seen`. */
static void caught_up(struct ing_segments_core *core)
{
    core->gen = core->seen;
    core->settled = true;
    core->settling = false;
    core->n_foreign = core->at_foreign = 0;
}

static void take_late_filter(struct ing_segments_core *core, const struct fg_late_filter *filter)
{
    /* A copy, since the manifest is valid until the end of the step only. The arena has no limit,
     * so the join with nothing cannot fail; the filter is bounded by the size of the manifest. */
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_late_filter none = fg_late_filter_none();

    fg_assert(fg_late_filter_join(filter, &none, 0, 0, arena, &core->late_filter));
    fg_arena_destroy(core->late_filter_arena);
    core->late_filter_arena = arena;
}

/* Returns true if the segment is our last upload. */
static bool is_own(const struct ing_segments_core *core, const struct fg_l0_segment *segment)
{
    return !core->copied && fg_id_eq(segment->id.writer, core->config.writer) &&
           (segment->id.nonce == core->upload.nonce ||
            core->table.by_state[CHUNK_ASIDE] + core->table.by_state[CHUNK_UNCHECKED] == 0);
}

/* Takes over the era that the manifest asks for, and what it says this store is clean of. */
static void take_asked(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, core->config.writer);
    uint64_t reported = writer == NULL ? 0 : writer->clean;

    if (reported > core->reported)
        core->report_pause = (struct ing_pause){0};
    core->reported = reported;
    /* Never back: chunks got the era in which they began, and none may be newer than the era. */
    core->era = FG_MAX(core->era, l0->asked);
}

void ing_follow_manifest(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    /* Either this is the first manifest of this start, or segments have entered and left unseen
     * (the floor is above `gen`). Their profiles are in blocks now, where comparing segment by
     * segment does not look, so compare with everything (settle-on-rejoin). */
    bool away = !core->started || l0->floor > core->gen;

    core->went_back = l0->generation < core->seen;
    if (core->went_back) { /* another bucket, or one restored from a backup: take nothing from it */
        ing_follow_failed(core, SEGMENTS_READ);
        return;
    }
    core->follow = FOLLOW_IDLE;
    core->follow_pause = (struct ing_pause){0};
    core->manifest_mono_ns = core->mono_ns;
    core->next_read_mono_ns = fg_time_add(core->mono_ns, core->config.poll_ns);
    /* The wanted generation does not exist yet, or never will: do not read again at once. */
    core->wanted_mono_ns = core->read_for > l0->generation
                               ? fg_time_add(core->mono_ns, core->config.backoff_min_ns)
                               : 0;
    core->wanted = 0; /* readers that still wait ask again */
    core->rechecked = true;
    /* First, since follow_own() would take cuts of a later state of this disk, or of a copy, for
     * its own. */
    check_last_cut(core, l0);
    check_copied(core, l0);
    if (!core->started || l0->generation > core->seen)
        take_late_filter(core, &l0->late_filter);
    if (!core->started) /* what earlier starts evicted is in objects of this generation or an older
                           one */
        core->safe = l0->generation;
    core->started = true;
    core->seen = l0->generation;
    /* From here on the order matters: our own cut becomes committed first, so its chunks need no
     * COMPARE, and has_to_compare() asks the late filter that was just taken over. */
    take_asked(core, l0);
    follow_own(core, l0);
    if (away && ing_core_keeps(core, FG_RULE_BIT_SETTLE_ON_REJOIN)) {
        core->settled = false;
        core->settling = true;
    }
    /* Segments that are newer than what we agree with: of others; or an earlier upload of ours that
     * was swapped in so late that some of its chunks have since been set aside, or are
     * unchecked. */
    core->n_foreign = core->at_foreign = 0;
    for (uint32_t i = 0; i < l0->n_segments; i++)
        if (l0->segments[i].generation > core->gen && !is_own(core, &l0->segments[i]))
            core->foreign[core->n_foreign++] = l0->segments[i].generation;
    if ((!core->settling && core->n_foreign == 0) || !has_to_compare(core))
        caught_up(core);
}

/* ---- comparing: only groups of which others may have our profiles ---- */

bool ing_segments_core_may_hold(const struct ing_segments_core *core,
                                const struct ing_head_group_key *group)
{
    return fg_late_filter_has(&core->late_filter, group->shard, group->window);
}

uint32_t ing_segments_core_leftover(const struct ing_segments_core *core,
                                    const struct ing_head_group_key *group, uint32_t chunk)
{
    const struct ing_chunk_table_group *found = ing_chunk_table_group(&core->table, group);

    fg_assert(found != NULL);
    return found->open != NULL && found->open->number != chunk ? found->open->number : found->next;
}

uint32_t ing_segments_core_split(const struct ing_segments_core *core,
                                 const struct ing_head_group_key *group)
{
    const struct ing_chunk_table_group *found = ing_chunk_table_group(&core->table, group);

    fg_assert(found != NULL);
    return found->next + 1; /* leftovers of the same part may take the next number */
}

static void move_profiles(struct ing_segments_core *core, struct ing_segments_chunk *from,
                          struct ing_segments_chunk *to, const struct ing_segments_outcome *outcome)
{
    /* The profiles keep their age and their era: moving must not make them younger. */
    to->opened_wall_ns = FG_MIN(to->opened_wall_ns, from->opened_wall_ns);
    to->era = FG_MIN(to->era, from->era);
    ing_chunk_table_count(&core->table, from, -(int64_t)outcome->moved_profiles,
                          -(int64_t)outcome->moved_bytes);
    ing_chunk_table_count(&core->table, to, (int64_t)outcome->moved_profiles,
                          (int64_t)outcome->moved_bytes);
}

/* Moves the profiles that the bucket lacks to the open chunk. */
static void move_leftover(struct ing_segments_core *core, struct ing_segments_chunk *chunk,
                          const struct ing_segments_outcome *outcome)
{
    struct ing_chunk_table_group *group = ing_chunk_table_group(&core->table, &chunk->group);
    struct ing_segments_chunk *open = group->open;

    if (outcome->moved_profiles == 0)
        return;
    if (open == NULL) {
        struct ing_segments_chunk fresh = {.group = chunk->group,
                                           .number = outcome->to,
                                           .opened_wall_ns = chunk->opened_wall_ns,
                                           .era = chunk->era};

        open = ing_core_add_chunk(core, group, fresh);
    }
    fg_assert(open->number == outcome->to);
    ing_core_wait_for(open, chunk->drain); /* a drain must not miss them */
    move_profiles(core, chunk, open, outcome);
}

/* Moves profiles that the bucket has to a committed chunk. */
static void split_off(struct ing_segments_core *core, struct ing_segments_chunk *chunk,
                      const struct ing_segments_outcome *outcome, uint64_t generation)
{
    struct ing_segments_chunk *to =
        ing_chunk_table_chunk(&core->table, &outcome->group, outcome->to);
    struct ing_segments_chunk fresh = {.group = chunk->group,
                                       .number = outcome->to,
                                       .state = CHUNK_COMMITTED,
                                       .generation = generation,
                                       .opened_wall_ns = chunk->opened_wall_ns,
                                       .committed_mono_ns = core->mono_ns,
                                       .marked = true,
                                       .era = chunk->era};

    /* An earlier part of this COMPARE may have made it. */
    if (to == NULL)
        to = ing_core_add_chunk(core, ing_chunk_table_group(&core->table, &chunk->group), fresh);
    fg_assert(to->state == CHUNK_COMMITTED && to->marked && to->generation == generation);
    move_profiles(core, chunk, to, outcome);
}

static void take_outcome(struct ing_segments_core *core, const struct ing_segments_outcome *outcome,
                         uint64_t generation)
{
    struct ing_segments_chunk *chunk =
        ing_chunk_table_chunk(&core->table, &outcome->group, outcome->number);

    fg_assert(chunk != NULL && chunk->state != CHUNK_COMMITTED);
    core->stale |=
        chunk->state == CHUNK_SEALED; /* if the cut is uploaded, the upload has to be repeated */
    if (outcome->split) {
        split_off(core, chunk, outcome, generation);
        return;
    }
    ing_core_commit_chunk(core, chunk, generation);
    chunk->marked = true;
    move_leftover(core, chunk, outcome);
}

/* Groups whose profiles others may have are no longer whole. */
static void clear_whole(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    if (core->compares_all && !core->settling) /* it compared with all that was known before */
        return;
    /* Settling: segments came and went unseen, so any group may lack profiles. */
    for (uint32_t i = 0; core->settling && i < core->table.n_groups; i++)
        core->table.groups[i]->whole = false;
    for (uint32_t i = 0; i < event->n_missing; i++) {
        struct ing_chunk_table_group *group =
            ing_chunk_table_group(&core->table, &event->missing[i]);

        if (group != NULL)
            group->whole = false;
    }
}

/* ---- unchecked chunks ---- */

static int compare_groups(const void *left, const void *right)
{
    return ing_head_group_cmp(left, right);
}

static bool is_unsure(const struct ing_segments_event *event,
                      const struct ing_head_group_key *group)
{
    return event->n_unsure > 0 && bsearch(group, event->unsure, event->n_unsure,
                                          sizeof *event->unsure, compare_groups) != NULL;
}

/* Makes chunks unchecked that the COMPARE is unsure about: they are neither shown nor committed. */
static void take_unsure(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    for (uint32_t i = 0; i < core->table.n_chunks && event->n_unsure > 0; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (chunk->state == CHUNK_COMMITTED || !is_unsure(event, &chunk->group))
            continue;
        core->stale |= chunk->state == CHUNK_SEALED;
        /* The store marks the same chunks in the batch of ing_compare_apply(), so a restart hides
         * them, too. */
        if (chunk->state != CHUNK_UNCHECKED)
            ing_chunk_table_set_state(&core->table, chunk, CHUNK_UNCHECKED);
        chunk->checking = false;
        /* The DRAIN has its answer: this chunk cannot be committed now. */
        if (core->compares_all)
            chunk->retry = chunk->retry && !core->checks_drain;
    }
    core->compare_unsure |= event->n_unsure > 0;
    for (uint32_t i = 0; i < event->n_unsure; i++) {
        struct ing_chunk_table_group *group =
            ing_chunk_table_group(&core->table, &event->unsure[i]);

        if (group != NULL)
            group->whole = false;
    }
}

/* Lists unchecked chunks that the COMPARE has covered and not found in the bucket. Empty ones are
 * left out, since they may be removed at any time. */
static void list_checked(struct ing_segments_core *core)
{
    core->checked.n = 0;
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (chunk->state == CHUNK_UNCHECKED && chunk->checking && chunk->profiles > 0)
            ing_chunk_list_add(&core->checked, chunk);
    }
    core->check_mono_ns =
        core->compare_unsure ? fg_time_add(core->mono_ns, core->config.check_retry_ns) : 0;
}

/* After a failed write, drops chunks that have meanwhile received profiles without a check. */
static void drop_unchecked_again(struct ing_segments_core *core)
{
    struct ing_chunk_list *list = &core->checked;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->chunks[i]->checking)
            list->chunks[kept++] = list->chunks[i];
    if (kept < list->n)
        core->check_mono_ns = 0;
    list->n = kept;
}

void ing_follow_taken_in(struct ing_segments_core *core)
{
    core->follow = FOLLOW_IDLE;
    core->follow_pause = (struct ing_pause){0};
    for (uint32_t i = 0; i < core->checked.n; i++) {
        ing_chunk_table_set_state(&core->table, core->checked.chunks[i], CHUNK_ASIDE);
        core->checked.chunks[i]->retry = true;
    }
    core->checked.n = 0;
}

/* Returns true if unchecked chunks are to be compared. Not during a swap: the core looks for its
 * chunks in the manifest. */
static bool is_check_due(const struct ing_segments_core *core)
{
    return core->settled && core->table.unchecked_profiles > 0 &&
           ing_core_is_over(core, &core->compare_pause) && core->mono_ns >= core->check_mono_ns &&
           core->cut != CUT_SWAPPING && core->cut != CUT_SWAPPED;
}

/* A chunk that is marked no longer needs the cut, and may be evicted before the cut ends. */
static void unpin_marked(struct ing_segments_core *core)
{
    struct ing_chunk_list *list = &core->pinned;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (!list->chunks[i]->marked && list->chunks[i]->state != CHUNK_UNCHECKED)
            list->chunks[kept++] = list->chunks[i];
    list->n = kept;
    ing_chunk_list_drop(&core->misfits, CHUNK_COMMITTED);
    ing_chunk_list_drop(&core->misfits, CHUNK_UNCHECKED);
}

void ing_follow_compared(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    /* The order below: outcomes first, since an unsure group has none; then chunks leave the cut
     * before the cut lane looks at it in this step. */
    for (uint32_t i = 0; i < event->n_outcomes; i++)
        take_outcome(core, &event->outcomes[i], event->generation);
    take_unsure(core, event);
    unpin_marked(core);
    clear_whole(core, event);
    /* It is unknown when the profiles that were found were committed, only that a snapshot of this
     * generation has them: refuse older ones. */
    if (core->compares_all)
        core->safe = FG_MAX(core->safe, event->generation);
    /* A part: `gen` stays, so readers that know more wait, and nothing is swapped. What it has
     * found is true by itself, whether the rest follows or fails. */
    if (event->more)
        return;
    core->follow = FOLLOW_IDLE;
    core->follow_pause = core->compare_pause = (struct ing_pause){0};
    if (core->compares_all) {
        list_checked(core);
        caught_up(core);
        return;
    }
    /* One segment at a time, ascending, so `gen` is always true for all chunks. */
    core->gen = core->foreign[core->at_foreign++];
    if (core->at_foreign == core->n_foreign)
        caught_up(core);
}

/* ---- reports of what this store is clean of ---- */

/* The manifest tells whether the report was taken. If not, pause before the next one: many
 * ingesters report at the same time. */
void ing_follow_reported(struct ing_segments_core *core)
{
    core->follow = FOLLOW_IDLE;
    core->read_now = true;
    ing_core_fail(core, &core->report_pause);
}

/* Returns true if there is more to report. Only while all chunks agree with the manifest: an
 * ingester that is behind may have what a segment has, and committing would not remove it. A cut
 * that is under way reports by itself. */
static bool is_report_due(const struct ing_segments_core *core)
{
    return core->settled && !core->copied && core->gen == core->seen && core->cut == CUT_IDLE &&
           core->era > core->reported && (core->look || core->table.n_chunks == 0) &&
           ing_core_is_over(core, &core->report_pause) && ing_core_clean(core) > core->reported;
}

int64_t ing_follow_due_mono_ns(const struct ing_segments_core *core)
{
    int64_t due = core->next_read_mono_ns;

    /* No read begins during a swap, which goes onto the manifest that was handed in last. */
    if (core->follow != FOLLOW_IDLE || core->cut == CUT_SWAPPING)
        return INT64_MAX;
    if (core->wanted > core->seen)
        due = FG_MIN(due, core->wanted_mono_ns);
    if (core->read_now || !core->started)
        due = core->mono_ns;
    return FG_MAX(due, ing_core_pause_end(core, &core->follow_pause));
}

static void begin_compare(struct ing_segments_core *core, bool all,
                          struct ing_segments_effects *effects)
{
    struct ing_segments_effect *effect = ing_core_emit(effects, SEGMENTS_COMPARE);

    effect->all = all;
    effect->generation = all ? core->seen : core->foreign[core->at_foreign];
    core->follow = FOLLOW_COMPARING;
    core->compares_all = all;
    core->compare_unsure = false;
    if (!all)
        return;
    /* The COMPARE covers what is in the unchecked chunks now. */
    core->checks_drain = true;
    for (uint32_t i = 0; i < core->table.n_chunks; i++)
        core->table.chunks[i]->checking = true;
}

void ing_follow_advance(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
    /* By urgency. TAKE_IN first: its list is about chunks as they were compared, and goes stale
     * with each push. A COMPARE comes before a routine READ, which would add more to compare, but
     * after a READ that another step asked for. Unchecked chunks and reports wait until nothing
     * else is due. */
    if (core->follow != FOLLOW_IDLE || !ing_core_is_over(core, &core->follow_pause))
        return;
    drop_unchecked_again(core);
    if (core->checked.n > 0) {
        ing_core_emit_chunks(effects, SEGMENTS_TAKE_IN, &core->checked, core);
        core->follow = FOLLOW_TAKING_IN;
        return;
    }
    if (!core->read_now && ing_core_is_over(core, &core->compare_pause) &&
        (core->settling || core->at_foreign < core->n_foreign)) {
        begin_compare(core, core->settling, effects);
        return;
    }
    if (core->mono_ns >= ing_follow_due_mono_ns(core)) {
        (void)ing_core_emit(effects, SEGMENTS_READ);
        core->follow = FOLLOW_READING;
        core->read_now = false;
        /* The manifest that arrives answers the wishes of now; later ones need another read. */
        core->read_for = core->wanted;
        return;
    }
    if (is_check_due(core)) {
        begin_compare(core, true, effects);
        return;
    }
    if (is_report_due(core)) {
        ing_core_emit(effects, SEGMENTS_REPORT)->clean = ing_core_clean(core);
        core->follow = FOLLOW_REPORTING;
    }
}
