/*
 * Errors: a code to act on and a sentence to read.
 *
 * A function that can fail returns enum fg_code and fills struct fg_err; each level adds what it
 * knows with fg_wrap(). err is never NULL and means something only after a failure.
 */
#ifndef FG_COMMON_BASE_ERR_H
#define FG_COMMON_BASE_ERR_H

#include "common/base/def.h"

/*
 * code, Connect name, HTTP status, gRPC number, whether trying again later can help.
 * Names and statuses are those of the Connect protocol ("Error codes"), so that a code reaches a
 * client as it is. FG_E_DECODE is the one that Connect does not know: input that we could not read,
 * which plain routes answer with 422 and the code "unknown", as Pyroscope does. FG_E_NO_SPACE is a
 * disk or quota that is full, which somebody has to see to; FG_E_LIMIT passes by itself.
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
    X(FG_E_NO_SPACE,     "resource_exhausted",  507,  8, true)
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

/* Sets code and sentence; returns the code, so that one can write return fg_fail(err, ...). */
enum fg_code fg_fail(struct fg_err *err, enum fg_code code, const char *fmt, ...) fg_printf(3, 4);

/* Puts "<context>: " before the sentence; returns the code that err already has. */
enum fg_code fg_wrap(struct fg_err *err, const char *fmt, ...) fg_printf(2, 3);

/* From errno of the operating system: "<context>: No such file or directory". */
enum fg_code fg_fail_errno(struct fg_err *err, int errnum, const char *fmt, ...) fg_printf(3, 4);

const char *fg_code_name(enum fg_code code); /* "invalid_argument" */
unsigned fg_code_http(enum fg_code code);    /* 400 */
unsigned fg_code_grpc(enum fg_code code);    /* 3 */
bool fg_code_retry(enum fg_code code);       /* can it help to try again later? */

/* The code whose gRPC number this is; FG_E_UNKNOWN for numbers nobody knows. */
enum fg_code fg_code_from_grpc(unsigned number);

#endif
