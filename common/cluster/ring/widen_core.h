/*
 * What a writer does to get a wider shard factor into the ring, before it uses it
 * (spread-before-use): a step core, event in, effects out. One tenant at a time.
 *
 *   IDLE --(WANT)--> LOOKING --(RING: it is narrower)--> SWAPPING --(SWAPPED)--> LOOKING
 *     ^                 |
 *     +--(RING: it is as wide)
 *
 * The answer to a swap is never believed: the ring is read again, and says.
 *
 * Thread: one at a time. No clock, no I/O, no memory but the arena that is handed in.
 */
#ifndef FG_COMMON_CLUSTER_RING_WIDEN_CORE_H
#define FG_COMMON_CLUSTER_RING_WIDEN_CORE_H

#include "common/base/time.h"
#include "common/cluster/ring/ring.h"

struct fg_ring_wish {
    char tenant[FG_RING_TENANT_MAX_BYTES];
    size_t tenant_len;
    unsigned shard_factor;
};

struct fg_ring_widen_config {
    int64_t backoff_min_ns, backoff_max_ns; /* after swaps that were not won */
    int64_t denied_ns; /* after one that the bucket does not let this writer make */
    uint64_t seed;     /* of their jitter */
    int64_t lead_ns;   /* so much later it begins: by then all writers have that ring */
};

struct fg_ring_widen {
    struct fg_ring_widen_config config;
    struct fg_ring_wish wish;
    bool idle, swapping;
    bool look; /* the ring is to be read, not before: */
    int64_t not_before_mono_ns;
    uint32_t failures;
    uint64_t random;
};

void fg_ring_widen_init(struct fg_ring_widen *widen, const struct fg_ring_widen_config *config);

enum fg_ring_widen_event_kind {
    FG_RING_WIDEN_TICK,    /* time has passed */
    FG_RING_WIDEN_WANT,    /* `wish`; only while idle */
    FG_RING_WIDEN_RING,    /* the ring was read; not while a swap is under way */
    FG_RING_WIDEN_SWAPPED, /* a swap has ended */
};

struct fg_ring_widen_event {
    enum fg_ring_widen_event_kind kind;
    int64_t mono_ns;
    int64_t wall_ns; /* RING: when it was read, by the bucket's clock where that has one */
    const struct fg_ring_wish *wish; /* WANT; its tenant is one by fg_ring_tenant_fault() */
    const struct fg_ring *ring;      /* RING */
    struct fg_arena *arena;          /* RING: what is to be swapped in is made in it */
    bool won;                        /* SWAPPED: as far as is known */
    bool denied;                     /* SWAPPED: the bucket does not let us */
};

struct fg_ring_widen_effects {
    bool read;            /* the ring, from the bucket, until it works; RING comes of it */
    bool swap;            /* `ring` onto the one that was handed in; SWAPPED comes of it */
    struct fg_ring ring;  /* in the arena of that event; borrows from the core */
    int64_t wake_mono_ns; /* a TICK is due then at the latest; INT64_MAX: not before an event */
};

void fg_ring_widen_step(struct fg_ring_widen *widen, const struct fg_ring_widen_event *event,
                        struct fg_ring_widen_effects *ret_effects);

#endif
