/*
 * Finds the faults of an answer: missing profiles, profiles that count twice, and values that were
 * never sent. Pure; see journal.h for cells and numbers.
 */
#ifndef FG_DEPLOY_CANARY_VERDICT_H
#define FG_DEPLOY_CANARY_VERDICT_H

#include "deploy/canary/journal.h"

enum canary_verdict_kind { VERDICT_LOST, VERDICT_DOUBLE, VERDICT_FOREIGN };

#define VERDICT_NO_NUMBER UINT64_MAX /* so much is wrong at once that no profile can be named */
#define VERDICT_NO_CELL   UINT32_MAX /* a total, or a value outside of all cells */

struct canary_verdict_finding {
    enum canary_verdict_kind kind;
    uint64_t number;
    uint32_t cell;
    int64_t expected, found;
};

struct canary_verdict {
    struct canary_verdict_finding *findings; /* at most VERDICT_FINDINGS_MAX of them */
    uint32_t n;                              /* all findings, also those that are not stored */
    bool has_all; /* the answer has all that are pending, too, though it need not */
};
enum { VERDICT_FINDINGS_MAX = 4096 };
void canary_verdict_done(struct canary_verdict *verdict);

/*
 * Judges a flame graph. found[cells]: the sum of each cell; foreign: what is in none. The journal
 * may have advanced since the query.
 */
void canary_verdict_of_cells(const struct canary_journal *journal,
                             const struct canary_journal_expected *expected, const int64_t *found,
                             int64_t foreign, struct canary_verdict *ret_verdict);

/* Judges a sum over all cells. It tells that something is wrong, but not which profile. */
void canary_verdict_of_total(const struct canary_journal *journal,
                             const struct canary_journal_expected *expected, int64_t found,
                             struct canary_verdict *ret_verdict);

const char *canary_verdict_kind_name(enum canary_verdict_kind kind); /* "lost" */

#endif
