/*
 * Numbers and strings of a chunk of a JFR recording, as the JDK and async-profiler write them.
 *
 * Numbers are "compressed" (LEB128 of at most nine bytes) if the chunk's header says so, which is
 * nearly always, else big-endian in full width. A string is a byte that says how it is encoded:
 *
 *   0                              null
 *   1                              empty
 *   2  long id                     a constant of the class java.lang.String
 *   3  int bytes, UTF-8            HotSpot writes surrogates as two sequences of three bytes
 *   4  int count, char each        UTF-16
 *   5  int bytes, Latin-1
 */
#ifndef FG_PROTO_JFR_READ_H
#define FG_PROTO_JFR_READ_H

#include "common/base/buf.h"
#include "common/base/cursor.h"

/* A chunk's bytes, header included; positions count from its first byte. At most 4 GiB. */
struct fg_jfr_body {
    struct fg_slice bytes;
    bool fixed; /* numbers in full width */
};

struct fg_jfr_cur {
    struct fg_cur in;
    uint32_t end; /* position where the cursor's bytes end */
    bool fixed;
};

/* Returns a cursor from one position to another; both are limited to the bytes there are. */
static inline struct fg_jfr_cur fg_jfr_cur(const struct fg_jfr_body *body, uint32_t from,
                                           uint32_t end)
{
    struct fg_slice bytes = fg_slice_sub(body->bytes, 0, end);

    fg_assert(bytes.ptr != NULL || bytes.len == 0);
    return (struct fg_jfr_cur){fg_cur(fg_slice_sub(bytes, from, SIZE_MAX)), (uint32_t)bytes.len,
                               body->fixed};
}

static inline uint32_t fg_jfr_position(const struct fg_jfr_cur *cur)
{
    return cur->end - (uint32_t)cur->in.left;
}

static inline uint64_t fg_jfr_long(struct fg_jfr_cur *cur)
{
    return cur->fixed ? fg_cur_be64(&cur->in) : fg_cur_varint9(&cur->in);
}

/* Reads a number that cannot be negative: a size, count or index. */
static inline uint64_t fg_jfr_int(struct fg_jfr_cur *cur)
{
    return cur->fixed ? fg_cur_be32(&cur->in) : fg_cur_varint9(&cur->in);
}

/* Reads a count of items of at least one byte; more than bytes are left is bad. */
uint64_t fg_jfr_count(struct fg_jfr_cur *cur);

/* What fg_jfr_text() says of a string that is here. */
#define JFR_NO_CONSTANT UINT64_MAX

/*
 * Appends a string to out as UTF-8; invalid text becomes U+FFFD. Returns JFR_NO_CONSTANT; for a
 * string that is a constant, appends nothing and returns its id.
 */
uint64_t fg_jfr_text(struct fg_jfr_cur *cur, struct fg_buf *out);

void fg_jfr_text_skip(struct fg_jfr_cur *cur);

#endif
