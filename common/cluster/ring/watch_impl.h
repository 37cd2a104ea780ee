/*
 * What the files of the watch (watch.h) share; nobody else includes it.
 *
 *     watch.c    the thread, and the functions for callers
 *     follow.c   reads the ring and puts it back if it was lost: the shell of follow_core.h
 *     member.c   joins and leaves the ring: the shell of member_core.h
 *     widen.c    raises shard factors: the shell of widen_core.h
 */
#ifndef FG_COMMON_CLUSTER_RING_WATCH_IMPL_H
#define FG_COMMON_CLUSTER_RING_WATCH_IMPL_H

#include "common/cluster/ring/follow_core.h"
#include "common/cluster/ring/object.h"
#include "common/cluster/ring/watch.h"
#include "common/runtime/thread.h"

#include <stdatomic.h>

/* Pauses after failed reads and lost swaps, doubled in between. */
#define FG_RING_WATCH_BACKOFF_MIN_NS (100 * FG_MS_NS)
#define FG_RING_WATCH_BACKOFF_MAX_NS (10 * FG_SECOND_NS)

/* clang-format off */
#define WATCH_METRICS(M)                                                                           \
    M(GAUGE, WATCH_REVISION, "flamegrid_ring_revision", "Newest ring revision that this process has read") \
    M(GAUGE, WATCH_ACTIVE, "flamegrid_ring_members{state=\"active\"}", "Ring members by state")    \
    M(GAUGE, WATCH_LEAVING, "flamegrid_ring_members{state=\"leaving\"}", "Ring members by state")  \
    M(GAUGE, WATCH_GONE, "flamegrid_ring_members{state=\"gone\"}", "Ring members by state")        \
    M(GAUGE, WATCH_PAUSED, "flamegrid_ring_members_in_maintenance", "Ring members that have stopped for a while, such as for an update, and are not back yet") \
    M(FRACTION, WATCH_PAUSED_AGE, "flamegrid_ring_maintenance_seconds", "Age of the oldest maintenance of a ring member; 0 if no member is in maintenance") \
    M(GAUGE, WATCH_OVERRIDES, "flamegrid_ring_maintenance_overrides", "Members that have stopped while another one was in maintenance, because they had waited for ring.maintenance_wait; since the ring was created") \
    M(GAUGE, WATCH_UNDRAINED, "flamegrid_ring_undrained_revisions", "Older ring revisions whose owners queries still ask") \
    M(FRACTION, WATCH_AGE, "flamegrid_ring_age_seconds", "Time since the last successful read of the ring") \
    M(GAUGE, WATCH_DENIED, "flamegrid_ring_update_denied", "1 if the bucket denied the last ring update") \
    M(GAUGE, WATCH_MEMBER, "flamegrid_ring_member_state", "State of this member in the ring: 0 none, 1 joining, 2 active, 3 leaving, 4 left, 5 replaced") \
    M(COUNTER, WATCH_READS, "flamegrid_ring_reads_total", "Reads of the ring")                     \
    M(COUNTER, WATCH_READ_FAILURES, "flamegrid_ring_read_failures_total", "Failed reads of the ring") \
    M(COUNTER, WATCH_PUT_BACK, "flamegrid_ring_restores_total", "Lost, damaged or outdated rings that this process replaced with its copy") \
    M(COUNTER, WATCH_SWAPS, "flamegrid_ring_updates_total", "Attempted ring updates")                \
    M(COUNTER, WATCH_SWAPS_LOST, "flamegrid_ring_update_failures_total", "Ring updates that failed or whose outcome is unknown")
/* clang-format on */
FG_METRICS_ENUM(watch_metric, WATCH_METRICS)

struct fg_ring_watch {
    struct fg_ring_watch_config config;
    struct fg_ring_watch_member member_config;
    struct fg_ring_object object;
    struct fg_metrics *metrics;
    struct fg_thread thread; /* its lock is of the fields below, and never held for I/O */
    pthread_cond_t moved;    /* those who wait */
    /* What is asked for. */
    bool leave, asked;
    bool pause, pause_anyway;
    uint64_t wanted, drained; /* revisions */
    uint64_t generation;      /* at which that was drained */
    bool widening, wishes;    /* there is a wish; it was not taken over yet */
    struct fg_ring_wish wish;
    /* What there is. */
    struct fg_ring_view *view; /* NULL: not read yet */
    struct fg_ring_follow follow;
    struct fg_err err; /* of the last read, if it failed */
    int64_t read_mono_ns;

    _Atomic uint64_t revision;
    _Atomic unsigned member_state; /* enum fg_ring_member_state */
    _Atomic bool member_paused;

    /* The thread's own. */
    struct fg_ring_view *copy; /* what was read last; `view` but while it is taken over */
    struct fg_ring_member_core member;
    int64_t member_wake_mono_ns;
    struct fg_ring_widen widen;
    int64_t widen_wake_mono_ns;
    struct fg_ring_read read; /* the last one */
    uint64_t n_reads;
    struct fg_bucket_etag damaged; /* of the object that the last reads found to be no ring */
    unsigned n_damaged;            /* these reads */
    bool denied;                   /* the last swap */
    int64_t hold_mono_ns;          /* the ring is not changed before then */
    struct fg_condition *lost, *unread;
};

/* What callers have asked for since the last pass of the thread. */
struct fg_ring_watch_asked {
    bool stop, leave, pause, pause_anyway;
    uint64_t wanted, drained, generation;
    bool wishes;
    struct fg_ring_wish wish;
};

static inline int64_t fg_ring_watch_now(const struct fg_ring_watch *watch)
{
    return fg_mono_ns(watch->config.clock);
}

/* Everything below is called on the watch's thread, if it does not say otherwise. */

/* ---- watch.c ---- */

/* Makes the thread read the ring in its next pass. */
void fg_ring_watch_ask_to_read(struct fg_ring_watch *watch);

/* Replaces the ring that was read last. Logs and counts what came of it. Returns FG_OK if the
 * bucket says that the swap was won. */
enum fg_code fg_ring_watch_swap(struct fg_ring_watch *watch, const struct fg_ring *ring);

/* Waits until something has changed; any thread, under the lock. FG_E_CANCELED, FG_E_DEADLINE. */
enum fg_code fg_ring_watch_wait(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                struct fg_err *err);

/* ---- follow.c ---- */

/* Asks the core if the ring should be read now. */
void fg_ring_watch_follow(struct fg_ring_watch *watch, const struct fg_ring_watch_asked *asked,
                          struct fg_ring_follow_effects *effects);

/* Reads the ring and tells everybody. *effects: what to do next. */
void fg_ring_watch_read(struct fg_ring_watch *watch, struct fg_ring_follow_effects *effects);

/* ---- member.c ---- */

/* Checks the fields of a member. FG_E_INVALID. Any thread. */
enum fg_code fg_ring_watch_check_member(const struct fg_ring_watch_member *member,
                                        struct fg_err *err) fg_must_check;
/* Initialises the member's core, during create. */
void fg_ring_watch_init_member(struct fg_ring_watch *watch, uint64_t seed);
/* Hands what callers have asked for, and the time, to the core. */
void fg_ring_watch_tell_member(struct fg_ring_watch *watch,
                               const struct fg_ring_watch_asked *asked);
/* Hands the ring that was read to the core. */
void fg_ring_watch_show_member(struct fg_ring_watch *watch);

/* ---- widen.c ---- */

/* Initialises the core, during create. */
void fg_ring_watch_init_widen(struct fg_ring_watch *watch, uint64_t seed);
/* Hands a wish, or the time, to the core. */
void fg_ring_watch_tell_widen(struct fg_ring_watch *watch, const struct fg_ring_watch_asked *asked);
/* Hands the ring that was read to the core. */
void fg_ring_watch_show_widen(struct fg_ring_watch *watch);

#endif
