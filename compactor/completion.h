/*
 * Completes deletions of a tenant: asks ingesters whether they still hold data from before a
 * deletion, and ends deletions that nobody holds data of. The shell of completion_core.h, which
 * decides; rule end-when-clean of common/cluster.
 *
 * Thread: one that may wait.
 */
#ifndef FG_COMPACTOR_COMPLETION_H
#define FG_COMPACTOR_COMPLETION_H

#include "compactor/completion_core.h"
#include "compactor/env.h"
#include "compactor/ingester_list.h"

/* All borrowed. The L0 manifest was read before the tenant's, the list of ingesters after it. */
struct cmp_completion_work {
    struct cmp_env *env;
    const struct fg_l0 *l0;
    const struct fg_blocks *blocks;
    const bool *waiting; /* [blocks->n_tombstones]: a block has, or may have, what it names */
    struct cmp_ingester_list *ingesters;
    int64_t wait_ns; /* a deletion covers data that arrives within this time after the request */
    struct fg_arena *arena;
    bool asked; /* out: manifests have changed, because ingesters were asked */
};

/* Takes the next step of every deletion whose data is gone from all blocks. Errors of reading the
 * ring and of cmp_edit_carry_out(); FG_E_LIMIT: the arena is full. */
enum fg_code cmp_completion_advance(struct cmp_completion_work *work,
                                    struct fg_err *err) fg_must_check;

#endif
