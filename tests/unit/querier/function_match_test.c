#include "common/base/time.h"
#include "common/model/selector.h"
#include "querier/function_match.h"
#include "querier/query.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NAMES = 4 * FG_SELECTOR_ASK_EVERY };

struct fixture {
    struct fg_clock_manual clock;
    struct querier querier;
    struct qry_query query;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    fg_clock_manual_init(&f->clock, 1);
    f->querier.clock = &f->clock.clock;
    f->query.querier = &f->querier;
    f->query.arena = fg_arena_create(1 << 20);
    f->query.deadline_mono_ns = fg_mono_ns(&f->clock.clock) + FG_SECOND_NS;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_arena_destroy(f->query.arena);
    free(f);
    return 0;
}

/* Returns how many of NAMES equal names are meant. */
static unsigned count_meant(struct fixture *f, struct fg_slice function, struct fg_slice regex)
{
    struct qry_function_match match;
    unsigned meant = 0;
    struct fg_err err;

    assert_int_equal(qry_function_match_read(&f->query, function, regex, &match, &err), FG_OK);
    for (unsigned i = 0; i < NAMES; i++)
        meant += qry_function_match_is(&match, FG_LIT("work"));
    qry_function_match_done(&match);
    return meant;
}

static void a_name_or_an_expression_says_what_is_meant(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(count_meant(f, FG_LIT("work"), FG_LIT("")), NAMES);
    assert_int_equal(count_meant(f, FG_LIT("wor"), FG_LIT("")), 0);
    assert_int_equal(count_meant(f, FG_LIT(""), FG_LIT("w.*")), NAMES);
    assert_int_equal(count_meant(f, FG_LIT(""), FG_LIT("w")), 0);
}

static void an_expression_ends_with_the_time_of_the_query(void **state)
{
    struct fixture *f = *state;

    fg_clock_manual_advance(&f->clock, FG_SECOND_NS);
    assert_int_equal(count_meant(f, FG_LIT(""), FG_LIT("w.*")), FG_SELECTOR_ASK_EVERY - 1);
}

static void one_of_both_is_given(void **state)
{
    struct fixture *f = *state;
    struct qry_function_match match;
    struct fg_err err;

    assert_int_equal(qry_function_match_read(&f->query, FG_LIT("a"), FG_LIT("b"), &match, &err),
                     FG_E_INVALID);
    assert_int_equal(qry_function_match_read(&f->query, FG_LIT(""), FG_LIT(""), &match, &err),
                     FG_E_INVALID);
    assert_int_equal(qry_function_match_read(&f->query, FG_LIT(""), FG_LIT("("), &match, &err),
                     FG_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_or_an_expression_says_what_is_meant, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_expression_ends_with_the_time_of_the_query, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_of_both_is_given, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
