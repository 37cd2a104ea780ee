/*
 * The read set: which members a reader of some shards has to ask, and whether it has heard enough
 * of them. Of every shard, under every revision that has not drained (ring-history), as many owners
 * as it takes to hear one that has what was acknowledged (quorum-read).
 *
 * An owner that has drained the revision counts as heard: what came to it is committed. So the
 * snapshot of manifests that goes with it is of ring.generation at least (as-drained); a reader
 * that keeps to this, and whose ring is not older than its question (fg_ring_watch_fresh()), misses
 * nothing. One that has lost the revision never counts; where so many have lost it that the quorum
 * cannot be had any more all that are left are asked: more is not to be had from anyone.
 *
 * An answer counts only from the store that the view names: a member that was wiped after the ring
 * was read answers too, with nothing. So a request says which store it means, and an ingester with
 * another one refuses; then the reader takes a fresh ring and starts over.
 *
 * Cost: some 10 ns for each shard and revision that is looked at, in each call but avoid, heard,
 * failed and count.
 *
 * A pure value: whom to ask, what came of it. Thread: one at a time.
 */
#ifndef FG_COMMON_CLUSTER_RING_READS_CORE_H
#define FG_COMMON_CLUSTER_RING_READS_CORE_H

#include "common/base/bits.h"
#include "common/cluster/ring/view.h"

enum { FG_RING_READS_WORDS = FG_BITS_WORDS(FG_RING_MEMBERS_MAX) };

struct fg_ring_reads {
    const struct fg_ring_view *view; /* borrowed */
    uint16_t first, last;            /* shards, inclusive */
    uint64_t asked[FG_RING_READS_WORDS], heard[FG_RING_READS_WORDS];
    uint64_t failed[FG_RING_READS_WORDS]; /* bits by member */
};

/* Nobody is asked yet. */
void fg_ring_reads_init(struct fg_ring_reads *reads, const struct fg_ring_view *view,
                        uint16_t first, uint16_t last);

/*
 * Whom to ask (more), so that it is enough if all who were asked answer: numbers of members into
 * members[], how many returned; they count as asked. Owners that were asked serve for all shards
 * they own. turn: another number prefers other owners, to spread the load of readers.
 *
 * Called at first, and again after some failed. 0: nobody; then either those that were asked are
 * enough, or fg_ring_reads_is_hopeless().
 */
uint32_t fg_ring_reads_ask(struct fg_ring_reads *reads, uint32_t turn,
                           uint32_t members[FG_RING_MEMBERS_MAX]);

/* Do not ask this one, before anybody was: as if it had failed already. */
void fg_ring_reads_avoid(struct fg_ring_reads *reads, uint32_t member);

/* What became of one that was asked. */
void fg_ring_reads_heard(struct fg_ring_reads *reads, uint32_t member);
void fg_ring_reads_failed(struct fg_ring_reads *reads, uint32_t member);

/* The answers that are there are enough. */
bool fg_ring_reads_is_enough(const struct fg_ring_reads *reads);

/* So many failed that it cannot be enough any more; a shard and revision of which that is so. */
bool fg_ring_reads_is_hopeless(const struct fg_ring_reads *reads, uint16_t *ret_shard,
                               uint64_t *ret_revision);

/* Of that shard under that revision: how many of the owners were heard, and have to be. For an
 * error's text. */
void fg_ring_reads_count(const struct fg_ring_reads *reads, uint16_t shard, uint64_t revision,
                         unsigned *ret_heard, unsigned *ret_need);

#endif
