/*
 * Raising a tenant's shard factor in the ring, which a writer does before it uses it
 * (spread-before-use): a step core. One tenant at a time.
 *
 *   IDLE --(WANT)--> LOOKING --(RING: its factor is smaller)--> SWAPPING --(SWAPPED)--> LOOKING
 *     ^                 |
 *     +--(RING: its factor is as great)
 *
 * The answer to a swap is never believed; the ring is read again instead.
 *
 * Thread: one at a time. No clock, no I/O, no memory except the arena that is handed in.
 */
#ifndef FG_COMMON_CLUSTER_RING_WIDEN_CORE_H
#define FG_COMMON_CLUSTER_RING_WIDEN_CORE_H

#include "common/base/time.h"
#include "common/cluster/ring/ring.h"

/* The shard factor that a writer wants for a tenant. */
struct fg_ring_wish {
    char tenant[FG_RING_TENANT_MAX_BYTES];
    size_t tenant_len;
    unsigned shard_factor;
};

struct fg_ring_widen_config {
    int64_t backoff_min_ns, backoff_max_ns; /* pauses after lost swaps */
    int64_t denied_ns;                      /* pause after the bucket has denied a swap */
    uint64_t seed;                          /* of their jitter */
    int64_t lead_ns; /* how far ahead the factor begins: by then all writers have that ring */
};

struct fg_ring_widen {
    struct fg_ring_widen_config config;
    struct fg_ring_wish wish;
    bool idle, swapping;
    bool look; /* read the ring, but not before: */
    int64_t not_before_mono_ns;
    uint32_t failures;
    uint64_t random;
};

/* Initialises an idle core. */
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
    int64_t wall_ns; /* RING: when it was read, by the bucket's clock if it has one */
    const struct fg_ring_wish *wish; /* WANT; its tenant is valid by fg_ring_tenant_fault() */
    const struct fg_ring *ring;      /* RING */
    struct fg_arena *arena;          /* RING: what is to be swapped in is made in it */
    bool won;                        /* SWAPPED: according to the bucket's answer */
    bool denied;                     /* SWAPPED: the bucket denied it */
};

struct fg_ring_widen_effects {
    bool read;            /* read the ring, with retries; then hand in RING */
    bool swap;            /* replace the ring that was handed in by `ring`; then SWAPPED */
    struct fg_ring ring;  /* in the arena of that event; borrows from the core */
    int64_t wake_mono_ns; /* hand in a TICK then at the latest; INT64_MAX: only after an event */
};

/* Takes an event and says what to do. */
void fg_ring_widen_step(struct fg_ring_widen *widen, const struct fg_ring_widen_event *event,
                        struct fg_ring_widen_effects *ret_effects);

#endif
