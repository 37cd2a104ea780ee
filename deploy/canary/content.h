/*
 * The content of the canary's profiles, and how to find them in an answer. Pure functions.
 *
 *   service flamegrid-canary-<service>, labels pod and canary_run; one stack
 *   canary;service_<service>;leaf_<leaf> with the profile's value as nanoseconds of CPU
 */
#ifndef FG_DEPLOY_CANARY_CONTENT_H
#define FG_DEPLOY_CANARY_CONTENT_H

#include "common/model/tree.h"
#include "deploy/canary/journal.h"

#define CONTENT_TYPE "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

enum { CONTENT_RUN_MAX_BYTES = 64 };

/*
 * Append a profile as pprof, and the path that it is posted to, with a NUL at the end. They are
 * equal for equal numbers. run: letters and digits that only this canary uses.
 */
void canary_content_write(const struct canary_journal_profile *profile, struct fg_buf *out);
void canary_content_path(const struct canary_journal_profile *profile, const char *run,
                         struct fg_buf *out);

/* Appends the selector of the range's series, with a NUL at the end. */
void canary_content_selector(const struct canary_journal_range *range, const char *run,
                             struct fg_buf *out);

/* Sums a flame graph (a tree of function names) into cells[canary_journal_cells()], which start at
 * zero, and what belongs to none into *ret_foreign. */
void canary_content_read(const struct canary_journal_shape *shape, const struct fg_tree *tree,
                         int64_t *cells, int64_t *ret_foreign);

#endif
