/*
 * Writes JSON (RFC 8259) to a buffer, value by value. The writer places commas, colons and escapes
 * and asserts that members have keys, that elements have none, and that what was begun is ended.
 *
 *     struct fg_json_writer json = fg_json_writer(&body);
 *
 *     fg_json_begin_object(&json, NULL);
 *     fg_json_put_u64(&json, "revision", 7);
 *     fg_json_begin_array(&json, "members");
 *     fg_json_put_cstr(&json, NULL, "ingester-0");
 *     fg_json_end(&json);
 *     fg_json_end(&json);                        {"revision":7,"members":["ingester-0"]}
 *
 * Every function that writes a value takes the key of the member, a literal without characters that
 * need an escape. It is NULL in an array, at the outermost level, and after fg_json_put_key().
 *
 * Memory: the buffer's. If it is full, further calls have no effect, and out->full tells.
 * Thread: one at a time.
 */
#ifndef FG_COMMON_BASE_JSON_WRITER_H
#define FG_COMMON_BASE_JSON_WRITER_H

#include "common/base/buf.h"

enum { FG_JSON_WRITER_DEPTH_MAX = 64 }; /* the bits of `objects` */

/* Private. */
struct fg_json_writer {
    struct fg_buf *out;
    uint64_t objects; /* one bit per level: it is an object */
    uint8_t depth;    /* open objects and arrays */
    bool comma;       /* the next key or element is not the first one of its level */
    bool keyed;       /* a key was written, its value was not */
};

/* Returns a writer that appends one value to `out`, which is borrowed. */
struct fg_json_writer fg_json_writer(struct fg_buf *out);

/* Begins an object or array. At most FG_JSON_WRITER_DEPTH_MAX may be open. */
void fg_json_begin_object(struct fg_json_writer *json, const char *key);
void fg_json_begin_array(struct fg_json_writer *json, const char *key);
/* Ends the innermost open object or array. */
void fg_json_end(struct fg_json_writer *json);

/* Writes any text as the key of the next value. */
void fg_json_put_key(struct fg_json_writer *json, struct fg_slice key);

/* Writes one value. Invalid UTF-8 becomes U+FFFD. */
void fg_json_put_text(struct fg_json_writer *json, const char *key, struct fg_slice text);
void fg_json_put_cstr(struct fg_json_writer *json, const char *key, const char *text);
void fg_json_put_i64(struct fg_json_writer *json, const char *key, int64_t value);
void fg_json_put_u64(struct fg_json_writer *json, const char *key, uint64_t value);
/* value is finite; digits: after the point. */
void fg_json_put_fixed(struct fg_json_writer *json, const char *key, double value, int digits);
void fg_json_put_bool(struct fg_json_writer *json, const char *key, bool value);
void fg_json_put_null(struct fg_json_writer *json, const char *key);

/* Returns the buffer for a value that the caller writes: one complete JSON value, before the next
 * call of the writer. */
struct fg_buf *fg_json_value(struct fg_json_writer *json, const char *key) fg_must_check;

/* Breaks the line before the next key or element, for people who read the output. */
void fg_json_newline(struct fg_json_writer *json);

#endif
