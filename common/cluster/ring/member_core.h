/*
 * What an ingester does with its seat in the ring: a step core, event in, effects out.
 *
 *             in the newest revision        told to leave         done with all
 *   JOINING ------------------------> ACTIVE -------------> LEAVING ----------> LEFT
 *      ^                                 |
 *      +------- it was forgotten --------+      another store has the name: REPLACED
 *
 * It looks at every ring that is read, and wants of it: to be there, or to be out; and that what it
 * has drained is written down. Where the ring is not so it makes the change and swaps, and the
 * answer to a swap is never believed: the ring is read again, and says. So an answer that was lost,
 * a swap that is late, one that was undone by an operator, and a crash are one case.
 *
 * Draining. As soon as a newer revision is seen, the head is asked to commit all that it has
 * (`drain`): from then on it refuses older revisions, since the ring was published to it before.
 * When that is done DRAINED is handed in.
 *
 * Profiles may be taken while ACTIVE and LEAVING. Not before, since a restarted ingester could take
 * one under a revision that it has said it has drained, and one with an empty disk would stand for
 * what it has lost; and REPLACED and LEFT are the end. REPLACED is what two processes
 * with one name come to, or what an ingester finds that was believed dead; whoever joined last has
 * the seat.
 *
 * Thread: one at a time. No clock, no I/O, no memory but the arena that is handed in.
 */
#ifndef FG_COMMON_CLUSTER_RING_MEMBER_CORE_H
#define FG_COMMON_CLUSTER_RING_MEMBER_CORE_H

#include "common/base/time.h"
#include "common/cluster/ring/ring.h"

enum fg_ring_member_state {
    FG_RING_MEMBER_NONE, /* of a process that only follows; no core has it */
    FG_RING_MEMBER_JOINING,
    FG_RING_MEMBER_ACTIVE,
    FG_RING_MEMBER_LEAVING,
    FG_RING_MEMBER_LEFT,
    FG_RING_MEMBER_REPLACED,
};
const char *fg_ring_member_state_name(enum fg_ring_member_state state); /* "joining" */

struct fg_ring_member_config {
    struct fg_slice name, zone, address, http; /* borrowed; see ring.h */
    struct fg_id store;
    unsigned replicas;                      /* of a ring that nobody has made before */
    int64_t backoff_min_ns, backoff_max_ns; /* after swaps that were not won */
    uint64_t seed;                          /* of their jitter */
};

struct fg_ring_member_core {
    struct fg_ring_member_config config;
    enum fg_ring_member_state state;
    struct fg_err err; /* why it cannot join; FG_OK: nothing is wrong */
    bool seated;       /* the ring had this store in it, since the start */
    bool tried;        /* a swap was begun, onto the ring of so many: */
    uint64_t tried_swaps;
    bool swapping;
    bool look; /* the ring is to be read, not before: */
    int64_t not_before_mono_ns;
    uint64_t draining, drained; /* revisions: what the head was asked for, what it has done */
    uint64_t generation;        /* ... at which */
    uint32_t failures;
    uint64_t random;
};

/* Begins with JOINING, and waits for the first RING. */
void fg_ring_member_init(struct fg_ring_member_core *member,
                         const struct fg_ring_member_config *config);

enum fg_ring_member_event_kind {
    FG_RING_MEMBER_TICK,    /* time has passed */
    FG_RING_MEMBER_LEAVE,   /* told to leave, for good */
    FG_RING_MEMBER_RING,    /* the ring was read; not while a swap is under way */
    FG_RING_MEMBER_DRAINED, /* all that came under revisions below this one is committed */
    FG_RING_MEMBER_SWAPPED, /* a swap has ended */
};

struct fg_ring_member_event {
    enum fg_ring_member_event_kind kind;
    int64_t mono_ns, wall_ns;
    const struct fg_ring *ring; /* RING */
    struct fg_arena *arena;     /* RING: what is to be swapped in is made in it */
    uint64_t revision;          /* DRAINED */
    uint64_t generation;        /* DRAINED: at which, or before, it was (ring.h) */
    bool won;                   /* SWAPPED: as far as is known */
};

struct fg_ring_member_effects {
    bool read;            /* the ring, from the bucket, until it works; RING comes of it */
    bool swap;            /* `ring` onto the one that was handed in; SWAPPED comes of it */
    struct fg_ring ring;  /* in the arena of that event */
    uint64_t drain;       /* not 0: commit all that came under revisions below; DRAINED */
    int64_t wake_mono_ns; /* a TICK is due then at the latest; INT64_MAX: not before an event */
};

void fg_ring_member_step(struct fg_ring_member_core *member,
                         const struct fg_ring_member_event *event,
                         struct fg_ring_member_effects *ret_effects);

#endif
