/*
 * Who add up samples. Each has sums of its own, so several may add pages of one part at a time, and
 * in the end they are joined. Sums are of 64 bits and go around, so who added what makes no
 * difference.
 *
 * Thread: an adder is with one at a time. Memory: what all have for a batch and what the reader has
 * are bounded together by what a query may have; qry_accumulators_begin() lets only so many help
 * that those of them who are not the first take a quarter of what is left.
 */
#ifndef FG_QUERIER_BLOCKS_ACCUMULATORS_H
#define FG_QUERIER_BLOCKS_ACCUMULATORS_H

#include "querier/blocks/impl.h"

struct qry_accumulator {
    struct fg_arena *arena; /* of the batch */
    struct fg_block_samples *samples;
    uint64_t **sums; /* by part of the batch; NULL: it has added nothing to it */
    struct qry_accumulator *next;
};

struct qry_accumulators {
    pthread_mutex_t lock;
    const struct qry_reader *reader;
    uint64_t max_bytes; /* of one, for the batch */
    struct qry_accumulator *idle;
};

void qry_accumulators_init(struct qry_accumulators *adders, const struct qry_reader *reader);
void qry_accumulators_done(struct qry_accumulators *adders);

/* For the reader's batch, whose spans are known. In between the reader's arena has less room: what
 * sums do not need. Nobody adds. */
void qry_accumulators_begin(struct qry_accumulators *adders);
/* The sums are gone. */
void qry_accumulators_end(struct qry_accumulators *adders);

/* Any thread: one that nobody has, until it is given back. */
struct qry_accumulator *qry_accumulators_take(struct qry_accumulators *adders);
void qry_accumulators_give(struct qry_accumulators *adders, struct qry_accumulator *adder);

/* Its sums of a part of the batch, [n_stacks]; NULL: they need too much memory. */
uint64_t *qry_accumulator_sums(struct qry_accumulator *adder, const struct qry_reader *reader,
                               const struct qry_part *part);

/* part->sums: of all adders; NULL: nobody has any. Nobody adds; any thread, for several parts at a
 * time. */
void qry_accumulators_join(const struct qry_accumulators *adders, struct qry_part *part);

#endif
