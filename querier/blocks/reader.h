/*
 * Reads the parts of a query in batches that fit in memory: directories first, then, for each
 * batch, the indexes of its parts. The caller fetches the rest (pages, trees, rollups).
 *
 * Thread: the query's. Errors: those of blocks.h.
 */
#ifndef FG_QUERIER_BLOCKS_READER_H
#define FG_QUERIER_BLOCKS_READER_H

#include "common/model/selector.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/blocks/objects.h"
#include "querier/selection.h"

struct qry_cached_type;

struct qry_reader {
    struct qry_query *query;
    struct qry_blocks *blocks;
    struct fg_arena *arena;      /* of everything below */
    struct fg_selector selector; /* with the profile type; regular expressions are borrowed */
    const struct qry_selection *selection;
    struct fg_slice service;  /* the only one that can match; empty: any */
    int64_t start_ns, end_ns; /* inclusive */
    struct qry_objects objects;
    uint32_t n_open; /* objects whose parts are known */
    bool of_samples; /* samples are read, not only labels and totals */
    bool of_labels;  /* set after opening: only indexes are read; parts have no matches and spans */
    const struct qry_cached_type *stacks; /* what samples are read with; NULL: nothing */
    uint64_t tail_bytes;
    struct qry_part *parts;
    uint32_t n_parts, cap_parts;
    uint32_t n_found; /* with the parts behind n_parts that rollups.c has put aside */

    /* The current batch. */
    struct qry_part *batch;
    uint32_t n_batch;
    struct fg_arena_mark mark;
};

/*
 * Finds the parts: fetches the directories. profile_type NULL: any. of_samples: reads small objects
 * as a whole. Parts that have rollups only are among the parts; qry_rollups_choose() removes them.
 * Needs qry_reader_close(), after a failure too.
 */
enum fg_code qry_reader_open(struct qry_reader *reader, struct qry_query *query,
                             const struct qry_selection *selection, const char *profile_type,
                             int64_t start_ns, int64_t end_ns, enum qry_objects_which which,
                             bool of_samples, struct fg_err *err) fg_must_check;
void qry_reader_close(struct qry_reader *reader);

/* Finds the parts of objects that were closed (children.h) and are open now. Before the first
 * batch. */
enum fg_code qry_reader_extend(struct qry_reader *reader, struct fg_err *err) fg_must_check;

/*
 * Moves to the next batch of parts that fit in memory together; frees what the batch before made in
 * the arena. Fetches their indexes and finds the spans of series that match and may have data in
 * the range that is not deleted. n_batch 0: there are no more.
 */
enum fg_code qry_reader_next(struct qry_reader *reader, struct fg_err *err) fg_must_check;

#endif
