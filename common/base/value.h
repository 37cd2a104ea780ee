/*
 * Values of samples, and how they are added.
 *
 * A value is an int64_t; decoders drop negative ones and refuse a profile in which one stack's
 * value does not fit (FG_E_INVALID: its sender can be told). Sums over stacks, profiles, series and
 * time have nobody who could be told, and really do get that large: a hundred thousand busy cores
 * have 2^63 nanoseconds of CPU time in a day. They saturate: what is beyond 64 bits becomes
 * INT64_MAX (below: INT64_MIN). Every sum that fits is exact, beside one that does not, too; and
 * as long as no value is negative, any order of adding gives the same sum, so that merging stays
 * associative. A sum is never taken modulo 2^64: it would be a small or negative number that looks
 * like any other.
 *
 * Differences of numbers in an encoding are another matter: they wrap around, and so does undoing
 * them, which gives back every number. fg_wrap_add() and fg_wrap_sub() are for those.
 */
#ifndef FG_COMMON_BASE_VALUE_H
#define FG_COMMON_BASE_VALUE_H

#include "common/base/def.h"

/* Returns a + b, saturated. */
static inline int64_t fg_value_add(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

/* Returns a - b, saturated. */
static inline int64_t fg_value_sub(int64_t a, int64_t b)
{
    int64_t difference;

    if (__builtin_sub_overflow(a, b, &difference))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

/* Returns a * factor, saturated. */
static inline int64_t fg_value_mul(int64_t a, uint64_t factor)
{
    int64_t product;

    if (__builtin_mul_overflow(a, factor, &product))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return product;
}

/* Adds to a sum that is kept as the uint64_t of an int64_t, as columns of blocks are. */
static inline void fg_value_sum(uint64_t *sum, uint64_t value)
{
    *sum = (uint64_t)fg_value_add((int64_t)*sum, (int64_t)value);
}

/* Returns a + b modulo 2^64: undoes a difference. */
static inline int64_t fg_wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Returns a - b modulo 2^64: the difference to encode. */
static inline int64_t fg_wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

#endif
