#include "deploy/cli/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void only_what_may_pass_is_tried_again(void **state)
{
    static const unsigned again[] = {408, 429, 500, 502, 503, 504, 507};
    static const unsigned never[] = {200, 301, 400, 401, 403, 404, 413, 422, 501};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(again); i++)
        assert_true(cli_retry_helps(again[i]));
    for (size_t i = 0; i < FG_COUNT(never); i++)
        assert_false(cli_retry_helps(never[i]));
}

static void pauses_double_up_to_a_minute_unless_the_server_asks(void **state)
{
    static const struct {
        uint64_t retry_after_s;
        unsigned attempt, pause_s;
    } cases[] = {
        {0, 0, 1},   {0, 1, 2}, {0, 5, 32}, {0, 6, 60},
        {0, 99, 60}, {7, 0, 7}, {7, 9, 7},  {UINT64_MAX, 0, 60},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        assert_int_equal(cli_retry_pause_s(cases[i].retry_after_s, cases[i].attempt),
                         cases[i].pause_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_may_pass_is_tried_again),
        cmocka_unit_test(pauses_double_up_to_a_minute_unless_the_server_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
