/*
 * What the canary's profiles look like, and how they are found in an answer. Pure.
 *
 *   service flamegrid-canary-<service>, labels pod and canary_run; one stack
 *   canary;service_<service>;leaf_<leaf> with the profile's value as nanoseconds of CPU
 */
#ifndef FG_DEPLOY_CANARY_CONTENT_H
#define FG_DEPLOY_CANARY_CONTENT_H

#include "common/model/tree.h"
#include "deploy/canary/ledger.h"

#define CONTENT_TYPE "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

enum { CONTENT_RUN_MAX_BYTES = 64 };

/*
 * A profile as pprof, and where it is posted to, with a NUL at the end. Equal for equal numbers.
 * run: letters and digits, the same for all profiles of a canary and of no other.
 */
void canary_content_write(const struct canary_ledger_profile *profile, struct fg_buf *out);
void canary_content_path(const struct canary_ledger_profile *profile, const char *run,
                         struct fg_buf *out);

/* The selector of the range's series, with a NUL at the end. */
void canary_content_selector(const struct canary_ledger_range *range, const char *run,
                             struct fg_buf *out);

/* Adds up a flame graph (a tree of names): cells[canary_ledger_cells()], zeroed, and what is in
 * none. */
void canary_content_read(const struct canary_ledger_shape *shape, const struct fg_tree *tree,
                         int64_t *cells, int64_t *ret_foreign);

#endif
