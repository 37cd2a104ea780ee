/*
 * Decides which members own a shard under a revision, by rendezvous hashing
 * (common/cluster/membership/rendezvous.h): every member draws a number for each shard from its
 * name alone, and the highest numbers win. So everybody who knows a revision finds the same owners,
 * and a member that joins or leaves replaces at most one owner of a shard.
 *
 * Zones: of each zone only the member with the highest number takes part; among these the highest
 * ones are the owners, as many as there are replicas, in this order. If there are fewer zones than
 * replicas, the highest of all remaining members take the other places. So the loss of a zone takes
 * one owner of a shard, as long as there are as many zones as replicas.
 *
 * Balance: with zones of equal size each of n members owns replicas / n of the 65,536 shards,
 * within 6 standard deviations of a binomial distribution (n = 12 and 3 replicas: 16,384 shards
 * within 4 %; n = 300: 655 within 24 %), and a member that joins takes 1 / n of all ownership. A
 * zone with fewer members loads each of them more: with as many zones as replicas, each zone has
 * every shard once.
 *
 * Members agree on the owners and stored profiles are placed by them, so the drawn numbers never
 * change; another draw would be another version of the ring.
 *
 * Thread: any; no state.
 */
#ifndef FG_COMMON_CLUSTER_RING_OWNERS_H
#define FG_COMMON_CLUSTER_RING_OWNERS_H

#include "common/cluster/ring/ring.h"

enum { FG_RING_SHARDS = 65536 };

/* The owners of all shards under one revision, 524 kB. Shared by counting and never changed, as a
 * revision never changes. */
struct fg_ring_table {
    _Atomic uint32_t refs;
    uint64_t revision;
    unsigned replicas;
    unsigned n_owners;                                     /* of every shard */
    uint16_t owners[FG_RING_SHARDS][FG_RING_REPLICAS_MAX]; /* numbers in its places[] */
    /* Of the shards that have the same owners in the same order the first one, ascending: a few
     * for a few members, which saves readers of the whole ring to look at each shard. */
    uint16_t distinct[FG_RING_SHARDS];
    uint32_t n_distinct;
};

/* Computes the table: 30 ms of CPU for a hundred members, 180 ms for a thousand. Returns the
 * caller's reference. */
struct fg_ring_table *fg_ring_table_create(const struct fg_ring *ring,
                                           const struct fg_ring_revision *revision);
/* Adds a reference; returns the table. */
struct fg_ring_table *fg_ring_table_ref(struct fg_ring_table *table);
/* Releases a reference. Accepts NULL. */
void fg_ring_table_unref(struct fg_ring_table *table);

#endif
