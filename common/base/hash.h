/*
 * Content hashes (XXH3, from libxxhash). Ids of strings, frames, stacks and profiles have 128 bits:
 * equal content has the same id on every machine, and two different contents practically never do.
 */
#ifndef FG_COMMON_BASE_HASH_H
#define FG_COMMON_BASE_HASH_H

#include "common/base/slice.h"

/* An id or a sum of ids. Functions compare and add it as one number of 128 bits. */
struct fg_id {
    uint64_t lo, hi;
};

enum { FG_ID_BYTES = 16 };

/* Returns the hash of the bytes. */
struct fg_id fg_hash128(struct fg_slice bytes);
uint64_t fg_hash64(struct fg_slice bytes);

/* Returns a hash that also depends on seed, so that equal bytes in two domains (a label set, a
 * stack) have different ids. */
struct fg_id fg_hash128_seed(struct fg_slice bytes, uint64_t seed);

/* Spreads the bits of a number evenly (the finaliser of SplitMix64). */
static inline uint64_t fg_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/*
 * Returns a secret random number of this process. Hash tables mix it into the hashes of keys that
 * clients choose, so that no client can make keys that collide. Never store or send it.
 */
uint64_t fg_hash_seed(void);

/*
 * Returns a hash for tables in memory whose keys clients choose. It differs between processes, so
 * never store or send it.
 */
uint64_t fg_hash64_table(struct fg_slice bytes);

/* Does the same for an id. It mixes both halves, since a client may be able to choose one. */
static inline uint64_t fg_id_table(struct fg_id id)
{
    return id.lo ^ fg_mix64(id.hi ^ fg_hash_seed());
}

/* Returns whether both are equal. */
static inline bool fg_id_eq(struct fg_id a, struct fg_id b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

static inline bool fg_id_is_zero(struct fg_id a)
{
    return (a.lo | a.hi) == 0;
}

/* Compares two ids as numbers: less than 0, 0, or more than 0. */
static inline int fg_id_cmp(struct fg_id a, struct fg_id b)
{
    if (a.hi != b.hi)
        return a.hi < b.hi ? -1 : 1;
    return (a.lo > b.lo) - (a.lo < b.lo);
}

/* Returns a + b modulo 2^128. The sum of a set of ids is its digest, independent of the order
 * (common/cluster/README.md#read). */
static inline struct fg_id fg_id_add(struct fg_id a, struct fg_id b)
{
    struct fg_id sum = {a.lo + b.lo, a.hi + b.hi};

    sum.hi += sum.lo < a.lo;
    return sum;
}

/* Returns a - b modulo 2^128. */
static inline struct fg_id fg_id_sub(struct fg_id a, struct fg_id b)
{
    struct fg_id rest = {a.lo - b.lo, a.hi - b.hi};

    rest.hi -= a.lo < b.lo;
    return rest;
}

/* Write and read an id as sixteen bytes, little-endian, lo first. */
void fg_id_put(uint8_t out[FG_ID_BYTES], struct fg_id id);
struct fg_id fg_id_get(const uint8_t in[FG_ID_BYTES]);

#endif
