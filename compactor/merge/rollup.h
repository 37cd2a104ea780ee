/*
 * Merged nodes (common/storage/rollup) of a service while a block is made: what its profiles add up
 * to, over which spans and for which keys.
 *
 *   a block of an hour   the hour for all series, each group and each series; 5 minutes for all
 *   a block of a day     the day for all, groups and series; 6 hours for all and groups; hours for
 *                        all, and 10 minutes of a service so large that stripes are as short
 *   another              its span for all, groups and series
 *
 * Where profiles begin before the span (merge_span.early_ns) that is what the block has in all,
 * from the first of them on; beside it there is the span itself for all and groups, for questions
 * that begin with it, and what comes before, for all.
 *
 * Of the span's sums of all and of groups there are full nodes as well: what weeks are made of.
 * What is not worth its bytes is left out (fg_rollup_worth()); but small groups, and small
 * series, are worth it together or not at all: they take the place of reading the part's stacks.
 * What does not fit into memory is left out too: first full nodes of groups, then groups, at last
 * the service's nodes. That is no error.
 *
 * Profiles are read a second time, after they were written, bucket of time by bucket of time: so
 * memory is sums of one bucket, of 6 hours and of the span, and none of it grows with time.
 *
 * The same profiles give the same nodes, in whatever sources they come.
 */
#ifndef FG_COMPACTOR_MERGE_ROLLUP_H
#define FG_COMPACTOR_MERGE_ROLLUP_H

#include "common/storage/rollup/writer.h"
#include "compactor/merge/cursor.h"

/* A service that was written just now, but for the end of its part. */
struct cmp_merge_rollup_input {
    const struct cmp_merge_span *span;
    struct cmp_merge_cursor *cursors; /* [n_cursors]; with numbers of series; they are read from
                                     anew, and their stacks become ranks of the block */
    uint32_t n_cursors;
    const struct fg_tree *tree;           /* of the part */
    const struct fg_block_series *series; /* [n_series], of the part, in order */
    uint32_t n_series;
    struct fg_block_writer *block;
    bool fine;              /* of a day 10 minutes, too */
    bool named;             /* names of all stacks, too (fg_rollup_options) */
    struct fg_arena *arena; /* what nodes refer to stays there */
    size_t max_bytes;       /* of sums, and of what is kept for each series */
};

/*
 * *ret_nodes: to be given to the block (fg_rollup_write()) and destroyed after part_end; NULL:
 * there are none. *ret_left_out: something did not fit into memory. Fails only as reading profiles
 * does.
 */
enum fg_code cmp_merge_rollup_make(const struct cmp_merge_rollup_input *input,
                                   struct fg_rollup_writer **ret_nodes, bool *ret_left_out,
                                   struct fg_err *err) fg_must_check;

#endif
