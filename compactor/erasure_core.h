/*
 * Erasure: the deletion of a whole tenant. The core: decides the next step, from manifests and
 * without a clock.
 *
 * The registry of access says which tenants are to be deleted
 * (common/access/registry/tenant_deletion.h). The steps follow from what is in the bucket, so any
 * compactor can go on where another one has stopped, and a step that is repeated does nothing:
 *
 *   BURY   --> a tombstone names everything, so that no answer has any of it; it takes the place
 *              of all pending deletions
 *   DROP   --> all blocks leave the manifest and all segments are covered, without being read
 *   ASK    --> no ingester has anything left: the deletion by the tombstone ends
 *              (completion_core.h)
 *   WAIT   --> the objects that have left are deleted, also segments that other tenants share
 *   CLEAR  --> the manifest forgets deletions, records and the ledger
 *   SWEEP  --> all other objects below the tenant's names are deleted, and segments that no
 *              manifest lists and nobody else needs, until none is found
 *   SETTLE --> segments that no manifest lists and that other tenants share are deleted once no
 *              commit can list them any more; then SWEEP again
 *   END    --> the registry and the audit say so
 *
 * Settling. An ingester that is killed between upload and commit, or that finds before the commit
 * that others have committed the same, leaves a segment that no manifest lists. With others' data
 * in it such a segment must not be deleted while a commit may yet list it: it would be missing for
 * all. So the sweep remembers it, and it is deleted when one of these is true:
 *
 *   a. The manifest knows its cut, or a later one of its store (cmp_gc_is_garbage()): a commit of
 *      it is refused. In ordinary life that is so within minutes, since ingesters commit all the
 *      time.
 *   b. It is still not listed, all ingesters are clean of a number that was asked after it was
 *      seen, and it is two hours old.
 *
 * Why (b) is enough, of a segment of cut c that was seen before the number N was asked:
 *   - Its store, if it is one of those that answered, has sealed c before it saw N. It reports N
 *     when no cut is under way, so c has ended: the next upload is of a later cut and under another
 *     name, and so is that after a restart, which never uses a name again. Or it says N with the
 *     commit of a cut whose chunks all began after it saw N: that is a later cut, and (a) holds.
 *   - A swap of c that is still on its way goes onto a manifest of before the report, or of before
 *     N was asked: its condition fails.
 *   - A store that did not answer has left, was given up by an operator, or has lost its disk
 *     (`struct cmp_ingesters`); or a second program runs with a copy of a disk, and the first one
 *     answered for it. If such a program still runs, it swaps in no upload that is older than an
 *     hour by either of its clocks (`upload_max_age_ns` of ingester/segments/segments_core.h) but
 *     makes another.
 *   - The manifest is not one of a backup, which lacks segments that were listed, so that the
 *     segment would be the only copy of what others have in it: an ingester that has read a newer
 *     one takes nothing from it, and does not answer.
 * So an ingester that is away delays the end, as it delays the end of every deletion, until an
 * operator gives it up (`flamegrid ring forget`); nothing else does for more than some hours.
 * The simulator deletes unlisted segments by this rule at any age and finds nothing missing
 * (`tests/sim/compactors.c`); without the answers it does (unlisted-until-clean).
 *
 * The manifest stays, empty: it covers what has left the L0 manifest, and without it the tenant
 * would count as one whose manifest was lost. What arrives after the end is dropped as well.
 *
 * Thread: any; pure functions.
 */
#ifndef FG_COMPACTOR_ERASURE_CORE_H
#define FG_COMPACTOR_ERASURE_CORE_H

#include "compactor/completion_core.h"
#include "compactor/gc_core.h"

enum cmp_erasure_step {
    ERASURE_BURY,
    ERASURE_DROP,
    ERASURE_ASK,
    ERASURE_WAIT,
    ERASURE_CLEAR,
    ERASURE_SWEEP,
    ERASURE_SETTLE, /* see cmp_erasure_settle() */
    ERASURE_END,
    ERASURE_NOTHING, /* it has ended, and nothing came since */
};

enum { ERASURE_SHARED_MAX = 64 };

/* Segments that no manifest lists, with data of the tenant and of others, as a sweep saw them. If
 * there are more, the next sweep finds them. */
struct cmp_erasure_shared {
    struct cmp_gc_unlisted segments[ERASURE_SHARED_MAX];
    uint32_t n;
    uint64_t awaits; /* greater than every number that was asked when they were seen */
};

/* What a compactor remembers of an erasure between two looks. If it forgets, the erasure takes
 * longer. */
struct cmp_erasure_memory {
    bool unlisted;            /* no live segment had anything of the tenant */
    int64_t unlisted_wall_ns; /* when the last segment of that moment left the L0 manifest; its
                                 object, and all before, must be gone */
    bool swept;               /* the sweep before this step found nothing */
    struct cmp_erasure_shared *shared; /* of the last sweep; owned; NULL: none */
};

/* Frees what it remembers. */
void cmp_erasure_forget(struct cmp_erasure_memory *memory);

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

enum cmp_erasure_settling {
    SETTLING_WAIT,
    SETTLING_ASK,    /* write `awaits` to the L0 manifest as the number that is asked */
    SETTLING_DELETE, /* delete the objects of all that are left */
    SETTLING_SWEEP,  /* none is left: sweep again, since some may be garbage */
};

/*
 * Decides about segments that a sweep saw. Takes those off the list that the manifest knows or that
 * are garbage by now. The ring was read not before the manifest. old_after_ns: the age of an upload
 * that no ingester swaps in any more.
 */
enum cmp_erasure_settling cmp_erasure_settle(struct cmp_erasure_shared *shared,
                                             const struct fg_l0 *l0,
                                             const struct cmp_ingesters *ingesters,
                                             int64_t old_after_ns, int64_t wall_ns);

#endif
