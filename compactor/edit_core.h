/*
 * An edit: one change of one manifest, carried to its end: read, change, swap, and read again until
 * the change is seen to be there. The answer to a swap is never believed, so one that was lost is
 * nothing special. A pure step core, as ingester/segments.
 *
 *   READ --> (already there) DONE          SWAP --> READ, after a pause where it was not won
 *     \----> (somebody else was faster) LOST
 *      \---> SWAP
 *
 * LOST: what was built for the change is waste; so it may be after FAILED, or not: nobody knows,
 * and the sweep for orphans finds out (gc_core.h).
 */
#ifndef FG_COMPACTOR_EDIT_CORE_H
#define FG_COMPACTOR_EDIT_CORE_H

#include "common/cluster/manifest/blocks.h"

enum cmp_edit_kind {
    EDIT_APPLY,            /* a tenant: blocks enter and leave, segments are covered */
    EDIT_BURY,             /* a tenant: a deletion was asked for */
    EDIT_AWAIT,            /* a tenant: deletions wait for their end */
    EDIT_UNBURY,           /* a tenant: a deletion was carried out */
    EDIT_DELETED_BLOCKS,   /* a tenant: objects were deleted */
    EDIT_ASK,              /* L0: what writers are to be clean of */
    EDIT_RETIRE,           /* L0: segments leave */
    EDIT_DELETED_SEGMENTS, /* L0: objects were deleted */
};

struct cmp_edit_task {
    enum cmp_edit_kind kind;
    struct fg_blocks_change change;       /* APPLY */
    struct fg_blocks_tombstone tombstone; /* BURY; UNBURY: its id */
    const struct fg_blocks_await *awaits; /* AWAIT */
    uint64_t asked;                       /* ASK */
    const struct fg_id *blocks;           /* DELETED_BLOCKS */
    const uint64_t *generations;          /* RETIRE */
    const struct fg_segment_id *segments; /* DELETED_SEGMENTS */
    uint32_t count;                       /* of awaits, blocks, generations, segments */
};

enum cmp_edit_state { EDIT_READING, EDIT_SWAPPING, EDIT_DONE, EDIT_LOST, EDIT_FAILED };

enum { EDIT_ATTEMPTS_MAX = 10 };

struct cmp_edit {
    enum cmp_edit_state state;
    struct cmp_edit_task task;  /* what it points to is borrowed */
    struct fg_err err;          /* LOST, FAILED */
    int64_t not_before_mono_ns; /* READING: not earlier than then */
    uint32_t attempts;
    uint64_t random;
    /* SWAPPING: what to write, onto the manifest that was handed in; in the arena of that call. */
    struct fg_l0 l0;
    struct fg_blocks blocks;
};

/* seed: for the pauses. Begins with READING. */
void cmp_edit_init(struct cmp_edit *edit, const struct cmp_edit_task *task, uint64_t seed);

/* Does it change the L0 manifest? Else a tenant's. */
bool cmp_edit_is_l0(enum cmp_edit_kind kind);

/*
 * What READING read, now and not from a cache: the L0 manifest, then the tenant's where that is
 * changed (else NULL). Both and the arena live until the swap has ended.
 */
void cmp_edit_read(struct cmp_edit *edit, const struct fg_l0 *l0, const struct fg_blocks *blocks,
                   int64_t wall_ns, struct fg_arena *arena);

/* How SWAPPING ended. won: as far as is known. */
void cmp_edit_swapped(struct cmp_edit *edit, bool won, int64_t mono_ns);

/* READING failed. */
void cmp_edit_read_failed(struct cmp_edit *edit, const struct fg_err *err, int64_t mono_ns);

#endif
