#include "common/base/time.h"
#include "deploy/cli/progress.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_progress_line_has_rate_and_remaining_time(void **state)
{
    static const struct {
        struct cli_progress progress;
        int64_t took_ns;
        const char *want;
    } cases[] = {
        {{.what = "files", .total = 300, .done = 100, .bytes = 5 << 20},
         FG_SECOND_NS,
         "100 of 300 files, 5.0 MiB/s, 0:02 left"},
        {{.what = "files", .total = 300, .done = 1},
         FG_SECOND_NS,
         "1 of 300 files, 1/s, 4:59 left"},
        {{.what = "files", .total = 300, .done = 300}, 10 * FG_SECOND_NS, "300 of 300 files, 30/s"},
        {{.what = "files", .total = 300}, FG_SECOND_NS, "0 of 300 files, 0/s"},
        {{.what = "profiles", .done = 50, .bytes = 1 << 20},
         2 * FG_SECOND_NS,
         "50 profiles, 0.5 MiB/s"},
        {{.what = "files", .total = UINT64_MAX, .done = 1},
         0,
         "1 of 18446744073709551615 files, 1000000000/s, 307445734:33 left"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char text[CLI_PROGRESS_TEXT_BYTES];

        cli_progress_write(&cases[i].progress, cases[i].took_ns, text);
        assert_string_equal(text, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_progress_line_has_rate_and_remaining_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
