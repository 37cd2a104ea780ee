/*
 * When to read the ring: the step core of everyone who keeps a copy of it. It is read when the copy
 * is old, at once when somebody knows of a newer revision (an ingester that refused a write says
 * so; with a pause where that one did not come), and at once for a reader that needs it as it is
 * now. One read at a time; while the bucket is away the copy serves on, and reads are tried with
 * pauses.
 *
 *   IDLE --(old, wanted, asked for)--> READING --(read, failed)--> IDLE
 *
 * A copy that is old harms no write: who knows better refuses it, and who does not is asked by
 * readers, since his revision has not drained. A reader with an old copy does miss what was written
 * under newer revisions, where those he asks do not know of them either; so readers ask for a ring
 * that was read after their question came (a ticket).
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
    uint64_t wanted;          /* a revision that somebody knows of; 0: none */
    uint64_t ticket;          /* the greatest that was given */
    uint64_t begun, ended;    /* reads, counted */
    uint64_t ended_well;      /* the last that did not fail; 0: there is no copy yet */
    uint64_t random;
    uint32_t failures;                       /* in a row */
    int64_t due_mono_ns, wanted_due_mono_ns; /* not earlier than then */
};

void fg_ring_follow_init(struct fg_ring_follow *follow, const struct fg_ring_follow_config *config);

enum fg_ring_follow_event_kind {
    FG_RING_FOLLOW_TICK,   /* time has passed; also to begin with */
    FG_RING_FOLLOW_WANTED, /* somebody knows of this revision */
    FG_RING_FOLLOW_READ,   /* the ring as it is: its swaps and newest revision */
    FG_RING_FOLLOW_FAILED, /* it could not be read */
};

struct fg_ring_follow_event {
    enum fg_ring_follow_event_kind kind;
    int64_t mono_ns;
    uint64_t revision; /* WANTED, READ */
    uint64_t swaps;    /* READ */
};

struct fg_ring_follow_effects {
    bool read; /* the ring, now; READ or FAILED comes of it */
    /* READ: it is the copy from now on. Else it is older than the copy, as in another bucket or one
     * from a backup; that counts as a failure. */
    bool take;
    int64_t wake_mono_ns; /* a TICK is due then at the latest; INT64_MAX: not before an event */
};

void fg_ring_follow_step(struct fg_ring_follow *follow, const struct fg_ring_follow_event *event,
                         struct fg_ring_follow_effects *ret_effects);

/*
 * The number of a read that begins after this call: when `ended` is not less it is over, and the
 * copy is as new as that if `ended_well` is not less either. A TICK begins it.
 */
uint64_t fg_ring_follow_ticket(struct fg_ring_follow *follow);

#endif
