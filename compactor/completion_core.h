/*
 * Completion of deletions: the core. Decides when a deletion may end, from numbers in manifests and
 * without a clock (rule end-when-clean of common/cluster).
 *
 * When the data of a deletion is gone from all blocks, an ingester may still hold some of it in its
 * head: one that could not commit for days, or one that took a copy from that one by repair. So
 * before a deletion ends, every ingester that may hold something is asked: `asked` of the L0
 * manifest is raised to a new number, and the tombstone remembers the number. An ingester's store
 * answers (`clean`) once its head has nothing left that it received before it saw the number; by
 * then all of that was committed, and so is in blocks or was removed from them.
 *
 *   ready --> ASK --> all stores are clean of it --> was nothing removed since?  no: ASK again
 *                                                    yes, for the second time in a row: END
 *                                                    yes, for the first time: ASK once more
 *
 * Why twice: a store may receive a copy after its answer, from a store that has not answered yet.
 * A store that held a copy when the first number was asked has committed it before its own answer.
 * Either that copy was removed and counted, so the first time was not quiet; or it was found in an
 * earlier segment, and the store gave copies to others until then. Such a copy is from the time of
 * the first number: its store commits it before it is clean of the second number, and its removal
 * is counted. So after two quiet times no head has any copy. A copy in transit between two heads is
 * assumed to arrive within such a time.
 *
 * The answers of all members of the ring count, except of those that have drained or lost all that
 * they held; without a ring, the answer of the only ingester. A dead member that was not forgotten
 * delays the deletion; queries leave the data out meanwhile.
 *
 * Thread: any; pure functions.
 */
#ifndef FG_COMPACTOR_COMPLETION_CORE_H
#define FG_COMPACTOR_COMPLETION_CORE_H

#include "common/cluster/manifest/blocks.h"
#include "common/cluster/ring/ring.h"

enum { COMPLETION_QUIET = 2, COMPLETION_TEXT_MAX_BYTES = FG_RING_TEXT_MAX_BYTES + 32 };

/* An ingester, by its store. */
struct cmp_ingester_store {
    struct fg_id id;
    struct fg_slice name;
};

/* All ingesters that may hold data. */
struct cmp_ingesters {
    const struct cmp_ingester_store *items;
    uint32_t n;
    uint64_t
        generation; /* former members have committed all they held at this generation or before */
    bool known;     /* false: the list is not known yet */
};

/* Lists the ingesters of a ring. Names are borrowed from it. FG_E_LIMIT: the arena is full. */
enum fg_code cmp_ingesters_of(const struct fg_ring *ring, struct fg_arena *arena,
                              struct cmp_ingesters *ret_ingesters,
                              struct fg_err *err) fg_must_check;

/* Writes which ingesters are not clean of the number: "ingester-2 and 3 more"; "": all are clean.
 */
void cmp_completion_waits_for(const struct cmp_ingesters *ingesters, const struct fg_l0 *l0,
                              uint64_t number, char text[COMPLETION_TEXT_MAX_BYTES]);

/* Returns true if all ingesters are clean of the number, and the manifest has all that former
 * members have committed. False: the list is not known. */
bool cmp_completion_is_clean(const struct cmp_ingesters *ingesters, const struct fg_l0 *l0,
                             uint64_t number);

enum cmp_completion_step {
    COMPLETION_WAIT, /* see cmp_completion_waits_for() */
    COMPLETION_ASK,  /* write `number` to the L0 manifest, then `await` to the tombstone */
    COMPLETION_END,
};

struct cmp_completion {
    enum cmp_completion_step step;
    struct fg_blocks_await await; /* ASK */
};

/*
 * Decides the next step of a deletion that is ready: no block has anything that it names, no
 * uncovered segment of this L0 manifest may have, and its waiting time is over. The tenant's
 * manifest was read after the L0 manifest, and the ring not before it. number: greater than every
 * number that was asked before.
 */
struct cmp_completion cmp_completion_next(const struct fg_blocks_tombstone *tombstone,
                                          const struct fg_l0 *l0,
                                          const struct cmp_ingesters *ingesters, uint64_t number);

#endif
