/*
 * A set of small numbers, one bit each, in an array of 64-bit words that the caller owns. An array
 * of zeros is the empty set.
 *
 *     uint64_t slow[FG_BITS_WORDS(FG_RING_MEMBERS_MAX)] = {0};
 *
 *     fg_bits_set(slow, member);
 */
#ifndef FG_COMMON_BASE_BITS_H
#define FG_COMMON_BASE_BITS_H

#include "common/base/def.h"

/* The number of words for n bits, as a constant expression where n is one. */
#define FG_BITS_WORDS(n) (((n) + 63) / 64)

/* Returns whether number i is in the set. */
static inline bool fg_bits_has(const uint64_t *bits, size_t i)
{
    return (bits[i / 64] >> i % 64 & 1) != 0;
}

/* Adds number i. */
static inline void fg_bits_set(uint64_t *bits, size_t i)
{
    bits[i / 64] |= UINT64_C(1) << i % 64;
}

/* Removes number i. */
static inline void fg_bits_clear(uint64_t *bits, size_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* Returns how many numbers of the set are less than i. ranks[w]: how many are before word w. */
static inline uint32_t fg_bits_rank(const uint64_t *bits, const uint32_t *ranks, size_t i)
{
    uint64_t below = bits[i / 64] & ((UINT64_C(1) << i % 64) - 1);

    return ranks[i / 64] + (uint32_t)__builtin_popcountll(below);
}

#endif
