/*
 * Erasure: the deletion of a whole tenant. The core: decides the next step, from manifests and
 * without a clock.
 *
 * The registry of access says which tenants are to be deleted
 * (common/access/registry/tenant_deletion.h). The steps follow from what is in the bucket, so any
 * compactor can go on where another one has stopped, and a step that is repeated does nothing:
 *
 *   BURY   --> a tombstone names everything, so that no answer has any of it, and takes the place
 * of all pending deletions DROP   --> all blocks leave the manifest and all segments are covered,
 * without being read ASK    --> no ingester has anything left: the deletion by the tombstone ends
 *              (completion_core.h)
 *   WAIT   --> the objects that have left are deleted, also segments that other tenants share
 *   CLEAR  --> the manifest forgets deletions, records and the ledger
 *   SWEEP  --> all other objects below the tenant's names are deleted, and segments that no
 *              manifest lists and nobody else needs, until none is found
 *   END    --> the registry and the audit say so
 *
 * The manifest stays, empty: it covers what has left the L0 manifest, and without it the tenant
 * would count as one whose manifest was lost. What arrives after the end is dropped as well.
 *
 * Thread: any; pure functions.
 */
#ifndef FG_COMPACTOR_ERASURE_CORE_H
#define FG_COMPACTOR_ERASURE_CORE_H

#include "common/cluster/manifest/blocks.h"

enum cmp_erasure_step {
    ERASURE_BURY,
    ERASURE_DROP,
    ERASURE_ASK,
    ERASURE_WAIT,
    ERASURE_CLEAR,
    ERASURE_SWEEP,
    ERASURE_END,
    ERASURE_NOTHING, /* it has ended, and nothing came since */
};

/* What a compactor remembers of an erasure between two looks. If it forgets, the erasure takes
 * longer. */
struct cmp_erasure_memory {
    bool unlisted;            /* no live segment had anything of the tenant */
    int64_t unlisted_wall_ns; /* when the last segment of that moment left the L0 manifest; its
                                 object, and all before, must be gone */
    bool swept;               /* the sweep before this step found nothing */
};

/* Returns the id of the tombstone: the same for each compactor. */
struct fg_id cmp_erasure_id(struct fg_slice tenant, int64_t asked_ms);

/* Counts what the manifests list of the tenant: blocks that leave, and segments to cover. */
struct cmp_erasure_listed {
    uint64_t blocks, bytes, segments, profiles;
};
struct cmp_erasure_listed cmp_erasure_listed(const struct fg_l0 *l0,
                                             const struct fg_blocks *blocks);

/* What a change drops. Arrays are in the arena. */
struct cmp_erasure_drop {
    struct fg_blocks_taken taken;
    struct fg_blocks_change change; /* refers to `taken` */
};

/* Makes a change that drops all that is listed, or as much as one change may. FG_E_LIMIT: the arena
 * is full. */
enum fg_code cmp_erasure_make_drop(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                                   struct fg_id id, struct fg_arena *arena,
                                   struct cmp_erasure_drop *ret_drop,
                                   struct fg_err *err) fg_must_check;

/*
 * Returns the next step. The tenant's manifest was read after the L0 manifest. id: of the
 * tombstone. ended: the registry says that the deletion has ended. Updates the memory.
 */
enum cmp_erasure_step cmp_erasure_next(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                                       struct fg_id id, bool ended,
                                       struct cmp_erasure_memory *memory);

#endif
