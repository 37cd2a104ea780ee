/*
 * A cursor reads bytes that come from outside. Its error is sticky: read without checks, and look
 * at `bad` once at the end. After an error every read returns zero and fg_cur_more() returns false,
 * so loops end. Only this file does pointer arithmetic on input.
 *
 * The fg_pb_ functions read the protobuf wire format ("Encoding" in the protobuf documentation).
 * Groups (wire types 3 and 4), which the format has deprecated, count as errors.
 */
#ifndef FG_COMMON_BASE_CURSOR_H
#define FG_COMMON_BASE_CURSOR_H

#include "common/base/protobuf.h"
#include "common/base/slice.h"

struct fg_cur {
    const uint8_t *ptr;
    size_t left; /* bytes not read yet; 0 after an error */
    bool bad;
};

/* Returns a cursor at the start of the bytes, which are borrowed. */
static inline struct fg_cur fg_cur(struct fg_slice in)
{
    return (struct fg_cur){in.ptr, in.len, false};
}

/* Returns whether bytes are left to read. */
static inline bool fg_cur_more(const struct fg_cur *cur)
{
    return cur->left > 0;
}

/* Sets the error: for a value that the caller finds to be wrong. */
static inline void fg_cur_fail(struct fg_cur *cur)
{
    cur->bad = true;
    cur->left = 0;
}

/* Returns whether all was read without an error and nothing is left. */
static inline bool fg_cur_end(const struct fg_cur *cur)
{
    return !cur->bad && cur->left == 0;
}

/* Reads one byte. */
static inline uint8_t fg_cur_u8(struct fg_cur *cur)
{
    if (cur->left == 0) {
        fg_cur_fail(cur);
        return 0;
    }
    cur->left--;
    return *cur->ptr++;
}

uint64_t fg_cur_varint_slow(struct fg_cur *cur);

/* Reads a LEB128 number of at most ten bytes. A longer one, or one with more than 64 bits, is an
 * error. */
static inline uint64_t fg_cur_varint(struct fg_cur *cur)
{
    if (cur->left > 0 && cur->ptr[0] < 0x80) {
        cur->left--;
        return *cur->ptr++;
    }
    if (cur->left > 1 && cur->ptr[1] < 0x80) { /* ids of locations, lengths of names */
        uint64_t value = (uint64_t)(cur->ptr[0] & 0x7f) | (uint64_t)cur->ptr[1] << 7;

        cur->left -= 2;
        cur->ptr += 2;
        return value;
    }
    return fg_cur_varint_slow(cur);
}

/* Reads count such numbers at once. It is fast for columns of mostly small numbers. */
void fg_cur_varints(struct fg_cur *cur, uint64_t *out, size_t count);

uint64_t fg_cur_varint9_slow(struct fg_cur *cur);

/* Reads a LEB128 number of at most nine bytes of which the ninth has eight bits, as JFR writes
 * them. */
static inline uint64_t fg_cur_varint9(struct fg_cur *cur)
{
    if (cur->left > 0 && cur->ptr[0] < 0x80) {
        cur->left--;
        return *cur->ptr++;
    }
    if (cur->left > 1 && cur->ptr[1] < 0x80) {
        uint64_t value = (uint64_t)(cur->ptr[0] & 0x7f) | (uint64_t)cur->ptr[1] << 7;

        cur->left -= 2;
        cur->ptr += 2;
        return value;
    }
    return fg_cur_varint9_slow(cur);
}

/* Skips count such numbers. */
void fg_cur_skip_varint9(struct fg_cur *cur, uint64_t count);

/* Skips count numbers of fg_cur_varint(). */
void fg_cur_skip_varints(struct fg_cur *cur, uint64_t count);

/* Reads a signed number that fg_buf_zigzag() wrote. */
static inline int64_t fg_cur_zigzag(struct fg_cur *cur)
{
    uint64_t value = fg_cur_varint(cur);

    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Returns the next len bytes, borrowed from the input. */
static inline struct fg_slice fg_cur_take(struct fg_cur *cur, uint64_t len)
{
    struct fg_slice taken = {NULL, 0};

    if (len > cur->left) {
        fg_cur_fail(cur);
        return taken;
    }
    taken = fg_bytes(cur->ptr, (size_t)len);
    if (len > 0) /* an empty input may be NULL, and NULL + 0 is undefined in C */
        cur->ptr += len;
    cur->left -= (size_t)len;
    return taken;
}

/* Reads a varint length and returns that many bytes. */
static inline struct fg_slice fg_cur_lenbytes(struct fg_cur *cur)
{
    return fg_cur_take(cur, fg_cur_varint(cur));
}

/* Read integers of fixed width, little-endian (le) or big-endian (be). */
uint32_t fg_cur_le32(struct fg_cur *cur);
uint64_t fg_cur_le64(struct fg_cur *cur);
uint16_t fg_cur_be16(struct fg_cur *cur);
uint32_t fg_cur_be32(struct fg_cur *cur);
uint64_t fg_cur_be64(struct fg_cur *cur);

/*
 * Reads a count of elements that take at least min_bytes each. A count that the rest of the input
 * cannot hold is an error, so that a sender cannot make us allocate more than a multiple of what it
 * sent.
 */
uint64_t fg_cur_count(struct fg_cur *cur, size_t min_bytes);

/*
 * Returns the varints of a repeated field: all of the field if the tag says that it is packed, else
 * the one number that follows. Writers may mix the two forms.
 */
struct fg_slice fg_pb_varints(struct fg_cur *cur, uint64_t tag);

/* Skips the value of a tag that was just read. An unknown wire type is an error. */
void fg_pb_skip(struct fg_cur *cur, uint64_t tag);

/*
 * Finds the next field with that tag, which is one of FG_PB_LEN, and skips all others. Returns
 * false at the end, and if the rest is bad.
 */
static inline bool fg_pb_next(struct fg_cur *cur, uint64_t tag, struct fg_slice *ret_field)
{
    while (fg_cur_more(cur)) {
        uint64_t found = fg_cur_varint(cur);

        if (found == tag) {
            struct fg_slice field = fg_cur_lenbytes(cur);

            if (cur->bad)
                return false;
            *ret_field = field;
            return true;
        }
        fg_pb_skip(cur, found);
    }
    return false;
}

#endif
