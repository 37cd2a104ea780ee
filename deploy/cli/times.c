#include "deploy/cli/times.h"

#include "common/base/str.h"
#include "common/base/time.h"

#include <inttypes.h>
#include <time.h>

#define DAY_NS (24 * FG_HOUR_NS)

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static struct fg_slice rest(struct fg_slice text, size_t from)
{
    return fg_slice_sub(text, from, SIZE_MAX);
}

static size_t count_digits(struct fg_slice text)
{
    size_t n = 0;

    while (n < text.len && is_digit(text.ptr[n]))
        n++;
    return n;
}

static bool take_prefix(struct fg_slice *text, const char *prefix)
{
    if (!fg_slice_starts(*text, prefix))
        return false;
    *text = rest(*text, strlen(prefix));
    return true;
}

/* Takes exactly so many digits, as a number of at most `most`. */
static bool take_number(struct fg_slice *text, size_t digits, int64_t most, int *ret_number)
{
    int64_t number;

    if (text->len < digits || count_digits(fg_slice_sub(*text, 0, digits)) != digits ||
        !fg_parse_i64(fg_slice_sub(*text, 0, digits), &number) || number > most)
        return false;
    *ret_number = (int)number;
    *text = rest(*text, digits);
    return true;
}

/* ---- days and clocks ---- */

/* Takes 2026-01-31 or 20260131. Returns false if the calendar has no such day. */
static bool take_day(struct fg_slice *text, int64_t *ret_ns)
{
    struct tm day = {0};
    int year, month, number;
    time_t seconds;

    /* Nanoseconds in 64 bits end in 2262. */
    if (!take_number(text, 4, 2261, &year) || year < 1970)
        return false;
    bool dashes = take_prefix(text, "-");
    if (!take_number(text, 2, 12, &month) || (dashes && !take_prefix(text, "-")) ||
        !take_number(text, 2, 31, &number))
        return false;
    day.tm_year = year - 1900;
    day.tm_mon = month - 1;
    day.tm_mday = number;
    seconds = timegm(&day); /* turns the 30th of February into a day of March, seen below */
    if (month == 0 || day.tm_mon != month - 1 || day.tm_mday != number)
        return false;
    *ret_ns = (int64_t)seconds * FG_SECOND_NS;
    return true;
}

/* Takes 10:00, 10:00:30 or 10:00:30.25. */
static bool take_clock(struct fg_slice *text, int64_t *ret_ns)
{
    int hour, minute, second = 0;
    int64_t fraction_ns = 0;

    if (!take_number(text, 2, 23, &hour) || !take_prefix(text, ":") ||
        !take_number(text, 2, 59, &minute))
        return false;
    if (take_prefix(text, ":")) {
        if (!take_number(text, 2, 60, &second)) /* RFC 3339 5.6 has leap seconds */
            return false;
        if (take_prefix(text, ".")) {
            size_t n = count_digits(*text);

            if (n == 0)
                return false;
            for (size_t i = 0; i < 9; i++)
                fraction_ns = 10 * fraction_ns + (i < n ? text->ptr[i] - '0' : 0);
            *text = rest(*text, n);
        }
    }
    /* A leap second becomes the first second of the next minute, as Unix time has none. */
    *ret_ns = hour * FG_HOUR_NS + minute * FG_MINUTE_NS + second * FG_SECOND_NS + fraction_ns;
    return true;
}

/* Takes Z, +01:00, -0530 or nothing. *ret_ns: what to add to get UTC. */
static bool take_offset(struct fg_slice *text, int64_t *ret_ns)
{
    int hour, minute, sign;

    *ret_ns = 0;
    if (text->len == 0 || take_prefix(text, "Z") || take_prefix(text, "z"))
        return true;
    if (take_prefix(text, "+"))
        /* East of Greenwich is ahead of UTC, so the offset is subtracted. */
        sign = -1;
    else if (take_prefix(text, "-"))
        sign = 1;
    else
        return false;
    if (!take_number(text, 2, 23, &hour))
        return false;
    (void)take_prefix(text, ":");
    if (!take_number(text, 2, 59, &minute))
        return false;
    *ret_ns = sign * (hour * FG_HOUR_NS + minute * FG_MINUTE_NS);
    return true;
}

static bool parse_date(struct fg_slice text, int64_t *ret_ns)
{
    int64_t day_ns, clock_ns = 0, offset_ns = 0;

    if (!take_day(&text, &day_ns))
        return false;
    if (text.len > 0 &&
        ((!take_prefix(&text, "T") && !take_prefix(&text, "t") && !take_prefix(&text, " ")) ||
         !take_clock(&text, &clock_ns) ||
         (take_prefix(&text, " "), !take_offset(&text, &offset_ns))))
        return false;
    *ret_ns = fg_time_add(day_ns, clock_ns + offset_ns);
    return text.len == 0;
}

/* ---- spans ---- */

/* Parses a span like 1h30min: numbers, each with its unit. */
static bool parse_span(struct fg_slice text, int64_t *ret_ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"s", FG_SECOND_NS},  {"m", FG_MINUTE_NS}, {"min", FG_MINUTE_NS},
        {"h", FG_HOUR_NS},    {"d", DAY_NS},       {"w", 7 * DAY_NS},
        {"mon", 30 * DAY_NS}, {"M", 30 * DAY_NS},  {"y", 365 * DAY_NS},
    };
    int64_t sum = 0;

    if (text.len == 0)
        return false;
    while (text.len > 0) {
        size_t digits = count_digits(text), end = digits;
        int64_t number, ns = 0;

        while (end < text.len && !is_digit(text.ptr[end]))
            end++;
        for (size_t i = 0; i < FG_COUNT(units); i++)
            if (fg_slice_is(fg_slice_sub(text, digits, end - digits), units[i].name))
                ns = units[i].ns;
        /* An unknown unit leaves ns at 0. Overflow is an error, not a wrong time. */
        if (ns == 0 || !fg_parse_i64(fg_slice_sub(text, 0, digits), &number) ||
            __builtin_mul_overflow(ns, number, &ns) || __builtin_add_overflow(sum, ns, &sum))
            return false;
        text = rest(text, end);
    }
    *ret_ns = sum;
    return true;
}

static bool parse_relative(struct fg_slice text, int64_t now_ns, int64_t *ret_ns)
{
    int64_t midnight_ns = now_ns - now_ns % DAY_NS, span_ns = 0;

    if (fg_slice_is(text, "today") || fg_slice_is(text, "yesterday")) {
        *ret_ns = fg_slice_is(text, "today") ? midnight_ns : midnight_ns - DAY_NS;
        return true;
    }
    if (!take_prefix(&text, "now")) { /* "1d" is so long ago */
        *ret_ns = parse_span(text, &span_ns) ? fg_time_add(now_ns, -span_ns) : 0;
        return span_ns > 0;
    }
    bool forwards = take_prefix(&text, "+");
    if (text.len > 0 && ((!forwards && !take_prefix(&text, "-")) || !parse_span(text, &span_ns)))
        return false;
    *ret_ns = fg_time_add(now_ns, forwards ? span_ns : -span_ns);
    return true;
}

/* ---- numbers ---- */

static bool parse_number(struct fg_slice text, int64_t *ret_ns)
{
    int64_t number, unit_ns = FG_SECOND_NS;

    /* Fewer than 9 digits are a day such as 20260131, or a typo: 8 digits of seconds would be in
     * 1973 or before. */
    if (count_digits(text) != text.len || text.len < 9 || !fg_parse_i64(text, &number))
        return false;
    /* As the server reads numbers (distributor/API.md#times): seconds, or 13, 16 and 19 digits. */
    if (text.len == 13)
        unit_ns = FG_MS_NS;
    else if (text.len == 16)
        unit_ns = 1000;
    else if (text.len == 19)
        unit_ns = 1;
    return !__builtin_mul_overflow(number, unit_ns, ret_ns);
}

enum fg_code cli_time_parse(const char *option, const char *text, int64_t now_ns, int64_t *ret_ns,
                            struct fg_err *err)
{
    struct fg_slice words = fg_trim(fg_cstr(text));
    int64_t ns;

    if ((!parse_number(words, &ns) && !parse_date(words, &ns) &&
         !parse_relative(words, now_ns, &ns)) ||
        ns <= 0 || ns == INT64_MAX)
        return fg_fail(err, FG_E_INVALID,
                       "%s %.64s is not a time; times are 2026-01-31, 2026-01-31 10:00, "
                       "2026-01-31T10:00:00Z, today, yesterday, now-1h, 1d (ago), or Unix seconds",
                       option, text);
    *ret_ns = ns;
    return FG_OK;
}

void cli_time_write(int64_t ns, char text[CLI_TIME_TEXT_BYTES])
{
    time_t seconds = (time_t)(ns / FG_SECOND_NS);
    struct tm day;

    if (gmtime_r(&seconds, &day) == NULL ||
        strftime(text, CLI_TIME_TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &day) == 0)
        text[0] = '\0';
}

void cli_time_put_ms(int64_t ms, struct fg_buf *out)
{
    fg_buf_printf(out, "%013" PRId64, ms);
}

void cli_time_put_ns(int64_t ns, struct fg_buf *out)
{
    fg_buf_printf(out, "%019" PRId64, ns);
}
