#include "common/base/time.h"
#include "common/base/timespec.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOW INT64_C(1700000000123456789)
#define DAY (24 * FG_HOUR_NS)

/* clang-format off */
static const struct {
    const char *text;
    int64_t want;
} good[] = {
    {"",                     NOW},
    {"now",                  NOW},
    {"yesterday",            NOW}, /* the word does not matter */
    {"now-1h",               NOW - FG_HOUR_NS},
    {"now+1h",               NOW + FG_HOUR_NS},
    {"-90s",                 NOW - 90 * FG_SECOND_NS},
    {"now-1h30min",          NOW - 90 * FG_MINUTE_NS},
    {"now - 1h, 30_m",       NOW - 90 * FG_MINUTE_NS},
    {"now-2d",               NOW - 2 * DAY},
    {"now-1w",               NOW - 7 * DAY},
    {"now-1mon",             NOW - 30 * DAY},
    {"now-1months",          NOW - 30 * DAY},
    {"now-1M",               NOW - 30 * DAY},
    {"now-1minute",          NOW - FG_MINUTE_NS},
    {"now-1y",               NOW - 365 * DAY},
    {"now-5",                NOW}, /* no unit counts nothing */
    {"now-5x",               NOW},
    {"now-",                 NOW},
    {"a-1h+2h",              NOW + 2 * FG_HOUR_NS}, /* '+' is looked for first */
    {"0",                    0},
    {"1700000000",           INT64_C(1700000000000000000)},
    {"1700000000123",        INT64_C(1700000000123000000)},
    {"1700000000123456",     INT64_C(1700000000123456000)},
    {"1700000000123456789",  INT64_C(1700000000123456789)},
    {"999999999999",         INT64_C(999999999999000000)}, /* before 2001 a digit is missing */
    {"999999999999999",      INT64_C(999999999999999000)},
    {"999999999999999999",   INT64_C(999999999999999999)},
    {"9223372036",           INT64_C(9223372036000000000)},
    {"20231114",             INT64_C(1699920000000000000)},
    {"2023-11-14",           INT64_C(1699920000000000000)},
    {"2024-02-29",           INT64_C(1709164800000000000)},
    {"2023-11-14T10:00:00Z", NOW}, /* a word and an offset of no unit */
    {"20000229",             INT64_C(951782400000000000)},
    {"20240301",             INT64_C(1709251200000000000)},
    {"19700101",             0},
    {"19691231",             -DAY},
    {"20230229",             INT64_C(20230229) * FG_SECOND_NS}, /* no such day: seconds */
    {"20231301",             INT64_C(20231301) * FG_SECOND_NS},
    {"19000101",             INT64_C(19000101) * FG_SECOND_NS},
    {"2023_11_14",           INT64_C(1699920000000000000)},
};
/* clang-format on */

static const char *const bad[] = {
    "99999999999999999999", "9999999999999999",    "9999999999999",
    "9999999999",           "9223372036854775808", "94694400123",
    "20231114120000", /* no form of a date and a time */
    "2023-02-30",           "2023-13-01",          "0000-00-00",
    "2023-00-10",           "now-999999999999y",   "now-99999999999999999999s",
};

static void times_are_parsed(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(good); i++) {
        int64_t ns = -1;

        print_message("  %s\n", good[i].text);
        assert_true(fg_timespec_parse(fg_cstr(good[i].text), NOW, &ns));
        assert_true(ns == good[i].want);
    }
}

static void times_beyond_64_bits_are_refused(void **state)
{
    char longer[200];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        int64_t ns = -1;

        print_message("  %s\n", bad[i]);
        assert_false(fg_timespec_parse(fg_cstr(bad[i]), NOW, &ns));
        assert_true(ns == -1);
    }
    memset(longer, '1', sizeof longer);
    int64_t ns;
    assert_false(fg_timespec_parse(fg_bytes(longer, sizeof longer), NOW, &ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_parsed),
        cmocka_unit_test(times_beyond_64_bits_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
