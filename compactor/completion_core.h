/*
 * When a deletion may end: a pure decision about numbers in manifests, no clock. (end-when-clean)
 *
 * A deletion whose data is gone from all blocks may still meet it again: an ingester that could not
 * commit for days has it in its head, and so may one that took it from that one by repair. So
 * before it ends everybody who may hold something is asked, by raising `asked` of the L0 manifest,
 * and the tombstone remembers the number. A store answers (`clean`) when nothing is left in its
 * head that it received before it saw the number: it was committed, and so is in blocks or was
 * taken out of them.
 *
 *   ready --> ASK --> all stores are clean of it --> nothing was taken since?  no: ASK anew
 *                                                    yes, the second time in a row: END
 *                                                    yes, the first time: ASK once more
 *
 * Why twice: a store may take a copy after its answer, from one that has still to give its own. Who
 * held one when the first number was asked has committed it before his answer, and it was counted
 * as taken, so that time was not quiet; or found it in a segment of before, and gave copies away
 * until then. Such a copy is of the first number's time: its store has to commit it before it is
 * clean of the second one, and that is counted. So after two quiet times no head has any. What is
 * under way from one head to another is taken to arrive within such a time.
 *
 * Who matters are the members of the ring, but for those who have drained or lost all they held;
 * where there is no ring, the store of the one ingester there is. One that is dead and was not
 * forgotten holds the deletion: answers leave the data out all the while.
 */
#ifndef FG_COMPACTOR_COMPLETION_CORE_H
#define FG_COMPACTOR_COMPLETION_CORE_H

#include "common/cluster/manifest/blocks.h"
#include "common/cluster/ring/ring.h"

enum { COMPLETION_QUIET = 2, COMPLETION_TEXT_MAX_BYTES = FG_RING_TEXT_MAX_BYTES + 32 };

struct cmp_ingester_store {
    struct fg_id id;
    struct fg_slice name;
};

struct cmp_ingesters {
    const struct cmp_ingester_store *items;
    uint32_t n;
    uint64_t
        generation; /* what others held is committed at this one of the L0 manifest or before */
    bool known;     /* else nobody knows who there is */
};

/* Of a ring; names are borrowed from it. FG_E_LIMIT: the arena is full. */
enum fg_code cmp_ingesters_of(const struct fg_ring *ring, struct fg_arena *arena,
                              struct cmp_ingesters *ret_ingesters,
                              struct fg_err *err) fg_must_check;

/* Who is not clean of that number, for people: "ingester-2 and 3 more"; "": all are. */
void cmp_completion_waits_for(const struct cmp_ingesters *ingesters, const struct fg_l0 *l0,
                              uint64_t number, char text[COMPLETION_TEXT_MAX_BYTES]);

enum cmp_completion_step {
    COMPLETION_WAIT, /* see cmp_completion_waits_for() */
    COMPLETION_ASK,  /* `number` has to be in the L0 manifest, then this in the tombstone */
    COMPLETION_END,
};

struct cmp_completion {
    enum cmp_completion_step step;
    struct fg_blocks_await await; /* ASK */
};

/*
 * What is next for a deletion that is ready: no block has anything that it names, no segment of the
 * L0 manifest at hand may have that is in no block, and it has waited as long as it is to. The
 * tenant's manifest was read after the L0 manifest, the ring not before it. number: greater than
 * what was ever asked.
 */
struct cmp_completion cmp_completion_next(const struct fg_blocks_tombstone *tombstone,
                                          const struct fg_l0 *l0,
                                          const struct cmp_ingesters *ingesters, uint64_t number);

#endif
