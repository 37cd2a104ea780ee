/*
 * The one file of the block format that goes over input with a pointer of its own: it is where
 * queries spend their time. All lengths are compared once, before; then numbers are read eight
 * bytes at a time while there are so many, and the last ones from a copy with room behind it.
 */
#include "common/storage/block/numbers.h"

#include <endian.h>

/* Lengths by code, of narrow and wide numbers, and what to keep of eight bytes. */
static const uint8_t lens[2][4] = {{0, 1, 2, 4}, {0, 1, 2, 8}};
static const uint64_t masks[2][4] = {{0, 0xff, 0xffff, 0xffffffff}, {0, 0xff, 0xffff, UINT64_MAX}};

/* ---- writing ---- */

/* Where the next number's code goes. */
struct coder {
    struct fg_buf *bits, *bytes;
    uint32_t count;
    uint8_t four;
};

static void put(struct coder *coder, uint64_t number, bool wide)
{
    unsigned code = number == 0 ? 0 : number <= 0xff ? 1 : number <= 0xffff ? 2 : 3;
    uint64_t little = htole64(number);

    coder->four |= (uint8_t)(code << (coder->count % 4 * 2));
    fg_buf_append(coder->bytes, &little, lens[wide][code]);
    if (++coder->count % 4 == 0) {
        fg_buf_putc(coder->bits, coder->four);
        coder->four = 0;
    }
}

static void put_end(struct coder *coder)
{
    if (coder->count % 4 != 0)
        fg_buf_putc(coder->bits, coder->four);
}

bool fg_block_numbers_wide(const uint64_t *numbers, uint32_t count)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < count; i++)
        all |= numbers[i];
    return all > UINT32_MAX;
}

void fg_block_numbers_put(const uint64_t *numbers, uint32_t count, bool wide, struct fg_buf *bits,
                          struct fg_buf *bytes)
{
    struct coder coder = {bits, bytes, 0, 0};

    for (uint32_t i = 0; i < count; i++)
        put(&coder, numbers[i], wide);
    put_end(&coder);
}

void fg_block_ranks_put(const uint32_t *ranks, uint32_t count, struct fg_buf *bits,
                        struct fg_buf *bytes)
{
    struct coder coder = {bits, bytes, 0, 0};
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++) {
        put(&coder, ranks[i] - next, false);
        next = ranks[i] + 1;
    }
    put_end(&coder);
}

/* ---- reading ---- */

/* Bytes that four numbers have together, by their codes; narrow ones. */
#define ONE(code) ((code) == 3 ? 4 : (code))
#define FOUR(codes)                                                                                \
    (ONE((codes)&3) + ONE((codes) >> 2 & 3) + ONE((codes) >> 4 & 3) + ONE((codes) >> 6))
#define X4(codes)  FOUR(codes), FOUR((codes) + 1), FOUR((codes) + 2), FOUR((codes) + 3)
#define X16(codes) X4(codes), X4((codes) + 4), X4((codes) + 8), X4((codes) + 12)
#define X64(codes) X16(codes), X16((codes) + 16), X16((codes) + 32), X16((codes) + 48)
static const uint8_t four_bytes[256] = {X64(0), X64(64), X64(128), X64(192)};

static size_t threes(uint8_t four)
{
    return (size_t)((four & 3) == 3) + ((four >> 2 & 3) == 3) + ((four >> 4 & 3) == 3) +
           (four >> 6 == 3);
}

/* Checks that the streams hold exactly count numbers, and codes behind the last are 0. After
 * this, the loops below read no byte outside, except the few that every caller leaves room for
 * behind the numbers. */
static bool fits(struct fg_slice bits, struct fg_slice bytes, uint32_t count, bool wide)
{
    size_t sum = 0;

    fg_assert(bits.len == fg_block_bits_bytes(count));
    for (size_t i = 0; i < bits.len; i++)
        sum += four_bytes[bits.ptr[i]];
    for (size_t i = 0; wide && i < bits.len; i++)
        sum += 4 * threes(bits.ptr[i]);
    return sum == bytes.len && (count % 4 == 0 || bits.ptr[bits.len - 1] >> count % 4 * 2 == 0);
}

/* Reads one number. Eight bytes may be read, whatever its length. */
static inline uint64_t get(const uint8_t **at, unsigned code, bool wide)
{
    uint64_t little;

    memcpy(&little, *at, sizeof little);
    *at += lens[wide][code];
    return le64toh(little) & masks[wide][code];
}

/* `wide` is a constant in both calls, so that the compiler makes a loop for each. */
static inline void get_all(struct fg_slice bits, const uint8_t *at, bool wide, uint64_t *out)
{
    for (size_t i = 0; i < bits.len; i++) {
        uint8_t four = bits.ptr[i];

        out[4 * i] = get(&at, four & 3, wide);
        out[4 * i + 1] = get(&at, four >> 2 & 3, wide);
        out[4 * i + 2] = get(&at, four >> 4 & 3, wide);
        out[4 * i + 3] = get(&at, four >> 6, wide);
    }
}

bool fg_block_numbers_get(struct fg_slice bits, struct fg_slice bytes, uint32_t count, bool wide,
                          uint64_t *out)
{
    if (!fits(bits, bytes, count, wide))
        return false;
    if (bytes.len == 0 && count > 0)
        memset(out, 0, bits.len * 4 * sizeof *out);
    else if (wide)
        get_all(bits, bytes.ptr, true, out);
    else
        get_all(bits, bytes.ptr, false, out);
    return true;
}

static inline uint32_t step(const uint8_t **at, unsigned code, uint64_t *rank)
{
    *rank += get(at, code, false);
    return (uint32_t)(*rank)++;
}

bool fg_block_ranks_get(struct fg_slice bits, struct fg_slice bytes, uint32_t count, uint32_t limit,
                        uint32_t *out)
{
    const uint8_t *at = bytes.ptr;
    uint64_t rank = 0; /* 2^28 numbers of 32 bits: no overflow */

    if (!fits(bits, bytes, count, false))
        return false;
    for (size_t i = 0; i < bits.len; i++) {
        uint8_t four = bits.ptr[i];

        out[4 * i] = step(&at, four & 3, &rank);
        out[4 * i + 1] = step(&at, four >> 2 & 3, &rank);
        out[4 * i + 2] = step(&at, four >> 4 & 3, &rank);
        out[4 * i + 3] = step(&at, four >> 6, &rank);
    }
    return rank <= limit + ((uint64_t)bits.len * 4 - count);
}
