/*
 * Accumulators add up the samples of parts, by rank. Each thread that helps has one of its own, so
 * several add pages of one part at the same time; at the end their sums are joined. Sums are of 64
 * bits and wrap around, so the result does not depend on who added what.
 *
 * Thread: one accumulator belongs to one thread at a time.
 * Memory: the accumulators of a batch and the reader's arena are bounded together by what a query
 * may use. qry_accumulators_begin() limits the number of helpers, so that the accumulators beyond
 * the first take at most a quarter of what is left.
 */
#ifndef FG_QUERIER_BLOCKS_ACCUMULATORS_H
#define FG_QUERIER_BLOCKS_ACCUMULATORS_H

#include "querier/blocks/reader.h"

struct qry_accumulator {
    struct fg_arena *arena; /* of the batch */
    struct fg_block_samples *samples;
    uint64_t **sums; /* by part of the batch; NULL: it has added nothing to it */
    struct qry_accumulator *next;
};

struct qry_accumulators {
    pthread_mutex_t lock; /* of `idle` */
    const struct qry_reader *reader;
    uint64_t max_bytes; /* of one accumulator, for the batch */
    struct qry_accumulator *idle;
};

void qry_accumulators_init(struct qry_accumulators *accumulators, const struct qry_reader *reader);
void qry_accumulators_done(struct qry_accumulators *accumulators);

/* Begins the reader's batch, whose spans are known: reserves memory for sums, so the reader's arena
 * has less until the end. No thread adds. */
void qry_accumulators_begin(struct qry_accumulators *accumulators);

/* Ends the batch and frees the sums. No thread adds. */
void qry_accumulators_end(struct qry_accumulators *accumulators);

/* Take an idle accumulator, or a new one, and give it back. Any thread. */
struct qry_accumulator *qry_accumulators_take(struct qry_accumulators *accumulators);
void qry_accumulators_give(struct qry_accumulators *accumulators,
                           struct qry_accumulator *accumulator);

/* Returns the accumulator's sums of a part of the batch, [n_stacks]; NULL: they need too much
 * memory. */
uint64_t *qry_accumulator_sums(struct qry_accumulator *accumulator, const struct qry_reader *reader,
                               const struct qry_part *part);

/* Joins the sums of all accumulators into part->sums; NULL: there are none. No thread adds. Any
 * thread, for several parts at a time. */
void qry_accumulators_join(const struct qry_accumulators *accumulators, struct qry_part *part);

#endif
