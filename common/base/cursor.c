#include "common/base/cursor.h"

#include <endian.h>

/* Joins the lower seven bits of each byte: pairs, then fours, then all eight. (LEB128 as in
 * protobuf; the first byte has the lowest bits.) */
static uint64_t join_sevens(uint64_t word)
{
    word &= UINT64_C(0x7f7f7f7f7f7f7f7f);
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
}

uint64_t fg_cur_varint_slow(struct fg_cur *cur)
{
    const uint8_t *in = cur->ptr;
    size_t len = FG_MIN(cur->left, 10);
    uint64_t value = 0;

    if (cur->left >= sizeof value) { /* of eight bytes at most: times and sizes, without a loop */
        uint64_t word, ends;

        memcpy(&word, in, sizeof word);
        word = le64toh(word);
        ends = ~word & UINT64_C(0x8080808080808080);
        if (ends != 0) {
            unsigned bytes = (unsigned)__builtin_ctzll(ends) / 8 + 1;

            cur->ptr += bytes;
            cur->left -= bytes;
            /* Keeps the bytes up to the first one without the upper bit. */
            return join_sevens(word & (ends ^ (ends - 1)));
        }
    }
    for (size_t i = 0; i < len; i++) {
        if (i == 9 && in[i] > 1) /* beyond 64 bits */
            break;
        value |= (uint64_t)(in[i] & 0x7f) << (7 * i);
        if (in[i] < 0x80) {
            cur->ptr += i + 1;
            cur->left -= i + 1;
            return value;
        }
    }
    fg_cur_fail(cur);
    return 0;
}

/* Seven bits of each byte, for numbers of four bytes at most without waiting for a step before. */
static uint64_t join(uint64_t word)
{
    if (word > UINT32_MAX)
        return join_sevens(word);
    return (word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000) | (word >> 3 & 0xfe00000);
}

/*
 * All numbers that end within eight bytes, out of a register: which lengths follow each other
 * cannot be guessed, so none is branched on. ends: the upper bits of their last bytes, not zero.
 * Returns behind the last one; *bytes is what they take.
 */
static uint64_t *take_word(uint64_t word, uint64_t ends, uint64_t *out, unsigned *bytes)
{
    unsigned bits, all = 0;

    do {
        bits = (unsigned)__builtin_ctzll(ends) + 1;
        *out++ = join(word & (UINT64_MAX >> (64 - bits)));
        word = word >> 1 >> (bits - 1); /* they may be all 64 */
        ends = ends >> 1 >> (bits - 1);
        all += bits;
    } while (ends != 0);
    *bytes = all / 8;
    return out;
}

void fg_cur_varints(struct fg_cur *cur, uint64_t *out, size_t count)
{
    const uint64_t high = UINT64_C(0x8080808080808080), *end = out + count;

    /* At least 8 numbers are wanted, so a word never has more of them than there is room for. */
    while ((size_t)(end - out) >= 8 && cur->left >= 8) {
        uint64_t word, ends;
        unsigned bytes = 8;

        memcpy(&word, cur->ptr, sizeof word);
        word = le64toh(word);
        ends = ~word & high;
        if (ends == 0) { /* longer than that */
            *out++ = fg_cur_varint_slow(cur);
            continue;
        }
        if (ends == high) {
            for (unsigned i = 0; i < 8; i++)
                *out++ = cur->ptr[i];
        } else {
            out = take_word(word, ends, out, &bytes);
        }
        cur->ptr += bytes;
        cur->left -= bytes;
    }
    while (out < end)
        *out++ = fg_cur_varint(cur);
}

uint64_t fg_cur_varint9_slow(struct fg_cur *cur)
{
    const uint8_t *in = cur->ptr;
    /* At most nine bytes, of which the ninth has eight bits: this project's own form, for 64-bit
     * values. */
    size_t len = FG_MIN(cur->left, 9);
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        bool last = i == 8 || in[i] < 0x80;

        value |= (uint64_t)(i == 8 ? in[i] : in[i] & 0x7f) << (7 * i);
        if (last) {
            cur->ptr += i + 1;
            cur->left -= i + 1;
            return value;
        }
    }
    fg_cur_fail(cur);
    return 0;
}

/* one: reads a number that has more than eight bytes, or the last ones. */
static void skip_numbers(struct fg_cur *cur, uint64_t count, uint64_t (*one)(struct fg_cur *cur))
{
    while (count > 0 && cur->left >= sizeof(uint64_t)) {
        uint64_t word, ends;
        unsigned n, bytes;

        /* A number begins here and ends with each byte whose upper bit is not set. */
        memcpy(&word, cur->ptr, sizeof word);
        ends = ~le64toh(word) & 0x8080808080808080u;
        n = (unsigned)((ends >> 7) * 0x0101010101010101u >> 56);
        if (n == 0) {
            (void)one(cur);
            count--;
            continue;
        }
        if (n > count)
            break;
        bytes = 8 - (unsigned)__builtin_clzll(ends) / 8;
        cur->ptr += bytes;
        cur->left -= bytes;
        count -= n;
    }
    for (; count > 0 && fg_cur_more(cur); count--)
        (void)one(cur);
    if (count > 0)
        fg_cur_fail(cur);
}

void fg_cur_skip_varints(struct fg_cur *cur, uint64_t count)
{
    skip_numbers(cur, count, fg_cur_varint_slow);
}

void fg_cur_skip_varint9(struct fg_cur *cur, uint64_t count)
{
    skip_numbers(cur, count, fg_cur_varint9_slow);
}

static uint64_t fixed_le(struct fg_cur *cur, unsigned bytes)
{
    struct fg_slice in = fg_cur_take(cur, bytes);
    uint64_t value = 0;

    for (size_t i = in.len; i > 0; i--)
        value = value << 8 | in.ptr[i - 1];
    return value;
}

static uint64_t fixed_be(struct fg_cur *cur, unsigned bytes)
{
    struct fg_slice in = fg_cur_take(cur, bytes);
    uint64_t value = 0;

    for (size_t i = 0; i < in.len; i++)
        value = value << 8 | in.ptr[i];
    return value;
}

uint32_t fg_cur_le32(struct fg_cur *cur)
{
    return (uint32_t)fixed_le(cur, 4);
}

uint64_t fg_cur_le64(struct fg_cur *cur)
{
    return fixed_le(cur, 8);
}

uint16_t fg_cur_be16(struct fg_cur *cur)
{
    return (uint16_t)fixed_be(cur, 2);
}

uint32_t fg_cur_be32(struct fg_cur *cur)
{
    return (uint32_t)fixed_be(cur, 4);
}

uint64_t fg_cur_be64(struct fg_cur *cur)
{
    return fixed_be(cur, 8);
}

uint64_t fg_cur_count(struct fg_cur *cur, size_t min_bytes)
{
    uint64_t count = fg_cur_varint(cur);

    /* A hostile count of 2^60 elements fails here, before memory is asked for. */
    if (count > cur->left / min_bytes) {
        fg_cur_fail(cur);
        return 0;
    }
    return count;
}

struct fg_slice fg_pb_varints(struct fg_cur *cur, uint64_t tag)
{
    struct fg_cur start = *cur;

    /* A repeated number may be packed or not, whatever the .proto says (protobuf, "Packed
     * Repeated Fields"); both give the bytes of its varints. */
    if ((tag & 7) == FG_PB_LEN)
        return fg_cur_lenbytes(cur);
    (void)fg_cur_varint(cur);
    return cur->bad ? fg_bytes(NULL, 0) : fg_cur_take(&start, start.left - cur->left);
}

void fg_pb_skip(struct fg_cur *cur, uint64_t tag)
{
    switch (tag & 7) {
    case FG_PB_VARINT:
        (void)fg_cur_varint(cur);
        break;
    case FG_PB_I64:
        (void)fg_cur_take(cur, 8);
        break;
    case FG_PB_LEN:
        (void)fg_cur_lenbytes(cur);
        break;
    case FG_PB_I32:
        (void)fg_cur_take(cur, 4);
        break;
    default:
        fg_cur_fail(cur);
    }
}
