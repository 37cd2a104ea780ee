#include "ingester/segments/driver_impl.h"

/* ---- readers: may they be served, and if not yet, when ---- */

enum fg_code ing_driver_fence(struct ing_driver *driver, uint64_t generation, struct fg_err *err)
{
    enum ing_segments_fence fence;
    uint64_t least;

    fg_rwlock_read(&driver->steps);
    (void)pthread_mutex_lock(&driver->core_lock);
    fence = ing_segments_fence(driver->core, generation, &least);
    (void)pthread_mutex_unlock(&driver->core_lock);
    if (fence == SEGMENTS_SERVE)
        return FG_OK;
    fg_rwlock_unlock(&driver->steps);
    if (fence == SEGMENTS_STALE)
        return fg_fail(err, FG_E_PRECONDITION,
                       "the head has evicted the segments up to generation %llu, but the query "
                       "knows segments only up to %llu",
                       (unsigned long long)least, (unsigned long long)generation);
    return fg_fail(err, FG_E_ABORTED, "the ingester is behind generation %llu of the manifest",
                   (unsigned long long)generation);
}

void ing_driver_unfence(struct ing_driver *driver)
{
    fg_rwlock_unlock(&driver->steps);
}

enum fg_code ing_driver_wait(struct ing_driver *driver, struct ing_driver_waiter *waiter,
                             struct fg_err *err)
{
    enum fg_code code = FG_OK;

    waiter->reads = 0;
    (void)pthread_mutex_lock(&driver->lock);
    if (driver->hurry || driver->stop) {
        code = fg_fail(err, FG_E_CANCELED, "the ingester is stopping");
    } else if (driver->n_waiters == DRIVER_WAITERS_MAX) {
        code = fg_fail(err, FG_E_UNAVAILABLE,
                       "%u queries already wait for a newer generation of the manifest",
                       driver->n_waiters);
    } else {
        waiter->next = driver->waiters;
        driver->waiters = waiter;
        driver->n_waiters++;
        driver->wanted = FG_MAX(driver->wanted, waiter->generation);
        (void)pthread_cond_signal(&driver->wake);
    }
    (void)pthread_mutex_unlock(&driver->lock);
    return code;
}

/* Returns how a wait ends, or FG_E_ABORTED if it goes on. The first read of the manifest that ends
 * during the wait may have begun before it; the second one has not, so its generation decides.
 * Locked. */
static enum fg_code judge_wait(struct ing_driver *driver, const struct ing_driver_waiter *waiter,
                               struct fg_err *err)
{
    enum { READS = 2 };
    enum ing_segments_fence fence;
    uint64_t least, seen;

    (void)pthread_mutex_lock(&driver->core_lock);
    fence = ing_segments_fence(driver->core, waiter->generation, &least);
    seen = ing_segments_seen(driver->core);
    (void)pthread_mutex_unlock(&driver->core_lock);
    if (fence != SEGMENTS_BEHIND)
        return err->code = FG_OK;
    if (driver->hurry || driver->stop)
        return fg_fail(err, FG_E_CANCELED, "the ingester is stopping");
    if (waiter->reads >= READS && waiter->generation > seen)
        return fg_fail(
            err, FG_E_UNAVAILABLE,
            "the query knows segments up to generation %llu, but the manifest just read has %llu",
            (unsigned long long)waiter->generation, (unsigned long long)seen);
    if (fg_mono_ns(fg_clock_real()) >= waiter->deadline_mono_ns)
        return fg_fail(err, FG_E_DEADLINE,
                       "the ingester did not catch up with the manifest in time");
    return FG_E_ABORTED;
}

/* Takes out one wait that is over; NULL: all others go on, and want the manifest read. */
static struct ing_driver_waiter *take_waiter(struct ing_driver *driver, struct fg_err *err)
{
    struct ing_driver_waiter **at = &driver->waiters, *taken = NULL;

    (void)pthread_mutex_lock(&driver->lock);
    while (*at != NULL && judge_wait(driver, *at, err) == FG_E_ABORTED) {
        driver->wanted = FG_MAX(driver->wanted, (*at)->generation);
        at = &(*at)->next;
    }
    if (*at != NULL) {
        taken = *at;
        *at = taken->next;
        driver->n_waiters--;
    }
    (void)pthread_mutex_unlock(&driver->lock);
    return taken;
}

void ing_driver_end_waits(struct ing_driver *driver)
{
    struct ing_driver_waiter *waiter;
    struct fg_err err;

    while ((waiter = take_waiter(driver, &err)) != NULL)
        waiter->on_end(waiter, &err);
}

/* ---- flushes, and drains of the ring ---- */

/* Until a step was taken since n_steps were. FG_E_DEADLINE, FG_E_CANCELED. */
static enum fg_code wait_for_step(struct ing_driver *driver, uint64_t n_steps,
                                  int64_t deadline_mono_ns, const char *what, struct fg_err *err)
{
    const struct timespec until = {deadline_mono_ns / FG_SECOND_NS,
                                   deadline_mono_ns % FG_SECOND_NS};
    bool in_time = true, hurry;

    (void)pthread_mutex_lock(&driver->lock);
    while (in_time && !driver->hurry && driver->n_steps == n_steps)
        in_time = pthread_cond_timedwait(&driver->moved, &driver->lock, &until) == 0;
    hurry = driver->hurry;
    (void)pthread_mutex_unlock(&driver->lock);
    if (hurry)
        return fg_fail(err, FG_E_CANCELED, "the ingester is stopping");
    return in_time ? FG_OK : fg_fail(err, FG_E_DEADLINE, "%s", what);
}

static uint64_t count_steps(struct ing_driver *driver)
{
    uint64_t n_steps;

    (void)pthread_mutex_lock(&driver->lock);
    n_steps = driver->n_steps;
    (void)pthread_mutex_unlock(&driver->lock);
    return n_steps;
}

/* Its number. Locked. */
static uint64_t ask_to_drain(struct ing_driver *driver)
{
    (void)pthread_cond_signal(&driver->wake);
    return ++driver->drain_asked;
}

void ing_driver_drain(struct ing_driver *driver, uint64_t revision)
{
    (void)pthread_mutex_lock(&driver->lock);
    driver->n_ring_drains = FG_MIN(driver->n_ring_drains + 1, FG_COUNT(driver->ring_drains));
    driver->ring_drains[driver->n_ring_drains - 1] =
        (struct ing_ring_drain){revision, ask_to_drain(driver)};
    (void)pthread_mutex_unlock(&driver->lock);
}

/* Is everything committed that can be? *ret_aside: something cannot. */
static bool is_tried(struct ing_driver *driver, uint64_t drain, bool *ret_aside)
{
    bool tried;

    (void)pthread_mutex_lock(&driver->lock);
    tried = driver->tried >= drain;
    *ret_aside = driver->drained < drain;
    (void)pthread_mutex_unlock(&driver->lock);
    return tried;
}

static enum fg_code flush(struct ing_driver *driver, bool salvage, int64_t deadline_mono_ns,
                          struct fg_err *err)
{
    enum fg_code code = FG_OK;
    uint64_t n_steps, drain;
    bool aside = false;

    (void)pthread_mutex_lock(&driver->lock);
    driver->salvage |= salvage; /* before the drain, which tries what is set aside */
    n_steps = driver->n_steps;
    drain = ask_to_drain(driver);
    (void)pthread_mutex_unlock(&driver->lock);
    while (code == FG_OK && !is_tried(driver, drain, &aside)) {
        code =
            wait_for_step(driver, n_steps, deadline_mono_ns, "the head is not committed yet", err);
        n_steps = count_steps(driver);
    }
    if (code == FG_OK && aside)
        return fg_fail(err, FG_E_CORRUPT,
                       "all profiles are committed except those that cannot be written as a "
                       "segment or compared with a damaged object: see GET /ready");
    return code;
}

enum fg_code ing_driver_flush(struct ing_driver *driver, int64_t deadline_mono_ns,
                              struct fg_err *err)
{
    return flush(driver, false, deadline_mono_ns, err);
}

enum fg_code ing_driver_salvage(struct ing_driver *driver, int64_t deadline_mono_ns,
                                struct fg_err *err)
{
    return flush(driver, true, deadline_mono_ns, err);
}
