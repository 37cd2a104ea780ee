#include "common/base/err.h"

#include <errno.h>
#include <stdarg.h>

static const struct {
    const char *name;
    unsigned http, grpc;
    bool retry;
} codes[] = {
#define X(code, name, http, grpc, retry) [code] = {name, http, grpc, retry},
    FG_CODES(X)
#undef X
};

enum fg_code fg_fail(struct fg_err *err, enum fg_code code, const char *fmt, ...)
{
    va_list args;

    fg_assert(code != FG_OK);
    err->code = code;
    va_start(args, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    return code;
}

/* Puts text at offset used of the sentence, cut at what fits. */
static void append_cut(struct fg_err *err, size_t used, const char *text)
{
    size_t len = FG_MIN(strlen(text), sizeof err->msg - 1 - used);

    memcpy(err->msg + used, text, len);
    err->msg[used + len] = '\0';
}

enum fg_code fg_wrap(struct fg_err *err, const char *fmt, ...)
{
    char inner[FG_ERR_MSG_MAX_BYTES];
    va_list args;
    size_t used;

    fg_assert(err->code != FG_OK);
    /* Copied first: the new sentence is written over it. */
    memcpy(inner, err->msg, sizeof inner);
    va_start(args, fmt);
    int written = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    /* vsnprintf() returns what it would have written, which may be more than fits. */
    used = written < 0 ? 0 : FG_MIN((size_t)written, sizeof err->msg - 1);
    append_cut(err, used, ": ");
    append_cut(err, strlen(err->msg), inner);
    return err->code;
}

/* Maps an errno to a code by which callers decide whether to retry. */
static enum fg_code code_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
        return FG_E_NOT_FOUND;
    case EEXIST:
        return FG_E_EXISTS;
    case EACCES:
    case EPERM:
        return FG_E_DENIED;
    case ENOSPC:
    case EDQUOT:
        return FG_E_NO_SPACE;
    /* Shortages that pass: the caller retries, and a client gets 503. */
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case ETIMEDOUT:
    case ECONNREFUSED:
    case ECONNRESET:
        return FG_E_UNAVAILABLE;
    /* Unexpected: a fault of ours or of the machine, which a retry does not cure. */
    default:
        return FG_E_INTERNAL;
    }
}

enum fg_code fg_fail_errno(struct fg_err *err, int errnum, const char *fmt, ...)
{
    char text[128] = "";
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);

    size_t used = strlen(err->msg);
    (void)snprintf(err->msg + used, sizeof err->msg - used, ": %s",
                   strerror_r(errnum, text, sizeof text));
    err->code = code_of_errno(errnum);
    return err->code;
}

const char *fg_code_name(enum fg_code code)
{
    fg_assert((size_t)code < FG_COUNT(codes));
    return codes[code].name;
}

unsigned fg_code_http(enum fg_code code)
{
    fg_assert((size_t)code < FG_COUNT(codes));
    return codes[code].http;
}

unsigned fg_code_grpc(enum fg_code code)
{
    fg_assert((size_t)code < FG_COUNT(codes));
    return codes[code].grpc;
}

bool fg_code_retry(enum fg_code code)
{
    fg_assert((size_t)code < FG_COUNT(codes));
    return codes[code].retry;
}

enum fg_code fg_code_from_grpc(unsigned number)
{
    /* Some codes share a number; the general one is listed first. */
    for (size_t i = 0; i < FG_COUNT(codes); i++)
        if (codes[i].grpc == number)
            return (enum fg_code)i;
    return FG_E_UNKNOWN;
}
