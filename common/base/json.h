/*
 * Reads JSON (RFC 8259) token by token, in one pass and without building anything: whatever a
 * stranger sends costs no memory, and no stack. For bodies too large or too strange for a tree of
 * objects, which may take a hundred times their size.
 *
 *   {"a": [1, "x"]}   gives   OBJECT KEY(a) ARRAY NUMBER(1) STRING(x) ARRAY_END OBJECT_END END
 *
 * What does not fit the grammar, is nested deeper than FG_JSON_DEPTH_MAX or is not UTF-8 gives
 * FG_JSON_BAD, from then on for ever: read straight through, fg_json_fail() says what and where. A
 * reader is a value; a copy of it comes back later to where it was made.
 */
#ifndef FG_COMMON_BASE_JSON_H
#define FG_COMMON_BASE_JSON_H

#include "common/base/arena.h"
#include "common/base/bits.h"
#include "common/base/cursor.h"
#include "common/base/err.h"

enum { FG_JSON_DEPTH_MAX = 128 };

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
    bool escaped;         /* there are some */
    uint8_t expected;     /* what may come next */
    uint8_t depth;        /* open objects and arrays */
    uint64_t objects[FG_BITS_WORDS(FG_JSON_DEPTH_MAX)]; /* a bit for each level: it is an object */
    const char *why;                                    /* it is bad; NULL: it is not */
};

struct fg_json fg_json(struct fg_slice in);

enum fg_json_token fg_json_next(struct fg_json *json);

/* Past the value that begins with this token, which was just read. */
void fg_json_skip(struct fg_json *json, enum fg_json_token token);

/*
 * The last KEY or STRING as it is meant: borrowed from the input where nothing is escaped, else in
 * the arena. A surrogate without its other half becomes U+FFFD. ptr NULL only at the arena's limit.
 */
struct fg_slice fg_json_text(const struct fg_json *json, struct fg_arena *arena) fg_must_check;

/*
 * The last NUMBER, or STRING with a number in it, as the JSON form of protobuf writes 64 bits: 12,
 * "12", 12.0 and 1.2e1 are the same. false: not a whole number, or beyond 64 bits.
 */
bool fg_json_i64(const struct fg_json *json, int64_t *ret_value) fg_must_check;
bool fg_json_u64(const struct fg_json *json, uint64_t *ret_value) fg_must_check;

/* The last NUMBER; false: beyond a double. */
bool fg_json_f64(const struct fg_json *json, double *ret_value) fg_must_check;

/* FG_E_DECODE: "byte 17: " and what is wrong with it after FG_JSON_BAD, else `what`. */
enum fg_code fg_json_fail(const struct fg_json *json, const char *what, struct fg_err *err);

#endif
