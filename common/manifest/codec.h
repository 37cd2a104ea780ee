/*
 * What both kinds of manifest have in common, as bytes. Little-endian.
 *
 *   magic 4 bytes, u8 version, fields, crc32c of all that is before it (le32)
 *
 * A list is a varint count and its elements. What may get more fields one day is a record: a varint
 * length, then its fields. Fields are only added, at the end of a record or of the whole; who does
 * not know them keeps them as `later` and writes them again. What an older program could not even
 * read gets another version.
 */
#ifndef FG_COMMON_MANIFEST_CODEC_H
#define FG_COMMON_MANIFEST_CODEC_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/manifest/l0.h"

enum { MANIFEST_VERSION = 1, MANIFEST_MAGIC_BYTES = 4 };

#define MANIFEST_MAGIC_L0     "FGL0"
#define MANIFEST_MAGIC_BLOCKS "FGTM"

/* The fields of a manifest. FG_E_CORRUPT, FG_E_UNIMPLEMENTED, FG_E_TOO_LARGE. */
enum fg_code manifest_open(struct fg_slice in, const char *magic, struct fg_cur *ret_cur,
                           struct fg_err *err) fg_must_check;

void manifest_begin(struct fg_buf *out, const char *magic);
/* The checksum, over what was written since `start`. FG_E_LIMIT: it did not fit. */
enum fg_code manifest_end(struct fg_buf *out, size_t start, struct fg_err *err) fg_must_check;

void manifest_put_id(struct fg_buf *out, struct fg_id id);
struct fg_id manifest_get_id(struct fg_cur *cur);

/* A time, and one that is not before it. */
void manifest_put_span(struct fg_buf *out, int64_t from, int64_t to);
void manifest_get_span(struct fg_cur *cur, int64_t *ret_from, int64_t *ret_to);

void manifest_put_segment_id(struct fg_buf *out, const struct fg_segment_id *id);
struct fg_segment_id manifest_get_segment_id(struct fg_cur *cur);

/*
 * A list's count and its array in the arena: elements of `size` bytes that take min_bytes each in
 * the input, max of them at most. NULL and a bad cursor where that does not hold, or at the arena's
 * limit.
 */
void *manifest_list(struct fg_cur *cur, struct fg_arena *arena, size_t min_bytes, uint32_t max,
                    size_t size, uint32_t *ret_count);

/* What is left of a record, or of the whole: copied. */
struct fg_slice manifest_later(struct fg_cur *cur, struct fg_arena *arena);

#endif
