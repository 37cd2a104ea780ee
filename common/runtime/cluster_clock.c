#include "common/runtime/cluster_clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Clocks that are kept in step differ by less, and no limit on times of profiles is as narrow. */
static const int64_t OFF_NS = 30 * FG_SECOND_NS;
/* Largest difference of two responses that agree: their times are whole seconds, and both took a
 * while to arrive. */
static const int64_t AGREE_NS = 15 * FG_SECOND_NS;
/* A response that took longer is ignored: its time is too old. */
static const int64_t TRIP_MAX_NS = 10 * FG_SECOND_NS;

#define CLOCK_METRICS(M)                                                                           \
    M(GAUGE, CLOCK_OFFSET, "flamegrid_clock_offset_seconds",                                       \
      "Clock of the object store minus the clock of this machine, as of the last response; 0 if "  \
      "unknown")
FG_METRICS_ENUM(clock_metric, CLOCK_METRICS)
FG_METRICS_TABLE(clock_metrics, CLOCK_METRICS)

struct fg_cluster_clock {
    struct fg_clock cluster, earlier; /* as which it is asked */
    struct fg_clock *own;
    struct fg_metrics *metrics;
    struct fg_condition *off;
    _Atomic int64_t correction_ns; /* 0: ours is right */

    pthread_mutex_t lock; /* of the two below, since any bucket call reports a time */
    bool is_known;
    int64_t last_ns; /* what was heard last */
};

static int64_t cluster_wall_ns(struct fg_clock *clock)
{
    struct fg_cluster_clock *cluster = fg_container(clock, struct fg_cluster_clock, cluster);

    return fg_time_add(fg_wall_ns(cluster->own), atomic_load(&cluster->correction_ns));
}

/* Durations are never corrected. */
static int64_t cluster_mono_ns(struct fg_clock *clock)
{
    return fg_mono_ns(fg_container(clock, struct fg_cluster_clock, cluster)->own);
}

/* The earlier of both times, for deletions by age: whichever clock is wrong, nothing is deleted
 * too early. */
static int64_t earlier_wall_ns(struct fg_clock *clock)
{
    struct fg_cluster_clock *cluster = fg_container(clock, struct fg_cluster_clock, earlier);

    return fg_time_add(fg_wall_ns(cluster->own), FG_MIN(atomic_load(&cluster->correction_ns), 0));
}

static int64_t earlier_mono_ns(struct fg_clock *clock)
{
    return fg_mono_ns(fg_container(clock, struct fg_cluster_clock, earlier)->own);
}

struct fg_cluster_clock *fg_cluster_clock_create(struct fg_clock *own, struct fg_registry *registry,
                                                 struct fg_conditions *conditions)
{
    static const struct fg_clock_ops cluster_ops = {cluster_wall_ns, cluster_mono_ns};
    static const struct fg_clock_ops earlier_ops = {earlier_wall_ns, earlier_mono_ns};
    struct fg_cluster_clock *cluster = fg_new(struct fg_cluster_clock);

    cluster->cluster.ops = &cluster_ops;
    cluster->earlier.ops = &earlier_ops;
    cluster->own = own;
    cluster->metrics = fg_metrics_register(registry, clock_metrics, FG_COUNT(clock_metrics));
    cluster->off = fg_condition_create(conditions, "clock_off");
    (void)pthread_mutex_init(&cluster->lock, NULL);
    return cluster;
}

void fg_cluster_clock_destroy(struct fg_cluster_clock *cluster)
{
    if (cluster == NULL)
        return;
    fg_condition_destroy(cluster->off);
    (void)pthread_mutex_destroy(&cluster->lock);
    free(cluster);
}

struct fg_clock *fg_cluster_clock(struct fg_cluster_clock *cluster)
{
    return &cluster->cluster;
}

struct fg_clock *fg_cluster_clock_earlier(struct fg_cluster_clock *cluster)
{
    return &cluster->earlier;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Follows the clock of the object store, but only if two responses in a row agree: one that was
 * delayed must not move the clock. With the lock held. */
static void correct(struct fg_cluster_clock *cluster, int64_t offset_ns)
{
    int64_t before_ns = atomic_load(&cluster->correction_ns);

    if (distance(offset_ns, 0) < OFF_NS) {
        atomic_store(&cluster->correction_ns, 0);
        fg_condition_clear(cluster->off);
        return;
    }
    if (!cluster->is_known || distance(offset_ns, cluster->last_ns) > AGREE_NS)
        return;
    if (before_ns != 0 && distance(offset_ns, before_ns) <= AGREE_NS)
        return; /* whole seconds: it would go to and fro */
    atomic_store(&cluster->correction_ns, offset_ns);
    fg_condition_raise(cluster->off,
                       "the clock of this machine is %lld s %s the clock of the object store, "
                       "which is used instead",
                       (long long)(distance(offset_ns, 0) / FG_SECOND_NS),
                       offset_ns > 0 ? "behind" : "ahead of");
}

void fg_cluster_clock_heard(struct fg_cluster_clock *cluster, int64_t wall_ns, int64_t sent_mono_ns)
{
    int64_t trip_ns, offset_ns;

    if (cluster == NULL)
        return;
    trip_ns = fg_mono_ns(cluster->own) - sent_mono_ns;
    if (trip_ns < 0 || trip_ns > TRIP_MAX_NS)
        return;
    /* In the middle of its second, and of the trip. */
    if (__builtin_sub_overflow(wall_ns + FG_SECOND_NS / 2 + trip_ns / 2, fg_wall_ns(cluster->own),
                               &offset_ns))
        return;
    (void)pthread_mutex_lock(&cluster->lock);
    correct(cluster, offset_ns);
    cluster->last_ns = offset_ns;
    cluster->is_known = true;
    (void)pthread_mutex_unlock(&cluster->lock);
    fg_metric_set(cluster->metrics, CLOCK_OFFSET, offset_ns / FG_SECOND_NS);
}
