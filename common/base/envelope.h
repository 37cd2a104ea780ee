/*
 * The envelope of small objects that programs of several versions read and write: manifests, the
 * ring, the list of compactors. Little-endian.
 *
 *   magic 4 bytes, u8 version, fields, crc32c of all bytes before it (le32)
 *
 * A list is a varint count and its elements. A record is a varint length and its fields; every
 * element that may get more fields one day is a record. New fields are only added at the end of a
 * record or of the object. A program that does not know them keeps them as `later` and writes them
 * again. A change that an older program would misread gets a new version.
 *
 * The formats of blocks, of rollups and of the disk cache are read in ranges and have heads of
 * their own, in their folders.
 */
#ifndef FG_COMMON_BASE_ENVELOPE_H
#define FG_COMMON_BASE_ENVELOPE_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"

enum { FG_ENVELOPE_MAGIC_BYTES = 4 };

/* Describes one kind of object. */
struct fg_envelope {
    const char *what;  /* for errors: "manifest" */
    const char *magic; /* FG_ENVELOPE_MAGIC_BYTES of it */
    uint8_t version;   /* the one that is written, and the only one that is read */
    size_t max_bytes;  /* of the whole */
};

/* Checks an object and returns a cursor over its fields, which borrows `in`. FG_E_TOO_LARGE: more
 * than max_bytes. FG_E_CORRUPT: the magic or the checksum is wrong. FG_E_UNIMPLEMENTED: the object
 * has another version. */
enum fg_code fg_envelope_open(const struct fg_envelope *envelope, struct fg_slice in,
                              struct fg_cur *ret_cur, struct fg_err *err) fg_must_check;

/* Appends magic and version. */
void fg_envelope_begin(const struct fg_envelope *envelope, struct fg_buf *out);
/* Appends the checksum of all that was written since `start`, a length of `out`. FG_E_LIMIT: the
 * object exceeds max_bytes or the buffer. */
enum fg_code fg_envelope_end(const struct fg_envelope *envelope, struct fg_buf *out, size_t start,
                             struct fg_err *err) fg_must_check;

/*
 * Reads the count of a list and returns an array for it in the arena. Each element has `size` bytes
 * in memory and takes at least min_bytes in the input; there may be `max` elements. Returns NULL
 * and sets the error of the cursor if the count is too large, or at the limit of the arena.
 */
void *fg_envelope_list(struct fg_cur *cur, struct fg_arena *arena, size_t min_bytes, uint32_t max,
                       size_t size, uint32_t *ret_count);

/* Returns a copy of the rest of a record or of the object. Sets the error of the cursor at the
 * limit of the arena. */
struct fg_slice fg_envelope_later(struct fg_cur *cur, struct fg_arena *arena);

#endif
