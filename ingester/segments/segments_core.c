/*
 * Two lanes wait for different things. Each step advances one after the other until neither moves:
 *
 *   follow   IDLE --> READING ----> IDLE      then, as needed, and each back to IDLE:
 *                                             COMPARING, TAKING_IN, REPORTING
 *
 *   cut      IDLE --> SEALING --> SEALED --> UPLOADING --> UPLOADED --> SWAPPING --> SWAPPED
 *             ^                   ^ |  ^                     |  ^                       |
 *             |                   | |  '--- too old, stale --'  '---- not swapped ------'
 *             |                   | '--> SETTING_ASIDE: unfit, three times; the rest of the cut
 *             |                   '----------'            goes on
 *             '---- MARKING <---- all chunks found committed, in any of these states
 *
 * Eviction waits for nothing but its own write. UPLOADED and SWAPPED need a new read of the
 * manifest: before a swap, so that it goes onto what the chunks were compared with (cas-recheck);
 * after it, since only the manifest tells its result. So does REPORTING, which runs while there is
 * no cut: a cut reports the same.
 */
#include "ingester/segments/segments_core_impl.h"

#include <stdlib.h>

/* Interval at which the core looks through all chunks for due ones. There may be 100,000 chunks,
 * and the core runs on the thread that writes: between two looks a step takes constant time unless
 * a DRAIN waits. */
#define LOOK_AGAIN_NS FG_SECOND_NS

struct ing_segments_core *ing_segments_core_create(const struct ing_segments_core_config *config,
                                                   uint64_t last_cut, uint64_t seen)
{
    struct ing_segments_core *core = fg_new(struct ing_segments_core);

    core->config = *config;
    core->random = config->seed;
    core->last_cut = last_cut;
    core->seen = seen;
    core->late_filter = fg_late_filter_none();
    ing_chunk_table_init(&core->table);
    return core;
}

void ing_segments_core_destroy(struct ing_segments_core *core)
{
    if (core == NULL)
        return;
    ing_chunk_table_done(&core->table);
    fg_arena_destroy(core->late_filter_arena);
    free(core->ranks);
    free(core->pinned.chunks);
    free(core->misfits.chunks);
    free(core->marking.chunks);
    free(core->evicting.chunks);
    free(core->empty.chunks);
    free(core->checked.chunks);
    free(core->nonces);
    free(core);
}

bool ing_core_keeps(const struct ing_segments_core *core, enum fg_rule rule)
{
    return (core->config.rules >> rule & 1) != 0;
}

uint64_t ing_core_draw(struct ing_segments_core *core)
{
    core->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    return fg_mix64(core->random);
}

/* Full jitter: a time between now and twice the last pause, so that ingesters that failed together
 * do not retry together. */
void ing_core_fail(struct ing_segments_core *core, struct ing_pause *pause)
{
    int64_t most = core->config.backoff_min_ns;

    /* The loop stops at the maximum, so a long outage does not overflow the product. */
    for (uint32_t i = 0; i < pause->failures && most < core->config.backoff_max_ns; i++)
        most *= 2;
    most = FG_MIN(most, core->config.backoff_max_ns);
    pause->failures++;
    pause->until_mono_ns =
        fg_time_add(core->mono_ns, (int64_t)(ing_core_draw(core) % (uint64_t)FG_MAX(most, 1)));
    pause->short_mono_ns = fg_time_add(core->mono_ns, core->config.backoff_min_ns);
}

/* While a query waits for a generation, pauses of reads and comparisons are as short as after the
 * first failure: the querier has read that generation, so the bucket answers again. */
int64_t ing_core_pause_end(const struct ing_segments_core *core, const struct ing_pause *pause)
{
    bool of_follow = pause == &core->follow_pause || pause == &core->compare_pause;

    return of_follow && core->wanted > core->gen
               ? FG_MIN(pause->until_mono_ns, pause->short_mono_ns)
               : pause->until_mono_ns;
}

bool ing_core_is_over(const struct ing_segments_core *core, const struct ing_pause *pause)
{
    return core->mono_ns >= ing_core_pause_end(core, pause);
}

void ing_chunk_list_add(struct ing_chunk_list *list, struct ing_segments_chunk *chunk)
{
    if (list->n == list->cap) {
        list->cap = FG_MAX(64, list->cap * 2);
        list->chunks = fg_realloc(list->chunks, list->cap * sizeof(void *));
    }
    list->chunks[list->n++] = chunk;
}

void ing_chunk_list_keep(struct ing_chunk_list *list, enum ing_chunk_state state)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->chunks[i]->state == state)
            list->chunks[kept++] = list->chunks[i];
    list->n = kept;
}

void ing_chunk_list_drop(struct ing_chunk_list *list, enum ing_chunk_state state)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->chunks[i]->state != state)
            list->chunks[kept++] = list->chunks[i];
    list->n = kept;
}

struct ing_segments_chunk *ing_core_add_chunk(struct ing_segments_core *core,
                                              struct ing_chunk_table_group *group,
                                              struct ing_segments_chunk chunk)
{
    chunk.rank = core->ranks == NULL ? 0 : core->ranks[chunk.group.shard];
    return ing_chunk_table_add_chunk(&core->table, group, &chunk);
}

uint64_t ing_core_clean(const struct ing_segments_core *core)
{
    /* Committed chunks count until they are evicted, since readers of older snapshots still get
     * their profiles. Without chunks the store is clean of the era itself. */
    uint64_t clean = core->era, kept = core->era;

    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        const struct ing_segments_chunk *chunk = core->table.chunks[i];

        /* No reader gets the profiles of a chunk that is only kept (ing_evict_advance()). */
        if (chunk->kept)
            kept = FG_MIN(kept, chunk->era);
        else
            clean = FG_MIN(clean, chunk->era);
    }
    if (kept < clean && core->config.pins_clean != NULL)
        kept = FG_MAX(kept, core->config.pins_clean(core->config.pins_arg, core->era));
    return FG_MIN(clean, kept);
}

void ing_core_commit_chunk(struct ing_segments_core *core, struct ing_segments_chunk *chunk,
                           uint64_t generation)
{
    ing_chunk_table_set_state(&core->table, chunk, CHUNK_COMMITTED);
    chunk->keyless = false;
    chunk->generation = generation;
    chunk->committed_mono_ns = core->mono_ns;
}

int64_t ing_core_closed_wall_ns(const struct ing_segments_core *core,
                                const struct ing_segments_chunk *chunk)
{
    return fg_time_add(((int64_t)chunk->group.window + 1) * HEAD_WINDOW_NS, core->config.grace_ns);
}

bool ing_core_is_closed(const struct ing_segments_core *core,
                        const struct ing_segments_chunk *chunk)
{
    return core->wall_ns >= ing_core_closed_wall_ns(core, chunk);
}

void ing_core_wait_for(struct ing_segments_chunk *chunk, uint64_t drain)
{
    /* The earliest drain is enough: count_drained() takes the minimum, so later drains wait for the
     * same chunk. */
    if (drain != 0 && (chunk->drain == 0 || drain < chunk->drain))
        chunk->drain = drain;
}

bool ing_segments_core_restore(struct ing_segments_core *core,
                               const struct ing_segments_chunk *chunk)
{
    struct ing_chunk_table *table = &core->table;
    struct ing_chunk_table_group *group = ing_chunk_table_group(table, &chunk->group);
    struct ing_segments_chunk *restored;

    fg_assert(!core->started && chunk->cut <= core->last_cut);
    if (table->n_chunks == core->config.chunks_max)
        return false;
    if (group == NULL)
        group = ing_chunk_table_add_group(table, &chunk->group);
    restored = ing_core_add_chunk(core, group, *chunk);
    /* There is one cut at a time, so a chunk of an older cut was rebuilt from a damaged record. A
     * COMPARE tells whether it was committed. */
    if (restored->state == CHUNK_SEALED && restored->cut < core->last_cut)
        ing_chunk_table_set_state(table, restored, CHUNK_ASIDE);
    /* What the store says is durable, so a chunk that it lists as committed needs no MARK. A chunk
     * that was set aside is tried once by each start, which may be that of a version that can build
     * it. */
    restored->marked = restored->state == CHUNK_COMMITTED;
    restored->retry = restored->state == CHUNK_ASIDE;
    if (restored->state == CHUNK_SEALED) {
        /* Continue the cut of the last run. It is unknown whether that run uploaded or swapped: the
         * first manifest tells, and if it lacks the cut, the core uploads again under another name.
         */
        ing_chunk_list_add(&core->pinned, restored);
        core->cut = CUT_SEALED;
    }
    return true;
}

struct ing_segments_effect *ing_core_emit(struct ing_segments_effects *effects,
                                          enum ing_segments_effect_kind kind)
{
    struct ing_segments_effect *effect = &effects->effects[effects->n++];

    fg_assert(effects->n <= SEGMENTS_EFFECTS_MAX);
    *effect = (struct ing_segments_effect){.kind = kind};
    return effect;
}

void ing_core_emit_chunks(struct ing_segments_effects *effects, enum ing_segments_effect_kind kind,
                          const struct ing_chunk_list *list, const struct ing_segments_core *core)
{
    struct ing_segments_effect *effect = ing_core_emit(effects, kind);

    effect->chunks = (const struct ing_segments_chunk *const *)list->chunks;
    effect->n_chunks = list->n;
    effect->id = core->upload;
    effect->cut = core->last_cut;
}

static void on_failed(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    switch (event->failed) {
    case SEGMENTS_READ:
    case SEGMENTS_COMPARE:
    case SEGMENTS_TAKE_IN:
        ing_follow_failed(core, event->failed);
        return;
    case SEGMENTS_SEAL:
    case SEGMENTS_UPLOAD:
    case SEGMENTS_SET_ASIDE:
    case SEGMENTS_SWAP:
    case SEGMENTS_MARK:
        ing_cut_failed(core, event);
        return;
    case SEGMENTS_EVICT:
        ing_evict_failed(core);
        return;
    case SEGMENTS_REPORT:
        ing_follow_reported(core);
        return;
    case SEGMENTS_EFFECT_KINDS:
        break;
    }
    fg_assert(false);
}

/* ---- draining ---- */

static bool is_to_commit(const struct ing_segments_chunk *chunk)
{
    return chunk->state == CHUNK_SEALED || chunk->state == CHUNK_ASIDE ||
           (chunk->state == CHUNK_UNCHECKED && chunk->profiles > 0) ||
           (chunk->state == CHUNK_OPEN && chunk->profiles > 0) ||
           (chunk->state == CHUNK_COMMITTED && !chunk->marked);
}

static void on_drain(struct ing_segments_core *core, uint64_t drain)
{
    fg_assert(drain > core->drains);
    core->drains = drain;
    core->draining = true;
    /* Compare unchecked chunks now. Only a COMPARE that begins after this DRAIN answers for it,
     * because an earlier one may have read the bucket before the caller asked. */
    core->check_mono_ns = 0;
    core->checks_drain = false;
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (!is_to_commit(chunk))
            continue;
        ing_core_wait_for(chunk, drain);
        chunk->retry = chunk->state == CHUNK_ASIDE || chunk->state == CHUNK_UNCHECKED;
    }
}

/* Returns true if the chunk failed again since the last DRAIN. */
static bool was_tried(const struct ing_segments_chunk *chunk)
{
    return (chunk->state == CHUNK_ASIDE || chunk->state == CHUNK_UNCHECKED) && !chunk->retry;
}

/* Returns the last DRAIN that waits for no chunk; if `tried`, chunks that failed again do not
 * count. None is done before the first manifest, since it is unknown at which generations earlier
 * starts committed their profiles (drained_at()), and none while a copy runs, which may hold more
 * under the same name. */
static uint64_t count_drained(const struct ing_segments_core *core, bool tried)
{
    uint64_t drained = core->started && !core->copied ? core->drains : 0;

    for (uint32_t i = 0; core->draining && i < core->table.n_chunks; i++) {
        const struct ing_segments_chunk *chunk = core->table.chunks[i];

        if (chunk->drain != 0 && is_to_commit(chunk) && !(tried && was_tried(chunk)))
            drained = FG_MIN(drained, chunk->drain - 1);
    }
    return drained;
}

/* Every committed chunk got its generation from a manifest (at most `seen`) or from a COMPARE of
 * all, which has raised `safe`; an id that was only found in the bucket has raised `safe`, too.
 * `gen` would be too small: a cut is marked as soon as a manifest has it, and newer segments of
 * others may still have to be compared. */
static uint64_t drained_at(const struct ing_segments_core *core)
{
    return FG_MAX(core->seen, core->safe);
}

static void on_salvage(struct ing_segments_core *core)
{
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        chunk->retry |= chunk->state == CHUNK_ASIDE;
        /* Only chunks that are set aside at this moment: a salvage gives up profiles, so it must
         * not apply to chunks that may still become a whole segment, once there is a key. */
        chunk->salvage |= chunk->state == CHUNK_ASIDE && !chunk->keyless;
    }
}

/* ---- ranks ---- */

static void on_ranks(struct ing_segments_core *core, const uint8_t *ranks)
{
    if (core->ranks == NULL)
        core->ranks = fg_malloc(SEGMENTS_SHARDS);
    memcpy(core->ranks, ranks, SEGMENTS_SHARDS);
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        struct ing_segments_chunk *chunk = core->table.chunks[i];

        /* Through the table, which keeps the sum of the open bytes of rank 0. */
        ing_chunk_table_set_rank(&core->table, chunk, ranks[chunk->group.shard]);
    }
}

/* ---- a step ---- */

static void take_event(struct ing_segments_core *core, const struct ing_segments_event *event)
{
    switch (event->kind) {
    case SEGMENTS_TICK:
        break;
    case SEGMENTS_WANTED:
        core->wanted = FG_MAX(core->wanted, event->generation);
        break;
    case SEGMENTS_DRAIN:
        on_drain(core, event->drain);
        break;
    case SEGMENTS_SALVAGE:
        on_salvage(core);
        break;
    case SEGMENTS_RANKS:
        on_ranks(core, event->ranks);
        break;
    case SEGMENTS_MANIFEST:
        ing_follow_manifest(core, event->l0);
        break;
    case SEGMENTS_COMPARED:
        ing_follow_compared(core, event);
        break;
    case SEGMENTS_SEALED:
        ing_cut_sealed(core);
        break;
    case SEGMENTS_IS_ASIDE:
        ing_cut_is_aside(core);
        break;
    case SEGMENTS_TAKEN_IN:
        ing_follow_taken_in(core);
        break;
    case SEGMENTS_UPLOADED:
        ing_cut_uploaded(core, event->nothing);
        break;
    case SEGMENTS_SWAPPED:
        ing_cut_swapped(core);
        break;
    case SEGMENTS_MARKED:
        ing_cut_marked(core);
        break;
    case SEGMENTS_EVICTED:
        ing_evict_done(core);
        break;
    case SEGMENTS_REPORTED:
        ing_follow_reported(core);
        break;
    case SEGMENTS_FAILED:
        on_failed(core, event);
        break;
    }
}

/* Returns when something may be due next. */
static int64_t wake_mono_ns(const struct ing_segments_core *core)
{
    const struct ing_pause *pauses[] = {&core->follow_pause, &core->compare_pause, &core->cut_pause,
                                        &core->evict_pause, &core->report_pause};
    /* Also while an effect is under way, whose event tells what is due. */
    int64_t wake =
        FG_MIN(ing_follow_due_mono_ns(core), fg_time_add(core->mono_ns, core->config.poll_ns));

    if (core->table.n_chunks > 0)
        wake = FG_MIN(wake, core->next_look_mono_ns);
    for (size_t i = 0; i < FG_COUNT(pauses); i++)
        if (!ing_core_is_over(core, pauses[i]))
            wake = FG_MIN(wake, ing_core_pause_end(core, pauses[i]));
    return FG_MAX(wake, core->mono_ns);
}

/* Runs after each step, in constant time since it is on the thread that writes;
 * ing_segments_core_check() looks at all chunks. */
static void check_step(const struct ing_segments_core *core,
                       const struct ing_segments_effects *effects)
{
    const uint32_t n_sealed = core->table.by_state[CHUNK_SEALED];
    uint32_t n_chunks = 0;

    for (unsigned state = 0; state < CHUNK_STATES; state++)
        n_chunks += core->table.by_state[state];
    fg_assert(n_chunks == core->table.n_chunks && n_chunks <= core->config.chunks_max);
    fg_assert(core->table.first_bytes <= core->table.open_bytes);
    /* The core serves only generations that it has read. */
    fg_assert(core->gen <= core->seen && (core->started || !core->settled));
    fg_assert(core->at_foreign <= core->n_foreign);
    /* There is one cut at a time, and no chunk is sealed outside of it. */
    fg_assert(core->cut != CUT_IDLE || core->pinned.n == 0);
    fg_assert(n_sealed == 0 ||
              (core->cut != CUT_IDLE && core->cut != CUT_PINNED && core->cut != CUT_SEALING));
    fg_assert(n_sealed <= core->pinned.n);
    fg_assert(core->cut != CUT_MARKING || core->marking.n > 0);
    fg_assert(core->follow != FOLLOW_TAKING_IN || core->checked.n > 0);
    fg_assert(core->is_evicting == (core->evicting.n > 0));
    fg_assert(effects->n <= SEGMENTS_EFFECTS_MAX && effects->wake_mono_ns >= core->mono_ns);
}

void ing_segments_core_check(const struct ing_segments_core *core)
{
    uint32_t n_pinned = 0;

    ing_chunk_table_check(&core->table);
    for (uint32_t i = 0; i < core->pinned.n; i++)
        n_pinned += core->pinned.chunks[i]->state == CHUNK_SEALED;
    fg_assert(n_pinned == core->table.by_state[CHUNK_SEALED]);
    for (uint32_t i = 0; i < core->table.n_chunks; i++) {
        const struct ing_segments_chunk *chunk = core->table.chunks[i];

        fg_assert(chunk->cut <= core->last_cut && chunk->era <= core->era);
        fg_assert(!chunk->marked || chunk->state == CHUNK_COMMITTED);
        fg_assert(!chunk->keyless || chunk->state != CHUNK_COMMITTED);
        fg_assert(!core->started || chunk->state != CHUNK_COMMITTED ||
                  chunk->generation <= drained_at(core));
        fg_assert(chunk->drain <= core->drains);
    }
    for (uint32_t i = 0; i < core->evicting.n; i++)
        fg_assert(core->evicting.chunks[i]->marked &&
                  core->evicting.chunks[i]->generation <= core->safe);
}

void ing_segments_core_step(struct ing_segments_core *core, const struct ing_segments_event *event,
                            struct ing_segments_effects *ret_effects)
{
    enum ing_cut_state before;

    core->wall_ns = event->wall_ns;
    core->mono_ns = event->mono_ns;
    core->look = event->mono_ns >= core->next_look_mono_ns;
    if (core->look)
        core->next_look_mono_ns = fg_time_add(event->mono_ns, LOOK_AGAIN_NS);
    ret_effects->n = 0;
    take_event(core, event);
    if (core->look)
        ing_evict_empty(core);
    /* Follow goes first. A swap needs an idle follow lane (may_swap()), so a read or a COMPARE that
     * is due in this step takes precedence over a swap onto an older manifest. */
    ing_follow_advance(core, ret_effects);
    do { /* a cut that ends without an effect lets the next one begin */
        before = core->cut;
        ing_cut_advance(core, ret_effects);
    } while (core->cut == CUT_IDLE && before != CUT_IDLE);
    ing_evict_advance(core, ret_effects);
    /* Cleared only after the lanes have moved: while it is set, they look at all chunks in each
     * step. */
    core->draining = core->draining && count_drained(core, false) < core->drains;
    ret_effects->wake_mono_ns = wake_mono_ns(core);
    check_step(core, ret_effects);
}

/* ---- what others ask ---- */

bool ing_segments_core_is_late(const struct ing_segments_core *core,
                               const struct ing_head_group_key *group)
{
    const struct ing_chunk_table_group *found = ing_chunk_table_group(&core->table, group);

    /* Profiles that come before the first manifest was read are compared with all objects then. */
    return core->started && ing_core_keeps(core, FG_RULE_BIT_CHECK_LATE_IDS) &&
           ing_segments_core_may_hold(core, group) && (found == NULL || !found->whole);
}

/* Returns the open or unchecked chunk of a group, which may be new; NULL: there are too many
 * chunks. */
static struct ing_segments_chunk *chunk_for(struct ing_segments_core *core,
                                            const struct ing_head_group_key *key,
                                            enum ing_chunk_state state)
{
    struct ing_chunk_table *table = &core->table;
    struct ing_chunk_table_group *group = ing_chunk_table_group(table, key);
    struct ing_segments_chunk *chunk = NULL;
    struct ing_segments_chunk fresh = {
        .group = *key, .state = state, .opened_wall_ns = core->wall_ns, .era = core->era};

    if (group != NULL)
        chunk = state == CHUNK_OPEN ? group->open : group->unchecked;
    if (chunk != NULL || table->n_chunks == core->config.chunks_max)
        return chunk;
    if (group == NULL)
        group = ing_chunk_table_add_group(table, key);
    fresh.number = group->next;
    return ing_core_add_chunk(core, group, fresh);
}

enum ing_segments_admission ing_segments_core_admit(struct ing_segments_core *core,
                                                    const struct ing_head_group_key *group,
                                                    struct ing_segments_lookup lookup,
                                                    uint32_t *ret_chunk)
{
    enum ing_chunk_state state = CHUNK_OPEN;
    struct ing_segments_chunk *chunk;

    if (core->copied)
        return SEGMENTS_COPIED;
    /* A lookup proves only that objects up to its generation lack the id. A segment that entered
     * since then may have it (check-late-ids). */
    if (ing_segments_core_is_late(core, group) && lookup.generation < core->seen)
        state = CHUNK_UNCHECKED;
    if (state == CHUNK_UNCHECKED &&
        (!lookup.failed || core->table.unchecked_bytes >= core->config.unchecked_max_bytes))
        return SEGMENTS_LOOK_UP;
    chunk = chunk_for(core, group, state);
    if (chunk == NULL)
        return SEGMENTS_FULL;
    /* A COMPARE that is under way may have read the bucket before this profile came, so it no
     * longer vouches for the whole chunk. */
    chunk->checking = false;
    *ret_chunk = chunk->number;
    return state == CHUNK_OPEN ? SEGMENTS_ADMIT : SEGMENTS_ADMIT_UNCHECKED;
}

void ing_segments_core_added(struct ing_segments_core *core, const struct ing_head_group_key *group,
                             uint32_t chunk, bool unchecked, uint64_t profiles, uint64_t bytes,
                             int64_t wall_ns)
{
    enum ing_chunk_state state = unchecked ? CHUNK_UNCHECKED : CHUNK_OPEN;
    struct ing_segments_chunk *found = ing_chunk_table_chunk(&core->table, group, chunk);
    struct ing_chunk_table_group *in;

    /* Removed between admission and write, since it was empty for long. The new chunk's era is 0,
     * since the profiles may have been admitted in an earlier one. */
    if (found == NULL) {
        in = ing_chunk_table_group(&core->table, group);
        if (in == NULL)
            in = ing_chunk_table_add_group(&core->table, group);
        found = ing_core_add_chunk(
            core, in,
            (struct ing_segments_chunk){.group = *group, .number = chunk, .state = state});
    }
    fg_assert(found->state == state);
    in = ing_chunk_table_group(&core->table, group);
    /* Decide this with the first profile of the first chunk only. From then on each COMPARE
     * corrects `whole` (clear_whole()). The admission would be too early: a push that is refused
     * after it leaves a chunk in this table only, which no COMPARE looks at. */
    if (found->profiles == 0 && in->n_chunks == 1)
        in->whole = core->started && !ing_segments_core_may_hold(core, group);
    if (found->profiles == 0)
        found->opened_wall_ns = wall_ns;
    ing_chunk_table_count(&core->table, found, (int64_t)profiles, (int64_t)bytes);
}

uint64_t ing_segments_core_seen(const struct ing_segments_core *core)
{
    return core->seen;
}

void ing_segments_core_found(struct ing_segments_core *core, uint64_t generation)
{
    /* Only ever raised: a push was answered because of these objects, so a reader of an older
     * snapshot would find the profile neither there nor here. */
    core->safe = FG_MAX(core->safe, generation);
}

enum ing_segments_readiness ing_segments_core_fence(const struct ing_segments_core *core,
                                                    uint64_t generation, uint64_t *ret_least)
{
    *ret_least = core->safe;
    /* BEHIND before STALE: an unsettled head may still have profiles that are in objects, so it can
     * serve no snapshot at all. */
    if (!core->settled || generation > core->gen)
        return SEGMENTS_BEHIND;
    if (generation < core->safe && ing_core_keeps(core, FG_RULE_BIT_DROP_AFTER_SAFE))
        return SEGMENTS_STALE;
    return SEGMENTS_SERVE;
}

bool ing_segments_core_shows(const struct ing_segments_core *core,
                             const struct ing_head_group_key *group, uint32_t chunk,
                             uint64_t generation)
{
    const struct ing_segments_chunk *found = ing_chunk_table_chunk(&core->table, group, chunk);

    if (found == NULL || found->state != CHUNK_COMMITTED)
        return found == NULL || found->state != CHUNK_UNCHECKED ||
               !ing_core_keeps(core, FG_RULE_BIT_HIDE_UNCHECKED);
    return ing_core_keeps(core, FG_RULE_BIT_FENCE_GEN) && found->generation > generation;
}

struct ing_segments_core_status ing_segments_core_status(const struct ing_segments_core *core)
{
    const struct ing_chunk_table *table = &core->table;
    struct ing_segments_core_status status = {
        .gen = core->gen,
        .seen = core->seen,
        .safe = core->safe,
        .era = core->era,
        .last_cut = core->last_cut,
        .open_bytes = table->open_bytes,
        .sealed_bytes = table->sealed_bytes,
        .aside_bytes = table->aside_bytes,
        .aside_profiles = table->aside_profiles,
        .unchecked_bytes = table->unchecked_bytes,
        .unchecked_profiles = table->unchecked_profiles,
        .oldest_open_wall_ns = INT64_MAX,
        .settled = core->settled,
        .went_back = core->went_back,
        .store_went_back = core->store_went_back,
        .copied = core->copied,
        .drained = count_drained(core, false),
        .drained_at = drained_at(core),
        .tried = count_drained(core, true),
    };

    memcpy(status.chunks, table->by_state, sizeof status.chunks);
    for (uint32_t i = 0; i < table->n_chunks; i++) {
        const struct ing_segments_chunk *chunk = table->chunks[i];

        status.misfits |= chunk->state == CHUNK_ASIDE && !chunk->retry && !chunk->keyless;
        if (chunk->keyless) {
            status.keyless++;
            status.keyless_profiles += chunk->profiles;
            status.keyless_bytes += chunk->bytes;
        }
        if (chunk->state != CHUNK_OPEN || chunk->profiles == 0)
            continue;
        status.oldest_open_wall_ns = FG_MIN(status.oldest_open_wall_ns, chunk->opened_wall_ns);
    }
    return status;
}

const struct ing_segments_chunk *const *
ing_segments_core_chunks(const struct ing_segments_core *core, uint32_t *ret_count)
{
    *ret_count = core->table.n_chunks;
    return (const struct ing_segments_chunk *const *)core->table.chunks;
}
