/*
 * SELECT on blocks: adds up the samples of each part in a dense array by rank, while pages come in,
 * so nothing is hashed. The caller turns the sums into a tree (tree.c) or into crowns (crowns.c).
 * Pages, and then parts, are tasks of the query's task group.
 */
#ifndef FG_QUERIER_BLOCKS_SAMPLES_H
#define FG_QUERIER_BLOCKS_SAMPLES_H

#include "querier/blocks/pieces.h"

/* What becomes of the sums. */
struct qry_samples_taker {
    /* Reads the crowns that parts of the piece, or all others, of reader->parts[0, n_found) name.
     * NULL: only full rollups can be used. full: full rollups are used if there are any, crowns for
     * parts whose profiles are gone. */
    enum fg_code (*take_crowns)(void *arg, struct qry_reader *reader, bool of_piece,
                                struct fg_err *err);
    /* Adds a piece to the sum. Begins and ends one: what is taken in between is the piece's, to
     * which end_piece() sets *ret_piece, and has to be added. NULL: there are no pieces. */
    void (*add_piece)(void *arg, const struct qry_piece *piece);
    void (*begin_piece)(void *arg);
    void (*end_piece)(void *arg, struct qry_piece *ret_piece);
    bool full;
    uint64_t max_sample_bytes; /* if the samples in the range have more, none is read: FG_E_LIMIT */
    const struct qry_cached_type *stacks; /* what ranks mean: qry_cached_tree or _names */
    /* Makes what take() wants of a part that has values: its sums are in part->sums, its stacks in
     * part->tree_entry. Any thread, for several parts at a time. */
    enum fg_code (*make)(void *arg, const struct qry_part *part, struct fg_arena *arena,
                         void **ret_made, struct fg_err *err);
    /* Begins and ends the parts of a batch: there are `count`, or fewer. Called in pairs, if
     * begin() has succeeded; failed: a part could not be made or taken. The query's thread. NULL:
     * there is nothing to do. */
    void (*begin)(void *arg, uint32_t count);
    enum fg_code (*end)(void *arg, bool failed, struct fg_err *err);
    /* Takes what was made, part after part in their order, and owns what is not in the arena, after
     * a failure too. number: of the part in its batch. The query's thread. */
    enum fg_code (*take)(void *arg, uint32_t number, void *made, struct fg_err *err);
    void (*drop)(void *made); /* frees what was not taken; NULL: all of it is in the arena */
    void *arg;
};

/* Adds up all selected samples, part after part. The query has a snapshot. Adds to *sample_bytes
 * the stored size of the samples in the range. Errors: those of blocks.h. */
enum fg_code qry_samples_sum(struct qry_query *query, const struct qry_selection *selection,
                             const struct qry_stack_filter *stacks,
                             const struct qry_samples_taker *taker, uint64_t *sample_bytes,
                             struct fg_err *err) fg_must_check;

#endif
