/*
 * Small objects that programs of several versions read and write (manifests, the ring) as bytes.
 * Little-endian.
 *
 *   magic 4 bytes, u8 version, fields, crc32c of all that is before it (le32)
 *
 * A list is a varint count and its elements. What may get more fields one day is a record: a varint
 * length, then its fields. Fields are only added, at the end of a record or of the whole; who does
 * not know them keeps them as `later` and writes them again. What an older program could not even
 * read gets another version.
 */
#ifndef FG_COMMON_BASE_ENVELOPE_H
#define FG_COMMON_BASE_ENVELOPE_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"

enum { FG_ENVELOPE_MAGIC_BYTES = 4 };

/* Of one kind of object. */
struct fg_envelope {
    const char *what;  /* for errors: "manifest" */
    const char *magic; /* FG_ENVELOPE_MAGIC_BYTES of it */
    uint8_t version;   /* the one that is written, and the only one that is read */
    size_t max_bytes;  /* of the whole */
};

/* A cursor over the fields. FG_E_TOO_LARGE; FG_E_CORRUPT: no such object, or its checksum is not
 * right; FG_E_UNIMPLEMENTED: of another version. */
enum fg_code fg_envelope_open(const struct fg_envelope *envelope, struct fg_slice in,
                              struct fg_cur *ret_cur, struct fg_err *err) fg_must_check;

void fg_envelope_begin(const struct fg_envelope *envelope, struct fg_buf *out);
/* The checksum, over what was written since `start`. FG_E_LIMIT: it did not fit. */
enum fg_code fg_envelope_end(const struct fg_envelope *envelope, struct fg_buf *out, size_t start,
                             struct fg_err *err) fg_must_check;

/*
 * A list's count and its array in the arena: elements of `size` bytes that take min_bytes each in
 * the input, max of them at most. NULL and a bad cursor where that does not hold, or at the arena's
 * limit.
 */
void *fg_envelope_list(struct fg_cur *cur, struct fg_arena *arena, size_t min_bytes, uint32_t max,
                       size_t size, uint32_t *ret_count);

/* What is left of a record, or of the whole: copied. A bad cursor at the arena's limit. */
struct fg_slice fg_envelope_later(struct fg_cur *cur, struct fg_arena *arena);

#endif
