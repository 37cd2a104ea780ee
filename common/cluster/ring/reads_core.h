/*
 * The read set: which members a reader of some shards has to ask, and whether it has heard enough
 * of them. It takes, for every shard and every revision that has not drained (ring-history), so
 * many owners that one of those that answer has whatever was acknowledged (quorum-read).
 *
 * An owner that has drained the revision counts as heard, since all that came to it is committed.
 * So the reader's snapshot of manifests is of ring.generation at least (as-drained). A reader that
 * keeps to this, and whose ring was read after its question arrived (fg_ring_watch_fresh()), misses
 * nothing. An owner that has lost the revision never counts. If so many have lost it that a quorum
 * is impossible, all remaining owners are asked: nobody has more.
 *
 * An answer counts only from the store that the view names: a member that was wiped after the ring
 * was read answers too, with nothing. So a request names the store that it is for, an ingester with
 * another store refuses it, and the reader takes a fresh ring and starts over.
 *
 * Cost: 10 ns for each shard and revision, in each call except avoid, admit, heard, failed and
 * count. A read of the whole ring looks at one shard for each list of owners: with ten members that
 * is 720 instead of 65,536.
 *
 * Shell: querier/replicas/replica_read.h.
 *
 * Thread: one at a time. No clock, no I/O.
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

/* Initialises a read of the shards [first, last]; nobody was asked yet. */
void fg_ring_reads_init(struct fg_ring_reads *reads, const struct fg_ring_view *view,
                        uint16_t first, uint16_t last);

/*
 * Chooses members to ask in addition, so that it is enough if everybody who was asked answers.
 * Writes their numbers to members[] and returns how many; they count as asked. A member that is
 * asked serves all shards that it owns. turn: different numbers prefer different owners, to spread
 * the load of readers.
 *
 * Call it at first, and again after failures. 0: either those that were asked are enough, or
 * fg_ring_reads_is_hopeless().
 */
uint32_t fg_ring_reads_ask(struct fg_ring_reads *reads, uint32_t turn,
                           uint32_t members[FG_RING_MEMBERS_MAX]);

/* Excludes a member before anybody was asked, as if it had failed already. */
void fg_ring_reads_avoid(struct fg_ring_reads *reads, uint32_t member);

/* Takes fg_ring_reads_avoid() back: the next fg_ring_reads_ask() may choose the member. It has not
 * been asked. */
void fg_ring_reads_admit(struct fg_ring_reads *reads, uint32_t member);

/* Record that a member that was asked has answered, or has failed. */
void fg_ring_reads_heard(struct fg_ring_reads *reads, uint32_t member);
void fg_ring_reads_failed(struct fg_ring_reads *reads, uint32_t member);

/* Returns true if the answers so far are enough. */
bool fg_ring_reads_is_enough(const struct fg_ring_reads *reads);

/* Returns true if so many members failed that the answers cannot become enough; *ret_shard and
 * *ret_revision: one for which that is so. */
bool fg_ring_reads_is_hopeless(const struct fg_ring_reads *reads, uint16_t *ret_shard,
                               uint64_t *ret_revision);

/* Counts, for an error's text, how many owners of a shard under a revision were heard and how many
 * have to be. */
void fg_ring_reads_count(const struct fg_ring_reads *reads, uint16_t shard, uint64_t revision,
                         unsigned *ret_heard, unsigned *ret_need);

#endif
