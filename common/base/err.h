/*
 * An error is a code to act on and a sentence to read.
 *
 * A function that can fail returns enum fg_code and fills struct fg_err. Each level adds what it
 * knows with fg_wrap(). err is never NULL, and has a meaning only after a failure.
 */
#ifndef FG_COMMON_BASE_ERR_H
#define FG_COMMON_BASE_ERR_H

#include "common/base/def.h"

/*
 * Columns: code, Connect name, HTTP status, gRPC number, whether a retry can help.
 * Names and statuses are those of the Connect protocol ("Error codes"), so that a code reaches a
 * client unchanged. Connect does not have FG_E_DECODE: input that cannot be decoded, which plain
 * routes answer with 422 and the code "unknown", as Pyroscope does. FG_E_NO_SPACE means that a disk
 * or quota is full and an operator has to act; FG_E_LIMIT passes by itself; FG_E_TOO_MUCH is more
 * than a tenant may have or ask for, now and later.
 */
/* clang-format off */
#define FG_CODES(X)                                                     \
    X(FG_OK,             "ok",                  200,  0, false)         \
    X(FG_E_CANCELED,     "canceled",            499,  1, false)         \
    X(FG_E_UNKNOWN,      "unknown",             500,  2, false)         \
    X(FG_E_INVALID,      "invalid_argument",    400,  3, false)         \
    X(FG_E_DEADLINE,     "deadline_exceeded",   504,  4, true)          \
    X(FG_E_NOT_FOUND,    "not_found",           404,  5, false)         \
    X(FG_E_EXISTS,       "already_exists",      409,  6, false)         \
    X(FG_E_DENIED,       "permission_denied",   403,  7, false)         \
    X(FG_E_LIMIT,        "resource_exhausted",  429,  8, true)          \
    X(FG_E_PRECONDITION, "failed_precondition", 400,  9, false)         \
    X(FG_E_ABORTED,      "aborted",             409, 10, true)          \
    X(FG_E_UNIMPLEMENTED,"unimplemented",       501, 12, false)         \
    X(FG_E_INTERNAL,     "internal",            500, 13, false)         \
    X(FG_E_UNAVAILABLE,  "unavailable",         503, 14, true)          \
    X(FG_E_CORRUPT,      "data_loss",           500, 15, false)         \
    X(FG_E_NO_TENANT,    "unauthenticated",     401, 16, false)         \
    X(FG_E_DECODE,       "unknown",             422,  2, false)         \
    X(FG_E_TOO_LARGE,    "invalid_argument",    413,  3, false)         \
    X(FG_E_NO_SPACE,     "resource_exhausted",  507,  8, true)          \
    X(FG_E_TOO_MUCH,     "resource_exhausted",  429,  8, false)
/* clang-format on */

enum fg_code {
#define X(code, name, http, grpc, retry) code,
    FG_CODES(X)
#undef X
};

enum { FG_ERR_MSG_MAX_BYTES = 512 }; /* longer sentences are cut at the end */

struct fg_err {
    enum fg_code code;
    char msg[FG_ERR_MSG_MAX_BYTES];
};

/* Sets code and sentence. Returns the code, for return fg_fail(err, ...). */
enum fg_code fg_fail(struct fg_err *err, enum fg_code code, const char *fmt, ...) fg_printf(3, 4);

/* Puts "<context>: " before the sentence. Returns the code that err has. */
enum fg_code fg_wrap(struct fg_err *err, const char *fmt, ...) fg_printf(2, 3);

/* Sets an error from errno: "<context>: No such file or directory". Returns its code. */
enum fg_code fg_fail_errno(struct fg_err *err, int errnum, const char *fmt, ...) fg_printf(3, 4);

/* Return the columns of a code. */
const char *fg_code_name(enum fg_code code); /* "invalid_argument" */
unsigned fg_code_http(enum fg_code code);    /* 400 */
unsigned fg_code_grpc(enum fg_code code);    /* 3 */
bool fg_code_retry(enum fg_code code);       /* whether a retry can help */

/* Returns the code with this gRPC number, FG_E_UNKNOWN if there is none. */
enum fg_code fg_code_from_grpc(unsigned number);

#endif
