/* A sender of an older OTLP version is logged once an hour, and the table has an end. */
#include "common/base/time.h"
#include "distributor/otlp_senders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW (5 * FG_HOUR_NS)

static void each_sender_is_logged_once_an_hour(void **state)
{
    struct dist_otlp_senders *senders = dist_otlp_senders_create();
    static const struct {
        const char *tenant, *address;
        int64_t after_ns;
        bool want;
    } calls[] = {
        {"a", "10.0.0.1", 0, true},
        {"a", "10.0.0.1", 1, false},
        {"a", "10.0.0.2", 2, true},
        {"b", "10.0.0.1", 3, true},
        {"10.0.0.1", "a", 4, true},
        {"a", "10.0.0.1", FG_HOUR_NS - 1, false},
        {"a", "10.0.0.1", FG_HOUR_NS, true},
        {"a", "10.0.0.2", FG_HOUR_NS + 1, false},
        {"a", "10.0.0.2", FG_HOUR_NS + 2, true},
        {"a", "10.0.0.1", 2 * FG_HOUR_NS - 1, false},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(calls); i++) {
        print_message("  call %zu\n", i);
        assert_int_equal(dist_otlp_senders_admit(senders, fg_cstr(calls[i].tenant),
                                                 fg_cstr(calls[i].address),
                                                 NOW + calls[i].after_ns),
                         calls[i].want);
    }
    dist_otlp_senders_destroy(senders);
}

static bool admit_number(struct dist_otlp_senders *senders, int number, int64_t now_ns)
{
    char address[32];

    (void)snprintf(address, sizeof address, "10.1.%d.%d", number / 256, number % 256);
    return dist_otlp_senders_admit(senders, FG_LIT("a"), fg_cstr(address), now_ns);
}

/* A full table forgets no sender before its hour is over. */
static void a_full_table_logs_no_further_senders(void **state)
{
    struct dist_otlp_senders *senders = dist_otlp_senders_create();

    (void)state;
    for (int i = 0; i < DIST_OTLP_SENDERS_MAX; i++)
        assert_true(admit_number(senders, i, NOW + i));
    assert_false(admit_number(senders, DIST_OTLP_SENDERS_MAX, NOW + FG_MINUTE_NS));
    for (int i = 0; i < DIST_OTLP_SENDERS_MAX; i++)
        assert_false(admit_number(senders, i, NOW + FG_MINUTE_NS));
    /* Two senders were logged an hour ago, so there is room for two. */
    assert_true(admit_number(senders, DIST_OTLP_SENDERS_MAX, NOW + FG_HOUR_NS + 1));
    assert_true(admit_number(senders, 0, NOW + FG_HOUR_NS + 1));
    assert_false(admit_number(senders, 1, NOW + FG_HOUR_NS + 1));
    assert_true(admit_number(senders, 1, NOW + FG_HOUR_NS + 2));
    dist_otlp_senders_destroy(senders);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sender_is_logged_once_an_hour),
        cmocka_unit_test(a_full_table_logs_no_further_senders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
