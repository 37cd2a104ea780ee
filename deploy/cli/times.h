/*
 * Times as people write them on a command line. The server's own syntax (common/base/timespec.h)
 * takes every word for now, so a slip of the fingers would ask about something else in silence:
 * here what is not understood is an error, and the server gets numbers.
 */
#ifndef FG_DEPLOY_CLI_TIMES_H
#define FG_DEPLOY_CLI_TIMES_H

#include "common/base/buf.h"
#include "common/base/err.h"

/* For the notes of commands. */
#define CLI_TIMES_HELP                                                                             \
    "TIME is one of, in UTC unless it has an offset:\n"                                            \
    "  2026-01-31, 20260131           the beginning of that day\n"                                 \
    "  2026-01-31 10:00, with :30     a blank or T between; 2026-01-31T10:00:00+01:00\n"           \
    "  today, yesterday               the beginning of that day\n"                                 \
    "  now, now-1h, now-1h30min       units s, m or min, h, d, w, mon (30 d), y (365 d)\n"         \
    "  1d, 2h30m                      that long ago\n"                                             \
    "  1769853600                     Unix seconds; 13 digits: ms, 16: us, 19: ns\n"

/*
 * Parses a time. FG_E_INVALID: names the option and the accepted forms, also for times before 1970
 * and beyond 64 bits of nanoseconds.
 */
enum fg_code cli_time_parse(const char *option, const char *text, int64_t now_ns, int64_t *ret_ns,
                            struct fg_err *err) fg_must_check;

enum { CLI_TIME_TEXT_BYTES = 32 };

/* Writes 2026-01-31T10:00:00Z, as cli_time_parse() reads it; fractions of a second are cut. */
void cli_time_write(int64_t ns, char text[CLI_TIME_TEXT_BYTES]);

/*
 * Write a time that cli_time_parse() gave as the server reads it (distributor/API.md#times): it
 * tells units apart by the number of digits, so the number begins with zeros if the time is before
 * 2001-09-09.
 */
void cli_time_put_ms(int64_t ms, struct fg_buf *out);
void cli_time_put_ns(int64_t ns, struct fg_buf *out);

#endif
