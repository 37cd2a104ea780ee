/*
 * Profiles whose values only grow while a process lives (bytes allocated, time waited) become the
 * growth since the last scrape, on the decoded batch: by stack and labels, for the sample types
 * that are cumulative; others stay as they are. What has not grown is zero, and samples that are
 * zero in every type go.
 *
 * The first scrape has nothing to compare with: its cumulative values are zero.
 *
 * When the process began anew its values count from zero, so all of them are new. It is taken to
 * have done so when, in every cumulative type, the sum over all stacks fell, or more than half of
 * what had been counted is gone. Not when a single stack fell: Go estimates numbers of objects from
 * samples, by their average size, and such an estimate does fall now and then.
 *
 * Memory: 8 bytes and as many for each cumulative type, for every stack; taken from a budget. When
 * that is used up nothing is remembered, and the next scrape is a first one again.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DELTA_H
#define FG_DISTRIBUTOR_SCRAPE_DELTA_H

#include "common/base/budget.h"
#include "common/model/batch.h"
#include "distributor/scrape/profile_kind.h"

/* What a scrape saw; immutable. */
struct dist_delta;

/* NULL is fine. Gives back to the budget it was made with. */
void dist_delta_destroy(struct dist_delta *delta);
FG_AUTO(dist_delta, dist_delta_destroy)

struct dist_delta_result {
    struct dist_delta
        *seen; /* by this scrape, for the next; the caller's. NULL: nothing to remember */
    bool first, reset;
    bool forgotten; /* for want of memory */
};

struct dist_delta_scrape {
    const struct dist_profile_kind *kind;
    int64_t time_ns; /* when; profiles without a duration get the time since the last scrape */
    uint64_t rules;  /* hash of those that shape labels and stacks: under others all would look
                      * new */
    struct fg_budget *budget;
};

/*
 * before: of the last scrape that was stored; NULL: there is none. Changes the batch; where it is
 * used again it has to be decoded again. FG_E_TOO_LARGE: the arena is used up.
 */
enum fg_code dist_delta_apply(const struct dist_delta *before,
                              const struct dist_delta_scrape *scrape, struct fg_batch *batch,
                              struct fg_arena *arena, struct dist_delta_result *ret_result,
                              struct fg_err *err) fg_must_check;

#endif
