/*
 * A head: the shell around the step core, as small as it can be. What is durable stays over a
 * crash: profiles with their chunks, marks of chunks, the number of the last cut.
 */
#include "tests/sim/head_impl.h"

#include <stdio.h>
#include <stdlib.h>

/* A head that cannot look for a late profile takes it unchecked after LOOK_FAILURES tries. */
enum { LOOKS_MAX = 6, LOOK_FAILURES = 3, WAITS_MAX = 40 };

int64_t head_wall_ns(const struct head *head)
{
    return world_wall_ns(head->world) + head->skew_ns;
}

bool head_is_up(const struct head *head)
{
    return head->up;
}

bool head_has_ended(const struct head *head)
{
    return head->ended;
}

uint64_t head_life(const struct head *head)
{
    return head->life;
}

struct world *head_world(const struct head *head)
{
    return head->world;
}

const struct identity *head_identity(const struct head *head)
{
    return &head->identity;
}

struct ing_member *head_member(const struct head *head)
{
    fg_assert(head->up);
    return head->member;
}

bool head_is_cut_off(const struct head *head)
{
    return fibers_now_ns(head->world->fibers) < head->cut_off_until_ns;
}

void head_cut_off(struct head *head, int64_t ns)
{
    head->cut_off_until_ns = fibers_now_ns(head->world->fibers) + ns;
    head->without_bucket_until_ns = head->cut_off_until_ns;
}

bool head_is_without_bucket(const struct head *head)
{
    return fibers_now_ns(head->world->fibers) < head->without_bucket_until_ns;
}

void head_without_bucket(struct head *head, int64_t ns)
{
    head->without_bucket_until_ns = fibers_now_ns(head->world->fibers) + ns;
}

bool head_is_unfit(const struct head *head)
{
    return fibers_now_ns(head->world->fibers) < head->unfit_until_ns;
}

void head_make_unfit(struct head *head, int64_t ns)
{
    head->unfit_until_ns = fibers_now_ns(head->world->fibers) + ns;
}

bool head_is_blurred(const struct head *head, const struct ing_head_group_key *group)
{
    return fibers_now_ns(head->world->fibers) < head->blurred_until_ns &&
           (group->window + group->shard) % 4 == 1;
}

void head_blur(struct head *head, int64_t ns)
{
    head->blurred_until_ns = fibers_now_ns(head->world->fibers) + ns;
}

struct ing_segments_core_status head_status(const struct head *head)
{
    return ing_segments_core_status(head->core);
}

struct owner head_self(struct head *head)
{
    return (struct owner){.head = head, .life = head->life};
}

/* ---- what is durable ---- */

bool head_has(const struct head *head, const struct item *item)
{
    for (uint32_t i = 0; i < head->n_stored; i++)
        if (head->stored[i].item.profile == item->profile)
            return true;
    return false;
}

bool head_write_fails(struct head *head)
{
    return chance(head->world, 20);
}

static void store(struct head *head, const struct item *item, uint32_t chunk)
{
    if (head->n_stored == head->cap_stored) {
        head->cap_stored = FG_MAX(256, head->cap_stored * 2);
        head->stored = fg_realloc(head->stored, head->cap_stored * sizeof *head->stored);
    }
    head->stored[head->n_stored++] = (struct stored){*item, chunk};
}

static struct mark *find_mark(struct head *head, const struct ing_head_group_key *group,
                              uint32_t number)
{
    for (uint32_t i = 0; i < head->n_marks; i++)
        if (head->marks[i].number == number && ing_head_same_group(&head->marks[i].group, group))
            return &head->marks[i];
    return NULL;
}

void head_set_mark(struct head *head, const struct mark *mark)
{
    static const char *const state_names[CHUNK_STATES] = {"open", "sealed", "committed", "aside",
                                                          "unchecked"};
    struct mark *there = find_mark(head, &mark->group, mark->number);

    trace(head->world, "%s: chunk %u:%u:%u/%u is %s, cut %llu, generation %llu",
          head->identity.name, mark->group.tenant, mark->group.shard, mark->group.window,
          mark->number, state_names[mark->state], (unsigned long long)mark->cut,
          (unsigned long long)mark->generation);

    if (there != NULL) {
        *there = *mark;
        return;
    }
    if (head->n_marks == head->cap_marks) {
        head->cap_marks = FG_MAX(64, head->cap_marks * 2);
        head->marks = fg_realloc(head->marks, head->cap_marks * sizeof *head->marks);
    }
    head->marks[head->n_marks++] = *mark;
}

void head_evict_chunk(struct head *head, const struct mark *chunk)
{
    uint32_t kept = 0;
    struct mark *mark = find_mark(head, &chunk->group, chunk->number);

    trace(head->world, "%s: chunk %u:%u:%u/%u is evicted", head->identity.name, chunk->group.tenant,
          chunk->group.shard, chunk->group.window, chunk->number);
    for (uint32_t i = 0; i < head->n_stored; i++)
        if (head->stored[i].chunk != chunk->number ||
            !ing_head_same_group(&head->stored[i].item.group, &chunk->group))
            head->stored[kept++] = head->stored[i];
    head->n_stored = kept;
    if (mark != NULL)
        *mark = head->marks[--head->n_marks];
}

/* ---- life ---- */

/* A chunk as the store has it. */
static void restore_chunk(struct head *head, const struct mark *mark)
{
    struct ing_segments_chunk chunk = {.group = mark->group,
                                       .number = mark->number,
                                       .state = mark->state,
                                       .cut = mark->cut,
                                       .generation = mark->generation,
                                       .opened_wall_ns = head_wall_ns(head)};

    for (uint32_t i = 0; i < head->n_stored; i++)
        chunk.profiles += head->stored[i].chunk == mark->number &&
                          ing_head_same_group(&head->stored[i].item.group, &mark->group);
    chunk.bytes = chunk.profiles * PROFILE_BYTES;
    fg_assert(ing_segments_core_restore(head->core, &chunk));
}

/* Every chunk that has a profile or a mark, once. */
static void restore(struct head *head)
{
    for (uint32_t i = 0; i < head->n_marks; i++)
        restore_chunk(head, &head->marks[i]);
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];
        struct mark open = {.group = stored->item.group, .number = stored->chunk};
        bool first = find_mark(head, &open.group, open.number) == NULL;

        for (uint32_t k = 0; k < i; k++)
            first &= head->stored[k].chunk != stored->chunk ||
                     !ing_head_same_group(&head->stored[k].item.group, &stored->item.group);
        if (first)
            restore_chunk(head, &open);
    }
}

struct clock_arg {
    struct head *head;
    uint64_t life;
};

/* Ticks when the core wants one, more or less. */
static void tick(void *arg)
{
    struct clock_arg *clock = arg;
    struct head *head = clock->head;
    struct world *world = head->world;

    while (head->up && head->life == clock->life) {
        int64_t wait = head->wake_mono_ns - fibers_now_ns(world->fibers);

        head_step(head, (struct ing_segments_event){.kind = SEGMENTS_TICK});
        fibers_sleep(world->fibers, FG_MAX(wait, 200 * FG_MS_NS) +
                                        (int64_t)draw(world, (uint64_t)FG_SECOND_NS) +
                                        (chance(world, 20) ? FG_MINUTE_NS : 0));
    }
    free(clock);
}

void head_start(struct head *head)
{
    struct ing_segments_core_config config = {
        .writer = head->identity.store,
        .seed = draw(head->world, UINT64_MAX),
        .cut_bytes = 25 * PROFILE_BYTES,
        .grace_ns = FG_MINUTE_NS,
        .linger_ns = 5 * FG_MINUTE_NS,
        .open_max_ns = 20 * FG_MINUTE_NS,
        .evict_after_ns = FG_MINUTE_NS,
        .failover_after_ns = 2 * FG_MINUTE_NS,
        .poll_ns = 15 * FG_SECOND_NS,
        .upload_max_age_ns = 2 * FG_MINUTE_NS,
        .aside_retry_ns = 5 * FG_MINUTE_NS,
        .keyless_retry_ns = FG_MINUTE_NS,
        .check_retry_ns = 2 * FG_MINUTE_NS,
        .unchecked_max_bytes = 30 * PROFILE_BYTES,
        .backoff_min_ns = 100 * FG_MS_NS,
        .backoff_max_ns = 30 * FG_SECOND_NS,
        .chunks_max = 1000,
        .rules = head->world->shape.rules,
    };
    struct clock_arg *clock = fg_new(struct clock_arg);

    trace(head->world, "%s: starts", head->identity.name);
    head->up = true;
    head->life++;
    head->core = ing_segments_core_create(&config, head->last_cut, 0);
    head->manifests = fg_manifests_create(TENANTS, 20 * FG_SECOND_NS, config.rules);
    head->wake_mono_ns = 0;
    head->drains = 0;
    restore(head);
    head->member = member_start(head, &head->identity);
    *clock = (struct clock_arg){head, head->life};
    fibers_spawn(head->world->fibers, 0, tick, clock);
    if (head->world->shape.script == NULL)
        repair_start(head);
}

static void clear_queue(struct head *head)
{
    for (uint32_t i = 0; i < head->n_queue; i++)
        free(head->queue[i].chunks);
    head->n_queue = 0;
}

void head_crash(struct head *head)
{
    if (!head->up)
        return;
    trace(head->world, "%s: dies", head->identity.name);
    head->up = false;
    head->world->crashes++;
    member_end(head->member);
    ing_segments_core_destroy(head->core);
    fg_manifests_destroy(head->manifests);
    fg_manifest_unref(head->l0);
    fg_arena_destroy(head->upload_arena);
    head->core = NULL;
    head->manifests = NULL;
    head->l0 = NULL;
    head->upload_arena = NULL;
    clear_queue(head);
}

struct head *head_create(struct world *world, const struct identity *identity)
{
    struct head *head = fg_new(struct head);

    head->world = world;
    head->identity = *identity;
    if (!world->shape.calm)
        head->skew_ns = (int64_t)draw(world, 6 * (uint64_t)FG_MINUTE_NS) - 3 * FG_MINUTE_NS;
    head_start(head);
    return head;
}

void head_wipe(struct head *head, struct fg_id store)
{
    fg_assert(!head->up);
    head->identity.store = store;
    head->n_stored = head->n_marks = 0;
    head->last_cut = 0;
}

void head_move(struct head *head, const char *zone)
{
    fg_assert(!head->up);
    (void)snprintf(head->identity.zone, sizeof head->identity.zone, "%s", zone);
}

void head_end(struct head *head)
{
    head_crash(head);
    head->ended = true;
}

void head_destroy(struct head *head)
{
    if (head == NULL)
        return;
    head_crash(head);
    free(head->stored);
    free(head->marks);
    free(head);
}

void head_rank(struct head *head, const uint8_t ranks[SEGMENTS_SHARDS])
{
    head_step(head, (struct ing_segments_event){.kind = SEGMENTS_RANKS, .ranks = ranks});
}

uint64_t head_drain(struct head *head)
{
    fg_assert(head->up);
    head_step(head, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = ++head->drains});
    return head->drains;
}

bool head_is_drained(const struct head *head, uint64_t drain)
{
    return head_status(head).drained >= drain;
}

/* ---- pushes ---- */

/* Is it in a live block? IO_OK and *ret_found; *ret_generation of the snapshot. */
static enum io look(struct head *head, struct owner *owner, const struct item *item,
                    uint64_t *ret_generation, bool *ret_found)
{
    struct fg_snapshot snapshot;
    struct items items = {0};
    enum io io;

    fg_snapshot_init(&snapshot, head->manifests, &tenant_names[item->group.tenant], 1);
    io = take_snapshot(head->world, owner, &snapshot, ing_segments_core_seen(head->core), false);
    if (io == IO_OK)
        io = read_contents(head->world, owner, &snapshot, 0, &items);
    if (io == IO_MISSING) {
        items.n = 0;
        io = take_snapshot(head->world, owner, &snapshot, 0, true);
        if (io == IO_OK)
            io = read_contents(head->world, owner, &snapshot, 0, &items);
    }
    if (io == IO_OK) {
        *ret_generation = fg_snapshot_generation(&snapshot);
        *ret_found = items_has(&items, item);
        if (head_is_blurred(head, &item->group))
            io = IO_UNSURE;
    }
    fg_snapshot_done(&snapshot);
    items_done(&items);
    return io;
}

static void put(struct head *head, const struct item *item, uint32_t chunk, bool unchecked)
{
    const struct mark mark = {.group = item->group, .number = chunk, .state = CHUNK_UNCHECKED};

    if (unchecked && find_mark(head, &item->group, chunk) == NULL)
        head_set_mark(head, &mark);
    head->world->unchecked += unchecked;
    store(head, item, chunk);
    ing_segments_core_added(head->core, &item->group, chunk, unchecked, 1, PROFILE_BYTES,
                            head_wall_ns(head));
}

enum head_write head_write(struct head *head, const struct item *item, uint64_t revision)
{
    struct world *world = head->world;
    struct owner owner = head_self(head);
    struct ing_segments_lookup lookup = {0};
    unsigned failures = 0;

    if (!head->up || head_is_cut_off(head))
        return HEAD_DIED;
    for (int i = 0; i < LOOKS_MAX; i++) {
        enum ing_segments_admission admission;
        uint32_t chunk;
        bool found;
        enum io io;

        if (!ing_member_admits(head->member, revision))
            return HEAD_REFUSED;
        if (head_has(head, item))
            return HEAD_STORED;
        admission = ing_segments_core_admit(head->core, &item->group, lookup, &chunk);
        switch (admission) {
        case SEGMENTS_ADMIT:
        case SEGMENTS_ADMIT_UNCHECKED:
            if (head_write_fails(head))
                return HEAD_REFUSED;
            trace(world, "%s: profile %u into chunk %u:%u:%u/%u, lookup at %llu, seen %llu",
                  head->identity.name, item->profile, item->group.tenant, item->group.shard,
                  item->group.window, chunk, (unsigned long long)lookup.generation,
                  (unsigned long long)ing_segments_core_seen(head->core));
            put(head, item, chunk, admission == SEGMENTS_ADMIT_UNCHECKED);
            return HEAD_STORED;
        case SEGMENTS_FULL:
        case SEGMENTS_COPIED:
            return HEAD_REFUSED;
        case SEGMENTS_LOOK_UP:
            break;
        }
        io = look(head, &owner, item, &lookup.generation, &found);
        if (io == IO_DEAD || !is_alive(world, &owner))
            return HEAD_DIED;
        if (io == IO_OK && found) {
            ing_segments_core_found(head->core, lookup.generation);
            return HEAD_STORED;
        }
        lookup.failed = io != IO_OK && ++failures == LOOK_FAILURES;
        if (io != IO_OK)
            lookup.generation = 0;
    }
    return HEAD_REFUSED;
}

bool head_write_unchecked(struct head *head, const struct item *item)
{
    uint32_t chunk;

    if (head_has(head, item))
        return true;
    if (ing_segments_core_admit(head->core, &item->group,
                                (struct ing_segments_lookup){.generation = UINT64_MAX},
                                &chunk) != SEGMENTS_ADMIT)
        return false;
    put(head, item, chunk, false);
    return true;
}

uint32_t head_n_stored(const struct head *head)
{
    return head->n_stored;
}

/* ---- reads ---- */

static int cmp_groups(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    int order = ing_head_group_cmp(&a->group, &b->group);

    return order != 0 ? order : (a->profile > b->profile) - (a->profile < b->profile);
}

static void sort(struct items *items)
{
    if (items->n > 1)
        qsort(items->items, items->n, sizeof *items->items, cmp_groups);
}

void head_list(const struct head *head, const struct ing_head_group_key *group, bool committed,
               struct items *out)
{
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];

        if ((group == NULL || ing_head_same_group(&stored->item.group, group)) &&
            (committed ||
             ing_segments_core_shows(head->core, &stored->item.group, stored->chunk, UINT64_MAX)))
            items_add(out, stored->item);
    }
    sort(out);
}

/* What the question is about, group after group. */
static void scan(const struct head *head, const struct head_question *question,
                 const struct ing_query_ids *only, struct items *out)
{
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];

        if (stored->item.group.tenant == question->tenant &&
            ing_query_ids_have(only, item_id(&stored->item)) &&
            ing_segments_core_shows(head->core, &stored->item.group, stored->chunk,
                                    question->generation))
            items_add(out, stored->item);
    }
    sort(out);
}

/* Data and sums are of one moment. */
static void gather(const struct head *head, const struct head_question *question,
                   struct fg_arena *arena, struct head_answer *answer)
{
    struct ing_query_shards shards;
    struct ing_query_ids only;
    struct ing_query_sums sums;
    struct items found = {0};
    struct fg_err err;

    fg_assert(ing_query_shards_read(&question->shards, arena, &shards, &err) == FG_OK);
    fg_assert(ing_query_ids_read(question->only_ids, arena, &only, &err) == FG_OK);
    scan(head, question, &only, &found);
    ing_query_sums_init(&sums, &shards, arena, SIZE_MAX);
    for (uint32_t i = 0; i < found.n; i++) {
        const struct item *item = &found.items[i];

        if (ing_query_shards_data(&shards, item->group.shard))
            items_add(&answer->data, *item);
        if (!ing_query_shards_sums(&shards, item->group.shard))
            continue;
        fg_assert(ing_query_sums_group(&sums, &item->group, &err) == FG_OK);
        fg_assert(ing_query_sums_add(&sums, item->time_ns, item_id(item), &err) == FG_OK);
    }
    fg_assert(ing_query_sums_finish(&sums, &err) == FG_OK);
    answer->sums = sums.items;
    answer->n_sums = sums.n;
    ing_query_sums_done(&sums);
    items_done(&found);
}

/* Has it unchecked profiles of what is asked? Then its answer would not be complete. */
static bool hides(const struct head *head, const struct head_question *question,
                  struct fg_arena *arena)
{
    struct ing_query_shards shards;
    struct fg_err err;

    fg_assert(ing_query_shards_read(&question->shards, arena, &shards, &err) == FG_OK);
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct ing_head_group_key *group = &head->stored[i].item.group;
        uint32_t n;
        const struct ing_segments_chunk *const *chunks = ing_segments_core_chunks(head->core, &n);

        if (group->tenant != question->tenant || !(ing_query_shards_data(&shards, group->shard) ||
                                                   ing_query_shards_sums(&shards, group->shard)))
            continue;
        for (uint32_t k = 0; k < n; k++)
            if (chunks[k]->number == head->stored[i].chunk &&
                ing_head_same_group(&chunks[k]->group, group) &&
                chunks[k]->state == CHUNK_UNCHECKED &&
                !ing_segments_core_shows(head->core, group, chunks[k]->number,
                                         question->generation))
                return true;
    }
    return false;
}

enum head_read head_read(struct head *head, const struct head_question *question,
                         struct fg_arena *arena, struct head_answer *answer, uint64_t *ret_least)
{
    struct world *world = head->world;
    struct owner owner = head_self(head);
    enum ing_segments_readiness fence = SEGMENTS_BEHIND;

    delay(world);
    if (!is_alive(world, &owner) || head_is_cut_off(head) || chance(world, world->lose_permille))
        return HEAD_UNAVAILABLE;
    for (int i = 0; i < WAITS_MAX && fence == SEGMENTS_BEHIND; i++) {
        fence = ing_segments_core_fence(head->core, question->generation, ret_least);
        if (fence != SEGMENTS_BEHIND)
            break;
        head_step(head, (struct ing_segments_event){.kind = SEGMENTS_WANTED,
                                                    .generation = question->generation});
        fibers_sleep(world->fibers, FG_SECOND_NS / 2);
        if (!is_alive(world, &owner))
            return HEAD_UNAVAILABLE;
    }
    if (fence == SEGMENTS_BEHIND || (fence == SEGMENTS_SERVE && hides(head, question, arena)))
        return HEAD_UNAVAILABLE;
    if (fence == SEGMENTS_SERVE)
        gather(head, question, arena, answer);
    delay(world);
    if (chance(world, world->lose_permille)) {
        items_done(&answer->data);
        return HEAD_UNAVAILABLE;
    }
    return fence == SEGMENTS_SERVE ? HEAD_ANSWERED : HEAD_STALE;
}
