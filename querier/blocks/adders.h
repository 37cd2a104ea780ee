/*
 * Who add up samples. Each has sums of its own, so several may add pages of one part at a time, and
 * in the end they are joined. Sums are of 64 bits and go around, so who added what makes no
 * difference.
 *
 * Thread: an adder is with one at a time. Memory: what all have for a batch and what the reader has
 * are bounded together by what a question may have; adders_begin() lets only so many help that
 * those of them who are not the first take a quarter of what is left.
 */
#ifndef FG_QUERIER_BLOCKS_ADDERS_H
#define FG_QUERIER_BLOCKS_ADDERS_H

#include "querier/blocks/impl.h"

struct adder {
    struct fg_arena *arena; /* of the batch */
    struct fg_block_samples *samples;
    uint64_t **sums; /* by part of the batch; NULL: it has added nothing to it */
    struct adder *next;
};

struct adders {
    pthread_mutex_t lock;
    const struct reader *reader;
    uint64_t max_bytes; /* of one, for the batch */
    struct adder *idle;
};

void adders_init(struct adders *adders, const struct reader *reader);
void adders_done(struct adders *adders);

/* For the reader's batch, whose spans are known. In between the reader's arena has less room: what
 * sums do not need. Nobody adds. */
void adders_begin(struct adders *adders);
/* The sums are gone. */
void adders_end(struct adders *adders);

/* Any thread: one that nobody has, until it is given back. */
struct adder *adders_take(struct adders *adders);
void adders_give(struct adders *adders, struct adder *adder);

/* Its sums of a part of the batch, [n_stacks]; NULL: they need too much memory. */
uint64_t *adder_sums(struct adder *adder, const struct reader *reader, const struct part *part);

/* part->sums: of all adders; NULL: nobody has any. Nobody adds; any thread, for several parts at a
 * time. */
void adders_join(const struct adders *adders, struct part *part);

#endif
