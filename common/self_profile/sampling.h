/*
 * Chance in sampling. Pure. Samples are drawn at points of a Poisson process, so that no pattern of
 * sizes or times hides from them, and each stands for 1 / probability: sums are unbiased.
 */
#ifndef FG_COMMON_SELF_PROFILE_SAMPLING_H
#define FG_COMMON_SELF_PROFILE_SAMPLING_H

#include "common/base/def.h"

/* Returns the distance to the next point, at least 1, of a process with so many units between two
 * points on average. state: of the caller, changed; any value. */
int64_t fg_sampling_next(uint64_t *state, int64_t mean);

/* Returns for how many blocks of this size, in 1/1024, a block stands that was sampled: 1 / (1 -
 * e^(-size/mean)). */
int64_t fg_sampling_weight_1024(uint64_t size, int64_t mean);

/*
 * Decides whether an event of this length is sampled: always if it is at least as long as mean,
 * else with the probability length / mean. Returns 0, or for how many such events it stands, which
 * have *ret_length together.
 */
int64_t fg_sampling_of_length(uint64_t *state, int64_t length, int64_t mean, int64_t *ret_length);

#endif
