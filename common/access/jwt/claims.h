/*
 * JSON objects of others that decide about access: claims of tokens, keys, answers of identity
 * providers. Two parsers may take different ones of two members with one name, so an object with a
 * name twice is refused, as RFC 8725 (2.6) and RFC 7515 (4) demand. jansson could do that, too; the
 * reader of common/base does it without a tree whose size the sender chooses.
 *
 * A path names a claim. It is a name alone (groups, https://example.com/roles), or begins with a
 * slash: then it is a JSON pointer (RFC 6901) through objects, so that names may contain anything:
 *
 *     /realm_access/roles      "realm_access": {"roles": […]}
 *     /kubernetes.io/namespace "kubernetes.io": {"namespace": "…"}
 *     /a~1b                    "a/b": …          (~1 is a slash, ~0 a tilde)
 *
 * Pure. Slices that are returned are borrowed from the object or in the arena.
 */
#ifndef FG_COMMON_ACCESS_JWT_CLAIMS_H
#define FG_COMMON_ACCESS_JWT_CLAIMS_H

#include "common/base/arena.h"
#include "common/base/err.h"

enum {
    FG_CLAIMS_DEPTH_MAX = 8,     /* of objects and arrays; the deepest known are 4 */
    FG_CLAIMS_MEMBERS_MAX = 128, /* of one object */
    FG_CLAIM_VALUES_MAX = 512,   /* of one list */
    FG_CLAIM_PATH_MAX_BYTES = 256,
};

/* Checks that the text is one JSON object within these limits, and that no object in it has a name
 * twice. FG_E_DECODE: it is not. FG_E_LIMIT: the arena is full. */
enum fg_code fg_claims_check(struct fg_slice text, struct fg_arena *arena,
                             struct fg_err *err) fg_must_check;

/* --- of an object that was checked --- */

enum fg_claim_found {
    FG_CLAIM_ABSENT, /* also if it is null */
    FG_CLAIM_FOUND,
    FG_CLAIM_OTHER, /* it has another type or range, or the arena is full */
};

/* Returns whether the object has a member of that name, whatever its value is. */
bool fg_claim_is_there(struct fg_slice object, const char *name, struct fg_arena *arena);

/* Finds a member of the object that is a string. */
enum fg_claim_found fg_claim_text(struct fg_slice object, const char *name, struct fg_arena *arena,
                                  struct fg_slice *ret_text) fg_must_check;

/* Finds a member that is a time in seconds since 1970 (NumericDate of RFC 7519), rounded down; up
 * to the year 9999. */
enum fg_claim_found fg_claim_time(struct fg_slice object, const char *name, struct fg_arena *arena,
                                  int64_t *ret_s) fg_must_check;

/* Finds a member that is an array or object, as text. */
enum fg_claim_found fg_claim_nested(struct fg_slice object, const char *name,
                                    struct fg_arena *arena,
                                    struct fg_slice *ret_text) fg_must_check;

/* Calls each() for the objects in an array, as text, until it returns false. Other elements are
 * skipped. Returns false if each() did. */
bool fg_claim_each_object(struct fg_slice array, bool (*each)(struct fg_slice object, void *arg),
                          void *arg) fg_must_check;

/*
 * Finds the values of a claim by its path: a string, or the strings of an array, whose other
 * elements are skipped; true and false are strings, too. More than FG_CLAIM_VALUES_MAX are
 * FG_CLAIM_OTHER.
 */
enum fg_claim_found fg_claim_values(struct fg_slice object, struct fg_slice path,
                                    struct fg_arena *arena, struct fg_slice **ret_values,
                                    uint32_t *ret_n) fg_must_check;

/* Returns NULL, or the fault of a path ("has a ~ that is not followed by 0 or 1"). */
const char *fg_claim_path_fault(struct fg_slice path) fg_must_check;

#endif
