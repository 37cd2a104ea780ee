/*
 * Who add up samples. Each has sums of its own, so several may add pages of one part at a time, and
 * in the end they are joined. Sums are of 64 bits and go around, so who added what makes no
 * difference.
 *
 * Thread: an adder is with one at a time. Memory: what all have for a batch and what the reader has
 * are bounded together by what a query may have; qry_adders_begin() lets only so many help that
 * those of them who are not the first take a quarter of what is left.
 */
#ifndef FG_QUERIER_BLOCKS_ADDERS_H
#define FG_QUERIER_BLOCKS_ADDERS_H

#include "querier/blocks/impl.h"

struct qry_adder {
    struct fg_arena *arena; /* of the batch */
    struct fg_block_samples *samples;
    uint64_t **sums; /* by part of the batch; NULL: it has added nothing to it */
    struct qry_adder *next;
};

struct qry_adders {
    pthread_mutex_t lock;
    const struct qry_reader *reader;
    uint64_t max_bytes; /* of one, for the batch */
    struct qry_adder *idle;
};

void qry_adders_init(struct qry_adders *adders, const struct qry_reader *reader);
void qry_adders_done(struct qry_adders *adders);

/* For the reader's batch, whose spans are known. In between the reader's arena has less room: what
 * sums do not need. Nobody adds. */
void qry_adders_begin(struct qry_adders *adders);
/* The sums are gone. */
void qry_adders_end(struct qry_adders *adders);

/* Any thread: one that nobody has, until it is given back. */
struct qry_adder *qry_adders_take(struct qry_adders *adders);
void qry_adders_give(struct qry_adders *adders, struct qry_adder *adder);

/* Its sums of a part of the batch, [n_stacks]; NULL: they need too much memory. */
uint64_t *qry_adder_sums(struct qry_adder *adder, const struct qry_reader *reader,
                         const struct qry_part *part);

/* part->sums: of all adders; NULL: nobody has any. Nobody adds; any thread, for several parts at a
 * time. */
void qry_adders_join(const struct qry_adders *adders, struct qry_part *part);

#endif
