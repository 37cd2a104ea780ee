/*
 * An ingester as a member of the ring: the core of its way in and out. A step core: event in,
 * effects out; the watch (watch.h) carries the effects out.
 *
 *             in the newest revision        told to leave         done with all
 *   JOINING ------------------------> ACTIVE -------------> LEAVING ----------> LEFT
 *      ^                                 |
 *      +------- it was forgotten --------+      another store has the name: REPLACED
 *
 * It checks every ring that is read: the member has to be in it, or out of it if it leaves, and
 * what it has drained has to be written there. If the ring differs, the core makes the change and
 * swaps. The answer to a swap is never believed; the ring is read again instead. So a lost answer,
 * a late swap, a change that an operator undid, and a crash are one case.
 *
 * Draining: as soon as it sees a newer revision, the core asks the head to commit all that it has
 * (`drain`). From then on the head refuses older revisions, because the ring was published to it
 * before. When the commit is done, DRAINED is handed in.
 *
 * Maintenance: a member that is to stop for a while asks for it first (PAUSE). It goes on serving
 * until a ring that was read has it in maintenance (`paused`); only then may it stop. While another
 * member is in maintenance, it looks again every second. How long it waits, its owner decides: with
 * PAUSE and `anyway` it goes whoever is in maintenance. After the restart the core ends the
 * maintenance as soon as the member has been ready for RESUME_AFTER_NS.
 *
 * The ingester may take profiles while ACTIVE and LEAVING only. Earlier, a restarted ingester could
 * take one under a revision that it has drained already, and one with an empty disk would stand for
 * what it has lost. REPLACED and LEFT are final. REPLACED happens if two processes have one name,
 * or if an ingester that was given up comes back; the store that joined last keeps the name.
 *
 * Thread: one at a time. No clock, no I/O, no memory except the arena that is handed in.
 */
#ifndef FG_COMMON_CLUSTER_RING_MEMBER_CORE_H
#define FG_COMMON_CLUSTER_RING_MEMBER_CORE_H

#include "common/base/time.h"
#include "common/cluster/ring/ring.h"

enum fg_ring_member_state {
    FG_RING_MEMBER_NONE, /* the process only follows the ring; no core has this state */
    FG_RING_MEMBER_JOINING,
    FG_RING_MEMBER_ACTIVE,
    FG_RING_MEMBER_LEAVING,
    FG_RING_MEMBER_LEFT,
    FG_RING_MEMBER_REPLACED,
};
/* Returns the state as a word, such as "joining". */
const char *fg_ring_member_state_name(enum fg_ring_member_state state);

struct fg_ring_member_config {
    struct fg_slice name, zone, address, http; /* borrowed; see ring.h */
    struct fg_id store;
    unsigned replicas;                      /* of the ring, if this is its first member */
    int64_t backoff_min_ns, backoff_max_ns; /* pauses after lost swaps */
    uint64_t seed;                          /* of their jitter */
};

struct fg_ring_member_core {
    struct fg_ring_member_config config;
    enum fg_ring_member_state state;
    struct fg_err err;     /* why it cannot join; code FG_OK: nothing is wrong */
    bool pausing;          /* told to go into maintenance, */
    bool anyway;           /* whoever else is in it */
    bool paused;           /* the last ring that was read has it in maintenance, as it was told */
    bool is_ready;         /* as of the last ring, */
    int64_t ready_mono_ns; /* since then */
    bool was_member;       /* a ring that was read since the start had this store in it */
    bool tried;            /* a swap was begun, */
    uint64_t tried_swaps;  /* onto the ring with this number of swaps */
    bool swapping;
    bool look; /* read the ring, but not before: */
    int64_t not_before_mono_ns;
    uint64_t draining, drained; /* revisions: asked of the head, and done by it */
    uint64_t generation;        /* at which `drained` was committed */
    uint32_t failures;
    uint64_t random;
};

/* Initialises a core in state JOINING, which waits for the first RING. */
void fg_ring_member_init(struct fg_ring_member_core *member,
                         const struct fg_ring_member_config *config);

enum fg_ring_member_event_kind {
    FG_RING_MEMBER_TICK,    /* time has passed */
    FG_RING_MEMBER_LEAVE,   /* told to leave, for good */
    FG_RING_MEMBER_PAUSE,   /* told to go into maintenance */
    FG_RING_MEMBER_RING,    /* the ring was read; not while a swap is under way */
    FG_RING_MEMBER_DRAINED, /* all that came under revisions below this one is committed */
    FG_RING_MEMBER_SWAPPED, /* a swap has ended */
};

struct fg_ring_member_event {
    enum fg_ring_member_event_kind kind;
    int64_t mono_ns, wall_ns;
    const struct fg_ring *ring; /* RING */
    struct fg_arena *arena;     /* RING: what is to be swapped in is made in it */
    bool ready;                 /* RING: the member serves all that is asked of it */
    bool anyway;                /* PAUSE */
    uint64_t revision;          /* DRAINED */
    uint64_t generation;        /* DRAINED: at which, or before, it was (ring.h) */
    bool won;                   /* SWAPPED: according to the bucket's answer */
};

struct fg_ring_member_effects {
    bool read;            /* read the ring, with retries; then hand in RING */
    bool swap;            /* replace the ring that was handed in by `ring`; then SWAPPED */
    struct fg_ring ring;  /* in the arena of that event */
    uint64_t drain;       /* not 0: commit all that came under revisions below; then DRAINED */
    int64_t wake_mono_ns; /* hand in a TICK then at the latest; INT64_MAX: only after an event */
};

/* Takes an event and says what to do. */
void fg_ring_member_step(struct fg_ring_member_core *member,
                         const struct fg_ring_member_event *event,
                         struct fg_ring_member_effects *ret_effects);

#endif
