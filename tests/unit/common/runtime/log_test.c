#include "common/base/time.h"
#include "common/runtime/log.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { OUTPUT_MAX_BYTES = 1 << 20 };

static FILE *sink;
static char output[OUTPUT_MAX_BYTES];

static int open_sink(void **state)
{
    (void)state;
    sink = tmpfile();
    fg_log_set_level(FG_LOG_INFO);
    if (sink == NULL)
        return -1;
    fg_log_set_fd(fileno(sink));
    return 0;
}

static int close_sink(void **state)
{
    (void)state;
    fg_log_set_fd(STDERR_FILENO);
    return fclose(sink);
}

/* All that was written since the test's start. */
static const char *written(void)
{
    ssize_t n = pread(fileno(sink), output, sizeof output - 1, 0);

    assert_true(n >= 0);
    output[n] = '\0';
    return output;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (text = strstr(text, part); text != NULL; text = strstr(text + 1, part))
        n++;
    return n;
}

/* The line behind its time stamp, whose form is checked: ts=2026-11-21T13:00:00.123Z */
static const char *after_time(const char *line)
{
    static const char form[] = "ts=dddd-dd-ddTdd:dd:dd.dddZ ";

    for (size_t i = 0; i < sizeof form - 1; i++) {
        if (form[i] == 'd')
            assert_true(line[i] >= '0' && line[i] <= '9');
        else
            assert_int_equal(line[i], form[i]);
    }
    return line + sizeof form - 1;
}

static void a_line_has_all_kinds(void **state)
{
    (void)state;
    fg_log_warn("profile refused", fg_ls("tenant", "acme"), fg_lu("size_bytes", UINT64_MAX),
                fg_li("delta", INT64_MIN), fg_lf("ratio", 0.25), fg_lbool("again", true),
                fg_lbool("done", false), fg_lb("raw", FG_LIT("xyz")));
    assert_string_equal(after_time(written()),
                        "level=warn msg=\"profile refused\" tenant=acme "
                        "size_bytes=18446744073709551615 delta=-9223372036854775808 ratio=0.25 "
                        "again=true done=false raw=xyz\n");
}

static void no_fields_are_fine(void **state)
{
    (void)state;
    fg_log_info("started");
    assert_string_equal(after_time(written()), "level=info msg=\"started\"\n");
}

static void values_are_quoted_when_needed(void **state)
{
    static const struct {
        const char *in;
        size_t len;
        const char *want;
    } cases[] = {
        {"plain-1.2/x:y", 13, "plain-1.2/x:y"},
        {"", 0, "\"\""},
        {"a b", 3, "\"a b\""},
        {"a=b", 3, "\"a=b\""},
        {"say \"x\"", 7, "\"say \\\"x\\\"\""},
        {"back\\slash \\", 12, "\"back\\\\slash \\\\\""},
        {"two\nlines", 9, "\"two\\nlines\""},
        {"nul\0esc\x1b", 8, "\"nul\\u0000esc\\u001b\""},
        {"\x7f", 1, "\"\\u007f\""},
        {"\xc3\xa4", 2, "\xc3\xa4"},
        {"\xff", 1, "\"\\ufffd\""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char want[100];

        assert_int_equal(ftruncate(fileno(sink), 0), 0);
        assert_int_equal(lseek(fileno(sink), 0, SEEK_SET), 0);
        fg_log_info("m", fg_lb("k", fg_bytes(cases[i].in, cases[i].len)));
        (void)snprintf(want, sizeof want, "level=info msg=\"m\" k=%s\n", cases[i].want);
        assert_string_equal(after_time(written()), want);
    }
}

static void null_text_is_empty(void **state)
{
    (void)state;
    fg_log_error("m", fg_ls("k", NULL), fg_lb("b", fg_bytes(NULL, 0)));
    assert_string_equal(after_time(written()), "level=error msg=\"m\" k=\"\" b=\"\"\n");
}

static void levels_below_the_least_are_silent(void **state)
{
    (void)state;
    fg_log_debug("hidden");
    assert_string_equal(written(), "");
    fg_log_set_level(FG_LOG_DEBUG);
    fg_log_debug("seen");
    fg_log_set_level(FG_LOG_ERROR);
    fg_log_warn("hidden too");
    assert_string_equal(after_time(written()), "level=debug msg=\"seen\"\n");
}

static void long_values_are_cut(void **state)
{
    char text[3000];
    const char *value;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text + 1023, "\xc3\xa4", 2); /* the cut must not go through a character */
    fg_log_info("m", fg_ls("k", text), fg_ls("next", "n"));
    value = strstr(written(), " k=\"");
    assert_non_null(value);
    assert_int_equal(strspn(value + 4, "x"), 1023);
    assert_string_equal(value + 4 + 1023, "...\" next=n\n");
}

static void a_line_is_at_most_a_pipes_write(void **state)
{
    char text[1000];

    (void)state;
    memset(text, '\x01', sizeof text - 1); /* each becomes six bytes */
    text[sizeof text - 1] = '\0';
    fg_log_info("m", fg_ls("first", "1"), fg_ls("big", text), fg_ls("last", "2"));
    assert_string_equal(after_time(written()), "level=info msg=\"m\" first=1 last=2 cut=true\n");
}

static const char noisy[] = "noisy";

/* How many at which time is log_limit_test.c's. */
static void a_message_is_limited(void **state)
{
    struct timespec second = {1, 50 * FG_MS_NS};
    size_t written_lines;
    char want[100];
    const char *text;

    (void)state;
    for (int i = 0; i < 100000; i++)
        fg_log_warn(noisy, fg_li("i", i));
    fg_log_info("another is not");
    (void)nanosleep(&second, NULL);
    fg_log_info("whatever comes next says so");
    text = written();
    assert_non_null(strstr(text, " i=99\n"));
    assert_int_equal(count(text, "another is not"), 1);
    written_lines = count(text, "msg=\"noisy\"");
    assert_in_range(written_lines, 100, 99999);
    if (count(text, "left out") == 1) { /* all within a second, as it should be */
        (void)snprintf(want, sizeof want,
                       "level=warn msg=\"log lines left out\" of=noisy lines=%zu\n",
                       100000 - written_lines);
        assert_non_null(strstr(text, want));
    }
    assert_true(count(text, "left out") > 0);
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < 20; i++)
        fg_log_info("from a thread", fg_lu("thread", (uint64_t)(uintptr_t)arg), fg_li("i", i));
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    pthread_t threads[4];
    size_t lines = 0;

    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, (void *)i), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (const char *line = written(); *line != '\0'; line = strchr(line, '\n') + 1) {
        unsigned thread, i;
        char end;

        assert_int_equal(sscanf(after_time(line),
                                "level=info msg=\"from a thread\" thread=%u i=%u%c", &thread, &i,
                                &end),
                         3);
        assert_int_equal(end, '\n');
        lines++;
    }
    assert_int_equal(lines, 80);
}

int main(void)
{
#define SUNK(test) cmocka_unit_test_setup_teardown(test, open_sink, close_sink)
    const struct CMUnitTest tests[] = {
        SUNK(a_line_has_all_kinds),
        SUNK(no_fields_are_fine),
        SUNK(values_are_quoted_when_needed),
        SUNK(null_text_is_empty),
        SUNK(levels_below_the_least_are_silent),
        SUNK(long_values_are_cut),
        SUNK(a_line_is_at_most_a_pipes_write),
        SUNK(a_message_is_limited),
        SUNK(lines_of_threads_do_not_mix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
