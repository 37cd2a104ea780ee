/*
 * What `flamegrid bucket verify` finds: faults, and objects of which some could not be checked.
 * Printed at once as lines of text, or collected for the document in JSON.
 *
 * Thread: one.
 */
#ifndef FG_DEPLOY_CLI_VERIFY_FINDINGS_H
#define FG_DEPLOY_CLI_VERIFY_FINDINGS_H

#include "deploy/cli/progress.h"

#include <jansson.h>
#include <stdio.h>

/* All borrowed, but the arrays are the caller's to free or to hand on. */
struct cli_findings {
    FILE *out;
    struct cli_progress *progress; /* its line is cleared before something is printed */
    json_t *faults, *unchecked;    /* arrays; NULL: lines of text */
    uint64_t n_faults, n_unchecked;
};

/* Reports a fault: the object, its cure, and what is wrong and what follows from it, which is cut
 * after a kilobyte. */
void fg_printf(4, 5) cli_findings_fault(struct cli_findings *findings, const char *object,
                                        const char *cure, const char *format, ...);

/* Reports an object that is not known to be damaged, and of which some could not be checked. */
void cli_findings_unchecked(struct cli_findings *findings, const char *object, const char *cure,
                            const char *why);

#endif
