/*
 * Edits: the core. An edit carries one change of one manifest to its end: it reads the manifest,
 * applies the change, swaps, and reads again until it sees the change. The answer to a swap is
 * never believed, so a lost answer needs no special case. A step core; edit.h does its requests.
 *
 *   READING --> (the change is there) DONE     SWAPPING --> READING, after a pause if not won
 *      \------> (another edit was first) LOST
 *       \-----> SWAPPING
 *
 * After LOST, blocks that were built for the change are garbage. After FAILED that is unknown; the
 * sweep for orphans finds out (gc_core.h).
 *
 * Thread: one at a time. No clock, no I/O.
 */
#ifndef FG_COMPACTOR_EDIT_CORE_H
#define FG_COMPACTOR_EDIT_CORE_H

#include "common/cluster/manifest/blocks.h"

enum cmp_edit_kind {
    EDIT_APPLY,            /* tenant: blocks enter and leave, segments are covered */
    EDIT_BURY,             /* tenant: adds the tombstone of a deletion */
    EDIT_BURY_ALL,         /* tenant: that of everything takes the place of all others */
    EDIT_AWAIT,            /* tenant: deletions wait for answers of ingesters */
    EDIT_UNBURY,           /* tenant: a deletion is complete */
    EDIT_DELETED_BLOCKS,   /* tenant: objects were deleted */
    EDIT_CLEAR,            /* tenant: it was deleted as a whole */
    EDIT_FREEZE,           /* tenant: sums of the ledger become final */
    EDIT_DROP_FROZEN,      /* tenant: documents have these sums */
    EDIT_ASK,              /* L0: a number that writers have to be clean of */
    EDIT_RETIRE,           /* L0: segments leave */
    EDIT_DELETED_SEGMENTS, /* L0: objects were deleted */
};

struct cmp_edit_task {
    enum cmp_edit_kind kind;
    struct fg_blocks_change change;       /* APPLY */
    struct fg_blocks_tombstone tombstone; /* BURY, BURY_ALL; UNBURY, CLEAR: its id */
    const struct fg_blocks_await *awaits; /* AWAIT */
    uint64_t asked;                       /* ASK */
    const struct fg_id *blocks;           /* DELETED_BLOCKS */
    struct fg_blocks_freeze freeze;       /* FREEZE; DROP_FROZEN: its version */
    const uint64_t *generations;          /* RETIRE */
    const struct fg_segment_id *segments; /* DELETED_SEGMENTS */
    uint32_t count;                       /* of awaits, blocks, generations, segments */
};

enum cmp_edit_state { EDIT_READING, EDIT_SWAPPING, EDIT_DONE, EDIT_LOST, EDIT_FAILED };

enum { EDIT_ATTEMPTS_MAX = 10 }; /* a quarter of a minute; the next pass plans again */

struct cmp_edit {
    enum cmp_edit_state state;
    struct cmp_edit_task task;  /* what it points to is borrowed */
    struct fg_err err;          /* LOST, FAILED */
    int64_t not_before_mono_ns; /* READING: not earlier than then */
    uint32_t attempts;
    uint64_t random;
    /* SWAPPING: the new value of the manifest that was handed in, in the arena of that call. */
    struct fg_l0 l0;
    struct fg_blocks blocks;
};

/* Initialises an edit in state READING. seed: of the jitter of its pauses. */
void cmp_edit_init(struct cmp_edit *edit, const struct cmp_edit_task *task, uint64_t seed);

/* Returns true if the edit changes the L0 manifest, false if it changes a tenant's. */
bool cmp_edit_is_l0(enum cmp_edit_kind kind);

/*
 * Hands in what READING has read, after it began and not from a cache: the L0 manifest, then the
 * tenant's manifest if that is to be changed (else NULL). Both and the arena live until the swap
 * has ended.
 */
void cmp_edit_read(struct cmp_edit *edit, const struct fg_l0 *l0, const struct fg_blocks *blocks,
                   int64_t wall_ns, struct fg_arena *arena);

/* Hands in the end of the swap. won: according to the bucket's answer. */
void cmp_edit_swapped(struct cmp_edit *edit, bool won, int64_t mono_ns);

/* Hands in that reading failed. */
void cmp_edit_read_failed(struct cmp_edit *edit, const struct fg_err *err, int64_t mono_ns);

#endif
