/*
 * Adds values of samples.
 *
 * A value is an int64_t. Decoders drop negative values and refuse a profile in which the value of a
 * stack does not fit (FG_E_INVALID: the sender gets an error). Sums over stacks, profiles, series
 * and time have no sender to report to, and do get that large: a hundred thousand busy cores use
 * 2^63 nanoseconds of CPU time a day. So sums saturate: a larger sum becomes INT64_MAX, a smaller
 * one INT64_MIN. Every sum that fits is exact, even if others of the same profile do not fit. If no
 * value is negative, the order of additions does not change the sum, so merging stays associative.
 * Sums never wrap around, since the result would look like an ordinary small or negative number.
 *
 * Differences of numbers in an encoding do wrap around, and undoing them restores every number. Use
 * fg_wrap_add() and fg_wrap_sub() for them.
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

/* Adds to a sum that is stored as a uint64_t, as in columns of blocks. */
static inline void fg_value_sum(uint64_t *sum, uint64_t value)
{
    *sum = (uint64_t)fg_value_add((int64_t)*sum, (int64_t)value);
}

/* Returns the greatest common divisor; 0 if both are 0. Values are stored divided by theirs. */
static inline uint64_t fg_greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
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
