#include "common/base/time.h"
#include "common/model/tenant_quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1024 * 1024 };

/* 2026-11-27, a Friday, 04:13:20 UTC. */
static const int64_t now_s = 1795752800;

static const struct fg_quota_limit daily = {10 * MIB, FG_QUOTA_DAY};

static bool check(struct fg_quotas *quotas, const char *tenant, int64_t at_s)
{
    struct fg_quota_use use;
    struct fg_err err;

    return fg_quotas_check(quotas, fg_cstr(tenant), &daily, at_s * FG_SECOND_NS, &use, &err) ==
           FG_OK;
}

static void add(struct fg_quotas *quotas, const char *tenant, uint64_t bytes, int64_t at_s)
{
    fg_quotas_add(quotas, fg_cstr(tenant), &daily, bytes, at_s * FG_SECOND_NS);
}

static void assert_span(enum fg_quota_period period, int64_t at_s, int64_t start_s, int64_t end_s)
{
    struct fg_quota_span span = fg_quota_span(period, at_s);

    assert_int_equal(span.start_s, start_s);
    assert_int_equal(span.end_s, end_s);
}

static void periods_are_those_of_the_calendar(void **state)
{
    (void)state;
    assert_span(FG_QUOTA_HOUR, now_s, 1795752000, 1795755600);
    assert_span(FG_QUOTA_DAY, now_s, 1795737600, 1795824000);
    assert_span(FG_QUOTA_WEEK, now_s, 1795392000, 1795996800);       /* Monday the 23rd */
    assert_span(FG_QUOTA_MONTH, now_s, 1793491200, 1796083200);      /* to the 1st of December */
    assert_span(FG_QUOTA_MONTH, 1796083200, 1796083200, 1798761600); /* and the year changes */
    assert_span(FG_QUOTA_DAY, 1795824000, 1795824000, 1795910400);
    assert_span(FG_QUOTA_WEEK, 0, -259200, 345600);
    assert_span(FG_QUOTA_DAY, -1, 0, 86400);
}

static enum fg_code parse(const char *yaml, struct fg_quota_limit *limit, struct fg_err *err)
{
    return fg_quota_parse(fg_cstr(yaml), "ingestion_limit", limit, err);
}

static void the_setting_is_a_map(void **state)
{
    struct fg_quota_limit limit;
    struct fg_err err;

    (void)state;
    assert_int_equal(parse("", &limit, &err), FG_OK);
    assert_true(limit.bytes == 0);
    assert_int_equal(parse("{period_type: week, period_limit_mb: 2.5}", &limit, &err), FG_OK);
    assert_true(limit.bytes == 5 * MIB / 2 && limit.period == FG_QUOTA_WEEK);
    assert_int_equal(parse("period_limit_mb: 1\n", &limit, &err), FG_OK);
    assert_true(limit.bytes == MIB && limit.period == FG_QUOTA_HOUR);
    assert_int_equal(parse("{period_type: year}", &limit, &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, "week"));
    assert_int_equal(parse("{period_limit: 1}", &limit, &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, "period_limit_mb"));
    assert_int_equal(parse("{period_limit_mb: -1}", &limit, &err), FG_E_INVALID);
    assert_int_equal(parse("[1]", &limit, &err), FG_E_INVALID);
}

static void a_tenant_is_refused_until_the_period_ends(void **state)
{
    struct fg_quotas *quotas = fg_quotas_create("ingestion_limit");

    (void)state;
    assert_true(check(quotas, "a", now_s));
    add(quotas, "a", 10 * MIB - 1, now_s);
    assert_true(check(quotas, "a", now_s));
    add(quotas, "a", 1, now_s);
    assert_false(check(quotas, "a", now_s));
    assert_true(check(quotas, "b", now_s));
    assert_false(check(quotas, "a", 1795823999));
    assert_true(check(quotas, "a", 1795824000));
    fg_quotas_destroy(quotas);
}

static void a_refusal_names_all_that_one_has_to_know(void **state)
{
    struct fg_quotas *quotas = fg_quotas_create("ingestion_limit");
    struct fg_quota_use use;
    struct fg_err err;

    (void)state;
    add(quotas, "a", 11 * MIB, now_s);
    assert_int_equal(fg_quotas_check(quotas, FG_LIT("a"), &daily, now_s * FG_SECOND_NS, &use, &err),
                     FG_E_LIMIT);
    assert_string_equal(err.msg,
                        "limit of 10.0 MiB/day reached, next reset at 2026-11-28T00:00:00Z "
                        "(tenant \"a\", limits.ingestion_limit)");
    assert_true(use.bytes == 11 * MIB && use.span.end_s == 1795824000);
    fg_quotas_destroy(quotas);
}

static void a_refusal_of_queries_names_their_setting(void **state)
{
    static const struct fg_quota_limit hourly = {10 * MIB, FG_QUOTA_HOUR};
    struct fg_quotas *quotas = fg_quotas_create("query_bytes_per_hour");
    struct fg_quota_use use;
    struct fg_err err;

    (void)state;
    assert_string_equal(fg_quotas_setting(quotas), "query_bytes_per_hour");
    fg_quotas_add(quotas, FG_LIT("a"), &hourly, 10 * MIB, now_s * FG_SECOND_NS);
    assert_int_equal(
        fg_quotas_check(quotas, FG_LIT("a"), &hourly, now_s * FG_SECOND_NS, &use, &err),
        FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "limit of 10.0 MiB/hour reached, next reset at 2026-11-27T"));
    assert_non_null(strstr(err.msg, "(tenant \"a\", limits.query_bytes_per_hour)"));
    fg_quotas_destroy(quotas);
}

static void counts_of_others_are_added_and_never_fall(void **state)
{
    struct fg_quotas *quotas = fg_quotas_create("ingestion_limit");
    struct fg_quota_count count;

    (void)state;
    add(quotas, "a", MIB, now_s);
    assert_int_equal(fg_quotas_report(quotas, &count, 1), 1);
    assert_true(count.own == MIB && count.span.start_s == 1795737600);
    add(quotas, "a", MIB, now_s); /* while the others are asked */
    count.all = 9 * MIB;
    fg_quotas_apply(quotas, &count, 1);
    assert_false(check(quotas, "a", now_s)); /* 2 here, 8 elsewhere */
    assert_int_equal(fg_quotas_report(quotas, &count, 1), 1);
    assert_true(count.own == 2 * MIB);
    count.all = 2 * MIB; /* from somebody who has forgotten */
    fg_quotas_apply(quotas, &count, 1);
    assert_false(check(quotas, "a", now_s));
    /* An answer about yesterday says nothing about today. */
    count.all = 100 * MIB;
    assert_true(check(quotas, "a", now_s + 86400));
    fg_quotas_apply(quotas, &count, 1);
    assert_true(check(quotas, "a", now_s + 86400));
    fg_quotas_destroy(quotas);
}

static void only_what_was_checked_is_asked_about_each_in_its_turn(void **state)
{
    struct fg_quotas *quotas = fg_quotas_create("ingestion_limit");
    struct fg_quota_count counts[3];
    bool seen[10] = {false};

    (void)state;
    for (int i = 0; i < 10; i++) {
        const char name[2] = {(char)('0' + i), '\0'};

        assert_true(check(quotas, name, now_s));
    }
    for (int round = 0; round < 4; round++) {
        uint32_t n = fg_quotas_report(quotas, counts, 3);

        for (uint32_t i = 0; i < n; i++)
            seen[counts[i].tenant[0] - '0'] = true;
        fg_quotas_apply(quotas, counts, n);
    }
    for (int i = 0; i < 10; i++)
        assert_true(seen[i]);
    assert_int_equal(fg_quotas_report(quotas, counts, 3), 0);
    add(quotas, "7", 1, now_s);
    assert_int_equal(fg_quotas_report(quotas, counts, 3), 1);
    assert_int_equal(fg_quotas_report(quotas, counts, 3), 1); /* it was not answered */
    fg_quotas_destroy(quotas);
}

static void names_that_clients_invent_do_not_fill_the_memory(void **state)
{
    struct fg_quotas *quotas = fg_quotas_create("ingestion_limit");
    char name[16];

    (void)state;
    for (int i = 0; i < FG_QUOTA_TENANTS_MAX + 10; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        add(quotas, name, 10 * MIB, now_s);
    }
    assert_false(check(quotas, "t0", now_s));
    assert_true(check(quotas, name, now_s));          /* found no room: not limited */
    assert_true(check(quotas, "new", now_s + 86400)); /* those of yesterday are gone */
    add(quotas, "new", 10 * MIB, now_s + 86400);
    assert_false(check(quotas, "new", now_s + 86400));
    fg_quotas_destroy(quotas);
}

static void note(void *arg, const char *tenant, double used)
{
    double *sum = arg;

    assert_true(strcmp(tenant, "a") == 0);
    *sum += used;
}

static void shares_are_of_the_period_that_runs(void **state)
{
    struct fg_quotas *quotas = fg_quotas_create("ingestion_limit");
    double sum = 0;

    (void)state;
    add(quotas, "a", 9 * MIB, now_s);
    fg_quotas_each(quotas, now_s * FG_SECOND_NS, note, &sum);
    assert_true(sum > 0.899 && sum < 0.901);
    fg_quotas_each(quotas, (now_s + 86400) * FG_SECOND_NS, note, &sum);
    assert_true(sum < 0.901);
    fg_quotas_destroy(quotas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(periods_are_those_of_the_calendar),
        cmocka_unit_test(the_setting_is_a_map),
        cmocka_unit_test(a_tenant_is_refused_until_the_period_ends),
        cmocka_unit_test(a_refusal_names_all_that_one_has_to_know),
        cmocka_unit_test(a_refusal_of_queries_names_their_setting),
        cmocka_unit_test(counts_of_others_are_added_and_never_fall),
        cmocka_unit_test(only_what_was_checked_is_asked_about_each_in_its_turn),
        cmocka_unit_test(names_that_clients_invent_do_not_fill_the_memory),
        cmocka_unit_test(shares_are_of_the_period_that_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
