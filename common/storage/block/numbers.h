/*
 * Numbers in two streams: two bits for each say how many bytes it has, four to a byte, the first in
 * the lowest; and the bytes, little-endian.
 *
 *   bits   0  1  2  3
 *   bytes  0  1  2  4, or 8 where numbers are wide: one does not fit in 4
 *
 * Against varints that is as large under zstd, less for zstd to unpack, and a quarter off what
 * adding up costs: where a number begins does not depend on the bytes of the one before, so
 * processors need neither wait for them nor guess. Private to the block format.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_NUMBERS_H
#define FG_COMMON_STORAGE_BLOCK_NUMBERS_H

#include "common/base/buf.h"

/* Bytes of the first stream for count numbers. */
static inline size_t fg_block_bits_bytes(uint32_t count)
{
    return ((size_t)count + 3) / 4;
}

enum {
    FG_BLOCK_NUMBERS_SPARE = 3,  /* out has room for so many more, which are of no use */
    FG_BLOCK_NUMBERS_BEHIND = 8, /* bytes that may be read behind those of a stream */
};

bool fg_block_numbers_wide(const uint64_t *numbers, uint32_t count);
void fg_block_numbers_put(const uint64_t *numbers, uint32_t count, bool wide, struct fg_buf *bits,
                          struct fg_buf *bytes);

/*
 * bits: fg_block_bits_bytes(count) of them. bytes: with FG_BLOCK_NUMBERS_BEHIND readable ones
 * behind them. out[count + FG_BLOCK_NUMBERS_SPARE]. false: bytes are not what bits say.
 */
bool fg_block_numbers_get(struct fg_slice bits, struct fg_slice bytes, uint32_t count, bool wide,
                          uint64_t *out) fg_must_check;

/* Ascending ranks, each once: the first, then each - that before - 1; not wide. The same for out.
 */
void fg_block_ranks_put(const uint32_t *ranks, uint32_t count, struct fg_buf *bits,
                        struct fg_buf *bytes);

/* false also when a rank is not below limit. */
bool fg_block_ranks_get(struct fg_slice bits, struct fg_slice bytes, uint32_t count, uint32_t limit,
                        uint32_t *out) fg_must_check;

#endif
