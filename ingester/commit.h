/*
 * The committer: one thread that writes what pushes have prepared into the store, many pushes in
 * one durable batch, and tells each when it is on disk. While one batch is being synced the next
 * collects.
 *
 * It alone writes, so it alone decides what is new: a profile whose key is in some chunk of its
 * group already is a duplicate, counted and not written again.
 *
 * Always: an item is answered FG_OK only after all of it was synced. Items of one service are
 * written in the order of their submission, so a dictionary's chunks are on disk before or with
 * what needs them.
 */
#ifndef FG_INGESTER_COMMIT_H
#define FG_INGESTER_COMMIT_H

#include "common/runtime/metrics.h"
#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/head_chunks.h"
#include "ingester/intake.h"
#include "ingester/member.h"
#include "ingester/segments/segments.h"

struct ing_commit;

struct ing_commit_profile {
    struct ing_head_profile_key key; /* the chunk is for the committer to say */
    struct ing_catalog_series *series;
    size_t offset, len; /* of the record in the item's records */
    bool committed;     /* it is in a block already: a duplicate */
    bool unsure;        /* what may hold it cannot be read */
    bool unchecked;     /* the committer's: its chunk is */
    bool found;         /* the committer's: it is in the head already */
};

/* What becomes true once an item is on disk. */
struct ing_commit_mark {
    _Atomic bool *durable;
    _Atomic uint64_t *types; /* NULL, or where these bits are set too */
    uint64_t bits;
};

/* One push. Filled by the worker, owned by the committer from submit to done(). Who made it stays
 * inside the catalog until then. */
struct ing_commit_item {
    struct ing_commit_item *next;
    struct ing_catalog_tenant *tenant;
    struct ing_catalog_service *service;
    struct ing_dict *dict;             /* referenced; the committer lets go of it */
    uint32_t generation;               /* of dict: refused when it was spoilt */
    uint64_t revision;                 /* of the ring, under which it comes; 0 without one */
    struct ing_segments_looked looked; /* for profiles that may be held */
    struct fg_store_batch defs;        /* definitions and dictionary chunks */
    struct ing_commit_profile *profiles;
    uint32_t n_profiles;
    struct fg_buf records;
    struct ing_commit_mark *marks; /* set once written: what defs defined */
    uint32_t n_marks, cap_marks;

    /* Committer's thread; may free the item. */
    void (*done)(struct ing_commit_item *item);
    enum fg_code code; /* as of err */
    /* After a failure the item counts as not stored, though a failed write may have stored it; see
     * ing_member_admits(). */
    struct fg_err err;
    bool look_again; /* FG_E_ABORTED, since something was committed after the blocks were looked
                      * at: it may be tried again at once */
    uint32_t stored, duplicates;
};

void ing_commit_item_init(struct ing_commit_item *item);
void ing_commit_item_done(
    struct ing_commit_item *item); /* frees what the item holds, not the item */

/* Remembers what to set once the item is on disk. */
void ing_commit_item_mark(struct ing_commit_item *item, struct ing_commit_mark mark);

/* clang-format off */
#define COMMIT_METRICS(M)                                                                          \
    M(COUNTER, COMMIT_BATCHES, "flamegrid_ingester_commits_total", "Group commits")                \
    M(COUNTER, COMMIT_FAILED, "flamegrid_ingester_commit_failures_total", "Failed group commits")  \
    M(COUNTER, COMMIT_UNREADABLE, "flamegrid_ingester_commit_read_failures_total", "Pushes refused because a read of the head failed") \
    M(COUNTER, COMMIT_STORED, "flamegrid_ingester_profiles_stored_total", "Profiles made durable") \
    M(COUNTER, COMMIT_DUPLICATES, "flamegrid_ingester_profiles_duplicate_total", "Duplicate profiles") \
    M(COUNTER, COMMIT_BYTES, "flamegrid_ingester_stored_bytes_total", "Record bytes made durable") \
    M(GAUGE, COMMIT_QUEUED, "flamegrid_ingester_commit_queue_items", "Pushes that wait for the committer") \
    M(HISTOGRAM, COMMIT_SECONDS, "flamegrid_ingester_commit_duration_seconds", "Duration of a group commit")
/* clang-format on */

/*
 * driver: says into which chunk profiles go; member: under which revision of the ring; intake: is
 * told of writes that fail.
 * queue_max_bytes: records waiting; beyond it submit refuses. delay_ns: how long a first item waits
 * for others to share its fsync with; 0: not at all. Starts the thread.
 */
struct ing_commit_config {
    struct fg_store *store; /* borrowed, as are those below */
    struct ing_head_chunks *chunks;
    struct ing_segments *segments;
    struct ing_dict_table *dicts;
    const struct ing_member *member;
    struct ing_intake *intake;
    struct fg_clock *clock; /* the driver's */
    uint64_t queue_max_bytes;
    int64_t delay_ns;
    struct fg_registry *registry;
};
enum fg_code ing_commit_create(const struct ing_commit_config *config,
                               struct ing_commit **ret_commit, struct fg_err *err) fg_must_check;

/* Writes what is queued and makes the visits that were posted, then ends. NULL is fine. */
void ing_commit_destroy(struct ing_commit *commit);

/* Any thread. false: the queue is full; the item is the caller's still. */
bool ing_commit_submit(struct ing_commit *commit, struct ing_commit_item *item) fg_must_check;

/* Something else that has to happen where the head is written. */
struct ing_commit_visit {
    struct ing_commit_visit *next;
    void (*run)(struct ing_commit_visit *visit); /* may free it; may take a while: pushes wait */
};

/*
 * Writes as fg_store_write() does, after ing_commit_settle(). After a failure nobody knows whether
 * the batch was written. undo: restores the state before the batch; if the write fails, it is kept
 * and written before anything else. NULL: the batch does no harm whether it was written or not.
 * FG_E_LIMIT: batch or undo is too large, and nothing was written. On the committer's thread only.
 */
enum fg_code ing_commit_write(struct ing_commit *commit, struct fg_store_batch *batch,
                              const struct fg_store_batch *undo, struct fg_err *err) fg_must_check;

/* Undoes what failed writes may have done. After FG_OK the store has what the chunks say; a visit
 * that reads profiles to move them calls it before. The committer's thread. */
enum fg_code ing_commit_settle(struct ing_commit *commit, struct fg_err *err) fg_must_check;

/* Runs it between two batches, on the committer's thread; visits come in their order. Any thread,
 * while the committer is there. */
void ing_commit_post(struct ing_commit *commit, struct ing_commit_visit *visit);

/*
 * The service's dictionary has numbered what will not be written: whoever comes next begins a new
 * generation (dict.h).
 */
void ing_commit_spoil(struct ing_catalog_service *service, uint32_t generation);

#endif
