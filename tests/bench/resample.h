/*
 * A stream of CPU profiles like that of a real service, out of a few real ones: as many profiles of
 * as many instances as anybody wants, without keeping them.
 *
 * Real profiles of 10 s at 100 Hz have some 300 stacks, hardly one of them twice; an hour of one
 * instance has a third as many distinct stacks as samples, an hour of 20 instances a tenth
 * (tests/bench/README.md). So a sample is
 *   with 15 %   a stack of the real profiles, by its weight there
 *   else        number k of an endless list of rare stacks, with p(k) ~ (k + 4500)^-1.6
 * Rare stack k is made from k alone: a real stack, cut somewhere in its lower half; from there on
 * it goes from function to function as some real stack did, in three of ten steps on another line
 * of the function, one of its first 40. So that an hour of one instance of `shop` has 31,600 stacks
 * in 102,000 samples and one of 20 instances 175,000 in 2,050,000. No two instances or times of day
 * differ in what they do: that makes less alike than real services are.
 */
#ifndef FG_TESTS_BENCH_RESAMPLE_H
#define FG_TESTS_BENCH_RESAMPLE_H

#include "common/model/batch.h"
#include "common/model/tree.h"

struct resample;

struct resample *resample_create(void);
void resample_destroy(struct resample *resample);

/* Learns the stacks of a decoded profile. */
void resample_learn(struct resample *resample, const struct fg_batch *batch);

/* The number of a decoded stack in the tree, node + 1; 0: the empty one. Find or add. */
uint32_t resample_stack(struct resample *resample, const struct fg_batch *batch,
                        const struct fg_stack *stack);

/* The tree of all stacks so far. */
const struct fg_tree *resample_tree(const struct resample *resample);

/* Draws a profile: the same for the same seed. At most `ticks` stacks, numbered node + 1; equal
 * ones are together. Returns how many. */
uint32_t resample_draw(struct resample *resample, uint64_t seed, uint32_t ticks, uint32_t *stacks,
                       uint64_t *counts);

#endif
