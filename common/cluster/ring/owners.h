/*
 * Which members own a shard under a revision: rendezvous hashing (highest random weight, Thaler and
 * Ravishankar 1998). Every member draws a number for each shard, from its name alone; the highest
 * win. So all who know a revision find the same owners, and who joins or leaves moves nothing but
 * what is its own: of each shard's owners one is replaced, or none.
 *
 * Zones: of each zone the member that drew highest stands, and of those the highest are the owners,
 * as many as there are replicas, in this order. Where there are fewer zones than replicas the other
 * places go to the highest of all that are left. So the loss of a zone takes one owner of a shard,
 * while there are as many zones as replicas.
 *
 * Balance: with zones of equal size each of n members owns replicas / n of the 65,536 shards, give
 * or take 6 standard deviations of a binomial distribution (at n = 12 and 3 replicas 16,384 of them
 * give or take 4 %, at n = 300 655 give or take 24 %), and one that joins takes 1 / n of what is
 * owned. A zone with fewer members than others loads each of them more: with as many zones as
 * replicas, each zone has every shard once.
 *
 * The numbers drawn are part of what members agree on, as the bytes of the ring are: another way to
 * draw is another version of the ring.
 *
 * Thread: any; no state.
 */
#ifndef FG_COMMON_CLUSTER_RING_OWNERS_H
#define FG_COMMON_CLUSTER_RING_OWNERS_H

#include "common/cluster/ring/ring.h"

enum { FG_RING_SHARDS = 65536 };

/*
 * The owners of all shards under one revision, 393 kB. Shared by counting, never changed: a
 * revision is for good, whatever becomes of the ring around it.
 */
struct fg_ring_table {
    _Atomic uint32_t refs;
    uint64_t revision;
    unsigned replicas;
    unsigned n_owners;                                     /* of every shard */
    uint16_t owners[FG_RING_SHARDS][FG_RING_REPLICAS_MAX]; /* numbers in its places[] */
};

/* Some 30 ms of CPU for a hundred members, 180 for a thousand. The caller's reference. */
struct fg_ring_table *fg_ring_table_create(const struct fg_ring *ring,
                                           const struct fg_ring_revision *revision);
struct fg_ring_table *fg_ring_table_ref(struct fg_ring_table *table);
void fg_ring_table_unref(struct fg_ring_table *table); /* NULL is fine */

#endif
