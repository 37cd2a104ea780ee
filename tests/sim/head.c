/*
 * A head: the shell around the step core, as small as it can be. What is durable stays over a
 * crash: profiles with their rounds, marks of rounds, the number of the last cut.
 */
#include "tests/sim/world.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOOKS_MAX = 6, WAITS_MAX = 40, QUEUE_MAX = 64 };

struct stored {
    struct item item;
    uint32_t round;
};

struct mark {
    struct head_group_key group;
    uint32_t number;
    enum round_state state;
    uint64_t cut, generation;
};

/* An effect with copies of the rounds it is about. */
struct todo {
    struct segments_effect effect;
    struct mark *rounds;
};

struct head {
    struct world *world;
    struct seat seat;
    bool up, ended;
    uint64_t life;
    int64_t skew_ns, cut_off_until_ns, without_bucket_until_ns;

    /* Durable. */
    struct stored *stored;
    uint32_t n_stored, cap_stored;
    struct mark *marks; /* sealed and committed rounds */
    uint32_t n_marks, cap_marks;
    uint64_t last_cut;

    /* Of this life. */
    struct member *member;
    struct segments *core;
    struct fg_manifests *manifests;
    struct fg_manifest *l0; /* handed in last */
    struct fg_arena *upload_arena;
    struct fg_l0_new upload;
    struct todo queue[QUEUE_MAX];
    uint32_t n_queue;
    bool in_queue;
    uint64_t drains;
    int64_t wake_mono_ns;
};

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

const struct seat *head_seat(const struct head *head)
{
    return &head->seat;
}

struct member *head_member(const struct head *head)
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

struct segments_status head_status(const struct head *head)
{
    return segments_status(head->core);
}

static struct owner self(struct head *head)
{
    return (struct owner){.head = head, .life = head->life};
}

/* ---- what is durable ---- */

static bool same_group(const struct head_group_key *a, const struct head_group_key *b)
{
    return a->tenant == b->tenant && a->shard == b->shard && a->window == b->window;
}

static bool is_stored(const struct head *head, const struct item *item)
{
    for (uint32_t i = 0; i < head->n_stored; i++)
        if (head->stored[i].item.profile == item->profile)
            return true;
    return false;
}

static void store(struct head *head, const struct item *item, uint32_t round)
{
    if (head->n_stored == head->cap_stored) {
        head->cap_stored = FG_MAX(256, head->cap_stored * 2);
        head->stored = fg_realloc(head->stored, head->cap_stored * sizeof *head->stored);
    }
    head->stored[head->n_stored++] = (struct stored){*item, round};
}

static struct mark *find_mark(struct head *head, const struct head_group_key *group,
                              uint32_t number)
{
    for (uint32_t i = 0; i < head->n_marks; i++)
        if (head->marks[i].number == number && same_group(&head->marks[i].group, group))
            return &head->marks[i];
    return NULL;
}

static void set_mark(struct head *head, const struct mark *mark)
{
    struct mark *there = find_mark(head, &mark->group, mark->number);

    trace(head->world, "%s: round %u:%u:%u/%u is %s, cut %llu, generation %llu", head->seat.name,
          mark->group.tenant, mark->group.shard, mark->group.window, mark->number,
          mark->state == ROUND_SEALED ? "sealed" : "committed", (unsigned long long)mark->cut,
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

static void forget_round(struct head *head, const struct mark *round)
{
    uint32_t kept = 0;
    struct mark *mark = find_mark(head, &round->group, round->number);

    trace(head->world, "%s: round %u:%u:%u/%u is forgotten", head->seat.name, round->group.tenant,
          round->group.shard, round->group.window, round->number);
    for (uint32_t i = 0; i < head->n_stored; i++)
        if (head->stored[i].round != round->number ||
            !same_group(&head->stored[i].item.group, &round->group))
            head->stored[kept++] = head->stored[i];
    head->n_stored = kept;
    if (mark != NULL)
        *mark = head->marks[--head->n_marks];
}

/* ---- life ---- */

static void step(struct head *head, struct segments_event event);

/* A round as the store has it. */
static void restore_round(struct head *head, const struct mark *mark)
{
    struct segments_round round = {.group = mark->group,
                                   .number = mark->number,
                                   .state = mark->state,
                                   .cut = mark->cut,
                                   .generation = mark->generation,
                                   .opened_wall_ns = head_wall_ns(head)};

    for (uint32_t i = 0; i < head->n_stored; i++)
        round.profiles += head->stored[i].round == mark->number &&
                          same_group(&head->stored[i].item.group, &mark->group);
    round.bytes = round.profiles * PROFILE_BYTES;
    fg_assert(segments_restore(head->core, &round));
}

/* Every round that has a profile or a mark, once. */
static void restore(struct head *head)
{
    for (uint32_t i = 0; i < head->n_marks; i++)
        restore_round(head, &head->marks[i]);
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];
        struct mark open = {.group = stored->item.group, .number = stored->round};
        bool first = find_mark(head, &open.group, open.number) == NULL;

        for (uint32_t k = 0; k < i; k++)
            first &= head->stored[k].round != stored->round ||
                     !same_group(&head->stored[k].item.group, &stored->item.group);
        if (first)
            restore_round(head, &open);
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

        step(head, (struct segments_event){.kind = SEGMENTS_TICK});
        fibers_sleep(world->fibers, FG_MAX(wait, 200 * FG_MS_NS) +
                                        (int64_t)draw(world, (uint64_t)FG_SECOND_NS) +
                                        (chance(world, 20) ? FG_MINUTE_NS : 0));
    }
    free(clock);
}

void head_start(struct head *head)
{
    struct segments_config config = {
        .writer = head->seat.store,
        .seed = draw(head->world, UINT64_MAX),
        .cut_bytes = 25 * PROFILE_BYTES,
        .grace_ns = FG_MINUTE_NS,
        .linger_ns = 5 * FG_MINUTE_NS,
        .open_max_ns = 20 * FG_MINUTE_NS,
        .forget_after_ns = FG_MINUTE_NS,
        .turn_ns = 2 * FG_MINUTE_NS,
        .poll_ns = 15 * FG_SECOND_NS,
        .upload_max_age_ns = 2 * FG_MINUTE_NS,
        .backoff_min_ns = 100 * FG_MS_NS,
        .backoff_max_ns = 30 * FG_SECOND_NS,
        .rounds_max = 1000,
        .rules = head->world->shape.rules,
    };
    struct clock_arg *clock = fg_new(struct clock_arg);

    trace(head->world, "%s: starts", head->seat.name);
    head->up = true;
    head->life++;
    head->core = segments_create(&config, head->last_cut);
    head->manifests = fg_manifests_create(TENANTS, 20 * FG_SECOND_NS, config.rules);
    head->wake_mono_ns = 0;
    head->drains = 0;
    restore(head);
    head->member = member_start(head, &head->seat);
    *clock = (struct clock_arg){head, head->life};
    fibers_spawn(head->world->fibers, 0, tick, clock);
    if (head->world->shape.script == NULL)
        repair_start(head);
}

static void clear_queue(struct head *head)
{
    for (uint32_t i = 0; i < head->n_queue; i++)
        free(head->queue[i].rounds);
    head->n_queue = 0;
}

void head_crash(struct head *head)
{
    if (!head->up)
        return;
    trace(head->world, "%s: dies", head->seat.name);
    head->up = false;
    head->world->crashes++;
    member_end(head->member);
    segments_destroy(head->core);
    fg_manifests_destroy(head->manifests);
    fg_manifest_unref(head->l0);
    fg_arena_destroy(head->upload_arena);
    head->core = NULL;
    head->manifests = NULL;
    head->l0 = NULL;
    head->upload_arena = NULL;
    clear_queue(head);
}

struct head *head_create(struct world *world, const struct seat *seat)
{
    struct head *head = fg_new(struct head);

    head->world = world;
    head->seat = *seat;
    if (!world->shape.calm)
        head->skew_ns = (int64_t)draw(world, 6 * (uint64_t)FG_MINUTE_NS) - 3 * FG_MINUTE_NS;
    head_start(head);
    return head;
}

void head_wipe(struct head *head, struct fg_id store)
{
    fg_assert(!head->up);
    head->seat.store = store;
    head->n_stored = head->n_marks = 0;
    head->last_cut = 0;
}

void head_move(struct head *head, const char *zone)
{
    fg_assert(!head->up);
    (void)snprintf(head->seat.zone, sizeof head->seat.zone, "%s", zone);
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
    step(head, (struct segments_event){.kind = SEGMENTS_RANKS, .ranks = ranks});
}

uint64_t head_drain(struct head *head)
{
    fg_assert(head->up);
    step(head, (struct segments_event){.kind = SEGMENTS_DRAIN, .drain = ++head->drains});
    return head->drains;
}

bool head_is_drained(const struct head *head, uint64_t drain)
{
    return head_status(head).drained >= drain;
}

/* ---- effects that are done at once ---- */

static bool write_fails(struct head *head)
{
    return chance(head->world, 20);
}

static void write_marks(struct head *head, const struct todo *todo, enum round_state state)
{
    for (uint32_t i = 0; i < todo->effect.n_rounds; i++) {
        struct mark mark = todo->rounds[i];

        mark.state = state;
        mark.cut = state == ROUND_SEALED ? todo->effect.cut : mark.cut;
        set_mark(head, &mark);
    }
}

/* Some writes fail and are there all the same: that is what fsync may do. */
static void do_write(struct head *head, const struct todo *todo, enum segments_event_kind done)
{
    bool fails = write_fails(head), there = !fails || chance(head->world, 300);

    if (there && todo->effect.kind == SEGMENTS_SEAL) {
        write_marks(head, todo, ROUND_SEALED);
        head->last_cut = todo->effect.cut;
    }
    if (there && todo->effect.kind == SEGMENTS_MARK)
        write_marks(head, todo, ROUND_COMMITTED);
    for (uint32_t i = 0; there && todo->effect.kind == SEGMENTS_FORGET && i < todo->effect.n_rounds;
         i++)
        forget_round(head, &todo->rounds[i]);
    if (fails)
        step(head, (struct segments_event){.kind = SEGMENTS_FAILED, .failed = todo->effect.kind});
    else
        step(head, (struct segments_event){.kind = done});
}

/* ---- effects that take time: each in a fiber ---- */

struct job {
    struct owner owner;
    struct todo todo;
};

static void report(struct job *job, struct segments_event event)
{
    struct head *head = job->owner.head;

    if (is_alive(head->world, &job->owner))
        step(head, event);
}

static void report_failed(struct job *job)
{
    report(job, (struct segments_event){.kind = SEGMENTS_FAILED, .failed = job->todo.effect.kind});
}

static void job_read(struct job *job)
{
    struct head *head = job->owner.head;
    struct fg_manifest *manifest = NULL;
    char known[24] = "", etag[24] = "";
    struct fg_buf bytes;
    struct fg_err err;
    enum io io;

    fg_buf_init(&bytes, SIZE_MAX);
    if (head->l0 != NULL)
        (void)snprintf(known, sizeof known, "%.*s", FG_S(head->l0->etag));
    io = bucket_get(head->world, &job->owner, FG_NAME_L0, known, &bytes, etag);
    if (io == IO_OK || io == IO_MISSING) {
        fg_assert(fg_manifest_l0(fg_buf_slice(&bytes), fg_cstr(io == IO_OK ? etag : ""), &manifest,
                                 &err) == FG_OK);
        fg_manifest_unref(head->l0);
        head->l0 = manifest;
    }
    fg_buf_done(&bytes);
    if (io == IO_UNSURE)
        report_failed(job);
    else if (io != IO_DEAD)
        report(job, (struct segments_event){.kind = SEGMENTS_MANIFEST, .l0 = &head->l0->l0});
}

/* Everything that live blocks hold of all tenants, and the newest generation of the snapshots. */
static enum io read_everything(struct head *head, struct owner *owner, uint64_t least,
                               struct items *out, uint64_t *ret_generation)
{
    enum io io = IO_OK;

    *ret_generation = 0;
    for (uint32_t t = 0; t < TENANTS && io == IO_OK; t++) {
        struct fg_snapshot snapshot;

        fg_snapshot_init(&snapshot, head->manifests, &tenant_names[t], 1);
        io = take_snapshot(head->world, owner, &snapshot, least, true);
        if (io == IO_OK)
            io = read_contents(head->world, owner, &snapshot, 0, out);
        if (io == IO_OK)
            *ret_generation = FG_MAX(*ret_generation, fg_snapshot_generation(&snapshot));
        fg_snapshot_done(&snapshot);
    }
    return io;
}

static enum io read_segment(struct head *head, struct owner *owner, uint64_t generation,
                            struct items *out)
{
    const struct fg_l0_segment *segment = fg_l0_segment(&head->l0->l0, generation);
    char name[FG_NAME_MAX_BYTES];

    fg_assert(segment != NULL);
    fg_name_segment(name, &segment->id);
    return read_object(head->world, owner, name, out);
}

/* What the round has that is held, and what not. */
static void split(struct head *head, const struct segments_round *round, const struct items *held,
                  struct segments_outcome *outcome, uint32_t *ret_held)
{
    *ret_held = 0;
    *outcome = (struct segments_outcome){.group = round->group, .number = round->number};
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];

        if (stored->round != round->number || !same_group(&stored->item.group, &round->group))
            continue;
        if (items_has(held, &stored->item))
            ++*ret_held;
        else
            outcome->moved_profiles++;
    }
    outcome->moved_bytes = outcome->moved_profiles * PROFILE_BYTES;
}

static void move(struct head *head, const struct segments_round *round, const struct items *held,
                 uint32_t to)
{
    for (uint32_t i = 0; i < head->n_stored; i++) {
        struct stored *stored = &head->stored[i];

        if (stored->round != round->number || !same_group(&stored->item.group, &round->group) ||
            items_has(held, &stored->item))
            continue;
        trace(head->world, "%s: profile %u from round %u to %u", head->seat.name,
              stored->item.profile, stored->round, to);
        stored->round = to;
    }
}

/* Applies what was read, in one go, and says so to the core. */
static void compare(struct job *job, const struct items *held, uint64_t generation)
{
    struct head *head = job->owner.head;
    uint32_t n_rounds, n = 0, n_missing = 0;
    const struct segments_round *const *rounds = segments_rounds(head->core, &n_rounds);
    struct segments_outcome *outcomes = fg_calloc((size_t)n_rounds + 1, sizeof *outcomes);
    struct head_group_key *missing = fg_calloc((size_t)held->n + 1, sizeof *missing);

    for (uint32_t i = 0; i < n_rounds; i++) {
        const struct segments_round *round = rounds[i];
        uint32_t n_held;

        if (round->state == ROUND_COMMITTED || !segments_may_hold(head->core, &round->group))
            continue;
        split(head, round, held, &outcomes[n], &n_held);
        if (n_held == 0)
            continue;
        if (outcomes[n].moved_profiles > 0)
            move(head, round, held, segments_leftover(head->core, &round->group, round->number));
        set_mark(head, &(struct mark){.group = round->group,
                                      .number = round->number,
                                      .state = ROUND_COMMITTED,
                                      .generation = generation});
        n++;
    }
    head->world->compared += n;
    for (uint32_t i = 0; i < held->n; i++)
        if (!is_stored(head, &held->items[i]))
            missing[n_missing++] = held->items[i].group;
    step(head, (struct segments_event){.kind = SEGMENTS_COMPARED,
                                       .generation = generation,
                                       .outcomes = outcomes,
                                       .n_outcomes = n,
                                       .missing = missing,
                                       .n_missing = n_missing});
    free(outcomes);
    free(missing);
}

static void job_compare(struct job *job)
{
    struct head *head = job->owner.head;
    const struct segments_effect *effect = &job->todo.effect;
    uint64_t generation = effect->generation;
    struct items held = {0};
    enum io io = effect->all
                     ? read_everything(head, &job->owner, effect->generation, &held, &generation)
                     : read_segment(head, &job->owner, effect->generation, &held);

    if (io == IO_OK && is_alive(head->world, &job->owner))
        compare(job, &held, generation);
    else if (io != IO_DEAD)
        report_failed(job);
    items_done(&held);
}

/* Contents of the rounds, and their manifest's entry. */
static void build(struct head *head, const struct todo *todo, struct fg_buf *bytes)
{
    struct fg_l0_new *new = &head->upload;
    struct fg_l0_new_part *parts;
    struct fg_ever_run *runs;
    uint32_t n_runs = 0;

    fg_arena_destroy(head->upload_arena);
    head->upload_arena = fg_arena_create(SIZE_MAX);
    parts = fg_arena_new(head->upload_arena, struct fg_l0_new_part, TENANTS);
    runs = fg_arena_new(head->upload_arena, struct fg_ever_run, todo->effect.n_rounds);
    *new = (struct fg_l0_new){.id = todo->effect.id, .parts = parts, .t_max_ns = 1};
    for (uint32_t t = 0; t < TENANTS; t++) {
        struct fg_l0_new_part part = {.tenant = tenant_names[t], .t_max_ns = 1};

        for (uint32_t i = 0; i < head->n_stored; i++) {
            const struct item *item = &head->stored[i].item;
            bool mine = false;

            for (uint32_t k = 0; k < todo->effect.n_rounds; k++)
                mine |= todo->rounds[k].number == head->stored[i].round &&
                        same_group(&todo->rounds[k].group, &item->group);
            if (!mine || item->group.tenant != t)
                continue;
            trace(head->world, "%s: profile %u into cut %llu nonce %llx", head->seat.name,
                  item->profile, (unsigned long long)todo->effect.id.cut,
                  (unsigned long long)todo->effect.id.nonce);
            fg_buf_append(bytes, item, sizeof *item);
            head->world->built++;
            new->digest = fg_id_add(new->digest, item_id(item));
            part.profiles++;
        }
        new->profiles += part.profiles;
        if (part.profiles > 0)
            parts[new->n_parts++] = part;
    }
    for (uint32_t k = 0; k < todo->effect.n_rounds; k++)
        runs[n_runs++] = (struct fg_ever_run){
            todo->rounds[k].group.window, todo->rounds[k].group.shard, todo->rounds[k].group.shard};
    new->bytes = bytes->len;
    fg_assert(fg_ever_make(runs, n_runs, head->upload_arena, &new->groups));
}

static void job_upload(struct job *job)
{
    struct head *head = job->owner.head;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    enum io io = IO_OK;

    fg_buf_init(&bytes, SIZE_MAX);
    build(head, &job->todo, &bytes);
    fg_name_segment(name, &job->todo.effect.id);
    if (bytes.len > 0) {
        fibers_sleep(head->world->fibers, (int64_t)draw(head->world, 20 * (uint64_t)FG_SECOND_NS));
        io = is_alive(head->world, &job->owner)
                 ? bucket_put(head->world, &job->owner, name, fg_buf_slice(&bytes), IF_ABSENT, "")
                 : IO_DEAD;
    }
    if (io == IO_OK)
        report(job, (struct segments_event){.kind = SEGMENTS_UPLOADED, .nothing = bytes.len == 0});
    else if (io != IO_DEAD)
        report_failed(job);
    fg_buf_done(&bytes);
}

/* The manifest that was read last becomes this one; `done` tells the core. */
static void put_l0(struct job *job, const struct fg_l0 *next, enum segments_event_kind done)
{
    struct head *head = job->owner.head;
    struct fg_buf bytes;
    struct fg_err err;
    char etag[24];
    enum io io;

    fg_buf_init(&bytes, SIZE_MAX);
    (void)snprintf(etag, sizeof etag, "%.*s", FG_S(head->l0->etag));
    fg_assert(fg_l0_encode(next, &bytes, &err) == FG_OK);
    io = bucket_put(head->world, &job->owner, FG_NAME_L0, fg_buf_slice(&bytes),
                    etag[0] == '\0' ? IF_ABSENT : IF_MATCH, etag);
    if (io == IO_OK || io == IO_REFUSED)
        report(job, (struct segments_event){.kind = done});
    else if (io != IO_DEAD)
        report_failed(job);
    fg_buf_done(&bytes);
}

static void job_swap(struct job *job)
{
    struct head *head = job->owner.head;
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_err err = {0};
    struct fg_l0 next;

    head->upload.clean = job->todo.effect.clean;
    if (fg_l0_commit(&head->l0->l0, &head->upload, head_wall_ns(head),
                     head_window(head_wall_ns(head), 0), arena, &next, &err) == FG_OK) {
        put_l0(job, &next, SEGMENTS_SWAPPED);
    } else {
        found_fault(head->world, "commit: %s", err.msg);
        report_failed(job);
    }
    fg_arena_destroy(arena);
}

static void job_report(struct job *job)
{
    struct head *head = job->owner.head;
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 next;
    struct fg_err err;
    bool changed;

    fg_assert(fg_l0_clean(&head->l0->l0, head->seat.store, job->todo.effect.clean, arena, &next,
                          &changed, &err) == FG_OK);
    if (changed)
        put_l0(job, &next, SEGMENTS_REPORTED);
    else
        report(job, (struct segments_event){.kind = SEGMENTS_REPORTED});
    fg_arena_destroy(arena);
}

static void run_job(void *arg)
{
    struct job *job = arg;
    struct head *head = job->owner.head;

    if (is_alive(head->world, &job->owner)) {
        switch (job->todo.effect.kind) {
        case SEGMENTS_READ:
            job_read(job);
            break;
        case SEGMENTS_COMPARE:
            job_compare(job);
            break;
        case SEGMENTS_UPLOAD:
            job_upload(job);
            break;
        case SEGMENTS_SWAP:
            job_swap(job);
            break;
        case SEGMENTS_REPORT:
            job_report(job);
            break;
        default:
            fg_assert(false);
        }
    }
    free(job->todo.rounds);
    free(job);
}

/* ---- stepping ---- */

static struct todo copy_effect(const struct segments_effect *effect)
{
    struct todo todo = {.effect = *effect};

    todo.rounds = fg_calloc((size_t)effect->n_rounds + 1, sizeof *todo.rounds);
    for (uint32_t i = 0; i < effect->n_rounds; i++)
        todo.rounds[i] = (struct mark){.group = effect->rounds[i]->group,
                                       .number = effect->rounds[i]->number,
                                       .state = effect->rounds[i]->state,
                                       .cut = effect->rounds[i]->cut,
                                       .generation = effect->rounds[i]->generation};
    todo.effect.rounds = NULL;
    return todo;
}

/* Takes over todo's rounds. */
static void perform(struct head *head, struct todo todo)
{
    struct job *job;

    switch (todo.effect.kind) {
    case SEGMENTS_SEAL:
        do_write(head, &todo, SEGMENTS_SEALED);
        break;
    case SEGMENTS_MARK:
        do_write(head, &todo, SEGMENTS_MARKED);
        break;
    case SEGMENTS_FORGET:
        do_write(head, &todo, SEGMENTS_FORGOTTEN);
        break;
    default:
        job = fg_new(struct job);
        *job = (struct job){.owner = self(head), .todo = todo};
        fibers_spawn(head->world->fibers, 0, run_job, job);
        return;
    }
    free(todo.rounds);
}

/* One event; then all effects, with crashes before, between and after them. */
static void step(struct head *head, struct segments_event event)
{
    struct segments_effects effects;
    uint64_t life = head->life;

    event.wall_ns = head_wall_ns(head);
    event.mono_ns = fibers_now_ns(head->world->fibers);
    segments_step(head->core, &event, &effects);
    if (event.kind != SEGMENTS_TICK || effects.n > 0)
        trace(head->world, "%s: event %d, seen %llu, gen %llu, safe %llu, %u effects",
              head->seat.name, event.kind, (unsigned long long)segments_status(head->core).seen,
              (unsigned long long)segments_status(head->core).gen,
              (unsigned long long)segments_status(head->core).safe, effects.n);
    head->wake_mono_ns = effects.wake_mono_ns;
    fg_assert(head->n_queue + effects.n <= QUEUE_MAX);
    for (uint32_t i = 0; i < effects.n; i++)
        head->queue[head->n_queue++] = copy_effect(&effects.effects[i]);
    if (head->in_queue)
        return;
    head->in_queue = true;
    while (head->n_queue > 0) {
        struct todo todo = head->queue[0];

        memmove(&head->queue[0], &head->queue[1], --head->n_queue * sizeof todo);
        if (chance(head->world, head->world->crash_permille)) {
            free(todo.rounds);
            head_crash(head);
            break;
        }
        perform(head, todo);
    }
    head->in_queue = false;
    fg_assert(head->life == life);
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
    io = take_snapshot(head->world, owner, &snapshot, segments_seen(head->core), false);
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
    }
    fg_snapshot_done(&snapshot);
    items_done(&items);
    return io;
}

enum head_write head_write(struct head *head, const struct item *item, uint64_t revision)
{
    struct world *world = head->world;
    struct owner owner = self(head);
    uint64_t looked = 0;

    if (!head->up || head_is_cut_off(head))
        return HEAD_DIED;
    for (int i = 0; i < LOOKS_MAX; i++) {
        uint32_t round;
        bool found;
        enum io io;

        if (!member_admits(head->member, revision))
            return HEAD_REFUSED;
        if (is_stored(head, item))
            return HEAD_STORED;
        switch (segments_admit(head->core, &item->group, looked, &round)) {
        case SEGMENTS_ADMIT:
            if (write_fails(head))
                return HEAD_REFUSED;
            trace(world, "%s: profile %u into round %u:%u:%u/%u, looked at %llu, seen %llu",
                  head->seat.name, item->profile, item->group.tenant, item->group.shard,
                  item->group.window, round, (unsigned long long)looked,
                  (unsigned long long)segments_seen(head->core));
            store(head, item, round);
            segments_added(head->core, &item->group, round, 1, PROFILE_BYTES, head_wall_ns(head));
            return HEAD_STORED;
        case SEGMENTS_FULL:
            return HEAD_REFUSED;
        case SEGMENTS_LOOK:
            break;
        }
        io = look(head, &owner, item, &looked, &found);
        if (io == IO_DEAD || !is_alive(world, &owner))
            return HEAD_DIED;
        if (io == IO_OK && found) {
            segments_found(head->core, looked);
            return HEAD_STORED;
        }
        if (io != IO_OK)
            looked = 0;
    }
    return HEAD_REFUSED;
}

bool head_write_unchecked(struct head *head, const struct item *item)
{
    uint32_t round;

    if (is_stored(head, item))
        return true;
    if (segments_admit(head->core, &item->group, UINT64_MAX, &round) != SEGMENTS_ADMIT)
        return false;
    store(head, item, round);
    segments_added(head->core, &item->group, round, 1, PROFILE_BYTES, head_wall_ns(head));
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
    int order = head_group_cmp(&a->group, &b->group);

    return order != 0 ? order : (a->profile > b->profile) - (a->profile < b->profile);
}

static void sort(struct items *items)
{
    if (items->n > 1)
        qsort(items->items, items->n, sizeof *items->items, cmp_groups);
}

void head_list(const struct head *head, const struct head_group_key *group, bool committed,
               struct items *out)
{
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];

        if ((group == NULL || same_group(&stored->item.group, group)) &&
            (committed ||
             segments_shows(head->core, &stored->item.group, stored->round, UINT64_MAX)))
            items_add(out, stored->item);
    }
    sort(out);
}

/* What the question is about, group after group. */
static void scan(const struct head *head, const struct head_question *question,
                 const struct query_ids *only, struct items *out)
{
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];

        if (stored->item.group.tenant == question->tenant &&
            query_ids_have(only, item_id(&stored->item)) &&
            segments_shows(head->core, &stored->item.group, stored->round, question->generation))
            items_add(out, stored->item);
    }
    sort(out);
}

/* Data and sums are of one moment. */
static void gather(const struct head *head, const struct head_question *question,
                   struct fg_arena *arena, struct head_answer *answer)
{
    struct query_shards shards;
    struct query_ids only;
    struct query_sums sums;
    struct items found = {0};
    struct fg_err err;

    fg_assert(query_shards_read(&question->shards, arena, &shards, &err) == FG_OK);
    fg_assert(query_ids_read(question->only_ids, arena, &only, &err) == FG_OK);
    scan(head, question, &only, &found);
    query_sums_init(&sums, &shards, arena, SIZE_MAX);
    for (uint32_t i = 0; i < found.n; i++) {
        const struct item *item = &found.items[i];

        if (query_shards_data(&shards, item->group.shard))
            items_add(&answer->data, *item);
        if (!query_shards_sums(&shards, item->group.shard))
            continue;
        fg_assert(query_sums_group(&sums, &item->group, &err) == FG_OK);
        fg_assert(query_sums_add(&sums, item->time_ns, item_id(item), &err) == FG_OK);
    }
    fg_assert(query_sums_finish(&sums, &err) == FG_OK);
    answer->sums = sums.items;
    answer->n_sums = sums.n;
    query_sums_done(&sums);
    items_done(&found);
}

enum head_read head_read(struct head *head, const struct head_question *question,
                         struct fg_arena *arena, struct head_answer *answer, uint64_t *ret_least)
{
    struct world *world = head->world;
    struct owner owner = self(head);
    enum segments_fence fence = SEGMENTS_BEHIND;

    delay(world);
    if (!is_alive(world, &owner) || head_is_cut_off(head) || chance(world, world->lose_permille))
        return HEAD_UNAVAILABLE;
    for (int i = 0; i < WAITS_MAX && fence == SEGMENTS_BEHIND; i++) {
        fence = segments_fence(head->core, question->generation, ret_least);
        if (fence != SEGMENTS_BEHIND)
            break;
        step(head,
             (struct segments_event){.kind = SEGMENTS_WANTED, .generation = question->generation});
        fibers_sleep(world->fibers, FG_SECOND_NS / 2);
        if (!is_alive(world, &owner))
            return HEAD_UNAVAILABLE;
    }
    if (fence == SEGMENTS_BEHIND)
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
