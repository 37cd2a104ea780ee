/*
 * Two lanes that wait for different things, stepped one after the other until neither moves:
 *
 *   follow   IDLE --> READING --> IDLE --> COMPARING --> IDLE ...
 *   cut      IDLE --> SEALING --> SEALED --> UPLOADING --> UPLOADED --> SWAPPING --> SWAPPED
 *              ^                    ^ \________________________/             |           |
 *              |                    |   compared meanwhile, too old          |           |
 *              +---- MARKING <------+---- found in the manifest <------------+-----------+
 *
 * and forgetting, which waits for nothing but its own write. UPLOADED and SWAPPED need the manifest
 * to be read anew: before a swap, so that nothing unseen is swapped onto (cas-recheck), and after
 * it, since only the manifest says what came of it.
 */
#include "ingester/segments/segments.h"

#include "ingester/segments/table.h"

#include <stdlib.h>

/* How often rounds are looked through for what is due: there may be 100,000 of them, on the thread
 * that writes. */
#define LOOK_AGAIN_NS FG_SECOND_NS

/* How much may be open, in sizes of a segment, before the turn of others is not waited for: what
 * three heads hold is a third of each first, so that each cuts its own when it has three. */
enum { SEGMENTS_OPEN_MAX = 4 };

enum follow_state { FOLLOW_IDLE, FOLLOW_READING, FOLLOW_COMPARING };

enum cut_state {
    CUT_IDLE,
    CUT_PINNED, /* its seal failed */
    CUT_SEALING,
    CUT_SEALED,
    CUT_UPLOADING,
    CUT_UPLOADED,
    CUT_SWAPPING,
    CUT_SWAPPED,
    CUT_MARKING,
};

/* When something that failed may be tried again. */
struct pause {
    uint32_t failures;
    int64_t until_mono_ns;
};

/* Rounds that an effect is about. */
struct round_list {
    struct segments_round **rounds;
    uint32_t n, cap;
};

struct segments {
    struct segments_config config;
    struct table table;
    uint64_t random;
    int64_t wall_ns, mono_ns; /* of the event being handled */
    int64_t next_look_mono_ns;
    uint8_t *ranks;  /* [SEGMENTS_SHARDS]; NULL: all 0 */
    bool look;       /* through all rounds, in this step */
    uint64_t drains; /* number of the last DRAIN */
    bool draining;   /* some round may be waited for by one */

    /* What the manifest said last. */
    bool started; /* it was read */
    uint64_t seen;
    struct fg_ever ever;
    struct fg_arena *ever_arena;

    /* Following. */
    enum follow_state follow;
    struct pause follow_pause;
    bool settled; /* not before the first time, nor since something was missed */
    bool settling;
    uint64_t gen, safe, wanted;
    uint64_t foreign[FG_L0_SEGMENTS_MAX]; /* generations to be compared with, ascending */
    uint32_t n_foreign, at_foreign;
    bool read_now, went_back;
    int64_t next_read_mono_ns;

    /* The cut that is under way. */
    enum cut_state cut;
    struct pause cut_pause;
    uint64_t last_cut;
    struct round_list pinned; /* its rounds */
    struct fg_segment_id upload;
    int64_t uploaded_mono_ns;
    bool stale;     /* what was uploaded is not what the rounds hold */
    bool rechecked; /* the manifest was read since the upload, or the swap */

    struct round_list marking, forgetting, empty;
    struct pause forget_pause;
    bool is_forgetting;
};

static bool keeps(const struct segments *segments, enum fg_rule rule)
{
    return (segments->config.rules >> rule & 1) != 0;
}

struct segments *segments_create(const struct segments_config *config, uint64_t last_cut)
{
    struct segments *segments = fg_new(struct segments);

    segments->config = *config;
    segments->random = config->seed;
    segments->last_cut = last_cut;
    segments->ever = fg_ever_none();
    table_init(&segments->table);
    return segments;
}

void segments_destroy(struct segments *segments)
{
    if (segments == NULL)
        return;
    table_done(&segments->table);
    fg_arena_destroy(segments->ever_arena);
    free(segments->ranks);
    free(segments->pinned.rounds);
    free(segments->marking.rounds);
    free(segments->forgetting.rounds);
    free(segments->empty.rounds);
    free(segments);
}

static uint64_t draw(struct segments *segments)
{
    segments->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    return fg_mix64(segments->random);
}

/* Full jitter: anywhere between now and twice as far as the last time, so that those who failed
 * together do not come back together. */
static void fail(struct segments *segments, struct pause *pause)
{
    int64_t most = segments->config.backoff_min_ns;

    for (uint32_t i = 0; i < pause->failures && most < segments->config.backoff_max_ns; i++)
        most *= 2;
    most = FG_MIN(most, segments->config.backoff_max_ns);
    pause->failures++;
    pause->until_mono_ns =
        fg_time_add(segments->mono_ns, (int64_t)(draw(segments) % (uint64_t)FG_MAX(most, 1)));
}

static bool is_over(const struct segments *segments, const struct pause *pause)
{
    return segments->mono_ns >= pause->until_mono_ns;
}

static void list_add(struct round_list *list, struct segments_round *round)
{
    if (list->n == list->cap) {
        list->cap = FG_MAX(64, list->cap * 2);
        list->rounds = fg_realloc(list->rounds, list->cap * sizeof(void *));
    }
    list->rounds[list->n++] = round;
}

/* Only those in that state stay. */
static void list_keep(struct round_list *list, enum round_state state)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->rounds[i]->state == state)
            list->rounds[kept++] = list->rounds[i];
    list->n = kept;
}

/* Every round gets into the table here. */
static struct segments_round *add_round(struct segments *segments, struct table_group *group,
                                        struct segments_round round)
{
    round.rank = segments->ranks == NULL ? 0 : segments->ranks[round.group.shard];
    return table_add_round(&segments->table, group, &round);
}

bool segments_restore(struct segments *segments, const struct segments_round *round)
{
    struct table *table = &segments->table;
    struct table_group *group = table_group(table, &round->group);
    struct segments_round *restored;

    fg_assert(!segments->started && round->cut <= segments->last_cut);
    if (table->n_rounds == segments->config.rounds_max)
        return false;
    if (group == NULL)
        group = table_add_group(table, &round->group);
    restored = add_round(segments, group, *round);
    restored->marked = restored->state == ROUND_COMMITTED;
    if (restored->state == ROUND_SEALED) {
        fg_assert(restored->cut == segments->last_cut); /* one cut at a time */
        list_add(&segments->pinned, restored);
        segments->cut = CUT_SEALED;
    }
    return true;
}

/* ---- time ---- */

static int64_t window_end_ns(const struct segments_round *round)
{
    return ((int64_t)round->group.window + 1) * HEAD_WINDOW_NS;
}

static int64_t closed_wall_ns(const struct segments *segments, const struct segments_round *round)
{
    return fg_time_add(window_end_ns(round), segments->config.grace_ns);
}

static bool is_closed(const struct segments *segments, const struct segments_round *round)
{
    return segments->wall_ns >= closed_wall_ns(segments, round);
}

/* What those take who are before us. */
static int64_t turns_ns(const struct segments *segments, const struct segments_round *round)
{
    return round->rank * segments->config.turn_ns;
}

/* Is it closed, and has been for so long that it is our turn? */
static bool is_turn(const struct segments *segments, const struct segments_round *round)
{
    return segments->wall_ns >=
           fg_time_add(closed_wall_ns(segments, round), turns_ns(segments, round));
}

/* When an open round makes a cut necessary. */
static int64_t due_wall_ns(const struct segments *segments, const struct segments_round *round)
{
    const struct segments_config *config = &segments->config;
    int64_t closed = closed_wall_ns(segments, round);
    int64_t lingered = fg_time_add(round->opened_wall_ns, config->linger_ns);
    int64_t oldest = fg_time_add(round->opened_wall_ns, config->open_max_ns);

    return fg_time_add(FG_MIN(FG_MAX(closed, lingered), oldest), turns_ns(segments, round));
}

/* ---- following ---- */

static void commit_round(struct segments *segments, struct segments_round *round,
                         uint64_t generation)
{
    table_set_state(&segments->table, round, ROUND_COMMITTED);
    round->generation = generation;
    round->committed_mono_ns = segments->mono_ns;
}

/*
 * Which of our cuts the manifest has: cuts enter in order, so the last one says it of all before.
 * Only one can be unmarked, the last; so its generation is that of all rounds that are sealed.
 */
static bool own_cut(const struct segments *segments, const struct fg_l0 *l0, uint64_t *ret_cut,
                    uint64_t *ret_generation)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, segments->config.writer);

    if (writer == NULL)
        return false;
    if (!keeps(segments, FG_RULE_BIT_SETTLE_ON_REJOIN) &&
        fg_l0_segment(l0, writer->generation) == NULL)
        return false; /* it came and went unseen */
    *ret_cut = writer->cut;
    *ret_generation = writer->generation;
    return true;
}

static void follow_own(struct segments *segments, const struct fg_l0 *l0)
{
    uint64_t cut, generation;

    if (!own_cut(segments, l0, &cut, &generation))
        return;
    for (uint32_t i = 0; i < segments->pinned.n; i++) {
        struct segments_round *round = segments->pinned.rounds[i];

        if (round->state == ROUND_SEALED && round->cut <= cut)
            commit_round(segments, round, generation);
    }
}

/* Could a segment that we do not know hold what we hold, or what we think we hold all of? */
static bool has_to_compare(const struct segments *segments)
{
    for (uint32_t i = 0; i < segments->table.n_groups; i++) {
        const struct table_group *group = segments->table.groups[i];

        if (group->whole && segments_may_hold(segments, &group->key))
            return true;
    }
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        const struct segments_round *round = segments->table.rounds[i];

        if (round->state != ROUND_COMMITTED && segments_may_hold(segments, &round->group))
            return true;
    }
    return false;
}

/* All rounds agree with everything up to seen. */
static void caught_up(struct segments *segments)
{
    segments->gen = segments->seen;
    segments->settled = true;
    segments->settling = false;
    segments->n_foreign = segments->at_foreign = 0;
}

static void take_ever(struct segments *segments, const struct fg_ever *ever)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_ever none = fg_ever_none();

    fg_assert(fg_ever_join(ever, &none, 0, 0, arena, &segments->ever));
    fg_arena_destroy(segments->ever_arena);
    segments->ever_arena = arena;
}

/* Of others, newer than what we agree with. */
static void list_foreign(struct segments *segments, const struct fg_l0 *l0)
{
    segments->n_foreign = segments->at_foreign = 0;
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];

        if (segment->generation > segments->gen &&
            !fg_id_eq(segment->id.writer, segments->config.writer))
            segments->foreign[segments->n_foreign++] = segment->generation;
    }
}

static void on_failed(struct segments *segments, enum segments_effect_kind failed);

static void on_manifest(struct segments *segments, const struct fg_l0 *l0)
{
    bool away = !segments->started || l0->floor > segments->gen;

    segments->went_back = l0->generation < segments->seen;
    if (segments->went_back) { /* another bucket, or one from a backup: nothing is right any more */
        on_failed(segments, SEGMENTS_READ);
        return;
    }
    segments->follow = FOLLOW_IDLE;
    segments->follow_pause = (struct pause){0};
    segments->next_read_mono_ns = fg_time_add(segments->mono_ns, segments->config.poll_ns);
    segments->wanted = 0; /* who still waits says so again */
    segments->rechecked = true;
    if (!segments->started || l0->generation > segments->seen)
        take_ever(segments, &l0->ever);
    if (!segments->started) /* what was forgotten before this start is in blocks up to here */
        segments->safe = l0->generation;
    segments->started = true;
    segments->seen = l0->generation;
    follow_own(segments, l0);
    if (away && keeps(segments, FG_RULE_BIT_SETTLE_ON_REJOIN)) {
        segments->settled = false;
        segments->settling = true;
    }
    list_foreign(segments, l0);
    if ((!segments->settling && segments->n_foreign == 0) || !has_to_compare(segments))
        caught_up(segments);
}

/* ---- comparing: only where others may hold what we hold ---- */

bool segments_may_hold(const struct segments *segments, const struct head_group_key *group)
{
    return fg_ever_has(&segments->ever, group->shard, group->window);
}

uint32_t segments_leftover(const struct segments *segments, const struct head_group_key *group,
                           uint32_t round)
{
    const struct table_group *found = table_group(&segments->table, group);

    fg_assert(found != NULL);
    return found->open != NULL && found->open->number != round ? found->open->number : found->next;
}

/* The DRAIN of that number waits for the round too. */
static void wait_for(struct segments_round *round, uint64_t drain)
{
    if (drain != 0 && (round->drain == 0 || drain < round->drain))
        round->drain = drain;
}

/* The other profiles of a round become part of the open one. */
static void move_leftover(struct segments *segments, struct segments_round *round,
                          const struct segments_outcome *outcome, uint32_t to)
{
    struct table_group *group = table_group(&segments->table, &round->group);
    struct segments_round *open = group->open;

    if (outcome->moved_profiles == 0)
        return;
    if (open == NULL) {
        struct segments_round fresh = {
            .group = round->group, .number = to, .opened_wall_ns = round->opened_wall_ns};

        open = add_round(segments, group, fresh);
    }
    open->opened_wall_ns = FG_MIN(open->opened_wall_ns, round->opened_wall_ns);
    wait_for(open, round->drain);
    table_count(&segments->table, round, -(int64_t)outcome->moved_profiles,
                -(int64_t)outcome->moved_bytes);
    table_count(&segments->table, open, (int64_t)outcome->moved_profiles,
                (int64_t)outcome->moved_bytes);
}

static void take_outcome(struct segments *segments, const struct segments_outcome *outcome,
                         uint64_t generation)
{
    struct segments_round *round = table_round(&segments->table, &outcome->group, outcome->number);
    uint32_t to = segments_leftover(segments, &outcome->group, outcome->number);

    fg_assert(round != NULL && round->state != ROUND_COMMITTED);
    segments->stale |=
        round->state == ROUND_SEALED; /* the cut may be uploaded: it has to be again */
    commit_round(segments, round, generation);
    round->marked = true;
    move_leftover(segments, round, outcome, to);
}

/* Nothing is known any more about what others hold of these. */
static void forget_whole(struct segments *segments, const struct segments_event *event)
{
    for (uint32_t i = 0; segments->settling && i < segments->table.n_groups; i++)
        segments->table.groups[i]->whole = false;
    for (uint32_t i = 0; i < event->n_missing; i++) {
        struct table_group *group = table_group(&segments->table, &event->missing[i]);

        if (group != NULL)
            group->whole = false;
    }
}

/* What is marked needs nothing of the cut any more, and may be forgotten before it ends. */
static void unpin_marked(struct segments *segments)
{
    struct round_list *list = &segments->pinned;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (!list->rounds[i]->marked)
            list->rounds[kept++] = list->rounds[i];
    list->n = kept;
}

static void on_compared(struct segments *segments, const struct segments_event *event)
{
    segments->follow = FOLLOW_IDLE;
    segments->follow_pause = (struct pause){0};
    for (uint32_t i = 0; i < event->n_outcomes; i++)
        take_outcome(segments, &event->outcomes[i], event->generation);
    unpin_marked(segments);
    forget_whole(segments, event);
    if (segments->settling) {
        /* Of what was found nobody knows when it was committed, only that a snapshot of this
         * generation has it: older ones are refused. */
        segments->safe = FG_MAX(segments->safe, event->generation);
        caught_up(segments);
        return;
    }
    segments->gen = segments->foreign[segments->at_foreign++];
    if (segments->at_foreign == segments->n_foreign)
        caught_up(segments);
}

/* ---- the cut ---- */

static bool all_committed(const struct segments *segments)
{
    for (uint32_t i = 0; i < segments->pinned.n; i++)
        if (segments->pinned.rounds[i]->state != ROUND_COMMITTED)
            return false;
    return true;
}

/* What is waited for comes first, so that no flood of other data can keep it. */
static int compare_urgency(const void *left, const void *right)
{
    const struct segments_round *const *a = left, *const *b = right;

    if (((*a)->drain != 0) != ((*b)->drain != 0))
        return (*a)->drain != 0 ? -1 : 1;
    return ((*a)->group.window > (*b)->group.window) - ((*a)->group.window < (*b)->group.window);
}

/* There is so much that a segment can be made of it, whatever its age. */
static bool is_enough(const struct segments *segments, uint8_t rank)
{
    const struct table *table = &segments->table;
    uint64_t cut_bytes = segments->config.cut_bytes;

    return (rank == 0 && table->first_bytes >= cut_bytes) ||
           table->open_bytes >= SEGMENTS_OPEN_MAX * cut_bytes;
}

static bool is_due(const struct segments *segments, const struct segments_round *round)
{
    return round->drain != 0 || due_wall_ns(segments, round) <= segments->wall_ns;
}

/* Does some open round need a cut? */
static bool is_cut_due(const struct segments *segments)
{
    const struct table *table = &segments->table;

    if (table->by_state[ROUND_OPEN] == 0)
        return false;
    if (is_enough(segments, 0))
        return true;
    for (uint32_t i = 0; (segments->look || segments->draining) && i < table->n_rounds; i++) {
        const struct segments_round *round = table->rounds[i];

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
static void pin(struct segments *segments)
{
    const struct table *table = &segments->table;
    uint64_t bytes = 0;
    uint32_t n = 0;

    segments->pinned.n = 0;
    for (uint32_t i = 0; i < table->n_rounds; i++) {
        struct segments_round *round = table->rounds[i];

        if (round->state == ROUND_OPEN && round->profiles > 0 &&
            (is_enough(segments, round->rank) || is_turn(segments, round) ||
             is_due(segments, round)))
            list_add(&segments->pinned, round);
    }
    if (segments->pinned.n > 0)
        qsort(segments->pinned.rounds, segments->pinned.n, sizeof(void *), compare_urgency);
    while (n < segments->pinned.n && (n == 0 || bytes < segments->config.cut_bytes))
        bytes += segments->pinned.rounds[n++]->bytes;
    segments->pinned.n = n;
}

static void on_sealed(struct segments *segments)
{
    list_keep(&segments->pinned, ROUND_OPEN);
    segments->last_cut++;
    for (uint32_t i = 0; i < segments->pinned.n; i++) {
        struct segments_round *round = segments->pinned.rounds[i];

        table_set_state(&segments->table, round, ROUND_SEALED);
        round->cut = segments->last_cut;
    }
    segments->cut = CUT_SEALED;
    segments->cut_pause = (struct pause){0};
}

static void on_marked(struct segments *segments)
{
    for (uint32_t i = 0; i < segments->marking.n; i++)
        segments->marking.rounds[i]->marked = true;
    segments->marking.n = 0;
    segments->pinned.n = 0;
    segments->cut = CUT_IDLE;
    segments->cut_pause = (struct pause){0};
}

static void on_uploaded(struct segments *segments, bool nothing)
{
    if (nothing) /* of writes that failed and were not there after all */
        for (uint32_t i = 0; i < segments->pinned.n; i++)
            if (segments->pinned.rounds[i]->state == ROUND_SEALED)
                commit_round(segments, segments->pinned.rounds[i], segments->gen);
    segments->cut = CUT_UPLOADED;
    segments->cut_pause = (struct pause){0};
    segments->uploaded_mono_ns = segments->mono_ns;
    segments->rechecked = false;
    segments->read_now = true;
}

/* Whatever is said of it. */
static void on_swapped(struct segments *segments)
{
    segments->cut = CUT_SWAPPED;
    segments->rechecked = false;
    segments->read_now = true;
}

static void on_failed(struct segments *segments, enum segments_effect_kind failed)
{
    switch (failed) {
    case SEGMENTS_READ:
    case SEGMENTS_COMPARE: /* the segment may have left: the manifest says */
        segments->follow = FOLLOW_IDLE;
        segments->read_now = true;
        fail(segments, &segments->follow_pause);
        return;
    case SEGMENTS_UPLOAD:
        segments->cut = CUT_SEALED;
        break;
    case SEGMENTS_SWAP:
        on_swapped(segments);
        break;
    case SEGMENTS_SEAL: /* the same again: some of it may be written */
        segments->cut = CUT_PINNED;
        break;
    case SEGMENTS_MARK:
        segments->cut = CUT_SEALED;
        break;
    case SEGMENTS_FORGET:
        segments->is_forgetting = false;
        segments->forgetting.n = 0;
        fail(segments, &segments->forget_pause);
        return;
    }
    fail(segments, &segments->cut_pause);
}

/* ---- draining ---- */

static bool is_to_commit(const struct segments_round *round)
{
    return round->state == ROUND_SEALED || (round->state == ROUND_OPEN && round->profiles > 0) ||
           (round->state == ROUND_COMMITTED && !round->marked);
}

static void on_drain(struct segments *segments, uint64_t drain)
{
    fg_assert(drain > segments->drains);
    segments->drains = drain;
    segments->draining = true;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++)
        if (is_to_commit(segments->table.rounds[i]))
            wait_for(segments->table.rounds[i], drain);
}

/* Up to which DRAIN nothing is waited for any more. */
static uint64_t count_drained(const struct segments *segments)
{
    uint64_t drained = segments->drains;

    for (uint32_t i = 0; segments->draining && i < segments->table.n_rounds; i++) {
        const struct segments_round *round = segments->table.rounds[i];

        if (round->drain != 0 && is_to_commit(round))
            drained = FG_MIN(drained, round->drain - 1);
    }
    return drained;
}

/* ---- ranks ---- */

static void on_ranks(struct segments *segments, const uint8_t *ranks)
{
    if (segments->ranks == NULL)
        segments->ranks = fg_malloc(SEGMENTS_SHARDS);
    memcpy(segments->ranks, ranks, SEGMENTS_SHARDS);
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct segments_round *round = segments->table.rounds[i];

        table_set_rank(&segments->table, round, ranks[round->group.shard]);
    }
}

/* ---- effects ---- */

static struct segments_effect *emit(struct segments_effects *effects,
                                    enum segments_effect_kind kind)
{
    struct segments_effect *effect = &effects->effects[effects->n++];

    fg_assert(effects->n <= SEGMENTS_EFFECTS_MAX);
    *effect = (struct segments_effect){.kind = kind};
    return effect;
}

static void emit_rounds(struct segments_effects *effects, enum segments_effect_kind kind,
                        const struct round_list *list, const struct segments *segments)
{
    struct segments_effect *effect = emit(effects, kind);

    effect->rounds = (const struct segments_round *const *)list->rounds;
    effect->n_rounds = list->n;
    effect->id = segments->upload;
    effect->cut = segments->last_cut;
}

static void advance_follow(struct segments *segments, struct segments_effects *effects)
{
    bool due = segments->read_now || !segments->started || segments->wanted > segments->seen ||
               segments->mono_ns >= segments->next_read_mono_ns;

    if (segments->follow != FOLLOW_IDLE || !is_over(segments, &segments->follow_pause))
        return;
    if (!segments->read_now && (segments->settling || segments->at_foreign < segments->n_foreign)) {
        struct segments_effect *effect = emit(effects, SEGMENTS_COMPARE);

        effect->all = segments->settling;
        effect->generation =
            segments->settling ? segments->seen : segments->foreign[segments->at_foreign];
        segments->follow = FOLLOW_COMPARING;
        return;
    }
    /* Not while a swap is under way: it goes onto the manifest that was handed in last. */
    if (!due || segments->cut == CUT_SWAPPING)
        return;
    (void)emit(effects, SEGMENTS_READ);
    segments->follow = FOLLOW_READING;
    segments->read_now = false;
}

static void begin_seal(struct segments *segments, struct segments_effects *effects)
{
    struct segments_effect *effect;

    list_keep(&segments->pinned, ROUND_OPEN); /* of a seal that failed, some may be held since */
    if (segments->pinned.n == 0) {
        segments->cut = CUT_IDLE;
        return;
    }
    segments->cut = CUT_SEALING;
    emit_rounds(effects, SEGMENTS_SEAL, &segments->pinned, segments);
    effect = &effects->effects[effects->n - 1];
    effect->cut = segments->last_cut + 1;
}

static void begin_upload(struct segments *segments, struct segments_effects *effects)
{
    list_keep(&segments->pinned, ROUND_SEALED);
    segments->upload =
        (struct fg_segment_id){segments->config.writer, segments->last_cut, draw(segments)};
    segments->stale = false;
    segments->cut = CUT_UPLOADING;
    emit_rounds(effects, SEGMENTS_UPLOAD, &segments->pinned, segments);
}

static void begin_mark(struct segments *segments, struct segments_effects *effects)
{
    segments->marking.n = 0;
    for (uint32_t i = 0; i < segments->pinned.n; i++)
        if (!segments->pinned.rounds[i]->marked)
            list_add(&segments->marking, segments->pinned.rounds[i]);
    if (segments->marking.n == 0) { /* all were found by comparing */
        on_marked(segments);
        return;
    }
    segments->cut = CUT_MARKING;
    emit_rounds(effects, SEGMENTS_MARK, &segments->marking, segments);
}

/* Nothing has happened to the rounds since the upload, and they agree with the manifest that it
 * goes onto. (cas-recheck) */
static bool may_swap(const struct segments *segments)
{
    if (segments->follow != FOLLOW_IDLE || !segments->rechecked)
        return false;
    return !keeps(segments, FG_RULE_BIT_CAS_RECHECK) ||
           (segments->settled && segments->gen == segments->seen);
}

static bool is_too_old(const struct segments *segments)
{
    return segments->mono_ns - segments->uploaded_mono_ns > segments->config.upload_max_age_ns;
}

static void advance_uploaded(struct segments *segments, struct segments_effects *effects)
{
    if ((segments->stale && keeps(segments, FG_RULE_BIT_CAS_RECHECK)) || is_too_old(segments)) {
        begin_upload(segments, effects);
        return;
    }
    if (!may_swap(segments))
        return;
    segments->cut = CUT_SWAPPING;
    emit_rounds(effects, SEGMENTS_SWAP, &segments->pinned, segments);
}

static void advance_cut(struct segments *segments, struct segments_effects *effects)
{
    if (!is_over(segments, &segments->cut_pause))
        return;
    switch (segments->cut) {
    case CUT_IDLE:
        /* Nothing is sealed before the bucket was there: what is open can still be joined. */
        if (segments->settled && is_cut_due(segments)) {
            pin(segments);
            begin_seal(segments, effects);
        }
        return;
    case CUT_PINNED:
        begin_seal(segments, effects);
        return;
    case CUT_SEALED:
        if (all_committed(segments))
            begin_mark(segments, effects);
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
    case CUT_UPLOADING:
    case CUT_SWAPPING:
    case CUT_MARKING:
        return;
    }
}

/*
 * Committed rounds go after a while, those of a window that is still open later: as long as they
 * are here an id of its ordinary data is known to be new without asking the blocks.
 */
static bool may_forget(const struct segments *segments, const struct segments_round *round)
{
    return round->state == ROUND_COMMITTED && round->marked && round->generation <= segments->gen &&
           segments->mono_ns - round->committed_mono_ns >= segments->config.forget_after_ns &&
           (is_closed(segments, round) ||
            segments->wall_ns >= fg_time_add(round->opened_wall_ns, segments->config.open_max_ns));
}

/* Rounds that were admitted to and got nothing: pushes of what is there already, or that failed.
 * The store knows nothing of them. */
static void drop_empty(struct segments *segments)
{
    struct round_list *list = &segments->empty;

    list->n = 0;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct segments_round *round = segments->table.rounds[i];

        if (round->state == ROUND_OPEN && round->profiles == 0 &&
            segments->wall_ns >= fg_time_add(round->opened_wall_ns, segments->config.linger_ns))
            list_add(list, round);
    }
    if (list->n > 0)
        table_remove(&segments->table, list->rounds, list->n);
}

static void advance_forget(struct segments *segments, struct segments_effects *effects)
{
    if (!segments->look || segments->is_forgetting || !segments->settled ||
        !is_over(segments, &segments->forget_pause))
        return;
    segments->forgetting.n = 0;
    for (uint32_t i = 0; i < segments->table.n_rounds; i++) {
        struct segments_round *round = segments->table.rounds[i];

        if (!may_forget(segments, round))
            continue;
        list_add(&segments->forgetting, round);
        /* Before anything is deleted: a write that failed may be done all the same. */
        segments->safe = FG_MAX(segments->safe, round->generation);
        table_group(&segments->table, &round->group)->whole = false;
    }
    if (segments->forgetting.n == 0)
        return;
    segments->is_forgetting = true;
    emit_rounds(effects, SEGMENTS_FORGET, &segments->forgetting, segments);
}

static void on_forgotten(struct segments *segments)
{
    table_remove(&segments->table, segments->forgetting.rounds, segments->forgetting.n);
    segments->forgetting.n = 0;
    segments->is_forgetting = false;
    segments->forget_pause = (struct pause){0};
}

/* ---- a step ---- */

static void take_event(struct segments *segments, const struct segments_event *event)
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
    case SEGMENTS_RANKS:
        on_ranks(segments, event->ranks);
        break;
    case SEGMENTS_MANIFEST:
        on_manifest(segments, event->l0);
        break;
    case SEGMENTS_COMPARED:
        on_compared(segments, event);
        break;
    case SEGMENTS_SEALED:
        on_sealed(segments);
        break;
    case SEGMENTS_UPLOADED:
        on_uploaded(segments, event->nothing);
        break;
    case SEGMENTS_SWAPPED:
        on_swapped(segments);
        break;
    case SEGMENTS_MARKED:
        on_marked(segments);
        break;
    case SEGMENTS_FORGOTTEN:
        on_forgotten(segments);
        break;
    case SEGMENTS_FAILED:
        on_failed(segments, event->failed);
        break;
    }
}

/* The next moment at which something may be due. */
static int64_t wake_mono_ns(const struct segments *segments)
{
    const struct pause *pauses[] = {&segments->follow_pause, &segments->cut_pause,
                                    &segments->forget_pause};
    int64_t wake = segments->next_read_mono_ns;

    if (segments->table.n_rounds > 0)
        wake = FG_MIN(wake, segments->next_look_mono_ns);
    for (size_t i = 0; i < FG_COUNT(pauses); i++)
        if (!is_over(segments, pauses[i]))
            wake = FG_MIN(wake, pauses[i]->until_mono_ns);
    return FG_MAX(wake, segments->mono_ns);
}

void segments_step(struct segments *segments, const struct segments_event *event,
                   struct segments_effects *ret_effects)
{
    enum cut_state before;

    segments->wall_ns = event->wall_ns;
    segments->mono_ns = event->mono_ns;
    segments->look = event->mono_ns >= segments->next_look_mono_ns;
    if (segments->look)
        segments->next_look_mono_ns = fg_time_add(event->mono_ns, LOOK_AGAIN_NS);
    ret_effects->n = 0;
    take_event(segments, event);
    if (segments->look)
        drop_empty(segments);
    advance_follow(segments, ret_effects);
    do { /* a cut that ends without an effect lets the next one begin */
        before = segments->cut;
        advance_cut(segments, ret_effects);
    } while (segments->cut == CUT_IDLE && before != CUT_IDLE);
    advance_forget(segments, ret_effects);
    segments->draining = segments->draining && count_drained(segments) < segments->drains;
    ret_effects->wake_mono_ns = wake_mono_ns(segments);
}

/* ---- what others ask ---- */

bool segments_is_late(const struct segments *segments, const struct head_group_key *group)
{
    const struct table_group *found = table_group(&segments->table, group);

    /* What comes before the first manifest was read is compared with all blocks then. */
    return segments->started && keeps(segments, FG_RULE_BIT_CHECK_LATE_IDS) &&
           segments_may_hold(segments, group) && (found == NULL || !found->whole);
}

enum segments_admission segments_admit(struct segments *segments,
                                       const struct head_group_key *group, uint64_t looked,
                                       uint32_t *ret_round)
{
    struct table *table = &segments->table;
    struct table_group *found = table_group(table, group);

    if (segments_is_late(segments, group) && looked < segments->seen)
        return SEGMENTS_LOOK;
    if ((found == NULL || found->open == NULL) && table->n_rounds == segments->config.rounds_max)
        return SEGMENTS_FULL;
    if (found == NULL) {
        found = table_add_group(table, group);
        found->whole = segments->started && !segments_may_hold(segments, group);
    }
    if (found->open == NULL) {
        struct segments_round fresh = {
            .group = *group, .number = found->next, .opened_wall_ns = segments->wall_ns};

        (void)add_round(segments, found, fresh);
    }
    *ret_round = found->open->number;
    return SEGMENTS_ADMIT;
}

static struct segments_round *add_again(struct segments *segments, const struct head_group_key *key,
                                        uint32_t number)
{
    struct table_group *group = table_group(&segments->table, key);
    struct segments_round round = {.group = *key, .number = number};

    if (group == NULL)
        group = table_add_group(&segments->table, key);
    return add_round(segments, group, round);
}

void segments_added(struct segments *segments, const struct head_group_key *group, uint32_t round,
                    uint64_t profiles, uint64_t bytes, int64_t wall_ns)
{
    struct segments_round *found = table_round(&segments->table, group, round);

    if (found == NULL) /* empty for so long that it was dropped, between the two calls */
        found = add_again(segments, group, round);
    fg_assert(found->state == ROUND_OPEN);
    if (found->profiles == 0)
        found->opened_wall_ns = wall_ns;
    table_count(&segments->table, found, (int64_t)profiles, (int64_t)bytes);
}

uint64_t segments_seen(const struct segments *segments)
{
    return segments->seen;
}

void segments_found(struct segments *segments, uint64_t generation)
{
    segments->safe = FG_MAX(segments->safe, generation);
}

enum segments_fence segments_fence(const struct segments *segments, uint64_t generation,
                                   uint64_t *ret_least)
{
    *ret_least = segments->safe;
    if (!segments->settled || generation > segments->gen)
        return SEGMENTS_BEHIND;
    if (generation < segments->safe && keeps(segments, FG_RULE_BIT_DROP_AFTER_SAFE))
        return SEGMENTS_STALE;
    return SEGMENTS_SERVE;
}

bool segments_shows(const struct segments *segments, const struct head_group_key *group,
                    uint32_t round, uint64_t generation)
{
    const struct segments_round *found = table_round(&segments->table, group, round);

    if (found == NULL || found->state != ROUND_COMMITTED)
        return true;
    return keeps(segments, FG_RULE_BIT_FENCE_GEN) && found->generation > generation;
}

struct segments_status segments_status(const struct segments *segments)
{
    const struct table *table = &segments->table;
    struct segments_status status = {
        .gen = segments->gen,
        .seen = segments->seen,
        .safe = segments->safe,
        .last_cut = segments->last_cut,
        .open_bytes = table->open_bytes,
        .sealed_bytes = table->sealed_bytes,
        .oldest_open_wall_ns = INT64_MAX,
        .settled = segments->settled,
        .went_back = segments->went_back,
        .drained = count_drained(segments),
    };

    memcpy(status.rounds, table->by_state, sizeof status.rounds);
    for (uint32_t i = 0; i < table->n_rounds; i++) {
        const struct segments_round *round = table->rounds[i];

        if (round->state != ROUND_OPEN || round->profiles == 0)
            continue;
        status.oldest_open_wall_ns = FG_MIN(status.oldest_open_wall_ns, round->opened_wall_ns);
    }
    return status;
}

const struct segments_round *const *segments_rounds(const struct segments *segments,
                                                    uint32_t *ret_count)
{
    *ret_count = segments->table.n_rounds;
    return (const struct segments_round *const *)segments->table.rounds;
}
