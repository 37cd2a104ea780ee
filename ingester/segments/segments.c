/*
 * Two threads work in turns, so most state needs no lock. The segments' thread carries out effects
 * of the bucket and posts each result to the committer's thread, which takes the steps of the core
 * and writes what they change in the head. The segments' thread waits for that (hand_in()), so what
 * one of them writes the other reads afterwards.
 *
 * Locks, in the order in which they are taken:
 *
 *   steps       readers hold it while they choose chunks and make an iterator; the committer's
 *               thread writes under it, also to the disk: nobody may see half of a step
 *   lock        of requests, waits and the copy of the status; never held for I/O
 *   core_lock   of the core, for one step or one question; never held for I/O
 */
#include "common/runtime/log.h"
#include "common/runtime/rwlock.h"
#include "ingester/segments/compare.h"
#include "ingester/segments/publish.h"
#include "ingester/segments/segments_impl.h"

#include <semaphore.h>
#include <sys/random.h>

#define CONF(field) FG_CONF_AT(struct ing_segments_settings, field)

/* clang-format off */
const struct fg_conf_field ing_segments_fields[] = {
    {"cut_bytes", FG_CONF_BYTES, CONF(cut_bytes), .def = "64MiB", .min = "64KiB", .max = "4GiB",
     .doc = "Uncommitted bytes in the head at which it is cut, regardless of age."},
    {"grace", FG_CONF_NS, CONF(grace_ns), .def = "1m", .min = "0s", .max = "1h",
     .doc = "How long after the end of a window (ten minutes of profiles) the window is cut. Profiles that arrive later cost more."},
    {"linger", FG_CONF_NS, CONF(linger_ns), .def = "10m", .min = "0s", .max = "1d",
     .doc = "How long late profiles wait to be committed together."},
    {"open_max", FG_CONF_NS, CONF(open_max_ns), .def = "2h", .min = "1m", .max = "1d",
     .doc = "Maximum time that a profile stays in the head before it is cut."},
    {"evict_after", FG_CONF_NS, CONF(evict_after_ns), .def = "5m", .min = "0s", .max = "1d",
     .doc = "How long the head keeps committed profiles for queries that use an older manifest. Time in which the manifest is unreadable does not count."},
    {"poll", FG_CONF_NS, CONF(poll_ns), .def = "15s", .min = "1s", .max = "10m",
     .doc = "Maximum interval between reads of the manifest."},
    {"failover_after", FG_CONF_NS, CONF(failover_after_ns), .def = "5m", .min = "0s", .max = "1d",
     .doc = "In a cluster: how long the first owner of a shard has to commit due profiles before the second owner does, and the second before the third."},
    {"unchecked_max_bytes", FG_CONF_BYTES, CONF(unchecked_max_bytes), .def = "1GiB", .min = "0", .max = "64GiB",
     .doc = "Late profiles to accept while the bucket is unreachable and cannot be checked for duplicates. Queries return them after the check. Further late profiles are refused with 503."},
    {"block_version", FG_CONF_ENUM, CONF(block_version), .def = "newest", .choices = FG_BLOCK_VERSION_CHOICES,
     .doc = "Format version of new segments. While programs of an older version read the bucket, set a version that they support (deploy/operations/upgrade.md)."},
};
/* clang-format on */
const size_t ing_segments_n_fields = FG_COUNT(ing_segments_fields);

enum {
    /* A bound of memory: about a hundred bytes for each. */
    CHUNKS_MAX = 1 << 20,
    /* Each step consumes one event and adds at most one for each of its effects. */
    EVENTS_MAX = 2 * SEGMENTS_EFFECTS_MAX,
    /* Of a COMPARE in one batch: readers and pushes wait for its write. Its undo takes as much. */
    COMPARE_PIECE_BYTES = 8 * 1024 * 1024,
    /* For the copy of all chunks that the start hands to the core. */
    ARENA_MAX_BYTES = 512 * 1024 * 1024,
};

/* Why these values: segments_core.h, struct ing_segments_core_config. */
static const int64_t BACKOFF_MIN_NS = FG_SECOND_NS;
static const int64_t BACKOFF_MAX_NS = FG_MINUTE_NS;
static const int64_t UPLOAD_MAX_AGE_NS = FG_HOUR_NS;
static const int64_t ASIDE_RETRY_NS = FG_HOUR_NS;
static const int64_t KEYLESS_RETRY_NS = FG_MINUTE_NS;
static const int64_t CHECK_RETRY_NS = 5 * FG_MINUTE_NS;
/* As long as an upload: after a long absence a COMPARE reads every live object that may have groups
 * of the head. */
static const int64_t COMPARE_TIMEOUT_NS = 10 * FG_MINUTE_NS;
static const int64_t DEADLINES_EVERY_NS = FG_SECOND_NS; /* how late a wait may end */
static const int64_t SWEEP_PAUSE_NS = 2 * FG_MINUTE_NS; /* longer than any query takes */

FG_METRICS_TABLE(segments_metrics, SEGMENTS_METRICS)

/* ---- steps: committer's thread ---- */

static bool is_of_head(enum ing_segments_effect_kind kind)
{
    return kind == SEGMENTS_TAKE_IN || kind == SEGMENTS_SEAL || kind == SEGMENTS_SET_ASIDE ||
           kind == SEGMENTS_MARK || kind == SEGMENTS_EVICT;
}

/* A step on its way from the segments' thread to the committer's and back; the first one waits. */
struct step_request {
    struct ing_committer_visit visit;
    struct ing_segments *segments;
    struct ing_segments_event event;
    struct ing_compare *compare; /* COMPARED: applied before the step; else NULL */
    sem_t taken;
};

static struct ing_compare_head compare_head(const struct ing_segments *segments)
{
    return (struct ing_compare_head){
        .store = segments->config.head.store,
        .catalog = segments->config.head.catalog,
        .chunks = segments->config.chunks,
        .dedup = segments->config.dedup,
        .writer = segments->config.writer,
        .piece_bytes = segments->config.compare_piece_bytes > 0
                           ? segments->config.compare_piece_bytes
                           : COMPARE_PIECE_BYTES,
    };
}

static uint32_t leftover_of(void *arg, const struct ing_head_chunk_key *chunk)
{
    const struct ing_segments *segments = arg;

    return ing_segments_core_leftover(segments->core, &chunk->group, chunk->number);
}

static uint32_t split_of(void *arg, const struct ing_head_group_key *group)
{
    const struct ing_segments *segments = arg;

    return ing_segments_core_split(segments->core, group);
}

/* Writes a piece of what was compared, and adds it to the event. */
static void apply_compare(struct ing_segments *segments, struct step_request *request)
{
    const struct ing_compare_head head = compare_head(segments);
    const struct ing_compare_targets targets = {leftover_of, split_of, segments};
    struct ing_compare *compare = request->compare;
    struct fg_err err;

    /* A failure is an event, not an error to return: the core pauses and compares again. */
    if (ing_compare_apply(&head, compare, &targets, &err) != FG_OK) {
        ing_segments_effect_failed(segments, SEGMENTS_COMPARE, &err);
        request->event =
            (struct ing_segments_event){.kind = SEGMENTS_FAILED, .failed = SEGMENTS_COMPARE};
        return;
    }
    /* Only now, and not once the bucket was read: a write that fails each time must be told. */
    if (!compare->more)
        ing_segments_effect_ended(segments, SEGMENTS_COMPARE);
    request->event.generation = compare->generation;
    request->event.more = compare->more;
    request->event.outcomes = compare->outcomes;
    request->event.n_outcomes = compare->n_outcomes;
    request->event.missing = compare->missing;
    request->event.n_missing = compare->n_missing;
    request->event.unsure = compare->unsure;
    request->event.n_unsure = compare->n_unsure;
}

static void add_task(struct ing_segments *segments, const struct ing_segments_effect *effect)
{
    struct ing_segments_task *task = &segments->tasks[segments->n_tasks++];

    fg_assert(segments->n_tasks <= SEGMENTS_EFFECTS_MAX);
    *task = (struct ing_segments_task){.effect = *effect, .n_chunks = effect->n_chunks};
    /* The array belongs to the core until its next step, and this task outlives that: keep copies.
     */
    task->effect.chunks = NULL;
    if (effect->n_chunks == 0)
        return;
    task->chunks = fg_calloc(effect->n_chunks, sizeof *task->chunks);
    for (uint32_t i = 0; i < effect->n_chunks; i++)
        task->chunks[i] = *effect->chunks[i];
}

/* Takes steps until no effect of the head is left: each one's end is the next event. */
static void take_steps(struct ing_segments *segments, const struct ing_segments_event *first)
{
    struct ing_segments_event events[EVENTS_MAX]; /* a ring */
    unsigned taken = 0, added = 0;

    events[added++] = *first;
    while (taken < added) {
        struct ing_segments_event *event = &events[taken++ % EVENTS_MAX];
        struct ing_segments_effects effects;

        event->wall_ns = fg_wall_ns(segments->config.clock);
        event->mono_ns = fg_mono_ns(segments->config.clock);
        /* Only around the step. Effects of the head write to the disk, and pushes and readers ask
         * the core meanwhile. */
        (void)pthread_mutex_lock(&segments->core_lock);
        ing_segments_core_step(segments->core, event, &effects);
        (void)pthread_mutex_unlock(&segments->core_lock);
        segments->wake_mono_ns = effects.wake_mono_ns;
        for (uint32_t i = 0; i < effects.n; i++) {
            if (!is_of_head(effects.effects[i].kind)) {
                add_task(segments, &effects.effects[i]);
                continue;
            }
            fg_assert(added - taken < EVENTS_MAX);
            events[added++ % EVENTS_MAX] = ing_segments_change_head(segments, &effects.effects[i]);
        }
    }
}

/* Deletes some of what no chunk needs any more. */
static void sweep(struct ing_segments *segments)
{
    int64_t now_ns = fg_mono_ns(segments->config.clock);
    struct fg_err later;

    if (ing_retire_series(segments->config.retire, &later) != FG_OK)
        fg_log_warn("evicted series could not be deleted from the head store, will retry",
                    fg_ls("err", later.msg));
    /* The pause is part of the protocol of retire.h: a dictionary is deleted one sweep after it
     * became unneeded, when no query can still hold a chunk that names it. */
    if (now_ns - segments->swept_mono_ns < SWEEP_PAUSE_NS)
        return;
    segments->swept_mono_ns = now_ns;
    if (ing_retire_sweep(segments->config.retire, &later) != FG_OK)
        fg_log_warn("old dictionaries could not be deleted from the head store, will retry",
                    fg_ls("err", later.msg));
}

/* Raises conditions for what lasts and needs an operator. */
static void tell_conditions(struct ing_segments *segments)
{
    const struct ing_segments_core_status *status =
        &segments->status; /* no lock: this thread writes it */

    /* Misfits have failed again. Chunks that only wait for their retry do not raise the condition,
     * but keep one that is raised. */
    if (status->misfits)
        fg_condition_raise(segments->aside,
                           "%u head chunks with %llu profiles (%llu bytes) cannot be written as a "
                           "segment and are served from this disk only; last reason: %s",
                           status->chunks[CHUNK_ASIDE], (unsigned long long)status->aside_profiles,
                           (unsigned long long)status->aside_bytes, segments->unfit_why);
    else if (status->chunks[CHUNK_ASIDE] == 0)
        fg_condition_clear(segments->aside);
    if (status->keyless > 0)
        fg_condition_raise(segments->keyless,
                           "%u head chunks with %llu profiles (%llu bytes) cannot be encrypted and "
                           "are served from this disk only; last reason: %s",
                           status->keyless, (unsigned long long)status->keyless_profiles,
                           (unsigned long long)status->keyless_bytes, segments->keyless_why);
    else
        fg_condition_clear(segments->keyless);
    if (status->unchecked_profiles > 0)
        fg_condition_raise(segments->unchecked,
                           "queries omit stored late profiles until they are checked for "
                           "duplicates: the bucket does not respond, or an object that may contain "
                           "them is damaged; flamegrid_ingester_profiles_unchecked counts them");
    else
        fg_condition_clear(segments->unchecked);
    if (status->went_back)
        fg_condition_raise(segments->bucket_went_back,
                           "the L0 manifest is older than generation %llu, which was read before: "
                           "the bucket is a different one or was restored from a backup",
                           (unsigned long long)status->seen);
    else
        fg_condition_clear(segments->bucket_went_back);
    if (status->store_went_back)
        fg_condition_raise(segments->store_went_back,
                           "the head is older than its entry in the L0 manifest: its disk was "
                           "restored from a backup and lacks the profiles acknowledged since then");
    if (status->copied)
        fg_condition_raise(segments->copied,
                           "another ingester runs with a copy of this disk: the L0 manifest has a "
                           "segment of this store that was not made here; pushes are refused and "
                           "nothing is committed from here");
}

static void on_step_request(struct ing_committer_visit *visit)
{
    struct step_request *request = fg_container(visit, struct step_request, visit);
    struct ing_segments *segments = request->segments;

    /* Readers choose chunks under this lock: they see the head before the step, or after it. */
    fg_rwlock_write(&segments->steps);
    if (request->compare != NULL)
        apply_compare(segments, request);
    take_steps(segments, &request->event);
    fg_thread_lock(&segments->thread);
    /* Without core_lock: only this thread changes the core. */
    segments->status = ing_segments_core_status(segments->core);
    fg_thread_unlock(&segments->thread);
    fg_rwlock_unlock(&segments->steps);
    /* Without the lock: neither changes what readers see, and sweep() writes to the store. */
    tell_conditions(segments);
    sweep(segments);
    /* The last use of the request: it is on the stack of the thread that this wakes. */
    fg_assert(sem_post(&request->taken) == 0);
}

/* Runs after each step, locked. */
static void check_waits(const struct ing_segments *segments)
{
    unsigned n_waiters = 0;

    for (const struct ing_segments_waiter *at = segments->waiters; at != NULL; at = at->next)
        n_waiters++;
    fg_assert(n_waiters == segments->n_waiters && n_waiters <= SEGMENTS_WAITERS_MAX);
    fg_assert(segments->drained <= segments->tried && segments->tried <= segments->drain_known &&
              segments->drain_known <= segments->drain_asked);
    fg_assert(segments->n_ring_drains <= FG_COUNT(segments->ring_drains));
    for (unsigned i = 0; i < segments->n_ring_drains; i++)
        fg_assert(segments->ring_drains[i].drain <= segments->drain_asked &&
                  (i == 0 || segments->ring_drains[i - 1].drain < segments->ring_drains[i].drain));
}

/* Wakes those who wait for a step, and tells the ring about drains. */
static void on_stepped(struct ing_segments *segments, enum ing_segments_event_kind kind)
{
    struct ing_ring_drain done = {0};
    uint64_t drained_at;

    fg_thread_lock(&segments->thread);
    segments->n_steps++;
    if (kind == SEGMENTS_MANIFEST) { /* as in the core: readers that still wait ask again */
        segments->wanted = segments->wanted_known = 0;
        for (struct ing_segments_waiter *at = segments->waiters; at != NULL; at = at->next)
            at->reads++;
    }
    segments->drained = segments->status.drained;
    segments->tried = segments->status.tried;
    drained_at = segments->status.drained_at;
    /* One in a step is enough: the second, if it is done as well, follows with the next step. */
    if (segments->n_ring_drains > 0 && segments->ring_drains[0].drain <= segments->drained &&
        !segments->has_nameless) {
        done = segments->ring_drains[0];
        segments->ring_drains[0] = segments->ring_drains[1];
        segments->n_ring_drains--;
    }
    check_waits(segments);
    (void)pthread_cond_broadcast(&segments->moved);
    fg_thread_unlock(&segments->thread);
    if (done.revision > 0) /* without the lock: the watch has its own */
        fg_ring_watch_drained(segments->config.member->watch, done.revision, drained_at);
}

static void check_deadlines(void *arg)
{
    ing_segments_end_waits(arg);
}

/* Hands an event to the core and waits for the step. The segments' thread. */
static void hand_in(struct ing_segments *segments, const struct ing_segments_event *event,
                    struct ing_compare *compare)
{
    struct step_request request = {
        .visit.run = on_step_request, .segments = segments, .event = *event, .compare = compare};

    fg_assert(sem_init(&request.taken, 0, 0) == 0);
    ing_committer_post(segments->committer, &request.visit);
    /* The request is on this stack. The committer runs all visits before it ends, so this ends. */
    while (sem_wait(&request.taken) != 0)
        continue;
    (void)sem_destroy(&request.taken);
    on_stepped(segments, event->kind);
    ing_segments_end_waits(segments);
}

/* ---- effects of the bucket: the segments' thread ---- */

static bool may_hold(void *arg, const struct ing_head_group_key *group)
{
    struct ing_segments *segments = arg;
    bool may;

    (void)pthread_mutex_lock(&segments->core_lock);
    may = ing_segments_core_may_hold(segments->core, group);
    (void)pthread_mutex_unlock(&segments->core_lock);
    return may;
}

static enum fg_code find_committed(struct ing_segments *segments,
                                   const struct ing_segments_effect *effect,
                                   struct ing_compare *compare, struct fg_err *err)
{
    const struct ing_compare_head head = compare_head(segments);

    const struct ing_compare_asking asking = {
        .may_hold = may_hold,
        .arg = segments,
        .only = effect->all ? 0 : effect->generation,
        .least = effect->generation,
        .until = {fg_mono_ns(segments->config.clock) + COMPARE_TIMEOUT_NS, segments->bucket_stop},
    };

    return ing_compare_find(&head, &asking, compare, err);
}

static bool is_stopping(struct ing_segments *segments)
{
    bool stop;

    fg_thread_lock(&segments->thread);
    stop = segments->thread.stop;
    fg_thread_unlock(&segments->thread);
    return stop;
}

static void carry_out(struct ing_segments *segments, struct ing_segments_task *task)
{
    struct ing_compare compare = {0};
    struct ing_segments_event event = {.kind = SEGMENTS_FAILED, .failed = task->effect.kind};
    struct ing_publish_fault fault = {0};
    enum fg_code code = FG_OK;
    struct fg_err err;

    switch (task->effect.kind) {
    case SEGMENTS_READ:
        /* `status` without the lock: it changes only in steps, and this thread waits for those. */
        code = ing_publish_read(segments->publish, segments->status.seen, &event.l0, &err);
        event.kind = SEGMENTS_MANIFEST;
        break;
    case SEGMENTS_UPLOAD:
        code = ing_publish_upload(segments->publish, &task->effect.id, task->chunks, task->n_chunks,
                                  task->effect.salvage, &event.nothing, &fault, &err);
        event.kind = SEGMENTS_UPLOADED;
        break;
    case SEGMENTS_SWAP:
        code = ing_publish_swap(segments->publish, &task->effect.id, task->effect.clean, &err);
        /* Another writer was first: no fault, and no reason to pause. */
        if (code == FG_E_PRECONDITION)
            code = FG_OK;
        event.kind = SEGMENTS_SWAPPED;
        break;
    case SEGMENTS_REPORT: /* however it ends, the manifest tells the result */
        if (ing_publish_report(segments->publish, segments->config.member->store,
                               task->effect.clean, &err) != FG_OK &&
            err.code != FG_E_PRECONDITION)
            ing_segments_effect_failed(segments, SEGMENTS_REPORT, &err);
        else
            ing_segments_effect_ended(segments, SEGMENTS_REPORT);
        event.kind = SEGMENTS_REPORTED;
        break;
    default:
        fg_assert(task->effect.kind == SEGMENTS_COMPARE);
        code = find_committed(segments, &task->effect, &compare, &err);
        event.kind = SEGMENTS_COMPARED;
        break;
    }
    free(task->chunks);
    if (code != FG_OK) {
        event.kind = SEGMENTS_FAILED;
        event.unfit = fault.unfit;
        event.keyless = fault.suspects.keyless;
        event.suspects = fault.suspects.chunks;
        event.n_suspects = fault.suspects.n;
        /* The upload itself did not fail: it goes on without these chunks. */
        if (event.keyless)
            fg_log_warn("head chunks wait for keys of their tenants, will retry",
                        fg_lu("chunks", event.n_suspects), fg_ls("err", err.msg));
        else
            ing_segments_effect_failed(segments, task->effect.kind, &err);
        /* For the condition that is raised once the chunks are set aside, some steps later. */
        if (event.keyless)
            memcpy(segments->keyless_why, err.msg, sizeof err.msg);
        else if (fault.unfit)
            memcpy(segments->unfit_why, err.msg, sizeof err.msg);
    } else if (task->effect.kind != SEGMENTS_REPORT && task->effect.kind != SEGMENTS_COMPARE) {
        ing_segments_effect_ended(segments, task->effect.kind);
    }
    /* A COMPARE in pieces, with pushes and queries in between. At a stop the rest is left to the
     * next start, which compares with everything. */
    do
        hand_in(segments, &event, compare.arena != NULL ? &compare : NULL);
    while (compare.more && !is_stopping(segments));
    ing_compare_done(&compare);
}

/* ---- the thread ---- */

/* Waits until the core wants a tick, or for a request, and makes it an event. Returns false at the
 * end. */
static bool next_event(struct ing_segments *segments, struct ing_segments_event *ret_event)
{
    struct ing_segments_event event = {.kind = SEGMENTS_TICK};
    bool stop;

    fg_thread_lock(&segments->thread);
    while (!segments->thread.stop && !segments->salvage &&
           segments->drain_known == segments->drain_asked &&
           segments->wanted == segments->wanted_known)
        if (!fg_thread_sleep(&segments->thread, segments->wake_mono_ns))
            break;
    stop = segments->thread.stop;
    /* One request for each event. SALVAGE before DRAIN: the drain of the same caller must find the
     * chunks marked. Both before WANTED, which readers repeat if need be. */
    if (segments->salvage) {
        segments->salvage = false;
        event.kind = SEGMENTS_SALVAGE;
    } else if (segments->drain_known != segments->drain_asked) {
        segments->drain_known = segments->drain_asked;
        event = (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = segments->drain_known};
    } else if (segments->wanted_known != segments->wanted) {
        segments->wanted_known = segments->wanted;
        event =
            (struct ing_segments_event){.kind = SEGMENTS_WANTED, .generation = segments->wanted};
    }
    fg_thread_unlock(&segments->thread);
    *ret_event = event;
    return !stop;
}

/* Tells the core the ranks if the ring has changed. */
static void update_ranks(struct ing_segments *segments)
{
    const struct ing_member *member = segments->config.member;
    fg_auto(fg_ring_view) *view = NULL;
    uint32_t own = FG_RING_NO_MEMBER, newest;

    if (member->watch == NULL || fg_ring_watch_revision(member->watch) == segments->ranked)
        return;
    /* A reference, so 65,536 shards can be looked up without a lock. */
    view = fg_ring_watch_get(member->watch);
    newest = view->ring.n_revisions - 1;
    for (uint32_t i = 0; i < view->ring.n_members && own == FG_RING_NO_MEMBER; i++)
        if (fg_id_eq(view->ring.members[i].store, member->store))
            own = i;
    segments->ranked = fg_ring_newest(&view->ring);
    for (uint32_t shard = 0; shard < SEGMENTS_SHARDS; shard++) {
        segments->ranks[shard] = 0; /* also if we are no owner: then there is nobody to wait for */
        for (unsigned n = 0; n < view->tables[newest]->n_owners; n++)
            if (fg_ring_view_owner(view, newest, (uint16_t)shard, n) == own) {
                segments->ranks[shard] = (uint8_t)n;
                break;
            }
    }
    hand_in(segments,
            &(struct ing_segments_event){.kind = SEGMENTS_RANKS, .ranks = segments->ranks}, NULL);
}

/*
 * The thread is no ticker (common/runtime/ticker.h): the core names the time of the next tick, and
 * a stop must come in between two effects, each of which may take minutes.
 */
static void run_segments(void *arg)
{
    struct ing_segments *segments = arg;
    struct ing_segments_event event = {.kind = SEGMENTS_TICK};

    fg_thread_lower_priority(); /* pushes and queries do not wait for a build */
    do {
        hand_in(segments, &event, NULL);
        update_ranks(segments); /* before the tasks, since it may add some */
        /* At a stop the remaining tasks are dropped: the next start finds in store and manifest
         * what was begun. */
        while (segments->n_tasks > 0 && !is_stopping(segments)) {
            struct ing_segments_task task = segments->tasks[0];

            segments->n_tasks--;
            memmove(segments->tasks, segments->tasks + 1,
                    segments->n_tasks * sizeof *segments->tasks);
            carry_out(segments, &task);
        }
    } while (next_event(segments, &event));
}

/* ---- what others ask ---- */

enum ing_segments_admission ing_segments_admit(struct ing_segments *segments,
                                               const struct ing_head_group_key *group,
                                               struct ing_segments_lookup lookup,
                                               uint32_t *ret_chunk)
{
    enum ing_segments_admission admission;

    (void)pthread_mutex_lock(&segments->core_lock);
    admission = ing_segments_core_admit(segments->core, group, lookup, ret_chunk);
    (void)pthread_mutex_unlock(&segments->core_lock);
    return admission;
}

void ing_segments_added(struct ing_segments *segments, const struct ing_head_chunk_key *chunk,
                        bool unchecked, uint64_t profiles, uint64_t bytes, int64_t wall_ns)
{
    (void)pthread_mutex_lock(&segments->core_lock);
    ing_segments_core_added(segments->core, &chunk->group, chunk->number, unchecked, profiles,
                            bytes, wall_ns);
    (void)pthread_mutex_unlock(&segments->core_lock);
}

void ing_segments_found(struct ing_segments *segments, uint64_t generation)
{
    (void)pthread_mutex_lock(&segments->core_lock);
    ing_segments_core_found(segments->core, generation);
    (void)pthread_mutex_unlock(&segments->core_lock);
}

bool ing_segments_is_late(struct ing_segments *segments, const struct ing_head_group_key *group,
                          uint64_t *ret_seen)
{
    bool late;

    (void)pthread_mutex_lock(&segments->core_lock);
    late = ing_segments_core_is_late(segments->core, group);
    *ret_seen = ing_segments_core_seen(segments->core);
    (void)pthread_mutex_unlock(&segments->core_lock);
    return late;
}

static struct ing_segments_core_status status_of(struct ing_segments *segments)
{
    struct ing_segments_core_status status;

    fg_thread_lock(&segments->thread);
    status = segments->status;
    fg_thread_unlock(&segments->thread);
    return status;
}

bool ing_segments_is_settled(struct ing_segments *segments)
{
    return status_of(segments).settled;
}

/* ---- life ---- */

static void on_scrape(void *arg)
{
    struct ing_segments *segments = arg;
    struct ing_segments_core_status status = status_of(segments);

    fg_metric_set(segments->metrics, METRIC_GENERATION, (int64_t)status.gen);
    fg_metric_set(segments->metrics, METRIC_OPEN_BYTES, (int64_t)status.open_bytes);
    fg_metric_set(segments->metrics, METRIC_SEALED_BYTES, (int64_t)status.sealed_bytes);
    fg_metric_set(segments->metrics, METRIC_ASIDE_BYTES, (int64_t)status.aside_bytes);
    fg_metric_set(segments->metrics, METRIC_UNCHECKED_BYTES, (int64_t)status.unchecked_bytes);
    fg_metric_set(segments->metrics, METRIC_UNCHECKED_PROFILES, (int64_t)status.unchecked_profiles);
    fg_metric_set(segments->metrics, METRIC_ASIDE_CHUNKS, status.chunks[CHUNK_ASIDE]);
    fg_metric_set(segments->metrics, METRIC_ASIDE_PROFILES, (int64_t)status.aside_profiles);
}

static enum fg_code restore(struct ing_segments *segments, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_head_chunk *chunks;
    size_t n;

    if (ing_head_chunks_select(segments->config.chunks, &ing_head_chunks_all, arena, &chunks, &n,
                               err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++) {
        const struct ing_segments_chunk chunk = {
            .group = chunks[i].key.group,
            .number = chunks[i].key.number,
            .state = chunks[i].state,
            .cut = chunks[i].cut,
            .generation = chunks[i].generation,
            .profiles = chunks[i].count,
            .bytes = chunks[i].bytes,
            .opened_wall_ns = chunks[i].opened_wall_ns,
            /* Unknown, so the time in which queriers may read the manifest begins again. */
            .committed_mono_ns = fg_mono_ns(segments->config.clock),
        };

        if (!ing_segments_core_restore(segments->core, &chunk))
            return fg_fail(err, FG_E_LIMIT, "head: more than %d head chunks", CHUNKS_MAX);
    }
    return FG_OK;
}

/* Eviction asks it for each chunk that is due. */
static bool pins(void *arg, const struct ing_head_group_key *group)
{
    return ing_outbox_pins(arg, group);
}

static uint64_t pins_clean(void *arg, uint64_t asked)
{
    return ing_outbox_clean(arg, asked);
}

static enum fg_code make_core(struct ing_segments *segments, struct fg_err *err)
{
    const struct ing_segments_settings *settings = segments->config.settings;
    struct ing_segments_core_config config = {
        .writer = segments->config.member->store,
        .cut_bytes = settings->cut_bytes,
        .grace_ns = settings->grace_ns,
        .linger_ns = settings->linger_ns,
        .open_max_ns = settings->open_max_ns,
        .evict_after_ns = settings->evict_after_ns,
        .poll_ns = settings->poll_ns,
        .failover_after_ns = settings->failover_after_ns,
        .upload_max_age_ns = UPLOAD_MAX_AGE_NS,
        .aside_retry_ns = ASIDE_RETRY_NS,
        .keyless_retry_ns = KEYLESS_RETRY_NS,
        .check_retry_ns = CHECK_RETRY_NS,
        .unchecked_max_bytes = settings->unchecked_max_bytes,
        .backoff_min_ns = BACKOFF_MIN_NS,
        .backoff_max_ns = BACKOFF_MAX_NS,
        .chunks_max = CHUNKS_MAX,
        .rules = FG_RULES_ALL,
        .pins = pins,
        .pins_clean = pins_clean,
        .pins_arg = segments->config.outbox,
    };

    if (getrandom(&config.seed, sizeof config.seed, 0) != sizeof config.seed)
        return fg_fail(err, FG_E_UNAVAILABLE, "no random numbers");
    /* Both numbers come first: ing_segments_core_restore() asserts that no chunk has a later cut.
     */
    segments->core =
        ing_segments_core_create(&config, ing_head_chunks_cuts(segments->config.chunks),
                                 ing_head_chunks_seen(segments->config.chunks));
    segments->status = ing_segments_core_status(segments->core);
    return restore(segments, err);
}

enum fg_code ing_segments_create(const struct ing_segments_config *config,
                                 struct ing_segments **ret_segments, struct fg_err *err)
{
    struct ing_segments *segments = fg_new(struct ing_segments);
    struct ing_build_head head = config->head;

    head.block_version = fg_block_version_chosen(config->settings->block_version);
    if (config->bucket != NULL)
        head.keys = config->bucket->keys;
    segments->config = *config;
    segments->has_nameless = ing_head_chunks_has_nameless(config->chunks);
    segments->bucket_stop = fg_bucket_stop_create();
    fg_rwlock_init(&segments->steps);
    (void)pthread_mutex_init(&segments->core_lock, NULL);
    fg_thread_init(&segments->thread);
    fg_cond_init(&segments->moved);
    if (ing_publish_create(
            &(struct ing_publish_config){
                .bucket = config->bucket,
                .scratch = config->scratch,
                .disk = config->disk,
                .head = head,
                .registry = config->registry,
                .clock = config->clock,
                .stop = segments->bucket_stop,
            },
            &segments->publish, err) != FG_OK ||
        make_core(segments, err) != FG_OK) {
        ing_segments_destroy(segments);
        return err->code;
    }
    segments->aside = fg_condition_create(config->conditions, "head_chunks_set_aside");
    segments->keyless = fg_condition_create(config->conditions, "head_without_keys");
    segments->unchecked = fg_condition_create(config->conditions, "head_unchecked");
    segments->failing = fg_condition_create(config->conditions, "commit_failing");
    segments->bucket_went_back = fg_condition_create(config->conditions, "bucket_went_back");
    segments->store_went_back = fg_condition_create(config->conditions, "head_went_back");
    segments->copied = fg_condition_create(config->conditions, "head_copied");
    segments->metrics =
        fg_metrics_register(config->registry, segments_metrics, FG_COUNT(segments_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, segments);
    *ret_segments = segments;
    return FG_OK;
}

enum fg_code ing_segments_start(struct ing_segments *segments, struct ing_committer *committer,
                                struct fg_err *err)
{
    const struct fg_l0 *l0;
    struct fg_err unread;

    segments->committer = committer;
    /* A new bucket gets its manifest here, so that the first readers find one. */
    if (ing_publish_read(segments->publish, segments->status.seen, &l0, &unread) != FG_OK)
        fg_log_warn("L0 manifest cannot be read yet, will retry", fg_ls("err", unread.msg));
    if (fg_ticker_create(&(struct fg_ticker_config){"segments-waits", DEADLINES_EVERY_NS,
                                                    check_deadlines, segments},
                         &segments->deadlines, err) != FG_OK)
        return err->code;
    return fg_thread_start(&segments->thread, "segments", run_segments, segments, err);
}

void ing_segments_hurry(struct ing_segments *segments)
{
    fg_thread_lock(&segments->thread);
    /* Never reset: waits that begin later are refused, so callers that stop can rely on it. */
    segments->hurry = true;
    (void)pthread_cond_broadcast(&segments->moved);
    fg_thread_unlock(&segments->thread);
    ing_segments_end_waits(segments);
}

void ing_segments_stop(struct ing_segments *segments)
{
    if (segments == NULL || !segments->thread.started)
        return;
    fg_thread_ask_to_stop(&segments->thread);
    fg_bucket_stop_all(
        segments->bucket_stop); /* the thread may wait for the bucket for ten minutes */
    fg_thread_join(&segments->thread);
    ing_segments_end_waits(segments);
}

void ing_segments_destroy(struct ing_segments *segments)
{
    if (segments == NULL)
        return;
    fg_registry_off_scrape(segments->config.registry, segments);
    /* First of the rest, since it walks the list of waits. */
    fg_ticker_destroy(segments->deadlines);
    fg_assert(segments->waiters == NULL);
    for (uint32_t i = 0; i < segments->n_tasks; i++)
        free(segments->tasks[i].chunks);
    fg_condition_destroy(segments->aside);
    fg_condition_destroy(segments->keyless);
    fg_condition_destroy(segments->unchecked);
    fg_condition_destroy(segments->failing);
    fg_condition_destroy(segments->bucket_went_back);
    fg_condition_destroy(segments->store_went_back);
    fg_condition_destroy(segments->copied);
    ing_publish_destroy(segments->publish);
    fg_bucket_stop_destroy(segments->bucket_stop);
    ing_segments_core_destroy(segments->core);
    (void)pthread_cond_destroy(&segments->moved);
    (void)pthread_mutex_destroy(&segments->core_lock);
    fg_thread_done(&segments->thread);
    fg_rwlock_done(&segments->steps);
    free(segments);
}
