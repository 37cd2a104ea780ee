#include "common/base/time.h"
#include "common/base/timespec.h"
#include "deploy/cli/times.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOW_NS INT64_C(1769866245000000000) /* 2026-01-31T13:30:45Z */
#define DAY_NS (24 * FG_HOUR_NS)

static void times_are_understood(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"now", "2026-01-31T13:30:45Z"},
        {" now ", "2026-01-31T13:30:45Z"},
        {"now-1h", "2026-01-31T12:30:45Z"},
        {"now-1h30min", "2026-01-31T12:00:45Z"},
        {"now+5m", "2026-01-31T13:35:45Z"},
        {"now-1mon", "2026-01-01T13:30:45Z"},
        {"1d", "2026-01-30T13:30:45Z"},
        {"2h30m", "2026-01-31T11:00:45Z"},
        {"1w", "2026-01-24T13:30:45Z"},
        {"today", "2026-01-31T00:00:00Z"},
        {"yesterday", "2026-01-30T00:00:00Z"},
        {"2026-01-01", "2026-01-01T00:00:00Z"},
        {"20260101", "2026-01-01T00:00:00Z"},
        {"2024-02-29", "2024-02-29T00:00:00Z"},
        {"2026-01-01 10:00", "2026-01-01T10:00:00Z"},
        {"2026-01-01T10:00:30", "2026-01-01T10:00:30Z"},
        {"2026-01-01T10:00:30.5Z", "2026-01-01T10:00:30Z"},
        {"2026-01-01T10:00:00+01:00", "2026-01-01T09:00:00Z"},
        {"2026-01-01 10:00 -0530", "2026-01-01T15:30:00Z"},
        {"1769866245", "2026-01-31T13:30:45Z"},
        {"1769866245000", "2026-01-31T13:30:45Z"},
        {"1769866245000000", "2026-01-31T13:30:45Z"},
        {"1769866245000000000", "2026-01-31T13:30:45Z"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char text[CLI_TIME_TEXT_BYTES];
        struct fg_err err;
        int64_t ns;

        print_message("  %s\n", cases[i].text);
        assert_int_equal(cli_time_parse("--from", cases[i].text, NOW_NS, &ns, &err), FG_OK);
        cli_time_write(ns, text);
        assert_string_equal(text, cases[i].want);
    }
}

static void fractions_are_kept(void **state)
{
    struct fg_err err;
    int64_t ns;

    (void)state;
    assert_int_equal(cli_time_parse("--from", "1970-01-01T00:00:01.25", NOW_NS, &ns, &err), FG_OK);
    assert_int_equal(ns, 1250000000);
    assert_int_equal(cli_time_parse("--from", "1970-01-01T00:00:01.1234567899", NOW_NS, &ns, &err),
                     FG_OK);
    assert_int_equal(ns, 1123456789);
}

static void other_times_are_refused_with_the_accepted_forms(void **state)
{
    static const char *const cases[] = {
        "",
        "soon",
        "nowish",
        "now-",
        "now-1",
        "now-1x",
        "now1h",
        "now-1h ago",
        "-1h",
        "1",
        "h",
        "12345678",
        "2026-02-30",
        "2026-13-01",
        "2026-00-10",
        "2026-1-1",
        "2026-01",
        "1969-12-31",
        "2026-01-01 25:00",
        "2026-01-01 10",
        "2026-01-01T10:00X",
        "2026-01-01 10:00:00.",
        "2026-01-01T10:00+1",
        "tomorrow",
        "99999999999999999999",
        "now-99999999999y",
        "9999-01-01",
        "yesterday 10:00",
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_err err;
        int64_t ns = -1;

        print_message("  \"%s\"\n", cases[i]);
        assert_int_equal(cli_time_parse("--until", cases[i], NOW_NS, &ns, &err), FG_E_INVALID);
        assert_int_equal(ns, -1);
        assert_non_null(strstr(err.msg, "--until "));
        assert_non_null(strstr(err.msg, "times are 2026-01-31, "));
    }
}

/* It tells units apart by the number of digits, which times before 2001-09-09 do not have. */
static void the_server_reads_times_as_they_are_meant(void **state)
{
    static const char *const cases[] = {"1970-01-01T00:00:01",     "1970-01-03",
                                        "1999-12-31 23:59:59",     "2001-09-09",
                                        "2026-01-31T10:00:00.25Z", "2261-12-31"};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf text;
        struct fg_err err;
        int64_t ns, read_ns = -1;

        print_message("  \"%s\"\n", cases[i]);
        assert_int_equal(cli_time_parse("--from", cases[i], NOW_NS, &ns, &err), FG_OK);
        fg_buf_init(&text, 64);
        cli_time_put_ms(ns / FG_MS_NS, &text);
        assert_true(fg_timespec_parse(fg_buf_slice(&text), NOW_NS, &read_ns));
        assert_int_equal(read_ns, ns);
        fg_buf_clear(&text);
        cli_time_put_ns(ns + 1, &text);
        assert_true(fg_timespec_parse(fg_buf_slice(&text), NOW_NS, &read_ns));
        assert_int_equal(read_ns, ns + 1);
        fg_buf_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_understood),
        cmocka_unit_test(fractions_are_kept),
        cmocka_unit_test(the_server_reads_times_as_they_are_meant),
        cmocka_unit_test(other_times_are_refused_with_the_accepted_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
