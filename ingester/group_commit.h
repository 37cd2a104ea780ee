/*
 * A group commit makes a group of pushes durable: it puts all of them into one batch of the store,
 * writes the batch with one fsync, and then tells each push.
 *
 * It alone adds profiles to the head, so it alone decides what is new: a profile that the head or
 * the bucket has already is a duplicate, which is counted and not written again (dedup_head.h,
 * dedup_index.h).
 *
 * In the same batch each new profile gets an entry for every target that it is to be forwarded to
 * (forward/outbox.h).
 *
 * Always: an item is answered FG_OK only after all of it was synced. Items of one service are
 * written in the order of their submission, so a dictionary's chunks are on disk before or with
 * the records that need them.
 *
 * Thread: the committer's (committer.h).
 */
#ifndef FG_INGESTER_GROUP_COMMIT_H
#define FG_INGESTER_GROUP_COMMIT_H

#include "common/runtime/metrics.h"
#include "ingester/commit_item.h"
#include "ingester/forward/outbox.h"
#include "ingester/head_chunks.h"
#include "ingester/head_writer.h"
#include "ingester/member.h"
#include "ingester/segments/segments.h"

struct ing_group_commit;

/* All borrowed. */
struct ing_group_commit_config {
    struct fg_store *store; /* read to find duplicates */
    struct ing_head_writer *writer;
    struct ing_head_chunks *chunks;
    struct ing_segments *segments; /* says into which head chunk a profile goes */
    struct ing_dict_table *dicts;
    const struct ing_member *member; /* says under which revisions of the ring profiles are taken */
    struct ing_outbox *outbox;       /* what is stored is to be forwarded; NULL: nothing is */
    struct fg_registry *registry;
    struct fg_clock *clock; /* the clock of segments */
};

/* Creates a group commit without items. Any thread. */
struct ing_group_commit *ing_group_commit_create(const struct ing_group_commit_config *config);

/* Destroys it. Accepts NULL. Any thread. */
void ing_group_commit_destroy(struct ing_group_commit *group);

/* Commits the items of a list in one batch and calls done() of each. Items that may not be taken
 * fail alone; a failed write fails all others. */
void ing_group_commit_run(struct ing_group_commit *group, struct ing_commit_item *items);

#endif
