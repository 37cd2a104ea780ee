/*
 * A commit item is one push on its way into the store: records and definitions that a worker has
 * prepared, and what the committer finds out about them. The committer writes many items in one
 * batch (group_commit.h).
 */
#ifndef FG_INGESTER_COMMIT_ITEM_H
#define FG_INGESTER_COMMIT_ITEM_H

#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/forward/entry.h"
#include "ingester/keys.h"
#include "ingester/segments/segments_core.h"

struct ing_commit_profile {
    struct ing_head_profile_key key; /* without the number of the chunk */
    struct ing_catalog_series *series;
    size_t offset, len; /* of the record in the item's records */
    bool committed;     /* a segment or block has it: a duplicate */
    bool unsure;        /* an object that may have it cannot be read */

    /* Set by the committer. */
    bool unchecked; /* it goes into an unchecked chunk */
    bool found;     /* the head has it: a duplicate */
};

/* What becomes true once an item is on disk. */
struct ing_commit_mark {
    _Atomic bool *durable;   /* set to true */
    _Atomic uint64_t *types; /* NULL, or where `bits` are set too */
    uint64_t bits;
};

/*
 * The worker fills it, the committer owns it from ing_committer_submit() to done(). The push holds
 * a guard of the catalog (ing_catalog_enter()) until then.
 */
struct ing_commit_item {
    struct ing_commit_item *next;
    struct ing_catalog_tenant *tenant;
    struct ing_catalog_service *service;
    struct ing_dict *dict;             /* referenced; the committer drops the reference */
    uint32_t generation;               /* of dict; refused if it has ended (catalog.h) */
    uint64_t revision;                 /* of the ring, under which it comes; 0 without a ring */
    struct ing_outbox_via via;         /* through which other stores it has come */
    struct ing_segments_lookup lookup; /* result of the lookup in the bucket */
    struct fg_store_batch defs;        /* definitions and dictionary chunks */
    struct ing_commit_profile *profiles;
    uint32_t n_profiles;
    struct fg_buf records;
    struct ing_commit_mark *marks; /* for what defs defines */
    uint32_t n_marks, cap_marks;

    /* Reports the result. The committer's thread; may free the item. */
    void (*done)(struct ing_commit_item *item);
    enum fg_code code; /* as in err */
    /* After a failure the item counts as not stored, though a failed write may have stored it; see
     * ing_member_admits(). */
    struct fg_err err;
    bool repeat_lookup; /* with FG_E_ABORTED: a segment was committed after the lookup in the
                         * bucket; repeat the lookup and submit the item again */
    uint32_t stored, duplicates;
};

/* Initializes an empty item. */
void ing_commit_item_init(struct ing_commit_item *item);

/* Frees what the item holds, but not the item. */
void ing_commit_item_done(struct ing_commit_item *item);

/* Adds a mark to set once the item is on disk. */
void ing_commit_item_mark(struct ing_commit_item *item, struct ing_commit_mark mark);

/* Sets all marks. The item is on disk. */
void ing_commit_item_set_marks(const struct ing_commit_item *item);

/* Returns the memory of the item in bytes, as the queue of the committer counts it. */
uint64_t ing_commit_item_bytes(const struct ing_commit_item *item);

#endif
