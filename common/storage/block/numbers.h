/*
 * Encodes numbers in two streams: two bits per number for its length in bytes, four to a byte, the
 * first in the lowest bits; and the bytes, little-endian.
 *
 *   bits   0  1  2  3
 *   bytes  0  1  2  4, or 8 if the numbers are wide: one of them does not fit in 4
 *
 * Compared with varints, that is equally large after zstd, has fewer bytes for zstd to unpack, and
 * summing takes a quarter less time: the start of a number does not depend on the bytes of the
 * number before, so the processor neither waits for them nor mispredicts. Private to the block
 * format.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_NUMBERS_H
#define FG_COMMON_STORAGE_BLOCK_NUMBERS_H

#include "common/base/buf.h"

/* Returns the bytes of the first stream for count numbers. */
static inline size_t fg_block_bits_bytes(uint32_t count)
{
    return ((size_t)count + 3) / 4;
}

enum {
    FG_BLOCK_NUMBERS_SPARE = 3,  /* additional elements of out, which are overwritten */
    FG_BLOCK_NUMBERS_BEHIND = 8, /* bytes after a stream that may be read */
};

/* Returns whether a number does not fit in 4 bytes. */
bool fg_block_numbers_wide(const uint64_t *numbers, uint32_t count);
/* Appends numbers to both streams. */
void fg_block_numbers_put(const uint64_t *numbers, uint32_t count, bool wide, struct fg_buf *bits,
                          struct fg_buf *bytes);

/*
 * Decodes count numbers to out[count + FG_BLOCK_NUMBERS_SPARE]. bits has fg_block_bits_bytes(count)
 * bytes. FG_BLOCK_NUMBERS_BEHIND bytes after `bytes` are readable. Returns false if the length of
 * `bytes` does not match bits.
 */
bool fg_block_numbers_get(struct fg_slice bits, struct fg_slice bytes, uint32_t count, bool wide,
                          uint64_t *out) fg_must_check;

/* Appends ascending distinct ranks: the first, then each rank - the rank before - 1. They are not
 * wide. */
void fg_block_ranks_put(const uint32_t *ranks, uint32_t count, struct fg_buf *bits,
                        struct fg_buf *bytes);

/* Decodes ranks, with the rules of fg_block_numbers_get(). Also returns false if a rank is not less
 * than limit. */
bool fg_block_ranks_get(struct fg_slice bits, struct fg_slice bytes, uint32_t count, uint32_t limit,
                        uint32_t *out) fg_must_check;

#endif
