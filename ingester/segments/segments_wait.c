/*
 * Callers that wait for a step. Readers do not block a thread: a wait is a struct with a callback,
 * on a list that is looked through after each step and once a second (deadlines). Flushes block
 * their own thread on `moved`. Drains of the ring block nobody: on_stepped() tells the ring.
 *
 * Callbacks run without any lock, since they submit jobs and answer calls.
 */
#include "ingester/segments/segments_impl.h"

/* ---- readers ---- */

enum fg_code ing_segments_fence(struct ing_segments *segments, uint64_t generation,
                                struct fg_err *err)
{
    enum ing_segments_readiness fence;
    uint64_t least;

    fg_rwlock_read(&segments->steps); /* kept until ing_segments_unfence() */
    (void)pthread_mutex_lock(&segments->core_lock);
    fence = ing_segments_core_fence(segments->core, generation, &least);
    (void)pthread_mutex_unlock(&segments->core_lock);
    if (fence == SEGMENTS_SERVE)
        return FG_OK;
    fg_rwlock_unlock(&segments->steps);
    if (fence == SEGMENTS_STALE)
        return fg_fail(err, FG_E_PRECONDITION,
                       "the head has evicted the segments up to generation %llu, but the query "
                       "knows segments only up to %llu",
                       (unsigned long long)least, (unsigned long long)generation);
    return fg_fail(err, FG_E_ABORTED, "the ingester is behind generation %llu of the manifest",
                   (unsigned long long)generation);
}

void ing_segments_unfence(struct ing_segments *segments)
{
    fg_rwlock_unlock(&segments->steps);
}

enum fg_code ing_segments_wait(struct ing_segments *segments, struct ing_segments_waiter *waiter,
                               struct fg_err *err)
{
    enum fg_code code = FG_OK;

    waiter->reads = 0;
    fg_thread_lock(&segments->thread);
    /* Under the lock that hurry and stop are set under, so no wait slips in behind the last look
     * through the list. */
    if (segments->hurry || segments->thread.stop) {
        code = fg_fail(err, FG_E_UNAVAILABLE, "the ingester is stopping");
    } else if (segments->n_waiters == SEGMENTS_WAITERS_MAX) {
        code = fg_fail(err, FG_E_UNAVAILABLE,
                       "%u queries already wait for a newer generation of the manifest",
                       segments->n_waiters);
    } else {
        waiter->next = segments->waiters;
        segments->waiters = waiter;
        segments->n_waiters++;
        segments->wanted = FG_MAX(segments->wanted, waiter->generation);
        fg_thread_wake(&segments->thread);
    }
    fg_thread_unlock(&segments->thread);
    return code;
}

/* Returns how a wait ends, or FG_E_ABORTED if it goes on. The first read of the manifest that ends
 * during the wait may have begun before it; the second one has not, so its generation decides.
 * Locked. */
static enum fg_code judge_wait(struct ing_segments *segments,
                               const struct ing_segments_waiter *waiter, struct fg_err *err)
{
    enum { READS = 2 };
    enum ing_segments_readiness fence;
    uint64_t least, seen;

    /* The generation may have been reached, whatever else is true: ask the core first. */
    (void)pthread_mutex_lock(&segments->core_lock);
    fence = ing_segments_core_fence(segments->core, waiter->generation, &least);
    seen = ing_segments_core_seen(segments->core);
    (void)pthread_mutex_unlock(&segments->core_lock);
    if (fence != SEGMENTS_BEHIND)
        return err->code = FG_OK;
    if (segments->hurry || segments->thread.stop)
        return fg_fail(err, FG_E_UNAVAILABLE, "the ingester is stopping");
    if (waiter->reads >= READS && waiter->generation > seen)
        return fg_fail(
            err, FG_E_UNAVAILABLE,
            "the query knows segments up to generation %llu, but the manifest just read has %llu",
            (unsigned long long)waiter->generation, (unsigned long long)seen);
    /* The real clock, as for the deadlines of calls (query.c). */
    if (fg_mono_ns(fg_clock_real()) >= waiter->deadline_mono_ns)
        return fg_fail(err, FG_E_DEADLINE,
                       "the ingester did not catch up with the manifest in time");
    return FG_E_ABORTED;
}

/* Removes and returns a wait that is over; NULL: all others go on, and want the manifest to be
 * read. */
static struct ing_segments_waiter *take_waiter(struct ing_segments *segments, struct fg_err *err)
{
    struct ing_segments_waiter **at = &segments->waiters, *taken = NULL;

    fg_thread_lock(&segments->thread);
    while (*at != NULL && judge_wait(segments, *at, err) == FG_E_ABORTED) {
        /* on_stepped() has cleared `wanted` with the read that did not help, so ask again. */
        segments->wanted = FG_MAX(segments->wanted, (*at)->generation);
        at = &(*at)->next;
    }
    if (*at != NULL) {
        taken = *at;
        *at = taken->next;
        segments->n_waiters--;
    }
    fg_thread_unlock(&segments->thread);
    return taken;
}

void ing_segments_end_waits(struct ing_segments *segments)
{
    struct ing_segments_waiter *waiter;
    struct fg_err err;

    /* One at a time, off the list before its callback: the callback may free it, or begin another
     * wait. */
    while ((waiter = take_waiter(segments, &err)) != NULL)
        waiter->on_end(waiter, &err);
}

/* ---- flushes, and drains of the ring ---- */

/* Waits until there were more than n_steps steps. FG_E_DEADLINE; FG_E_UNAVAILABLE: the ingester is
 * stopping. */
static enum fg_code wait_for_step(struct ing_segments *segments, uint64_t n_steps,
                                  int64_t deadline_mono_ns, const char *what, struct fg_err *err)
{
    const struct timespec until = {deadline_mono_ns / FG_SECOND_NS,
                                   deadline_mono_ns % FG_SECOND_NS};
    bool in_time = true, hurry;

    fg_thread_lock(&segments->thread);
    /* Against a count and not a flag, so a step between two calls is not missed. */
    while (in_time && !segments->hurry && segments->n_steps == n_steps)
        in_time = pthread_cond_timedwait(&segments->moved, &segments->thread.lock, &until) == 0;
    hurry = segments->hurry;
    fg_thread_unlock(&segments->thread);
    if (hurry)
        return fg_fail(err, FG_E_UNAVAILABLE, "the ingester is stopping");
    return in_time ? FG_OK : fg_fail(err, FG_E_DEADLINE, "%s", what);
}

static uint64_t count_steps(struct ing_segments *segments)
{
    uint64_t n_steps;

    fg_thread_lock(&segments->thread);
    n_steps = segments->n_steps;
    fg_thread_unlock(&segments->thread);
    return n_steps;
}

/* Requests a drain and returns its number. Locked. */
static uint64_t ask_to_drain(struct ing_segments *segments)
{
    fg_thread_wake(&segments->thread);
    return ++segments->drain_asked;
}

void ing_segments_drain(struct ing_segments *segments, uint64_t revision)
{
    fg_thread_lock(&segments->thread);
    /* Two are enough: a later drain covers all before it, so the newest takes the place of the
     * second, and the first ends as early as it can. */
    segments->n_ring_drains = FG_MIN(segments->n_ring_drains + 1, FG_COUNT(segments->ring_drains));
    segments->ring_drains[segments->n_ring_drains - 1] =
        (struct ing_ring_drain){revision, ask_to_drain(segments)};
    fg_thread_unlock(&segments->thread);
}

/* Returns true if all chunks are committed that can be. *ret_aside: some chunks cannot.
 * *ret_keyless: some of these wait for a key. */
static bool is_tried(struct ing_segments *segments, uint64_t drain, bool *ret_aside,
                     bool *ret_keyless)
{
    bool tried;

    fg_thread_lock(&segments->thread);
    tried = segments->tried >= drain;
    *ret_aside = segments->drained < drain;
    *ret_keyless = segments->status.keyless > 0;
    fg_thread_unlock(&segments->thread);
    return tried;
}

static enum fg_code flush(struct ing_segments *segments, bool salvage, int64_t deadline_mono_ns,
                          struct fg_err *err)
{
    enum fg_code code = FG_OK;
    uint64_t n_steps, drain;
    bool aside = false, keyless = false;

    fg_thread_lock(&segments->thread);
    segments->salvage |= salvage; /* before the drain, which tries again what is set aside */
    /* Before the request, so the step that ends it counts as a new one. */
    n_steps = segments->n_steps;
    drain = ask_to_drain(segments);
    fg_thread_unlock(&segments->thread);
    while (code == FG_OK && !is_tried(segments, drain, &aside, &keyless)) {
        code = wait_for_step(segments, n_steps, deadline_mono_ns, "the head is not committed yet",
                             err);
        n_steps = count_steps(segments);
    }
    if (code == FG_OK && aside && keyless)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "all profiles are committed except those of tenants whose keys cannot be "
                       "had now: see GET /ready");
    if (code == FG_OK && aside)
        return fg_fail(err, FG_E_CORRUPT,
                       "all profiles are committed except those that cannot be written as a "
                       "segment or compared with a damaged object: see GET /ready");
    return code;
}

enum fg_code ing_segments_flush(struct ing_segments *segments, int64_t deadline_mono_ns,
                                struct fg_err *err)
{
    return flush(segments, false, deadline_mono_ns, err);
}

enum fg_code ing_segments_salvage(struct ing_segments *segments, int64_t deadline_mono_ns,
                                  struct fg_err *err)
{
    return flush(segments, true, deadline_mono_ns, err);
}
