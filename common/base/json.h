/*
 * Reads JSON (RFC 8259) token by token, in one pass and without building a tree. Input from clients
 * costs no memory and no stack, while a tree of objects may take a hundred times the size of the
 * text.
 *
 *   {"a": [1, "x"]}   gives   OBJECT KEY(a) ARRAY NUMBER(1) STRING(x) ARRAY_END OBJECT_END END
 *
 * Text that violates the grammar, is nested deeper than FG_JSON_DEPTH_MAX or is not UTF-8 gives
 * FG_JSON_BAD, and so does every later call. So read without checks; fg_json_fail() says what is
 * wrong and where. A reader is a value: a copy of it continues where it was copied.
 */
#ifndef FG_COMMON_BASE_JSON_H
#define FG_COMMON_BASE_JSON_H

#include "common/base/arena.h"
#include "common/base/bits.h"
#include "common/base/cursor.h"
#include "common/base/err.h"

enum { FG_JSON_DEPTH_MAX = 128 }; /* a bit for each level; what we read has less than ten */

enum fg_json_token {
    FG_JSON_BAD,
    FG_JSON_END, /* the outermost value is over, and nothing follows */
    FG_JSON_OBJECT,
    FG_JSON_OBJECT_END,
    FG_JSON_ARRAY,
    FG_JSON_ARRAY_END,
    FG_JSON_KEY, /* of a member; its value is the next token */
    FG_JSON_STRING,
    FG_JSON_NUMBER,
    FG_JSON_TRUE,
    FG_JSON_FALSE,
    FG_JSON_NULL,
};

struct fg_json {
    struct fg_cur cur;
    size_t len;           /* of the whole input */
    struct fg_slice text; /* of the last KEY or STRING, escapes as they came; or NUMBER */
    bool escaped;         /* text has escapes */
    uint8_t expected;     /* which tokens may come next */
    uint8_t depth;        /* open objects and arrays */
    uint64_t objects[FG_BITS_WORDS(FG_JSON_DEPTH_MAX)]; /* a bit for each level: it is an object */
    const char *why;                                    /* the fault; NULL: none so far */
};

/* Returns a reader at the start of the text, which is borrowed. */
struct fg_json fg_json(struct fg_slice in);

/* Reads the next token. */
enum fg_json_token fg_json_next(struct fg_json *json);

/* Skips the rest of the value whose first token was just read. */
void fg_json_skip(struct fg_json *json, enum fg_json_token token);

/*
 * Returns the last KEY or STRING without escapes: borrowed from the input if it has none, else in
 * the arena. A surrogate without its other half becomes U+FFFD. ptr is NULL only at the limit of
 * the arena.
 */
struct fg_slice fg_json_text(const struct fg_json *json, struct fg_arena *arena) fg_must_check;

/*
 * Return the last NUMBER, or a STRING with a number in it, as the JSON form of protobuf writes 64
 * bits: 12, "12", 12.0 and 1.2e1 are equal. Return false if it is not a whole number or does not
 * fit 64 bits.
 */
bool fg_json_i64(const struct fg_json *json, int64_t *ret_value) fg_must_check;
bool fg_json_u64(const struct fg_json *json, uint64_t *ret_value) fg_must_check;

/* Returns the last NUMBER. Returns false if it does not fit a double. */
bool fg_json_f64(const struct fg_json *json, double *ret_value) fg_must_check;

/* Sets FG_E_DECODE with the position ("byte 17: ") and what is wrong there: after FG_JSON_BAD the
 * fault of the reader, else `what`. */
enum fg_code fg_json_fail(const struct fg_json *json, const char *what, struct fg_err *err);

#endif
