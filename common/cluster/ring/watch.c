#include "common/cluster/ring/watch_impl.h"
#include "common/runtime/log.h"

#include <stdlib.h>
#include <sys/random.h>

/* The ring is some kB. A request that takes longer hangs, and the thread does nothing else
 * meanwhile. */
static const int64_t REQUEST_TIMEOUT_NS = 10 * FG_SECOND_NS;

FG_METRICS_TABLE(watch_metrics, WATCH_METRICS)

/* Makes the thread read the ring. Returns the number of a read that has not begun yet, so what
 * it finds is not older than this call. With the lock held. */
static uint64_t request_read(struct fg_ring_watch *watch)
{
    watch->asked = true;
    fg_thread_wake(&watch->thread);
    return fg_ring_follow_ticket(&watch->follow);
}

void fg_ring_watch_ask_to_read(struct fg_ring_watch *watch)
{
    fg_thread_lock(&watch->thread);
    (void)request_read(watch);
    fg_thread_unlock(&watch->thread);
}

enum fg_code fg_ring_watch_swap(struct fg_ring_watch *watch, const struct fg_ring *ring)
{
    struct fg_err err;
    enum fg_code code = fg_ring_object_swap(&watch->object, watch->copy->etag, ring, &err);

    fg_metric_add(watch->metrics, WATCH_SWAPS, 1);
    fg_metric_add(watch->metrics, WATCH_SWAPS_LOST, code != FG_OK);
    /* Logs once for as long as it lasts. */
    if (code == FG_E_DENIED && !watch->denied)
        fg_log_error("ring update denied by the bucket, keeping the current ring",
                     fg_ls("err", err.msg));
    watch->denied = code == FG_E_DENIED;
    fg_metric_set(watch->metrics, WATCH_DENIED, watch->denied);
    /* FG_E_PRECONDITION is a lost race and ordinary. Whatever the answer says, the next read
     * decides whether the change was made. */
    if (code != FG_OK && code != FG_E_PRECONDITION && code != FG_E_CANCELED && code != FG_E_DENIED)
        fg_log_warn("ring update unconfirmed, retrying", fg_ls("err", err.msg));
    return code;
}

/* ---- the thread ---- */

/* Waits until a caller asks for something or `wake_mono_ns`, and takes over what was asked for. */
static struct fg_ring_watch_asked wait_for_more(struct fg_ring_watch *watch, int64_t wake_mono_ns)
{
    struct fg_ring_watch_asked asked;

    fg_thread_lock(&watch->thread);
    while (!watch->thread.stop && !watch->leave && !watch->pause && !watch->asked &&
           !watch->wishes && watch->wanted == 0 && watch->drained == 0)
        if (!fg_thread_sleep(&watch->thread, wake_mono_ns))
            break;
    asked = (struct fg_ring_watch_asked){.stop = watch->thread.stop,
                                         .leave = watch->leave,
                                         .pause = watch->pause,
                                         .pause_anyway = watch->pause_anyway,
                                         .wanted = watch->wanted,
                                         .drained = watch->drained,
                                         .generation = watch->generation,
                                         .wishes = watch->wishes,
                                         .wish = watch->wish};
    /* Taken over and reset in one section, so nothing that is asked for later gets lost. `stop`
     * stays set. */
    watch->leave = watch->pause = watch->asked = watch->wishes = false;
    watch->wanted = watch->drained = 0;
    fg_thread_unlock(&watch->thread);
    return asked;
}

static void watch_ring(void *arg)
{
    struct fg_ring_watch *watch = arg;
    struct fg_ring_follow_effects effects = {0};
    struct fg_ring_watch_asked asked = {0};

    do {
        bool begun = effects.read; /* at the end of the last one, for those who waited */
        int64_t wake_mono_ns;

        /* First the cores that may want to change the ring, then the read: they hand in their
         * wish for a read, and the ring that was read is shown to them. */
        if (watch->config.member != NULL)
            fg_ring_watch_tell_member(watch, &asked);
        fg_ring_watch_tell_widen(watch, &asked);
        fg_ring_watch_follow(watch, &asked, &effects);
        effects.read |= begun;
        if (effects.read)
            fg_ring_watch_read(watch, &effects);
        wake_mono_ns = FG_MIN(effects.wake_mono_ns, watch->member_wake_mono_ns);
        wake_mono_ns = effects.read ? 0 : FG_MIN(wake_mono_ns, watch->widen_wake_mono_ns);
        asked = wait_for_more(watch, wake_mono_ns);
    } while (!asked.stop);
}

/* ---- what never waits ---- */

struct fg_ring_view *fg_ring_watch_get(struct fg_ring_watch *watch)
{
    struct fg_ring_view *view;

    fg_thread_lock(&watch->thread);
    view = fg_ring_view_ref(watch->view);
    fg_thread_unlock(&watch->thread);
    return view;
}

uint64_t fg_ring_watch_revision(const struct fg_ring_watch *watch)
{
    return atomic_load(&watch->revision);
}

enum fg_ring_member_state fg_ring_watch_member_state(const struct fg_ring_watch *watch)
{
    return (enum fg_ring_member_state)atomic_load(&watch->member_state);
}

enum fg_ring_admission fg_ring_watch_admits(const struct fg_ring_watch *watch, uint64_t revision)
{
    /* Without the lock: this runs for each push, and again as the last check in the step that
     * inserts it (stale-ring-reject, read-first). */
    enum fg_ring_member_state state = fg_ring_watch_member_state(watch);
    uint64_t known = fg_ring_watch_revision(watch);

    if (state != FG_RING_MEMBER_ACTIVE && state != FG_RING_MEMBER_LEAVING)
        return FG_RING_ADMITS_NOTHING;
    if (revision == known)
        return FG_RING_ADMITS;
    return revision < known ? FG_RING_ADMITS_NOT_OLDER : FG_RING_ADMITS_NOT_YET;
}

void fg_ring_watch_look(struct fg_ring_watch *watch, uint64_t revision)
{
    fg_thread_lock(&watch->thread);
    if (revision == 0) {
        (void)request_read(watch);
    } else {
        watch->wanted = FG_MAX(watch->wanted, revision);
        fg_thread_wake(&watch->thread);
    }
    fg_thread_unlock(&watch->thread);
}

void fg_ring_watch_widen(struct fg_ring_watch *watch, struct fg_slice tenant, unsigned shard_factor)
{
    fg_assert(fg_ring_tenant_fault(tenant) == NULL);
    fg_thread_lock(&watch->thread);
    /* One wish at a time. The caller asks again while the service is too large, so a wish that
     * is dropped here is not lost. */
    if (!watch->widening) {
        watch->widening = watch->wishes = true;
        memcpy(watch->wish.tenant, tenant.ptr, tenant.len);
        watch->wish.tenant_len = tenant.len;
        watch->wish.shard_factor = shard_factor;
        fg_thread_wake(&watch->thread);
    }
    fg_thread_unlock(&watch->thread);
}

void fg_ring_watch_drained(struct fg_ring_watch *watch, uint64_t revision, uint64_t generation)
{
    fg_thread_lock(&watch->thread);
    watch->drained = FG_MAX(watch->drained, revision);
    /* Raised together under the lock: the ring must never say "drained" with an older
     * generation, or a reader would take too old a snapshot (as-drained). */
    watch->generation = FG_MAX(watch->generation, generation);
    fg_thread_wake(&watch->thread);
    fg_thread_unlock(&watch->thread);
}

void fg_ring_watch_leave(struct fg_ring_watch *watch)
{
    fg_thread_lock(&watch->thread);
    watch->leave = true;
    fg_thread_wake(&watch->thread);
    fg_thread_unlock(&watch->thread);
}

void fg_ring_watch_pause(struct fg_ring_watch *watch, bool anyway)
{
    fg_thread_lock(&watch->thread);
    watch->pause = true;
    watch->pause_anyway |= anyway;
    fg_thread_wake(&watch->thread);
    fg_thread_unlock(&watch->thread);
}

/* ---- what waits ---- */

/* Waits until something has changed. FG_E_CANCELED, FG_E_DEADLINE. With the lock held. */
enum fg_code fg_ring_watch_wait(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                struct fg_err *err)
{
    const struct timespec until = {deadline_mono_ns / FG_SECOND_NS,
                                   deadline_mono_ns % FG_SECOND_NS};

    /* After stop() nobody reads the ring any more, so the wait would last until its deadline. */
    if (watch->thread.stop)
        return fg_fail(err, FG_E_CANCELED, "the ring watch has stopped");
    if (pthread_cond_timedwait(&watch->moved, &watch->thread.lock, &until) == 0)
        return FG_OK;
    return fg_fail(err, FG_E_DEADLINE, "the ring was not read in time%s%s",
                   watch->err.code == FG_OK ? "" : ": ", watch->err.msg);
}

enum fg_code fg_ring_watch_until(struct fg_ring_watch *watch, uint64_t revision,
                                 int64_t deadline_mono_ns, struct fg_ring_view **ret_view,
                                 struct fg_err *err)
{
    enum fg_code code = FG_OK;

    fg_thread_lock(&watch->thread);
    while (code == FG_OK &&
           (watch->view == NULL || fg_ring_newest(&watch->view->ring) < revision)) {
        /* Again in each turn of the loop: a read that ends forgets what was wanted
         * (follow_core.c). */
        watch->wanted = FG_MAX(watch->wanted, revision);
        fg_thread_wake(&watch->thread);
        code = fg_ring_watch_wait(watch, deadline_mono_ns, err);
    }
    if (code == FG_OK)
        *ret_view = fg_ring_view_ref(watch->view);
    fg_thread_unlock(&watch->thread);
    return code;
}

/* Waits until a read that began after this call has ended (fresh-ring). With the lock held. */
static enum fg_code read_anew(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                              struct fg_err *err)
{
    uint64_t ticket = request_read(watch);
    enum fg_code code = FG_OK;

    while (code == FG_OK && watch->follow.ended_well < ticket) {
        /* Such a read has ended, and it failed: the caller is told why instead of waiting for
         * the next one. */
        if (watch->follow.ended >= ticket) {
            *err = watch->err;
            code = err->code;
        } else {
            code = fg_ring_watch_wait(watch, deadline_mono_ns, err);
        }
    }
    return code;
}

enum fg_code fg_ring_watch_fresh(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                 struct fg_ring_view **ret_view, struct fg_err *err)
{
    enum fg_code code;

    fg_thread_lock(&watch->thread);
    code = read_anew(watch, deadline_mono_ns, err);
    if (code == FG_OK)
        *ret_view = fg_ring_view_ref(watch->view);
    fg_thread_unlock(&watch->thread);
    return code;
}

enum fg_code fg_ring_watch_latest(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                  struct fg_ring_view **ret_view, int64_t *ret_age_ns,
                                  struct fg_err *ret_why)
{
    enum fg_code code;

    *ret_age_ns = 0;
    fg_thread_lock(&watch->thread);
    /* While the bucket is away each query would wait for its timeout; it takes the last ring at
     * once, and another read is asked for. */
    if (watch->view != NULL && watch->follow.failures > 0) {
        (void)request_read(watch);
        *ret_why = watch->err;
        code = ret_why->code;
    } else {
        code = read_anew(watch, deadline_mono_ns, ret_why);
    }
    if (code != FG_OK && code != FG_E_CANCELED && watch->view != NULL) {
        *ret_age_ns = FG_MAX(fg_ring_watch_now(watch) - watch->read_mono_ns, 1);
        code = FG_OK;
    }
    if (code == FG_OK)
        *ret_view = fg_ring_view_ref(watch->view);
    fg_thread_unlock(&watch->thread);
    return code;
}

/* ---- life ---- */

static void show_maintenance(struct fg_ring_watch *watch, const struct fg_ring *ring)
{
    int64_t oldest_wall_ns = INT64_MAX, n = 0, age_ns = 0;

    for (uint32_t i = 0; i < ring->n_members; i++) {
        if (!fg_ring_is_paused(ring, i))
            continue;
        n++;
        oldest_wall_ns = FG_MIN(oldest_wall_ns, ring->members[i].paused_wall_ns);
    }
    if (n > 0)
        /* At least a nanosecond: clocks of members differ, and 0 means that there is none. */
        age_ns = FG_MAX(fg_wall_ns(watch->config.clock) - oldest_wall_ns, 1);
    fg_metric_set(watch->metrics, WATCH_PAUSED, n);
    fg_metric_set_fraction(watch->metrics, WATCH_PAUSED_AGE, age_ns);
    fg_metric_set(watch->metrics, WATCH_OVERRIDES, (int64_t)FG_MIN(ring->overrides, INT64_MAX));
}

static void on_scrape(void *arg)
{
    struct fg_ring_watch *watch = arg;
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(watch);
    int64_t counts[3] = {0}, read_mono_ns;

    fg_metric_set(watch->metrics, WATCH_MEMBER, fg_ring_watch_member_state(watch));
    if (view == NULL)
        return;
    fg_thread_lock(&watch->thread);
    read_mono_ns = watch->read_mono_ns;
    fg_thread_unlock(&watch->thread);
    for (uint32_t i = 0; i < view->ring.n_members; i++)
        counts[fg_ring_state(&view->ring, i)]++;
    fg_metric_set(watch->metrics, WATCH_REVISION, (int64_t)fg_ring_newest(&view->ring));
    fg_metric_set(watch->metrics, WATCH_ACTIVE, counts[FG_RING_ACTIVE]);
    fg_metric_set(watch->metrics, WATCH_LEAVING, counts[FG_RING_LEAVING]);
    fg_metric_set(watch->metrics, WATCH_GONE, counts[FG_RING_GONE]);
    show_maintenance(watch, &view->ring);
    fg_metric_set(watch->metrics, WATCH_UNDRAINED,
                  view->ring.n_revisions == 0 ? 0 : view->ring.n_revisions - 1);
    fg_metric_set_fraction(watch->metrics, WATCH_AGE, fg_ring_watch_now(watch) - read_mono_ns);
}

enum fg_code fg_ring_watch_create(const struct fg_ring_watch_config *config,
                                  struct fg_ring_watch **ret_watch, struct fg_err *err)
{
    struct fg_ring_watch *watch;
    /* Jitter differs between processes that start together. */
    uint64_t seeds[3];

    if (config->member != NULL && fg_ring_watch_check_member(config->member, err) != FG_OK)
        return err->code;
    if (getrandom(seeds, sizeof seeds, 0) != sizeof seeds)
        return fg_fail(err, FG_E_UNAVAILABLE, "no random numbers");
    watch = fg_new(struct fg_ring_watch);
    watch->config = *config;
    watch->member_wake_mono_ns = watch->widen_wake_mono_ns = INT64_MAX;
    watch->object = (struct fg_ring_object){
        .bucket = config->bucket,
        .wave = fg_bucket_wave_create(),
        .clock = config->clock,
        .timeout_ns = REQUEST_TIMEOUT_NS,
    };
    fg_ring_follow_init(&watch->follow, &(struct fg_ring_follow_config){
                                            .poll_ns = config->poll_ns,
                                            .backoff_min_ns = FG_RING_WATCH_BACKOFF_MIN_NS,
                                            .backoff_max_ns = FG_RING_WATCH_BACKOFF_MAX_NS,
                                            .seed = seeds[0],
                                        });
    fg_ring_watch_init_widen(watch, seeds[2]);
    if (config->member != NULL)
        fg_ring_watch_init_member(watch, seeds[1]);
    fg_thread_init(&watch->thread);
    fg_cond_init(&watch->moved);
    watch->lost = fg_condition_create(config->conditions, "ring_lost");
    watch->unread = fg_condition_create(config->conditions, "ring_unread");
    watch->metrics = fg_metrics_register(config->registry, watch_metrics, FG_COUNT(watch_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, watch);
    *ret_watch = watch;
    return FG_OK;
}

enum fg_code fg_ring_watch_start(struct fg_ring_watch *watch, struct fg_err *err)
{
    return fg_thread_start(&watch->thread, "ring", watch_ring, watch, err);
}

void fg_ring_watch_stop(struct fg_ring_watch *watch)
{
    if (watch == NULL || !watch->thread.started)
        return;
    fg_thread_ask_to_stop(&watch->thread);
    fg_thread_lock(&watch->thread);
    /* Those who wait for the ring end with FG_E_CANCELED. */
    (void)pthread_cond_broadcast(&watch->moved);
    fg_thread_unlock(&watch->thread);
    /* Ends the request under way, for which the thread may wait ten seconds. */
    fg_bucket_wave_cancel(watch->object.wave);
    fg_thread_join(&watch->thread);
}

void fg_ring_watch_destroy(struct fg_ring_watch *watch)
{
    if (watch == NULL)
        return;
    fg_ring_watch_stop(watch);
    fg_bucket_wave_destroy(watch->object.wave);
    fg_condition_destroy(watch->lost);
    fg_condition_destroy(watch->unread);
    fg_ring_view_unref(watch->view);
    fg_ring_view_unref(watch->copy);
    (void)pthread_cond_destroy(&watch->moved);
    fg_thread_done(&watch->thread);
    free(watch);
}
