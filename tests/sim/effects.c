/* A step of a head's core, and what comes of its effects: at once, or in a fiber. */
#include "tests/sim/head_impl.h"

#include <stdlib.h>

/* ---- effects that are done at once ---- */

static void write_marks(struct head *head, const struct pending *pending,
                        enum ing_chunk_state state)
{
    for (uint32_t i = 0; i < pending->effect.n_chunks; i++) {
        struct mark mark = pending->chunks[i];

        mark.state = state;
        mark.cut = state == CHUNK_SEALED ? pending->effect.cut : mark.cut;
        head_set_mark(head, &mark);
    }
}

/* Some writes fail and are there all the same: that is what fsync may do. */
static void do_write(struct head *head, const struct pending *pending,
                     enum ing_segments_event_kind done)
{
    bool fails = head_write_fails(head), there = !fails || chance(head->world, 300);

    if (there && pending->effect.kind == SEGMENTS_SEAL) {
        write_marks(head, pending, CHUNK_SEALED);
        head->last_cut = pending->effect.cut;
    }
    if (there &&
        (pending->effect.kind == SEGMENTS_SET_ASIDE || pending->effect.kind == SEGMENTS_TAKE_IN))
        write_marks(head, pending, CHUNK_ASIDE);
    if (there && pending->effect.kind == SEGMENTS_MARK)
        write_marks(head, pending, CHUNK_COMMITTED);
    for (uint32_t i = 0;
         there && pending->effect.kind == SEGMENTS_EVICT && i < pending->effect.n_chunks; i++)
        head_evict_chunk(head, &pending->chunks[i]);
    if (fails)
        head_step(head, (struct ing_segments_event){.kind = SEGMENTS_FAILED,
                                                    .failed = pending->effect.kind});
    else
        head_step(head, (struct ing_segments_event){.kind = done});
}

/* ---- effects that take time: each in a fiber ---- */

struct job {
    struct owner owner;
    struct pending pending;
};

static void report(struct job *job, struct ing_segments_event event)
{
    struct head *head = job->owner.head;

    if (is_alive(head->world, &job->owner))
        head_step(head, event);
}

static void report_failed(struct job *job)
{
    report(job, (struct ing_segments_event){.kind = SEGMENTS_FAILED,
                                            .failed = job->pending.effect.kind});
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
        report(job, (struct ing_segments_event){.kind = SEGMENTS_MANIFEST, .l0 = &head->l0->l0});
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

/* Counts the profiles of a chunk that the bucket has and those that it lacks. */
static void divide(const struct head *head, const struct ing_segments_chunk *chunk,
                   const struct items *committed, uint32_t *ret_held, uint32_t *ret_lacking)
{
    *ret_held = *ret_lacking = 0;
    for (uint32_t i = 0; i < head->n_stored; i++) {
        const struct stored *stored = &head->stored[i];

        if (stored->chunk != chunk->number ||
            !ing_head_same_group(&stored->item.group, &chunk->group))
            continue;
        if (items_has(committed, &stored->item))
            ++*ret_held;
        else
            ++*ret_lacking;
    }
}

/* Moves profiles of a chunk that the bucket has, or those that it lacks, and at most so many. */
static void move(struct head *head, const struct ing_segments_chunk *chunk,
                 const struct items *committed, bool held, uint32_t most, uint32_t to)
{
    for (uint32_t i = 0; i < head->n_stored && most > 0; i++) {
        struct stored *stored = &head->stored[i];

        if (stored->chunk != chunk->number ||
            !ing_head_same_group(&stored->item.group, &chunk->group) ||
            items_has(committed, &stored->item) != held)
            continue;
        trace(head->world, "%s: profile %u from chunk %u to %u", head->identity.name,
              stored->item.profile, stored->chunk, to);
        stored->chunk = to;
        most--;
    }
}

static int compare_keys(const void *left, const void *right)
{
    return ing_head_group_cmp(left, right);
}

/* What a part of a COMPARE hands to the core. */
struct part {
    struct ing_segments_outcome *outcomes;
    struct ing_head_group_key *missing, *unsure;
    uint32_t n_outcomes, n_missing, n_unsure;
    bool ends; /* before all is done */
};

/* Separates what the bucket has of a chunk in one of the two ways, the second one perhaps not to
 * the end. */
static void compare_chunk(struct head *head, const struct ing_segments_chunk *chunk,
                          const struct items *committed, uint64_t generation, struct part *part)
{
    struct ing_segments_outcome *outcome = &part->outcomes[part->n_outcomes];
    uint32_t held, lacking;

    divide(head, chunk, committed, &held, &lacking);
    if (held == 0)
        return;
    part->n_outcomes++;
    *outcome = (struct ing_segments_outcome){.group = chunk->group, .number = chunk->number};
    outcome->split = lacking > 0 && chance(head->world, 500);
    if (outcome->split) {
        outcome->moved_profiles = 1 + draw(head->world, held);
        part->ends = outcome->moved_profiles < held;
        outcome->to = ing_segments_core_split(head->core, &chunk->group);
        head->world->split++;
    } else {
        outcome->moved_profiles = lacking;
        outcome->to = ing_segments_core_leftover(head->core, &chunk->group, chunk->number);
    }
    outcome->moved_bytes = outcome->moved_profiles * PROFILE_BYTES;
    move(head, chunk, committed, outcome->split, (uint32_t)outcome->moved_profiles, outcome->to);
    head_set_mark(head, &(struct mark){.group = chunk->group,
                                       .number = outcome->split ? outcome->to : chunk->number,
                                       .state = CHUNK_COMMITTED,
                                       .generation = generation});
}

/* Applies some of what was read, or all that is left. */
static void compare_part(struct head *head, const struct items *committed, uint64_t generation,
                         bool all, struct part *part)
{
    uint32_t n_chunks;
    const struct ing_segments_chunk *const *chunks =
        ing_segments_core_chunks(head->core, &n_chunks);

    /* Open ones last: leftovers of the others go into them. */
    for (uint32_t i = 0; i < 2 * n_chunks && !part->ends; i++) {
        const struct ing_segments_chunk *chunk = chunks[i < n_chunks ? i : i - n_chunks];
        uint32_t before = part->n_outcomes;

        if ((chunk->state == CHUNK_OPEN) != (i >= n_chunks))
            continue;
        if (!ing_segments_core_may_hold(head->core, &chunk->group))
            continue;
        if (head_is_blurred(head, &chunk->group))
            part->unsure[part->n_unsure++] = chunk->group;
        if (chunk->state == CHUNK_COMMITTED || (chunk->state == CHUNK_UNCHECKED && !all))
            continue;
        if (head_is_blurred(head, &chunk->group)) {
            head_set_mark(head, &(struct mark){.group = chunk->group,
                                               .number = chunk->number,
                                               .state = CHUNK_UNCHECKED});
            continue;
        }
        compare_chunk(head, chunk, committed, generation, part);
        part->ends |= part->n_outcomes > before && chance(head->world, 300);
    }
    for (uint32_t i = 0; i < committed->n; i++)
        if (!head_has(head, &committed->items[i]))
            part->missing[part->n_missing++] = committed->items[i].group;
    if (part->n_unsure > 1)
        qsort(part->unsure, part->n_unsure, sizeof *part->unsure, compare_keys);
}

/* Applies what was read, in one go or in parts, and says so to the core. */
static void compare(struct job *job, const struct items *committed, uint64_t generation, bool all)
{
    struct head *head = job->owner.head;
    bool more = true;

    while (more && is_alive(head->world, &job->owner)) {
        struct part part = {0};
        uint32_t n_chunks;

        (void)ing_segments_core_chunks(head->core, &n_chunks);
        part.outcomes = fg_calloc((size_t)n_chunks + 1, sizeof *part.outcomes);
        part.missing = fg_calloc((size_t)committed->n + 1, sizeof *part.missing);
        part.unsure = fg_calloc((size_t)n_chunks + 1, sizeof *part.unsure);
        compare_part(head, committed, generation, all, &part);
        more = part.ends;
        head->world->compared += part.n_outcomes;
        head->world->unsure += part.n_unsure;
        head_step(head, (struct ing_segments_event){.kind = SEGMENTS_COMPARED,
                                                    .generation = generation,
                                                    .more = more,
                                                    .outcomes = part.outcomes,
                                                    .n_outcomes = part.n_outcomes,
                                                    .missing = part.missing,
                                                    .n_missing = part.n_missing,
                                                    .unsure = part.unsure,
                                                    .n_unsure = part.n_unsure});
        free(part.outcomes);
        free(part.missing);
        free(part.unsure);
        if (!more)
            break;
        /* Pushes, reads and other steps come in between. */
        head->world->parts++;
        fibers_sleep(head->world->fibers, (int64_t)draw(head->world, 2 * (uint64_t)FG_SECOND_NS));
        if (is_alive(head->world, &job->owner) && head_write_fails(head)) {
            report_failed(job);
            break;
        }
    }
}

static void job_compare(struct job *job)
{
    struct head *head = job->owner.head;
    const struct ing_segments_effect *effect = &job->pending.effect;
    uint64_t generation = effect->generation;
    struct items committed = {0};
    enum io io = effect->all ? read_everything(head, &job->owner, effect->generation, &committed,
                                               &generation)
                             : read_segment(head, &job->owner, effect->generation, &committed);

    if (io == IO_OK && is_alive(head->world, &job->owner))
        compare(job, &committed, generation, effect->all);
    else if (io != IO_DEAD)
        report_failed(job);
    items_done(&committed);
}

/* Contents of the chunks, and their manifest's entry. */
static void build(struct head *head, const struct pending *pending, struct fg_buf *bytes)
{
    struct fg_l0_new *new = &head->upload;
    struct fg_l0_new_part *parts;
    struct fg_late_filter_run *runs;
    uint32_t n_runs = 0;

    fg_arena_destroy(head->upload_arena);
    head->upload_arena = fg_arena_create(SIZE_MAX);
    parts = fg_arena_new(head->upload_arena, struct fg_l0_new_part, TENANTS);
    runs = fg_arena_new(head->upload_arena, struct fg_late_filter_run, pending->effect.n_chunks);
    *new = (struct fg_l0_new){.id = pending->effect.id, .parts = parts, .t_max_ns = 1};
    for (uint32_t t = 0; t < TENANTS; t++) {
        struct fg_l0_new_part part = {.tenant = tenant_names[t], .t_max_ns = 1};

        for (uint32_t i = 0; i < head->n_stored; i++) {
            const struct item *item = &head->stored[i].item;
            bool mine = false;

            for (uint32_t k = 0; k < pending->effect.n_chunks; k++)
                mine |= pending->chunks[k].number == head->stored[i].chunk &&
                        ing_head_same_group(&pending->chunks[k].group, &item->group);
            if (!mine || item->group.tenant != t)
                continue;
            trace(head->world, "%s: profile %u into cut %llu nonce %llx", head->identity.name,
                  item->profile, (unsigned long long)pending->effect.id.cut,
                  (unsigned long long)pending->effect.id.nonce);
            fg_buf_append(bytes, item, sizeof *item);
            head->world->built++;
            new->digest = fg_id_add(new->digest, item_id(item));
            part.profiles++;
        }
        new->profiles += part.profiles;
        if (part.profiles > 0)
            parts[new->n_parts++] = part;
    }
    for (uint32_t k = 0; k < pending->effect.n_chunks; k++)
        runs[n_runs++] = (struct fg_late_filter_run){pending->chunks[k].group.window,
                                                     pending->chunks[k].group.shard,
                                                     pending->chunks[k].group.shard};
    new->bytes = bytes->len;
    fg_assert(fg_late_filter_make(runs, n_runs, head->upload_arena, &new->groups));
}

/* Chunks of the upload that no segment can be made of, for now. */
static uint32_t find_unfit(const struct head *head, const struct pending *pending,
                           struct ing_head_chunk_key *unfit)
{
    uint32_t n = 0;

    for (uint32_t k = 0; head_is_unfit(head) && k < pending->effect.n_chunks; k++)
        if ((pending->chunks[k].group.window + pending->chunks[k].group.shard) % 3 == 0)
            unfit[n++] =
                (struct ing_head_chunk_key){pending->chunks[k].group, pending->chunks[k].number};
    return n;
}

/* Fails, if some of the chunks are unfit; it is not always known which. Or they only lack a key,
 * and then it is. */
static bool fail_unfit(struct job *job)
{
    struct head *head = job->owner.head;
    struct ing_head_chunk_key *unfit =
        fg_calloc((size_t)job->pending.effect.n_chunks + 1, sizeof *unfit);
    uint32_t n = find_unfit(head, &job->pending, unfit);

    if (n > 0) {
        bool keyless = chance(head->world, 300), known = keyless || chance(head->world, 500);

        head->world->unfit += keyless ? 0 : n;
        head->world->keyless += keyless ? n : 0;
        report(job, (struct ing_segments_event){.kind = SEGMENTS_FAILED,
                                                .failed = SEGMENTS_UPLOAD,
                                                .unfit = !keyless,
                                                .keyless = keyless,
                                                .suspects = unfit,
                                                .n_suspects = known ? n : 0});
    }
    free(unfit);
    return n > 0;
}

static void job_upload(struct job *job)
{
    struct head *head = job->owner.head;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    enum io io = IO_OK;

    if (fail_unfit(job))
        return;
    fg_buf_init(&bytes, SIZE_MAX);
    build(head, &job->pending, &bytes);
    fg_name_segment(name, &job->pending.effect.id);
    if (bytes.len > 0) {
        fibers_sleep(head->world->fibers, (int64_t)draw(head->world, 20 * (uint64_t)FG_SECOND_NS));
        io = is_alive(head->world, &job->owner)
                 ? bucket_put(head->world, &job->owner, name, fg_buf_slice(&bytes), IF_ABSENT, "")
                 : IO_DEAD;
    }
    if (io == IO_OK)
        report(job,
               (struct ing_segments_event){.kind = SEGMENTS_UPLOADED, .nothing = bytes.len == 0});
    else if (io != IO_DEAD)
        report_failed(job);
    fg_buf_done(&bytes);
}

/* The manifest that was read last becomes this one; `done` tells the core. */
static void put_l0(struct job *job, const struct fg_l0 *next, enum ing_segments_event_kind done)
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
        report(job, (struct ing_segments_event){.kind = done});
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

    head->upload.clean = job->pending.effect.clean;
    if (fg_l0_commit(&head->l0->l0, &head->upload, head_wall_ns(head),
                     ing_head_window(head_wall_ns(head), 0), arena, &next, &err) == FG_OK) {
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

    fg_assert(fg_l0_clean(&head->l0->l0, head->identity.store, job->pending.effect.clean, arena,
                          &next, &changed, &err) == FG_OK);
    if (changed)
        put_l0(job, &next, SEGMENTS_REPORTED);
    else
        report(job, (struct ing_segments_event){.kind = SEGMENTS_REPORTED});
    fg_arena_destroy(arena);
}

static void run_job(void *arg)
{
    struct job *job = arg;
    struct head *head = job->owner.head;

    if (is_alive(head->world, &job->owner)) {
        switch (job->pending.effect.kind) {
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
    free(job->pending.chunks);
    free(job);
}

/* ---- stepping ---- */

static struct pending copy_effect(const struct ing_segments_effect *effect)
{
    struct pending pending = {.effect = *effect};

    pending.chunks = fg_calloc((size_t)effect->n_chunks + 1, sizeof *pending.chunks);
    for (uint32_t i = 0; i < effect->n_chunks; i++)
        pending.chunks[i] = (struct mark){.group = effect->chunks[i]->group,
                                          .number = effect->chunks[i]->number,
                                          .state = effect->chunks[i]->state,
                                          .cut = effect->chunks[i]->cut,
                                          .generation = effect->chunks[i]->generation};
    pending.effect.chunks = NULL;
    return pending;
}

/* Takes over pending's chunks. */
static void perform(struct head *head, struct pending pending)
{
    struct job *job;

    switch (pending.effect.kind) {
    case SEGMENTS_SEAL:
        do_write(head, &pending, SEGMENTS_SEALED);
        break;
    case SEGMENTS_SET_ASIDE:
        do_write(head, &pending, SEGMENTS_IS_ASIDE);
        break;
    case SEGMENTS_TAKE_IN:
        do_write(head, &pending, SEGMENTS_TAKEN_IN);
        break;
    case SEGMENTS_MARK:
        do_write(head, &pending, SEGMENTS_MARKED);
        break;
    case SEGMENTS_EVICT:
        do_write(head, &pending, SEGMENTS_EVICTED);
        break;
    default:
        job = fg_new(struct job);
        *job = (struct job){.owner = head_self(head), .pending = pending};
        fibers_spawn(head->world->fibers, 0, run_job, job);
        return;
    }
    free(pending.chunks);
}

void head_step(struct head *head, struct ing_segments_event event)
{
    struct ing_segments_effects effects;
    uint64_t life = head->life;

    event.wall_ns = head_wall_ns(head);
    event.mono_ns = fibers_now_ns(head->world->fibers);
    ing_segments_core_step(head->core, &event, &effects);
    ing_segments_core_check(head->core);
    fg_assert(!ing_segments_core_status(head->core).copied); /* nobody runs on a copy here */
    if (event.kind != SEGMENTS_TICK || effects.n > 0)
        trace(head->world, "%s: event %d, seen %llu, gen %llu, safe %llu, %u effects",
              head->identity.name, event.kind,
              (unsigned long long)ing_segments_core_status(head->core).seen,
              (unsigned long long)ing_segments_core_status(head->core).gen,
              (unsigned long long)ing_segments_core_status(head->core).safe, effects.n);
    head->wake_mono_ns = effects.wake_mono_ns;
    fg_assert(head->n_queue + effects.n <= HEAD_QUEUE_MAX);
    for (uint32_t i = 0; i < effects.n; i++)
        head->queue[head->n_queue++] = copy_effect(&effects.effects[i]);
    if (head->in_queue)
        return;
    head->in_queue = true;
    while (head->n_queue > 0) {
        struct pending pending = head->queue[0];

        memmove(&head->queue[0], &head->queue[1], --head->n_queue * sizeof pending);
        if (chance(head->world, head->world->crash_permille)) {
            free(pending.chunks);
            head_crash(head);
            break;
        }
        perform(head, pending);
    }
    head->in_queue = false;
    fg_assert(head->life == life);
}
