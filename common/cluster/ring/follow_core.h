/*
 * When to read the ring: the core of every program that keeps a copy. It reads the ring when the
 * copy is old; at once when somebody knows of a newer revision (an ingester that refused a write
 * says so), with pauses if that revision does not come; and at once for a reader that needs the
 * ring as it is now. One read at a time. While the bucket is unavailable, the copy stays in use and
 * reads are tried with pauses.
 *
 *   IDLE --(old, wanted, asked for)--> READING --(read, failed)--> IDLE
 *
 * An old copy does not harm writes: members with a newer one refuse them, and members without a
 * newer one are still asked by readers, since their revision has not drained. An old copy does harm
 * reads: it misses what was written under newer revisions if the owners that it asks do not know
 * these either. So readers use a ring that was read after their question arrived (a ticket).
 *
 * Thread: one at a time. No clock, no I/O.
 */
#ifndef FG_COMMON_CLUSTER_RING_FOLLOW_CORE_H
#define FG_COMMON_CLUSTER_RING_FOLLOW_CORE_H

#include "common/base/time.h"
#include "common/cluster/ring/ring.h"

struct fg_ring_follow_config {
    int64_t poll_ns;                        /* an older copy is read again */
    int64_t backoff_min_ns, backoff_max_ns; /* after failures, doubled, with full jitter */
    uint64_t seed;                          /* of the jitter */
};

struct fg_ring_follow {
    struct fg_ring_follow_config config;
    bool reading;
    uint64_t swaps, revision; /* of the copy */
    uint64_t wanted;          /* a newer revision that somebody knows of; 0: none */
    uint64_t ticket;          /* the greatest that was given out */
    uint64_t begun, ended;    /* numbers of reads */
    uint64_t ended_well;      /* the last read that succeeded; 0: there is no copy yet */
    uint64_t random;
    uint32_t failures;                       /* in a row */
    int64_t due_mono_ns, wanted_due_mono_ns; /* not earlier than then */
};

/* Initialises a core without a copy. */
void fg_ring_follow_init(struct fg_ring_follow *follow, const struct fg_ring_follow_config *config);

enum fg_ring_follow_event_kind {
    FG_RING_FOLLOW_TICK,   /* time has passed; also the first event */
    FG_RING_FOLLOW_WANTED, /* somebody knows of this revision */
    FG_RING_FOLLOW_READ,   /* the ring was read: its swaps and newest revision */
    FG_RING_FOLLOW_FAILED, /* the ring could not be read */
};

struct fg_ring_follow_event {
    enum fg_ring_follow_event_kind kind;
    int64_t mono_ns;
    uint64_t revision; /* WANTED, READ */
    uint64_t swaps;    /* READ */
};

struct fg_ring_follow_effects {
    bool read; /* read the ring now; then hand in READ or FAILED */
    /* After READ: the ring becomes the copy. False: it is older than the copy, so this is another
     * bucket or one from a backup; counts as a failure. */
    bool take;
    int64_t wake_mono_ns; /* hand in a TICK then at the latest; INT64_MAX: only after an event */
};

/* Takes an event and says what to do. */
void fg_ring_follow_step(struct fg_ring_follow *follow, const struct fg_ring_follow_event *event,
                         struct fg_ring_follow_effects *ret_effects);

/*
 * Returns the number of a read that begins after this call; a TICK starts it. It is over when
 * `ended` has reached the number, and the copy is that new if `ended_well` has reached it, too.
 */
uint64_t fg_ring_follow_ticket(struct fg_ring_follow *follow);

#endif
