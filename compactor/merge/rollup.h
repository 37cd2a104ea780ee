/*
 * Builds the rollup of a service (common/storage/rollup) while a block is written: the sums of its
 * profiles over some spans of time and for some keys.
 *
 *   a block of an hour   the hour for all series, each group and each series; 5 minutes for all
 *   a block of a day     the day for all, groups and series; 6 hours for all and groups; hours for
 *                        all, and 10 minutes of a service so large that its time stripes are
 *                        as short
 *   another block        its span for all, groups and series
 *
 * If profiles begin before the span (cmp_merge_span.early_ns), the span of the rollup begins at the
 * first of them; in addition there are sums of the exact span for all and groups, for queries that
 * begin with it, and of what comes before it, for all.
 *
 * The span's sums of all and of groups exist as full sums, too: parent rollups are made of them.
 * Sums that are not worth their bytes are left out (fg_rollup_worth()); but small groups, and small
 * series, are kept all together or left out all together, since they replace a read of the part's
 * stacks. Sums that do not fit into memory are left out, too: first full sums of groups, then
 * groups, at last the whole rollup of the service. That is no error.
 *
 * Profiles are read a second time after they were written, bucket of time by bucket of time. So
 * memory is the sums of one bucket, of 6 hours and of the span, and does not grow with time.
 *
 * The same profiles give the same rollup for all divisions into sources.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMPACTOR_MERGE_ROLLUP_H
#define FG_COMPACTOR_MERGE_ROLLUP_H

#include "common/storage/rollup/writer.h"
#include "compactor/merge/cursor.h"

/* A service that was written, except for the end of its part. */
struct cmp_merge_rollup_input {
    const struct cmp_merge_span *span;
    struct cmp_merge_cursor *cursors; /* [n_cursors]; with numbers of series; they are read again,
                                     and their stacks become ranks of the block */
    uint32_t n_cursors;
    const struct fg_tree *tree;           /* of the part */
    const struct fg_block_series *series; /* [n_series], of the part, in order */
    uint32_t n_series;
    struct fg_block_writer *block;
    bool fine;              /* of a day also 10 minutes */
    bool named;             /* also names of all stacks (fg_rollup_options) */
    struct fg_arena *arena; /* what the rollup refers to lives there */
    size_t max_bytes;       /* of sums, and of what is kept for each series */
};

/*
 * Builds the rollup. *ret_rollup: give it to the block (fg_rollup_write()) and destroy it after
 * part_end; NULL: there is none. *ret_left_out: something did not fit into memory. Errors of
 * reading profiles.
 */
enum fg_code cmp_merge_rollup_make(const struct cmp_merge_rollup_input *input,
                                   struct fg_rollup_writer **ret_rollup, bool *ret_left_out,
                                   struct fg_err *err) fg_must_check;

#endif
