#include "common/base/crc32c.h"

#include <endian.h>
#include <pthread.h>

enum { POLYNOMIAL = 0x82f63b78 }; /* 0x1edc6f41, bits reversed */

/* tables[k][b]: the checksum's change by byte b, k zero bytes before the end of a word. */
static uint32_t tables[8][256];

static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? (uint32_t)POLYNOMIAL : 0);
        tables[0][b] = crc;
    }
    for (size_t k = 1; k < 8; k++)
        for (size_t b = 0; b < 256; b++)
            tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 255];
}

static uint64_t load(const uint8_t *ptr)
{
    uint64_t word;

    memcpy(&word, ptr, sizeof word);
    return le64toh(word);
}

/* Slicing by eight: one look-up for each byte, but eight bytes in parallel. For processors
 * without the instruction, and to test the other form against. */
uint32_t fg_crc32c_table(uint32_t crc, struct fg_slice bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint8_t *at = bytes.ptr;
    size_t left = bytes.len;

    (void)pthread_once(&once, make_tables);
    crc = ~crc;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = load(at) ^ crc;

        crc = 0;
        for (size_t k = 0; k < 8; k++)
            crc ^= tables[7 - k][word >> 8 * k & 255];
    }
    for (; left > 0; left--)
        crc = crc >> 8 ^ tables[0][(crc ^ *at++) & 255];
    return ~crc;
}

#if defined __x86_64__

#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse(uint32_t crc, struct fg_slice bytes)
{
    const uint8_t *at = bytes.ptr;
    size_t left = bytes.len;
    /* SSE4.2's CRC32 instruction computes just this polynomial (Castagnoli). */
    uint64_t wide = (uint32_t)~crc;

    for (; left >= 8; left -= 8, at += 8)
        wide = _mm_crc32_u64(wide, load(at));
    crc = (uint32_t)wide;
    for (; left > 0; left--)
        crc = _mm_crc32_u8(crc, *at++);
    return ~crc;
}

uint32_t fg_crc32c_more(uint32_t crc, struct fg_slice bytes)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse(crc, bytes) : fg_crc32c_table(crc, bytes);
}

#else

uint32_t fg_crc32c_more(uint32_t crc, struct fg_slice bytes)
{
    return fg_crc32c_table(crc, bytes);
}

#endif

uint32_t fg_crc32c(struct fg_slice bytes)
{
    return fg_crc32c_more(0, bytes);
}
