/*
 * Content hashes: XXH3 by way of libxxhash. Ids of strings, frames, stacks and profiles are 128
 * bits, so that equal content has an equal id on every machine and different content practically
 * never.
 */
#ifndef FG_COMMON_BASE_HASH_H
#define FG_COMMON_BASE_HASH_H

#include "common/base/slice.h"

/* 128 bits: an id or a sum of ids. Compared and summed as one little number. */
struct fg_id {
    uint64_t lo, hi;
};

enum { FG_ID_BYTES = 16 };

struct fg_id fg_hash128(struct fg_slice bytes);
uint64_t fg_hash64(struct fg_slice bytes);

/* seed separates domains: the same bytes as a label set and as a stack have nothing in common. */
struct fg_id fg_hash128_seed(struct fg_slice bytes, uint64_t seed);

/* Mixes a 64-bit number into a well spread one (the finaliser of SplitMix64). */
static inline uint64_t fg_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/*
 * A number of this process that strangers cannot guess, to be mixed into the hashes by which tables
 * find what they choose: nobody can then make things that all fall on one place. Never in what is
 * stored or sent.
 */
uint64_t fg_hash_seed(void);

/*
 * For tables in memory whose keys strangers choose: another hash in every process, so that nobody
 * can make keys meet. Never stored or sent.
 */
uint64_t fg_hash64_table(struct fg_slice bytes);

/* The same for ids: who makes one half of two ids meet does not have the other half as well. */
static inline uint64_t fg_id_table(struct fg_id id)
{
    return id.lo ^ fg_mix64(id.hi ^ fg_hash_seed());
}

static inline bool fg_id_eq(struct fg_id a, struct fg_id b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

static inline bool fg_id_is_zero(struct fg_id a)
{
    return (a.lo | a.hi) == 0;
}

static inline int fg_id_cmp(struct fg_id a, struct fg_id b)
{
    if (a.hi != b.hi)
        return a.hi < b.hi ? -1 : 1;
    return (a.lo > b.lo) - (a.lo < b.lo);
}

/* Sum modulo 2^128: the digest of a set of ids, whatever their order
 * (common/cluster/README.md#read). */
static inline struct fg_id fg_id_add(struct fg_id a, struct fg_id b)
{
    struct fg_id sum = {a.lo + b.lo, a.hi + b.hi};

    sum.hi += sum.lo < a.lo;
    return sum;
}

static inline struct fg_id fg_id_sub(struct fg_id a, struct fg_id b)
{
    struct fg_id rest = {a.lo - b.lo, a.hi - b.hi};

    rest.hi -= a.lo < b.lo;
    return rest;
}

/* Sixteen bytes, little-endian, lo first. */
void fg_id_put(uint8_t out[FG_ID_BYTES], struct fg_id id);
struct fg_id fg_id_get(const uint8_t in[FG_ID_BYTES]);

#endif
