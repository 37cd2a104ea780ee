/* Following the manifest, and comparing with what others have committed. */
#include "ingester/segments/segments_core_impl.h"

#include <stdlib.h>

/* The segment may have left: the manifest says. */
void ing_follow_failed(struct ing_segments_core *core, enum ing_segments_effect_kind failed)
{
    core->follow = FOLLOW_IDLE;
    core->read_now |= failed != SEGMENTS_TAKE_IN;
    ing_core_fail(core, &core->follow_pause);
    if (failed == SEGMENTS_COMPARE)
        ing_core_fail(core, &core->compare_pause);
}

/*
 * Which of our cuts the manifest has: cuts enter in order, so the last one says it of all before.
 * Only one can be unmarked, the last; so its generation is that of all chunks that are sealed.
 */
static bool own_cut(const struct ing_segments_core *core, const struct fg_l0 *l0, uint64_t *ret_cut,
                    uint64_t *ret_generation)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, core->config.writer);

    if (writer == NULL)
        return false;
    if (!ing_core_keeps(core, FG_RULE_BIT_SETTLE_ON_REJOIN) &&
        fg_l0_segment(l0, writer->generation) == NULL)
        return false; /* it came and went unseen */
    *ret_cut = writer->cut;
    *ret_generation = writer->generation;
    return true;
}

/*
 * A cut that this store never made was made by a later state of it: the disk is from a backup. The
 * same number means something else there, so what is sealed here is sealed again under one that is
 * not taken, after comparing has told what of it is committed.
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

static void follow_own(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    uint64_t cut, generation;

    if (!own_cut(core, l0, &cut, &generation))
        return;
    for (uint32_t i = 0; i < core->pinned.n; i++) {
        struct ing_segments_chunk *chunk = core->pinned.chunks[i];

        if (chunk->state == CHUNK_SEALED && chunk->cut <= cut)
            ing_core_commit_chunk(core, chunk, generation);
    }
}

/* Could a segment that we do not know hold what we hold, or what we think we hold all of? */
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

/* All chunks agree with everything up to seen. */
static void caught_up(struct ing_segments_core *core)
{
    core->gen = core->seen;
    core->settled = true;
    core->settling = false;
    core->n_foreign = core->at_foreign = 0;
}

static void take_late_filter(struct ing_segments_core *core, const struct fg_late_filter *filter)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_late_filter none = fg_late_filter_none();

    fg_assert(fg_late_filter_join(filter, &none, 0, 0, arena, &core->late_filter));
    fg_arena_destroy(core->late_filter_arena);
    core->late_filter_arena = arena;
}

/* Is it the segment that was uploaded last? */
static bool is_own(const struct ing_segments_core *core, const struct fg_l0_segment *segment)
{
    return fg_id_eq(segment->id.writer, core->config.writer) &&
           (segment->id.nonce == core->upload.nonce ||
            core->table.by_state[CHUNK_ASIDE] + core->table.by_state[CHUNK_UNCHECKED] == 0);
}

/*
 * Newer than what we agree with, and of others; or an earlier upload of ours, swapped in so late
 * that chunks which are in it have been set aside since, or are unchecked.
 */
static void list_foreign(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    core->n_foreign = core->at_foreign = 0;
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];

        if (segment->generation > core->gen && !is_own(core, segment))
            core->foreign[core->n_foreign++] = segment->generation;
    }
}

/* What is asked, and what of it we have answered. */
static void take_asked(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, core->config.writer);
    uint64_t reported = writer == NULL ? 0 : writer->clean;

    if (reported > core->reported)
        core->report_pause = (struct ing_pause){0};
    core->reported = reported;
    core->era = FG_MAX(core->era, l0->asked);
}

void ing_follow_manifest(struct ing_segments_core *core, const struct fg_l0 *l0)
{
    bool away = !core->started || l0->floor > core->gen;

    core->went_back = l0->generation < core->seen;
    if (core->went_back) { /* another bucket, or one from a backup: nothing is right any more */
        ing_follow_failed(core, SEGMENTS_READ);
        return;
    }
    core->follow = FOLLOW_IDLE;
    core->follow_pause = (struct ing_pause){0};
    core->manifest_mono_ns = core->mono_ns;
    core->next_read_mono_ns = fg_time_add(core->mono_ns, core->config.poll_ns);
    /* A generation that is not there yet, or never will be: whoever says so. */
    core->wanted_mono_ns = core->read_for > l0->generation
                               ? fg_time_add(core->mono_ns, core->config.backoff_min_ns)
                               : 0;
    core->wanted = 0; /* who still waits says so again */
    core->rechecked = true;
    check_last_cut(core, l0);
    if (!core->started || l0->generation > core->seen)
        take_late_filter(core, &l0->late_filter);
    if (!core->started) /* what was evicted before this start is in blocks up to here */
        core->safe = l0->generation;
    core->started = true;
    core->seen = l0->generation;
    take_asked(core, l0);
    follow_own(core, l0);
    if (away && ing_core_keeps(core, FG_RULE_BIT_SETTLE_ON_REJOIN)) {
        core->settled = false;
        core->settling = true;
    }
    list_foreign(core, l0);
    if ((!core->settling && core->n_foreign == 0) || !has_to_compare(core))
        caught_up(core);
}

/* ---- comparing: only where others may hold what we hold ---- */

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

/* The other profiles of a chunk become part of the open one. */
static void move_leftover(struct ing_segments_core *core, struct ing_segments_chunk *chunk,
                          const struct ing_segments_outcome *outcome, uint32_t to)
{
    struct ing_chunk_table_group *group = ing_chunk_table_group(&core->table, &chunk->group);
    struct ing_segments_chunk *open = group->open;

    if (outcome->moved_profiles == 0)
        return;
    if (open == NULL) {
        struct ing_segments_chunk fresh = {.group = chunk->group,
                                           .number = to,
                                           .opened_wall_ns = chunk->opened_wall_ns,
                                           .era = chunk->era};

        open = ing_core_add_chunk(core, group, fresh);
    }
    open->opened_wall_ns = FG_MIN(open->opened_wall_ns, chunk->opened_wall_ns);
    open->era = FG_MIN(open->era, chunk->era);
    ing_core_wait_for(open, chunk->drain);
    ing_chunk_table_count(&core->table, chunk, -(int64_t)outcome->moved_profiles,
                          -(int64_t)outcome->moved_bytes);
    ing_chunk_table_count(&core->table, open, (int64_t)outcome->moved_profiles,
                          (int64_t)outcome->moved_bytes);
}

static void take_outcome(struct ing_segments_core *core, const struct ing_segments_outcome *outcome,
                         uint64_t generation)
{
    struct ing_segments_chunk *chunk =
        ing_chunk_table_chunk(&core->table, &outcome->group, outcome->number);
    uint32_t to = ing_segments_core_leftover(core, &outcome->group, outcome->number);

    fg_assert(chunk != NULL && chunk->state != CHUNK_COMMITTED);
    core->stale |= chunk->state == CHUNK_SEALED; /* the cut may be uploaded: it has to be again */
    ing_core_commit_chunk(core, chunk, generation);
    chunk->marked = true;
    move_leftover(core, chunk, outcome, to);
}

/* Nothing is known any more about what others hold of these. */
static void clear_whole(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    if (core->compares_all && !core->settling) /* of all that was known before */
        return;
    for (uint32_t i = 0; core->settling && i < core->table.n_groups; i++)
        core->table.groups[i]->whole = false;
    for (uint32_t i = 0; i < event->n_missing; i++) {
        struct ing_chunk_table_group *group =
            ing_chunk_table_group(&core->table, &event->missing[i]);

        if (group != NULL)
            group->whole = false;
    }
}

/* ---- what is unchecked ---- */

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

/* Of what the COMPARE could not tell of nothing is shown any more, nor committed. */
static void take_unsure(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    for (uint32_t i = 0; i < core->table.n_chunks && event->n_unsure > 0; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (chunk->state == CHUNK_COMMITTED || chunk->state == CHUNK_UNCHECKED ||
            !is_unsure(event, &chunk->group))
            continue;
        core->stale |= chunk->state == CHUNK_SEALED;
        ing_chunk_table_set_state(&core->table, chunk, CHUNK_UNCHECKED);
    }
    for (uint32_t i = 0; i < event->n_unsure; i++) {
        struct ing_chunk_table_group *group =
            ing_chunk_table_group(&core->table, &event->unsure[i]);

        if (group != NULL)
            group->whole = false;
    }
}

/* Those that the COMPARE has told of, and held by nobody. Empty ones may go at any time. */
static void list_checked(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    core->checked.n = 0;
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (chunk->state != CHUNK_UNCHECKED)
            continue;
        if (is_unsure(event, &chunk->group))
            chunk->retry = chunk->retry && !core->checks_drain;
        else if (chunk->checking && chunk->profiles > 0)
            ing_chunk_list_add(&core->checked, chunk);
    }
    core->check_mono_ns =
        event->n_unsure == 0 ? 0 : fg_time_add(core->mono_ns, core->config.check_retry_ns);
}

/* The COMPARE tells of what is in these chunks now. */
static void begin_checking(struct ing_segments_core *core)
{
    core->checks_drain = true;
    for (uint32_t i = 0; i < core->table.n_chunks; i++)
        core->table.chunks[i]->checking = true;
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

/* Not in the middle of a swap: whoever looks for it in the manifest knows what it has. */
static bool is_check_due(const struct ing_segments_core *core)
{
    return core->settled && core->table.unchecked_profiles > 0 &&
           ing_core_is_over(core, &core->compare_pause) && core->mono_ns >= core->check_mono_ns &&
           core->cut != CUT_SWAPPING && core->cut != CUT_SWAPPED;
}

/* What is marked needs nothing of the cut any more, and may be evicted before it ends. */
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
    core->follow = FOLLOW_IDLE;
    core->follow_pause = core->compare_pause = (struct ing_pause){0};
    for (uint32_t i = 0; i < event->n_outcomes; i++)
        take_outcome(core, &event->outcomes[i], event->generation);
    take_unsure(core, event);
    unpin_marked(core);
    clear_whole(core, event);
    if (core->compares_all) {
        /* Of what was found nobody knows when it was committed, only that a snapshot of this
         * generation has it: older ones are refused. */
        core->safe = FG_MAX(core->safe, event->generation);
        list_checked(core, event);
        caught_up(core);
        return;
    }
    core->gen = core->foreign[core->at_foreign++];
    if (core->at_foreign == core->n_foreign)
        caught_up(core);
}

/* ---- what this store is clean of ---- */

/* Only the manifest says what came of it; where it was not taken, not at once again: many answer
 * the same question. */
void ing_follow_reported(struct ing_segments_core *core)
{
    core->follow = FOLLOW_IDLE;
    core->read_now = true;
    ing_core_fail(core, &core->report_pause);
}

/*
 * Is there more to be said than was? In a step in which all chunks agree with the manifest: who is
 * behind may hold what a segment does, and would not be rid of it by committing. A cut that is
 * under way says it itself.
 */
static bool is_report_due(const struct ing_segments_core *core)
{
    return core->settled && core->gen == core->seen && core->cut == CUT_IDLE &&
           core->era > core->reported && (core->look || core->table.n_chunks == 0) &&
           ing_core_is_over(core, &core->report_pause) && ing_core_clean(core) > core->reported;
}

int64_t ing_follow_due_mono_ns(const struct ing_segments_core *core)
{
    int64_t due = core->next_read_mono_ns;

    /* While a swap is under way none begins: it goes onto the manifest that was handed in last. */
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
    if (all)
        begin_checking(core);
}

void ing_follow_advance(struct ing_segments_core *core, struct ing_segments_effects *effects)
{
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
