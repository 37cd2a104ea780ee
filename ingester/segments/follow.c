/* Following the manifest, and comparing with what others have committed. */
#include "ingester/segments/segments_impl.h"

#include <stdlib.h>

/* The segment may have left: the manifest says. */
void ing_follow_failed(struct ing_segments *segments, enum ing_segments_effect_kind failed)
{
    segments->follow = FOLLOW_IDLE;
    segments->read_now |= failed != SEGMENTS_TAKE_IN;
    ing_segments_fail(segments, &segments->follow_pause);
    if (failed == SEGMENTS_COMPARE)
        ing_segments_fail(segments, &segments->compare_pause);
}

/*
 * Which of our cuts the manifest has: cuts enter in order, so the last one says it of all before.
 * Only one can be unmarked, the last; so its generation is that of all rounds that are sealed.
 */
static bool own_cut(const struct ing_segments *segments, const struct fg_l0 *l0, uint64_t *ret_cut,
                    uint64_t *ret_generation)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, segments->config.writer);

    if (writer == NULL)
        return false;
    if (!ing_segments_keeps(segments, FG_RULE_BIT_SETTLE_ON_REJOIN) &&
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
static void check_last_cut(struct ing_segments *segments, const struct fg_l0 *l0)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, segments->config.writer);

    if (segments->started || writer == NULL || writer->cut <= segments->last_cut)
        return;
    segments->store_went_back = true;
    segments->last_cut = writer->cut;
    for (uint32_t i = 0; i < segments->pinned.n; i++) {
        ing_table_set_state(&segments->table, segments->pinned.rounds[i], ROUND_ASIDE);
        segments->pinned.rounds[i]->retry = true;
    }
    segments->pinned.n = 0;
    segments->cut = CUT_IDLE;
}

static void follow_own(struct ing_segments *segments, const struct fg_l0 *l0)
{
    uint64_t cut, generation;

    if (!own_cut(segments, l0, &cut, &generation))
        return;
    for (uint32_t i = 0; i < segments->pinned.n; i++) {
        struct ing_segments_round *round = segments->pinned.rounds[i];

        if (round->state == ROUND_SEALED && round->cut <= cut)
            ing_segments_commit_round(segments, round, generation);
    }
}

/* Could a segment that we do not know hold what we hold, or what we think we hold all of? */
static bool has_to_compare(const struct ing_segments *segments)
{
    for (uint32_t i = 0; i < segments->table.n_groups; i++) {
        const struct ing_table_group *group = segments->table.groups[i];

        if (group->whole && ing_segments_may_hold(segments, &group->key))
            return true;
    }
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        const struct ing_segments_round *round = segments->table.rounds[i];

        if (round->state != ROUND_COMMITTED && ing_segments_may_hold(segments, &round->group))
            return true;
    }
    return false;
}

/* All rounds agree with everything up to seen. */
static void caught_up(struct ing_segments *segments)
{
    segments->gen = segments->seen;
    segments->settled = true;
    segments->settling = false;
    segments->n_foreign = segments->at_foreign = 0;
}

static void take_late_filter(struct ing_segments *segments, const struct fg_late_filter *filter)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_late_filter none = fg_late_filter_none();

    fg_assert(fg_late_filter_join(filter, &none, 0, 0, arena, &segments->late_filter));
    fg_arena_destroy(segments->late_filter_arena);
    segments->late_filter_arena = arena;
}

/* Is it the segment that was uploaded last? */
static bool is_own(const struct ing_segments *segments, const struct fg_l0_segment *segment)
{
    return fg_id_eq(segment->id.writer, segments->config.writer) &&
           (segment->id.nonce == segments->upload.nonce ||
            segments->table.by_state[ROUND_ASIDE] + segments->table.by_state[ROUND_UNCHECKED] == 0);
}

/*
 * Newer than what we agree with, and of others; or an earlier upload of ours, swapped in so late
 * that rounds which are in it have been set aside since, or are unchecked.
 */
static void list_foreign(struct ing_segments *segments, const struct fg_l0 *l0)
{
    segments->n_foreign = segments->at_foreign = 0;
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];

        if (segment->generation > segments->gen && !is_own(segments, segment))
            segments->foreign[segments->n_foreign++] = segment->generation;
    }
}

/* What is asked, and what of it we have answered. */
static void take_asked(struct ing_segments *segments, const struct fg_l0 *l0)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, segments->config.writer);
    uint64_t reported = writer == NULL ? 0 : writer->clean;

    if (reported > segments->reported)
        segments->report_pause = (struct ing_pause){0};
    segments->reported = reported;
    segments->era = FG_MAX(segments->era, l0->asked);
}

void ing_follow_manifest(struct ing_segments *segments, const struct fg_l0 *l0)
{
    bool away = !segments->started || l0->floor > segments->gen;

    segments->went_back = l0->generation < segments->seen;
    if (segments->went_back) { /* another bucket, or one from a backup: nothing is right any more */
        ing_follow_failed(segments, SEGMENTS_READ);
        return;
    }
    segments->follow = FOLLOW_IDLE;
    segments->follow_pause = (struct ing_pause){0};
    segments->manifest_mono_ns = segments->mono_ns;
    segments->next_read_mono_ns = fg_time_add(segments->mono_ns, segments->config.poll_ns);
    /* A generation that is not there yet, or never will be: whoever says so. */
    segments->wanted_mono_ns = segments->read_for > l0->generation
                                   ? fg_time_add(segments->mono_ns, segments->config.backoff_min_ns)
                                   : 0;
    segments->wanted = 0; /* who still waits says so again */
    segments->rechecked = true;
    check_last_cut(segments, l0);
    if (!segments->started || l0->generation > segments->seen)
        take_late_filter(segments, &l0->late_filter);
    if (!segments->started) /* what was forgotten before this start is in blocks up to here */
        segments->safe = l0->generation;
    segments->started = true;
    segments->seen = l0->generation;
    take_asked(segments, l0);
    follow_own(segments, l0);
    if (away && ing_segments_keeps(segments, FG_RULE_BIT_SETTLE_ON_REJOIN)) {
        segments->settled = false;
        segments->settling = true;
    }
    list_foreign(segments, l0);
    if ((!segments->settling && segments->n_foreign == 0) || !has_to_compare(segments))
        caught_up(segments);
}

/* ---- comparing: only where others may hold what we hold ---- */

bool ing_segments_may_hold(const struct ing_segments *segments,
                           const struct ing_head_group_key *group)
{
    return fg_late_filter_has(&segments->late_filter, group->shard, group->window);
}

uint32_t ing_segments_leftover(const struct ing_segments *segments,
                               const struct ing_head_group_key *group, uint32_t round)
{
    const struct ing_table_group *found = ing_table_group(&segments->table, group);

    fg_assert(found != NULL);
    return found->open != NULL && found->open->number != round ? found->open->number : found->next;
}

/* The other profiles of a round become part of the open one. */
static void move_leftover(struct ing_segments *segments, struct ing_segments_round *round,
                          const struct ing_segments_outcome *outcome, uint32_t to)
{
    struct ing_table_group *group = ing_table_group(&segments->table, &round->group);
    struct ing_segments_round *open = group->open;

    if (outcome->moved_profiles == 0)
        return;
    if (open == NULL) {
        struct ing_segments_round fresh = {.group = round->group,
                                           .number = to,
                                           .opened_wall_ns = round->opened_wall_ns,
                                           .era = round->era};

        open = ing_segments_add_round(segments, group, fresh);
    }
    open->opened_wall_ns = FG_MIN(open->opened_wall_ns, round->opened_wall_ns);
    open->era = FG_MIN(open->era, round->era);
    ing_segments_wait_for(open, round->drain);
    ing_table_count(&segments->table, round, -(int64_t)outcome->moved_profiles,
                    -(int64_t)outcome->moved_bytes);
    ing_table_count(&segments->table, open, (int64_t)outcome->moved_profiles,
                    (int64_t)outcome->moved_bytes);
}

static void take_outcome(struct ing_segments *segments, const struct ing_segments_outcome *outcome,
                         uint64_t generation)
{
    struct ing_segments_round *round =
        ing_table_round(&segments->table, &outcome->group, outcome->number);
    uint32_t to = ing_segments_leftover(segments, &outcome->group, outcome->number);

    fg_assert(round != NULL && round->state != ROUND_COMMITTED);
    segments->stale |=
        round->state == ROUND_SEALED; /* the cut may be uploaded: it has to be again */
    ing_segments_commit_round(segments, round, generation);
    round->marked = true;
    move_leftover(segments, round, outcome, to);
}

/* Nothing is known any more about what others hold of these. */
static void forget_whole(struct ing_segments *segments, const struct ing_segments_event *event)
{
    if (segments->compares_all && !segments->settling) /* of all that was known before */
        return;
    for (uint32_t i = 0; segments->settling && i < segments->table.n_groups; i++)
        segments->table.groups[i]->whole = false;
    for (uint32_t i = 0; i < event->n_missing; i++) {
        struct ing_table_group *group = ing_table_group(&segments->table, &event->missing[i]);

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
static void take_unsure(struct ing_segments *segments, const struct ing_segments_event *event)
{
    for (uint32_t i = 0; i < segments->table.n_rounds && event->n_unsure > 0; i++) {
        struct ing_segments_round *round = segments->table.rounds[i];

        if (round->state == ROUND_COMMITTED || round->state == ROUND_UNCHECKED ||
            !is_unsure(event, &round->group))
            continue;
        segments->stale |= round->state == ROUND_SEALED;
        ing_table_set_state(&segments->table, round, ROUND_UNCHECKED);
    }
    for (uint32_t i = 0; i < event->n_unsure; i++) {
        struct ing_table_group *group = ing_table_group(&segments->table, &event->unsure[i]);

        if (group != NULL)
            group->whole = false;
    }
}

/* Those that the COMPARE has told of, and held by nobody. Empty ones may go at any time. */
static void list_checked(struct ing_segments *segments, const struct ing_segments_event *event)
{
    segments->checked.n = 0;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct ing_segments_round *round = segments->table.rounds[i];

        if (round->state != ROUND_UNCHECKED)
            continue;
        if (is_unsure(event, &round->group))
            round->retry = round->retry && !segments->checks_drain;
        else if (round->checking && round->profiles > 0)
            ing_round_list_add(&segments->checked, round);
    }
    segments->check_mono_ns =
        event->n_unsure == 0 ? 0 : fg_time_add(segments->mono_ns, segments->config.check_retry_ns);
}

/* The COMPARE tells of what is in these rounds now. */
static void begin_checking(struct ing_segments *segments)
{
    segments->checks_drain = true;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++)
        segments->table.rounds[i]->checking = true;
}

/* After a failed write, drops rounds that have meanwhile received profiles without a check. */
static void drop_unchecked_again(struct ing_segments *segments)
{
    struct ing_round_list *list = &segments->checked;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->rounds[i]->checking)
            list->rounds[kept++] = list->rounds[i];
    if (kept < list->n)
        segments->check_mono_ns = 0;
    list->n = kept;
}

void ing_follow_taken_in(struct ing_segments *segments)
{
    segments->follow = FOLLOW_IDLE;
    segments->follow_pause = (struct ing_pause){0};
    for (uint32_t i = 0; i < segments->checked.n; i++) {
        ing_table_set_state(&segments->table, segments->checked.rounds[i], ROUND_ASIDE);
        segments->checked.rounds[i]->retry = true;
    }
    segments->checked.n = 0;
}

/* Not in the middle of a swap: whoever looks for it in the manifest knows what it has. */
static bool is_check_due(const struct ing_segments *segments)
{
    return segments->settled && segments->table.unchecked_profiles > 0 &&
           ing_segments_is_over(segments, &segments->compare_pause) &&
           segments->mono_ns >= segments->check_mono_ns && segments->cut != CUT_SWAPPING &&
           segments->cut != CUT_SWAPPED;
}

/* What is marked needs nothing of the cut any more, and may be forgotten before it ends. */
static void unpin_marked(struct ing_segments *segments)
{
    struct ing_round_list *list = &segments->pinned;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (!list->rounds[i]->marked && list->rounds[i]->state != ROUND_UNCHECKED)
            list->rounds[kept++] = list->rounds[i];
    list->n = kept;
    ing_round_list_drop(&segments->misfits, ROUND_COMMITTED);
    ing_round_list_drop(&segments->misfits, ROUND_UNCHECKED);
}

void ing_follow_compared(struct ing_segments *segments, const struct ing_segments_event *event)
{
    segments->follow = FOLLOW_IDLE;
    segments->follow_pause = segments->compare_pause = (struct ing_pause){0};
    for (uint32_t i = 0; i < event->n_outcomes; i++)
        take_outcome(segments, &event->outcomes[i], event->generation);
    take_unsure(segments, event);
    unpin_marked(segments);
    forget_whole(segments, event);
    if (segments->compares_all) {
        /* Of what was found nobody knows when it was committed, only that a snapshot of this
         * generation has it: older ones are refused. */
        segments->safe = FG_MAX(segments->safe, event->generation);
        list_checked(segments, event);
        caught_up(segments);
        return;
    }
    segments->gen = segments->foreign[segments->at_foreign++];
    if (segments->at_foreign == segments->n_foreign)
        caught_up(segments);
}

/* ---- what this store is clean of ---- */

/* Only the manifest says what came of it; where it was not taken, not at once again: many answer
 * the same question. */
void ing_follow_reported(struct ing_segments *segments)
{
    segments->follow = FOLLOW_IDLE;
    segments->read_now = true;
    ing_segments_fail(segments, &segments->report_pause);
}

/*
 * Is there more to be said than was? In a step in which all rounds agree with the manifest: who is
 * behind may hold what a segment does, and would not be rid of it by committing. A cut that is
 * under way says it itself.
 */
static bool is_report_due(const struct ing_segments *segments)
{
    return segments->settled && segments->gen == segments->seen && segments->cut == CUT_IDLE &&
           segments->era > segments->reported &&
           (segments->look || segments->table.n_rounds == 0) &&
           ing_segments_is_over(segments, &segments->report_pause) &&
           ing_segments_clean(segments) > segments->reported;
}

int64_t ing_follow_due_mono_ns(const struct ing_segments *segments)
{
    int64_t due = segments->next_read_mono_ns;

    /* While a swap is under way none begins: it goes onto the manifest that was handed in last. */
    if (segments->follow != FOLLOW_IDLE || segments->cut == CUT_SWAPPING)
        return INT64_MAX;
    if (segments->wanted > segments->seen)
        due = FG_MIN(due, segments->wanted_mono_ns);
    if (segments->read_now || !segments->started)
        due = segments->mono_ns;
    return FG_MAX(due, ing_segments_pause_end(segments, &segments->follow_pause));
}

static void begin_compare(struct ing_segments *segments, bool all,
                          struct ing_segments_effects *effects)
{
    struct ing_segments_effect *effect = ing_segments_emit(effects, SEGMENTS_COMPARE);

    effect->all = all;
    effect->generation = all ? segments->seen : segments->foreign[segments->at_foreign];
    segments->follow = FOLLOW_COMPARING;
    segments->compares_all = all;
    if (all)
        begin_checking(segments);
}

void ing_follow_advance(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    if (segments->follow != FOLLOW_IDLE || !ing_segments_is_over(segments, &segments->follow_pause))
        return;
    drop_unchecked_again(segments);
    if (segments->checked.n > 0) {
        ing_segments_emit_rounds(effects, SEGMENTS_TAKE_IN, &segments->checked, segments);
        segments->follow = FOLLOW_TAKING_IN;
        return;
    }
    if (!segments->read_now && ing_segments_is_over(segments, &segments->compare_pause) &&
        (segments->settling || segments->at_foreign < segments->n_foreign)) {
        begin_compare(segments, segments->settling, effects);
        return;
    }
    if (segments->mono_ns >= ing_follow_due_mono_ns(segments)) {
        (void)ing_segments_emit(effects, SEGMENTS_READ);
        segments->follow = FOLLOW_READING;
        segments->read_now = false;
        segments->read_for = segments->wanted;
        return;
    }
    if (is_check_due(segments)) {
        begin_compare(segments, true, effects);
        return;
    }
    if (is_report_due(segments)) {
        ing_segments_emit(effects, SEGMENTS_REPORT)->clean = ing_segments_clean(segments);
        segments->follow = FOLLOW_REPORTING;
    }
}
