/*
 * Two lanes that wait for different things, stepped one after the other until neither moves:
 *
 *   follow   IDLE --> READING --> IDLE --> COMPARING --> IDLE --> TAKING_IN --> IDLE --> REPORTING
 * ... cut      IDLE --> SEALING --> SEALED --> UPLOADING --> UPLOADED --> SWAPPING --> SWAPPED ^ ^
 * \________________________/             |           | |                  | |   compared meanwhile,
 * too old          |           |
 *              +---- MARKING <----|-+---- found in the manifest <------------+-----------+
 *              |                  |
 *              +-- SETTING_ASIDE <+   unfit, three times; the rest of the cut goes on as SEALED
 *
 * and forgetting, which waits for nothing but its own write. UPLOADED and SWAPPED need the manifest
 * to be read anew: before a swap, so that nothing unseen is swapped onto (cas-recheck), and after
 * it, since only the manifest says what came of it. So does REPORTING, which is for when no cut is
 * under way: a cut says the same.
 */
#include "ingester/segments/segments_impl.h"

#include <stdlib.h>

/* How often rounds are looked through for what is due: there may be 100,000 of them, on the thread
 * that writes. */
#define LOOK_AGAIN_NS FG_SECOND_NS

struct ing_segments *ing_segments_create(const struct ing_segments_config *config,
                                         uint64_t last_cut, uint64_t seen)
{
    struct ing_segments *segments = fg_new(struct ing_segments);

    segments->config = *config;
    segments->random = config->seed;
    segments->last_cut = last_cut;
    segments->seen = seen;
    segments->late_filter = fg_late_filter_none();
    ing_table_init(&segments->table);
    return segments;
}

void ing_segments_destroy(struct ing_segments *segments)
{
    if (segments == NULL)
        return;
    ing_table_done(&segments->table);
    fg_arena_destroy(segments->late_filter_arena);
    free(segments->ranks);
    free(segments->pinned.rounds);
    free(segments->misfits.rounds);
    free(segments->marking.rounds);
    free(segments->forgetting.rounds);
    free(segments->empty.rounds);
    free(segments->checked.rounds);
    free(segments);
}

bool ing_segments_keeps(const struct ing_segments *segments, enum fg_rule rule)
{
    return (segments->config.rules >> rule & 1) != 0;
}

uint64_t ing_segments_draw(struct ing_segments *segments)
{
    segments->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    return fg_mix64(segments->random);
}

/* Full jitter: anywhere between now and twice as far as the last time, so that those who failed
 * together do not come back together. */
void ing_segments_fail(struct ing_segments *segments, struct ing_pause *pause)
{
    int64_t most = segments->config.backoff_min_ns;

    for (uint32_t i = 0; i < pause->failures && most < segments->config.backoff_max_ns; i++)
        most *= 2;
    most = FG_MIN(most, segments->config.backoff_max_ns);
    pause->failures++;
    pause->until_mono_ns = fg_time_add(
        segments->mono_ns, (int64_t)(ing_segments_draw(segments) % (uint64_t)FG_MAX(most, 1)));
    pause->short_mono_ns = fg_time_add(segments->mono_ns, segments->config.backoff_min_ns);
}

/* While a query waits for a generation, pauses of reads and comparisons are as short as after the
 * first failure: whoever asked has read that generation, so the bucket answers again. */
int64_t ing_segments_pause_end(const struct ing_segments *segments, const struct ing_pause *pause)
{
    bool of_follow = pause == &segments->follow_pause || pause == &segments->compare_pause;

    return of_follow && segments->wanted > segments->gen
               ? FG_MIN(pause->until_mono_ns, pause->short_mono_ns)
               : pause->until_mono_ns;
}

bool ing_segments_is_over(const struct ing_segments *segments, const struct ing_pause *pause)
{
    return segments->mono_ns >= ing_segments_pause_end(segments, pause);
}

void ing_round_list_add(struct ing_round_list *list, struct ing_segments_round *round)
{
    if (list->n == list->cap) {
        list->cap = FG_MAX(64, list->cap * 2);
        list->rounds = fg_realloc(list->rounds, list->cap * sizeof(void *));
    }
    list->rounds[list->n++] = round;
}

/* Only those in that state stay. */
void ing_round_list_keep(struct ing_round_list *list, enum ing_round_state state)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->rounds[i]->state == state)
            list->rounds[kept++] = list->rounds[i];
    list->n = kept;
}

void ing_round_list_drop(struct ing_round_list *list, enum ing_round_state state)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->rounds[i]->state != state)
            list->rounds[kept++] = list->rounds[i];
    list->n = kept;
}

struct ing_segments_round *ing_segments_add_round(struct ing_segments *segments,
                                                  struct ing_table_group *group,
                                                  struct ing_segments_round round)
{
    round.rank = segments->ranks == NULL ? 0 : segments->ranks[round.group.shard];
    return ing_table_add_round(&segments->table, group, &round);
}

uint64_t ing_segments_clean(const struct ing_segments *segments)
{
    uint64_t clean = segments->era;

    for (uint32_t i = 0; i < segments->table.n_rounds; i++)
        clean = FG_MIN(clean, segments->table.rounds[i]->era);
    return clean;
}

void ing_segments_commit_round(struct ing_segments *segments, struct ing_segments_round *round,
                               uint64_t generation)
{
    ing_table_set_state(&segments->table, round, ROUND_COMMITTED);
    round->generation = generation;
    round->committed_mono_ns = segments->mono_ns;
}

static int64_t window_end_ns(const struct ing_segments_round *round)
{
    return ((int64_t)round->group.window + 1) * HEAD_WINDOW_NS;
}

int64_t ing_segments_closed_wall_ns(const struct ing_segments *segments,
                                    const struct ing_segments_round *round)
{
    return fg_time_add(window_end_ns(round), segments->config.grace_ns);
}

bool ing_segments_is_closed(const struct ing_segments *segments,
                            const struct ing_segments_round *round)
{
    return segments->wall_ns >= ing_segments_closed_wall_ns(segments, round);
}

/* The DRAIN of that number waits for the round too. */
void ing_segments_wait_for(struct ing_segments_round *round, uint64_t drain)
{
    if (drain != 0 && (round->drain == 0 || drain < round->drain))
        round->drain = drain;
}

bool ing_segments_restore(struct ing_segments *segments, const struct ing_segments_round *round)
{
    struct ing_table *table = &segments->table;
    struct ing_table_group *group = ing_table_group(table, &round->group);
    struct ing_segments_round *restored;

    fg_assert(!segments->started && round->cut <= segments->last_cut);
    if (table->n_rounds == segments->config.rounds_max)
        return false;
    if (group == NULL)
        group = ing_table_add_group(table, &round->group);
    restored = ing_segments_add_round(segments, group, *round);
    /* One cut at a time: a round of an older one was made again from a damaged record. Whether it
     * was committed is found by comparing. */
    if (restored->state == ROUND_SEALED && restored->cut < segments->last_cut)
        ing_table_set_state(table, restored, ROUND_ASIDE);
    restored->marked = restored->state == ROUND_COMMITTED;
    restored->retry = restored->state == ROUND_ASIDE;
    if (restored->state == ROUND_SEALED) {
        ing_round_list_add(&segments->pinned, restored);
        segments->cut = CUT_SEALED;
    }
    return true;
}

struct ing_segments_effect *ing_segments_emit(struct ing_segments_effects *effects,
                                              enum ing_segments_effect_kind kind)
{
    struct ing_segments_effect *effect = &effects->effects[effects->n++];

    fg_assert(effects->n <= SEGMENTS_EFFECTS_MAX);
    *effect = (struct ing_segments_effect){.kind = kind};
    return effect;
}

void ing_segments_emit_rounds(struct ing_segments_effects *effects,
                              enum ing_segments_effect_kind kind, const struct ing_round_list *list,
                              const struct ing_segments *segments)
{
    struct ing_segments_effect *effect = ing_segments_emit(effects, kind);

    effect->rounds = (const struct ing_segments_round *const *)list->rounds;
    effect->n_rounds = list->n;
    effect->id = segments->upload;
    effect->cut = segments->last_cut;
}

static void on_failed(struct ing_segments *segments, const struct ing_segments_event *event)
{
    switch (event->failed) {
    case SEGMENTS_READ:
    case SEGMENTS_COMPARE:
    case SEGMENTS_TAKE_IN:
        ing_follow_failed(segments, event->failed);
        return;
    case SEGMENTS_SEAL:
    case SEGMENTS_UPLOAD:
    case SEGMENTS_SET_ASIDE:
    case SEGMENTS_SWAP:
    case SEGMENTS_MARK:
        ing_cut_failed(segments, event);
        return;
    case SEGMENTS_FORGET:
        segments->is_forgetting = false;
        segments->forgetting.n = 0;
        ing_segments_fail(segments, &segments->forget_pause);
        return;
    case SEGMENTS_REPORT:
        ing_follow_reported(segments);
        return;
    case SEGMENTS_EFFECT_KINDS:
        break;
    }
    fg_assert(false);
}

/* ---- draining ---- */

static bool is_to_commit(const struct ing_segments_round *round)
{
    return round->state == ROUND_SEALED || round->state == ROUND_ASIDE ||
           (round->state == ROUND_UNCHECKED && round->profiles > 0) ||
           (round->state == ROUND_OPEN && round->profiles > 0) ||
           (round->state == ROUND_COMMITTED && !round->marked);
}

static void on_drain(struct ing_segments *segments, uint64_t drain)
{
    fg_assert(drain > segments->drains);
    segments->drains = drain;
    segments->draining = true;
    segments->check_mono_ns = 0;
    segments->checks_drain = false;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct ing_segments_round *round = segments->table.rounds[i];

        if (!is_to_commit(round))
            continue;
        ing_segments_wait_for(round, drain);
        round->retry = round->state == ROUND_ASIDE || round->state == ROUND_UNCHECKED;
    }
}

/* Was it tried since the last DRAIN, in vain? */
static bool was_tried(const struct ing_segments_round *round)
{
    return (round->state == ROUND_ASIDE || round->state == ROUND_UNCHECKED) && !round->retry;
}

/* Up to which DRAIN nothing is waited for any more; if `tried` not for what was tried in vain. */
static uint64_t count_drained(const struct ing_segments *segments, bool tried)
{
    uint64_t drained = segments->drains;

    for (uint32_t i = 0; segments->draining && i < segments->table.n_rounds; i++) {
        const struct ing_segments_round *round = segments->table.rounds[i];

        if (round->drain != 0 && is_to_commit(round) && !(tried && was_tried(round)))
            drained = FG_MIN(drained, round->drain - 1);
    }
    return drained;
}

static void on_salvage(struct ing_segments *segments)
{
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct ing_segments_round *round = segments->table.rounds[i];

        round->retry |= round->state == ROUND_ASIDE;
        round->salvage |= round->state == ROUND_ASIDE;
    }
}

/* ---- ranks ---- */

static void on_ranks(struct ing_segments *segments, const uint8_t *ranks)
{
    if (segments->ranks == NULL)
        segments->ranks = fg_malloc(SEGMENTS_SHARDS);
    memcpy(segments->ranks, ranks, SEGMENTS_SHARDS);
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct ing_segments_round *round = segments->table.rounds[i];

        ing_table_set_rank(&segments->table, round, ranks[round->group.shard]);
    }
}

/* ---- forgetting ---- */

/*
 * Committed rounds go after a while in which others could read the manifest that has them: while
 * the bucket is away queries go on with what they know of it. Those of a window that is still open
 * later: as long as they are here an id of its ordinary data is known to be new without asking the
 * blocks.
 */
static bool was_shown(const struct ing_segments *segments, const struct ing_segments_round *round)
{
    return segments->config.forget_after_ns == 0 ||
           segments->manifest_mono_ns - round->committed_mono_ns >=
               segments->config.forget_after_ns;
}

static bool may_forget(const struct ing_segments *segments, const struct ing_segments_round *round)
{
    return round->state == ROUND_COMMITTED && round->marked && round->generation <= segments->gen &&
           was_shown(segments, round) &&
           (ing_segments_is_closed(segments, round) ||
            segments->wall_ns >= fg_time_add(round->opened_wall_ns, segments->config.open_max_ns));
}

/* Rounds that were admitted to and got nothing: pushes of what is there already, or that failed.
 * The store knows nothing of them. */
static void drop_empty(struct ing_segments *segments)
{
    struct ing_round_list *list = &segments->empty;

    list->n = 0;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct ing_segments_round *round = segments->table.rounds[i];

        if ((round->state == ROUND_OPEN || round->state == ROUND_UNCHECKED) &&
            round->profiles == 0 &&
            segments->wall_ns >= fg_time_add(round->opened_wall_ns, segments->config.linger_ns))
            ing_round_list_add(list, round);
    }
    if (list->n > 0)
        ing_table_remove(&segments->table, list->rounds, list->n);
}

static void advance_forget(struct ing_segments *segments, struct ing_segments_effects *effects)
{
    if (!segments->look || segments->is_forgetting || !segments->settled ||
        !ing_segments_is_over(segments, &segments->forget_pause))
        return;
    segments->forgetting.n = 0;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct ing_segments_round *round = segments->table.rounds[i];

        if (!may_forget(segments, round))
            continue;
        ing_round_list_add(&segments->forgetting, round);
        /* Before anything is deleted: a write that failed may be done all the same. */
        segments->safe = FG_MAX(segments->safe, round->generation);
        ing_table_group(&segments->table, &round->group)->whole = false;
    }
    if (segments->forgetting.n == 0)
        return;
    segments->is_forgetting = true;
    ing_segments_emit_rounds(effects, SEGMENTS_FORGET, &segments->forgetting, segments);
}

static void on_forgotten(struct ing_segments *segments)
{
    ing_table_remove(&segments->table, segments->forgetting.rounds, segments->forgetting.n);
    segments->forgetting.n = 0;
    segments->is_forgetting = false;
    segments->forget_pause = (struct ing_pause){0};
}

/* ---- a step ---- */

static void take_event(struct ing_segments *segments, const struct ing_segments_event *event)
{
    switch (event->kind) {
    case SEGMENTS_TICK:
        break;
    case SEGMENTS_WANTED:
        segments->wanted = FG_MAX(segments->wanted, event->generation);
        break;
    case SEGMENTS_DRAIN:
        on_drain(segments, event->drain);
        break;
    case SEGMENTS_SALVAGE:
        on_salvage(segments);
        break;
    case SEGMENTS_RANKS:
        on_ranks(segments, event->ranks);
        break;
    case SEGMENTS_MANIFEST:
        ing_follow_manifest(segments, event->l0);
        break;
    case SEGMENTS_COMPARED:
        ing_follow_compared(segments, event);
        break;
    case SEGMENTS_SEALED:
        ing_cut_sealed(segments);
        break;
    case SEGMENTS_IS_ASIDE:
        ing_cut_is_aside(segments);
        break;
    case SEGMENTS_TAKEN_IN:
        ing_follow_taken_in(segments);
        break;
    case SEGMENTS_UPLOADED:
        ing_cut_uploaded(segments, event->nothing);
        break;
    case SEGMENTS_SWAPPED:
        ing_cut_swapped(segments);
        break;
    case SEGMENTS_MARKED:
        ing_cut_marked(segments);
        break;
    case SEGMENTS_FORGOTTEN:
        on_forgotten(segments);
        break;
    case SEGMENTS_REPORTED:
        ing_follow_reported(segments);
        break;
    case SEGMENTS_FAILED:
        on_failed(segments, event);
        break;
    }
}

/* The next moment at which something may be due. */
static int64_t wake_mono_ns(const struct ing_segments *segments)
{
    const struct ing_pause *pauses[] = {&segments->follow_pause, &segments->compare_pause,
                                        &segments->cut_pause, &segments->forget_pause,
                                        &segments->report_pause};
    /* Also while an effect is under way, whose event says what is due. */
    int64_t wake = FG_MIN(ing_follow_due_mono_ns(segments),
                          fg_time_add(segments->mono_ns, segments->config.poll_ns));

    if (segments->table.n_rounds > 0)
        wake = FG_MIN(wake, segments->next_look_mono_ns);
    for (size_t i = 0; i < FG_COUNT(pauses); i++)
        if (!ing_segments_is_over(segments, pauses[i]))
            wake = FG_MIN(wake, ing_segments_pause_end(segments, pauses[i]));
    return FG_MAX(wake, segments->mono_ns);
}

void ing_segments_step(struct ing_segments *segments, const struct ing_segments_event *event,
                       struct ing_segments_effects *ret_effects)
{
    enum ing_cut_state before;

    segments->wall_ns = event->wall_ns;
    segments->mono_ns = event->mono_ns;
    segments->look = event->mono_ns >= segments->next_look_mono_ns;
    if (segments->look)
        segments->next_look_mono_ns = fg_time_add(event->mono_ns, LOOK_AGAIN_NS);
    ret_effects->n = 0;
    take_event(segments, event);
    if (segments->look)
        drop_empty(segments);
    ing_follow_advance(segments, ret_effects);
    do { /* a cut that ends without an effect lets the next one begin */
        before = segments->cut;
        ing_cut_advance(segments, ret_effects);
    } while (segments->cut == CUT_IDLE && before != CUT_IDLE);
    advance_forget(segments, ret_effects);
    segments->draining = segments->draining && count_drained(segments, false) < segments->drains;
    ret_effects->wake_mono_ns = wake_mono_ns(segments);
}

/* ---- what others ask ---- */

bool ing_segments_is_late(const struct ing_segments *segments,
                          const struct ing_head_group_key *group)
{
    const struct ing_table_group *found = ing_table_group(&segments->table, group);

    /* What comes before the first manifest was read is compared with all blocks then. */
    return segments->started && ing_segments_keeps(segments, FG_RULE_BIT_CHECK_LATE_IDS) &&
           ing_segments_may_hold(segments, group) && (found == NULL || !found->whole);
}

/* The group's open or unchecked round, which may be new; NULL: there are too many. */
static struct ing_segments_round *round_for(struct ing_segments *segments,
                                            const struct ing_head_group_key *key,
                                            enum ing_round_state state)
{
    struct ing_table *table = &segments->table;
    struct ing_table_group *group = ing_table_group(table, key);
    struct ing_segments_round *round = NULL;
    struct ing_segments_round fresh = {
        .group = *key, .state = state, .opened_wall_ns = segments->wall_ns, .era = segments->era};

    if (group != NULL)
        round = state == ROUND_OPEN ? group->open : group->unchecked;
    if (round != NULL || table->n_rounds == segments->config.rounds_max)
        return round;
    if (group == NULL)
        group = ing_table_add_group(table, key);
    fresh.number = group->next;
    return ing_segments_add_round(segments, group, fresh);
}

enum ing_segments_admission ing_segments_admit(struct ing_segments *segments,
                                               const struct ing_head_group_key *group,
                                               struct ing_segments_looked looked,
                                               uint32_t *ret_round)
{
    enum ing_round_state state = ROUND_OPEN;
    struct ing_segments_round *round;

    if (ing_segments_is_late(segments, group) && looked.generation < segments->seen)
        state = ROUND_UNCHECKED;
    if (state == ROUND_UNCHECKED &&
        (!looked.cannot || segments->table.unchecked_bytes >= segments->config.unchecked_max_bytes))
        return SEGMENTS_LOOK;
    round = round_for(segments, group, state);
    if (round == NULL)
        return SEGMENTS_FULL;
    round->checking = false;
    *ret_round = round->number;
    return state == ROUND_OPEN ? SEGMENTS_ADMIT : SEGMENTS_ADMIT_UNCHECKED;
}

/* Admitted in an era before this one, maybe. */
static struct ing_segments_round *add_again(struct ing_segments *segments,
                                            const struct ing_head_group_key *key, uint32_t number,
                                            enum ing_round_state state)
{
    struct ing_table_group *group = ing_table_group(&segments->table, key);
    struct ing_segments_round round = {.group = *key, .number = number, .state = state};

    if (group == NULL)
        group = ing_table_add_group(&segments->table, key);
    return ing_segments_add_round(segments, group, round);
}

void ing_segments_added(struct ing_segments *segments, const struct ing_head_group_key *group,
                        uint32_t round, bool unchecked, uint64_t profiles, uint64_t bytes,
                        int64_t wall_ns)
{
    enum ing_round_state state = unchecked ? ROUND_UNCHECKED : ROUND_OPEN;
    struct ing_segments_round *found = ing_table_round(&segments->table, group, round);
    struct ing_table_group *in;

    if (found == NULL) /* empty for so long that it was dropped, between the two calls */
        found = add_again(segments, group, round, state);
    fg_assert(found->state == state);
    in = ing_table_group(&segments->table, group);
    /* Not before there is a profile: a COMPARE tells what is missing of groups that the store has.
     * A push that is refused after its admission leaves a round that is in the table only. */
    if (found->profiles == 0 && in->n_rounds == 1)
        in->whole = segments->started && !ing_segments_may_hold(segments, group);
    if (found->profiles == 0)
        found->opened_wall_ns = wall_ns;
    ing_table_count(&segments->table, found, (int64_t)profiles, (int64_t)bytes);
}

uint64_t ing_segments_seen(const struct ing_segments *segments)
{
    return segments->seen;
}

void ing_segments_found(struct ing_segments *segments, uint64_t generation)
{
    segments->safe = FG_MAX(segments->safe, generation);
}

enum ing_segments_fence ing_segments_fence(const struct ing_segments *segments, uint64_t generation,
                                           uint64_t *ret_least)
{
    *ret_least = segments->safe;
    if (!segments->settled || generation > segments->gen)
        return SEGMENTS_BEHIND;
    if (generation < segments->safe && ing_segments_keeps(segments, FG_RULE_BIT_DROP_AFTER_SAFE))
        return SEGMENTS_STALE;
    return SEGMENTS_SERVE;
}

bool ing_segments_shows(const struct ing_segments *segments, const struct ing_head_group_key *group,
                        uint32_t round, uint64_t generation)
{
    const struct ing_segments_round *found = ing_table_round(&segments->table, group, round);

    if (found == NULL || found->state != ROUND_COMMITTED)
        return found == NULL || found->state != ROUND_UNCHECKED ||
               !ing_segments_keeps(segments, FG_RULE_BIT_HIDE_UNCHECKED);
    return ing_segments_keeps(segments, FG_RULE_BIT_FENCE_GEN) && found->generation > generation;
}

struct ing_segments_status ing_segments_status(const struct ing_segments *segments)
{
    const struct ing_table *table = &segments->table;
    struct ing_segments_status status = {
        .gen = segments->gen,
        .seen = segments->seen,
        .safe = segments->safe,
        .era = segments->era,
        .last_cut = segments->last_cut,
        .open_bytes = table->open_bytes,
        .sealed_bytes = table->sealed_bytes,
        .aside_bytes = table->aside_bytes,
        .aside_profiles = table->aside_profiles,
        .unchecked_bytes = table->unchecked_bytes,
        .unchecked_profiles = table->unchecked_profiles,
        .oldest_open_wall_ns = INT64_MAX,
        .settled = segments->settled,
        .went_back = segments->went_back,
        .store_went_back = segments->store_went_back,
        .drained = count_drained(segments, false),
        .tried = count_drained(segments, true),
    };

    memcpy(status.rounds, table->by_state, sizeof status.rounds);
    for (uint32_t i = 0; i < table->n_rounds; i++) {
        const struct ing_segments_round *round = table->rounds[i];

        status.misfits |= round->state == ROUND_ASIDE && !round->retry;
        if (round->state != ROUND_OPEN || round->profiles == 0)
            continue;
        status.oldest_open_wall_ns = FG_MIN(status.oldest_open_wall_ns, round->opened_wall_ns);
    }
    return status;
}

const struct ing_segments_round *const *ing_segments_rounds(const struct ing_segments *segments,
                                                            uint32_t *ret_count)
{
    *ret_count = segments->table.n_rounds;
    return (const struct ing_segments_round *const *)segments->table.rounds;
}
