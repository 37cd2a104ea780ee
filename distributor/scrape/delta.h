/*
 * Turns cumulative values (bytes allocated, time waited) into their growth since the last scrape,
 * in the decoded batch, by stack and labels. Sample types that are not cumulative stay as they are.
 * Values that have not grown become zero, and samples whose values are all zero are removed.
 *
 * The cumulative values of the first scrape are zero, because there is nothing to compare with.
 *
 * After a restart of the target its values count from zero, so all of them are growth. A restart is
 * assumed if, in every cumulative type, the sum over all stacks fell or more than half of the old
 * total is gone. A single stack that fell is not a restart: Go estimates numbers of objects from
 * samples by their average size, and these estimates fall now and then.
 *
 * Memory: 8 bytes per stack plus 8 bytes per stack and cumulative type, from a budget. If the
 * budget is used up, nothing is remembered, and the next scrape is a first one.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DELTA_H
#define FG_DISTRIBUTOR_SCRAPE_DELTA_H

#include "common/base/budget.h"
#include "common/model/batch.h"
#include "distributor/scrape/profile_kind.h"

/* The values of one scrape; immutable. */
struct dist_delta;

/* Frees it and gives its memory back to the budget. NULL is fine. */
void dist_delta_destroy(struct dist_delta *delta);
FG_AUTO(dist_delta, dist_delta_destroy)

struct dist_delta_result {
    struct dist_delta
        *seen; /* the values of this scrape, for the next; the caller's. NULL: none are kept */
    bool first, reset;
    bool forgotten; /* the budget had no memory for the values */
};

struct dist_delta_scrape {
    const struct dist_profile_kind *kind;
    int64_t
        time_ns;    /* of the scrape; profiles without a duration get the time since the last one */
    uint64_t rules; /* hash of the rules that change labels and stacks: after a change of them all
                     * values would look new */
    struct fg_budget *budget;
};

/*
 * Replaces the cumulative values of the batch. before: the values of the last scrape that was
 * stored; NULL: there is none. To use the original values again, decode again. FG_E_TOO_LARGE: the
 * arena is full.
 */
enum fg_code dist_delta_apply(const struct dist_delta *before,
                              const struct dist_delta_scrape *scrape, struct fg_batch *batch,
                              struct fg_arena *arena, struct dist_delta_result *ret_result,
                              struct fg_err *err) fg_must_check;

#endif
