/*
 * The log: one line, one event, logfmt (ts=… level=… msg="…" key=value …) on standard error. The
 * message is constant text; everything variable is a field, tenant first. info is an operator's
 * timeline, warn "we coped, look at it", error "someone lost something".
 *
 *     fg_log_warn("profile refused", fg_ls("tenant", tenant), fg_lu("size_bytes", n), fg_ls("err",
 * err.msg));
 *
 * Thread: any. A line is written with one write(2) and is at most 4 KiB, so that lines of several
 * processes on one pipe do not mix; values are cut at 1 KiB ("...") and fields that do not fit are
 * left out (cut=true).
 *
 * Lines of one message (one literal) are limited to a hundred at once and ten a second after that
 * (log_limit.h); what is left out is counted, and said a second later, before the next line of
 * whatever message.
 */
#ifndef FG_COMMON_RUNTIME_LOG_H
#define FG_COMMON_RUNTIME_LOG_H

#include "common/base/slice.h"
#include "common/runtime/log_level.h"

struct fg_log_field {
    const char *key; /* NULL ends the list */
    enum { FG_LOG_TEXT, FG_LOG_BYTES, FG_LOG_INT, FG_LOG_UINT, FG_LOG_FLOAT, FG_LOG_BOOL } kind;
    union {
        const char *text; /* NULL is written as "" */
        struct fg_slice bytes;
        int64_t i;
        uint64_t u;
        double f;
        bool b;
    };
};

static inline struct fg_log_field fg_ls(const char *key, const char *text)
{
    return (struct fg_log_field){.key = key, .kind = FG_LOG_TEXT, .text = text};
}
static inline struct fg_log_field fg_lb(const char *key, struct fg_slice bytes)
{
    return (struct fg_log_field){.key = key, .kind = FG_LOG_BYTES, .bytes = bytes};
}
static inline struct fg_log_field fg_li(const char *key, int64_t value)
{
    return (struct fg_log_field){.key = key, .kind = FG_LOG_INT, .i = value};
}
static inline struct fg_log_field fg_lu(const char *key, uint64_t value)
{
    return (struct fg_log_field){.key = key, .kind = FG_LOG_UINT, .u = value};
}
static inline struct fg_log_field fg_lf(const char *key, double value)
{
    return (struct fg_log_field){.key = key, .kind = FG_LOG_FLOAT, .f = value};
}
static inline struct fg_log_field fg_lbool(const char *key, bool value)
{
    return (struct fg_log_field){.key = key, .kind = FG_LOG_BOOL, .b = value};
}

void fg_log_set_level(enum fg_log_level least); /* default info */
void fg_log_set_fd(int fd);                     /* default 2; for tests */

/* fields ends with a field whose key is NULL. */
void fg_log_write(enum fg_log_level level, const char *msg, const struct fg_log_field *fields);

#define FG_LOG_FIELDS(...)     ((const struct fg_log_field[]){__VA_ARGS__ __VA_OPT__(, ){.key = NULL}})
#define fg_log_debug(msg, ...) fg_log_write(FG_LOG_DEBUG, msg, FG_LOG_FIELDS(__VA_ARGS__))
#define fg_log_info(msg, ...)  fg_log_write(FG_LOG_INFO, msg, FG_LOG_FIELDS(__VA_ARGS__))
#define fg_log_warn(msg, ...)  fg_log_write(FG_LOG_WARN, msg, FG_LOG_FIELDS(__VA_ARGS__))
#define fg_log_error(msg, ...) fg_log_write(FG_LOG_ERROR, msg, FG_LOG_FIELDS(__VA_ARGS__))

#endif
