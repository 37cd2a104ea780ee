/*
 * Writes the log: one line per event, in logfmt (ts=… level=… msg="…" key=value …), on standard
 * error. The message is constant text; all that varies is in fields, tenant first. Levels: info is
 * the operator's timeline, warn a fault that the program handled, error a loss of data or service.
 *
 *     fg_log_warn("profile refused", fg_ls("tenant", tenant), fg_lu("size_bytes", n));
 *
 * Thread: any. Each line is written with one write(2) and has at most 4 KiB, so that lines of
 * several processes on one pipe do not mix. Values are cut at 1 KiB ("..."), and fields that do not
 * fit are left out (cut=true).
 *
 * Lines of one message (one literal) are limited to a hundred at once and ten a second after that
 * (log_limit.h). Suppressed lines are counted. The count is logged at least a second later, before
 * the next line of any message.
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

/* Return a field: text, bytes, signed, unsigned, floating point, bool. */
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

/* Drops lines below that level. The default is info. */
void fg_log_set_level(enum fg_log_level least);
/* Writes to that file descriptor instead of standard error, for tests. */
void fg_log_set_fd(int fd);

/* Writes a line. The last of `fields` has the key NULL. Use the macros below. */
void fg_log_write(enum fg_log_level level, const char *msg, const struct fg_log_field *fields);

#define FG_LOG_FIELDS(...)     ((const struct fg_log_field[]){__VA_ARGS__ __VA_OPT__(, ){.key = NULL}})
#define fg_log_debug(msg, ...) fg_log_write(FG_LOG_DEBUG, msg, FG_LOG_FIELDS(__VA_ARGS__))
#define fg_log_info(msg, ...)  fg_log_write(FG_LOG_INFO, msg, FG_LOG_FIELDS(__VA_ARGS__))
#define fg_log_warn(msg, ...)  fg_log_write(FG_LOG_WARN, msg, FG_LOG_FIELDS(__VA_ARGS__))
#define fg_log_error(msg, ...) fg_log_write(FG_LOG_ERROR, msg, FG_LOG_FIELDS(__VA_ARGS__))

#endif
