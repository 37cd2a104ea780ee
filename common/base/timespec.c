#include "common/base/timespec.h"

#include "common/base/str.h"
#include "common/base/time.h"

#define DAY_S INT64_C(86400)

enum { TIMESPEC_MAX_BYTES = 128 }; /* far beyond anything sensible; keeps the copy on the stack */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Blanks of all kinds, and what people group digits with. */
static bool is_dropped(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '_' || c == ',';
}

static size_t digits(struct fg_slice text)
{
    size_t n = 0;

    while (n < text.len && is_digit(text.ptr[n]))
        n++;
    return n;
}

static bool leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Parses YYYYMMDD to nanoseconds. Returns false if the calendar has no such day, or if the number
 * is not meant as a date. */
static bool parse_date(int64_t number, int64_t *ret_ns)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    int64_t year = number / 10000, month = number / 100 % 100, day = number % 100;

    if (year <= 1900 || month < 1 || month > 12 || day < 1)
        return false;
    int64_t in_month = before[month] - before[month - 1] + (month == 2 && leap(year));
    if (day > in_month)
        return false;
    int64_t leaps = (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 - 477; /* since 1970 */
    int64_t days =
        (year - 1970) * 365 + leaps + before[month - 1] + (month > 2 && leap(year)) + day - 1;
    return !__builtin_mul_overflow(days * DAY_S, FG_SECOND_NS, ret_ns);
}

static bool parse_number(struct fg_slice text, int64_t *ret_ns)
{
    int64_t number, ns, unit_ns = FG_SECOND_NS;

    if (!fg_parse_i64(text, &number))
        return false;
    if (text.len == 8 && parse_date(number, ret_ns))
        return true;
    /* Seconds, milliseconds, microseconds or nanoseconds, told apart by the number of digits.
     * Pyroscope takes 13, 16 and 19; a digit less are times between 1973 and 2001, since as
     * seconds, or as the larger unit, they do not fit 64 bits. */
    if (text.len == 12 || text.len == 13)
        unit_ns = FG_MS_NS;
    else if (text.len == 15 || text.len == 16)
        unit_ns = 1000;
    else if (text.len == 18 || text.len == 19)
        unit_ns = 1;
    /* Nanoseconds in 64 bits end in the year 2262. */
    if (__builtin_mul_overflow(number, unit_ns, &ns))
        return false;
    *ret_ns = ns;
    return true;
}

/* By prefix and in order: "mon" has to be seen before "m". */
static int64_t unit_seconds(struct fg_slice unit)
{
    static const struct {
        const char *prefix;
        int64_t seconds;
    } units[] = {
        {"s", 1},    {"mon", 30 * DAY_S}, {"M", 30 * DAY_S}, {"min", 60},        {"m", 60},
        {"h", 3600}, {"d", DAY_S},        {"w", 7 * DAY_S},  {"y", 365 * DAY_S},
    };

    for (size_t i = 0; i < FG_COUNT(units); i++)
        if (fg_slice_starts(unit, units[i].prefix))
            return units[i].seconds;
    return 0;
}

/* "1h30min" */
static bool parse_offset(struct fg_slice text, int64_t *ret_ns)
{
    int64_t sum = 0;

    while (text.len > 0) {
        size_t n = digits(text), end = n;
        int64_t number, ns;

        if (n == 0) /* a unit of nothing */
            break;
        while (end < text.len && !is_digit(text.ptr[end]))
            end++;
        if (!fg_parse_i64(fg_slice_sub(text, 0, n), &number) ||
            __builtin_mul_overflow(unit_seconds(fg_slice_sub(text, n, end - n)) * FG_SECOND_NS,
                                   number, &ns) ||
            __builtin_add_overflow(sum, ns, &sum))
            return false;
        text = fg_slice_sub(text, end, text.len);
    }
    *ret_ns = sum;
    return true;
}

static bool parse_relative(struct fg_slice text, int64_t now_ns, int64_t *ret_ns)
{
    size_t sign = fg_slice_find(text, '+');
    int64_t offset, ns;

    if (sign == SIZE_MAX)
        sign = fg_slice_find(text, '-');
    if (sign == SIZE_MAX) {
        *ret_ns = now_ns;
        return true;
    }
    if (!parse_offset(fg_slice_sub(text, sign + 1, text.len), &offset))
        return false;
    if (text.ptr[sign] == '-' ? __builtin_sub_overflow(now_ns, offset, &ns)
                              : __builtin_add_overflow(now_ns, offset, &ns))
        return false;
    *ret_ns = ns;
    return true;
}

/* Returns true if the text has the form of a day: 2026-01-31. */
static bool is_day(struct fg_slice text)
{
    if (text.len != strlen("2026-01-31"))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (i == 4 || i == 7 ? text.ptr[i] != '-' : !is_digit(text.ptr[i]))
            return false;
    return true;
}

/* Parses a text of the form of a day. Returns false if the calendar has no such day. */
static bool parse_day(struct fg_slice text, int64_t *ret_ns)
{
    int64_t year, month, day;

    return fg_parse_i64(fg_slice_sub(text, 0, 4), &year) &&
           fg_parse_i64(fg_slice_sub(text, 5, 2), &month) &&
           fg_parse_i64(fg_slice_sub(text, 8, 2), &day) &&
           parse_date(year * 10000 + month * 100 + day, ret_ns);
}

bool fg_timespec_parse(struct fg_slice text, int64_t now_ns, int64_t *ret_ns)
{
    uint8_t copy[TIMESPEC_MAX_BYTES];
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (is_dropped(text.ptr[i]))
            continue;
        if (len == sizeof copy)
            return false;
        copy[len++] = text.ptr[i];
    }
    text = fg_bytes(copy, len);
    if (len > 0 && digits(text) == len)
        return parse_number(text, ret_ns);
    if (is_day(text))
        return parse_day(text, ret_ns);
    return parse_relative(text, now_ns, ret_ns);
}
