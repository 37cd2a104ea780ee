#include "common/base/budget.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void take_succeeds_up_to_the_limit(void **state)
{
    struct fg_budget budget;

    (void)state;
    fg_budget_init(&budget, 100);
    assert_true(fg_budget_take(&budget, 60));
    assert_false(fg_budget_take(&budget, 41));
    assert_int_equal(fg_budget_used(&budget), 60);
    assert_true(fg_budget_take(&budget, 40));
    assert_false(fg_budget_take(&budget, 1));
    assert_true(fg_budget_take(&budget, 0));
    fg_budget_give(&budget, 100);
    assert_int_equal(fg_budget_used(&budget), 0);
}

static void huge_requests_do_not_wrap(void **state)
{
    struct fg_budget budget;

    (void)state;
    fg_budget_init(&budget, UINT64_MAX - 10);
    assert_true(fg_budget_take(&budget, 100));
    assert_false(fg_budget_take(&budget, UINT64_MAX - 50));
    assert_int_equal(fg_budget_used(&budget), 100);
}

static void force_exceeds_the_limit(void **state)
{
    struct fg_budget budget;

    (void)state;
    fg_budget_init(&budget, 10);
    fg_budget_force(&budget, 25);
    assert_int_equal(fg_budget_used(&budget), 25);
    assert_false(fg_budget_take(&budget, 0)); /* already over */
    fg_budget_give(&budget, 20);
    assert_true(fg_budget_take(&budget, 5));
}

static void an_empty_budget_takes_anything_once(void **state)
{
    struct fg_budget budget;

    (void)state;
    fg_budget_init(&budget, 100);
    assert_false(fg_budget_take(&budget, 101));
    assert_true(fg_budget_take_any(&budget, 1000));
    assert_int_equal(fg_budget_used(&budget), 1000);
    assert_false(fg_budget_take_any(&budget, 1));
    fg_budget_give(&budget, 1000);
    assert_true(fg_budget_take_any(&budget, 60));
    assert_false(fg_budget_take_any(&budget, 41));
    assert_true(fg_budget_take_any(&budget, 40));
}

static void use_and_refusals_are_reported(void **state)
{
    struct fg_budget budget;

    (void)state;
    fg_budget_init(&budget, 100);
    assert_true(fg_budget_has(&budget, 100));
    assert_false(fg_budget_has(&budget, 101));
    fg_budget_force(&budget, 120);
    assert_false(fg_budget_has(&budget, 0));
    assert_int_equal(fg_budget_refusals(&budget), 0);
    assert_false(fg_budget_take(&budget, 1));
    assert_false(fg_budget_take_any(&budget, 1));
    assert_int_equal(fg_budget_refusals(&budget), 2);
}

enum { ROUNDS = 20000, UNIT_BYTES = 10, LIMIT_BYTES = 25 };

struct taker {
    struct fg_budget *budget;
    uint64_t above; /* times the limit was passed */
};

static void *take_and_give(void *arg)
{
    struct taker *taker = arg;

    for (int i = 0; i < ROUNDS; i++) {
        if (!fg_budget_take(taker->budget, UNIT_BYTES))
            continue;
        taker->above += fg_budget_used(taker->budget) > LIMIT_BYTES;
        fg_budget_give(taker->budget, UNIT_BYTES);
    }
    return NULL;
}

static void never_above_the_limit_with_threads(void **state)
{
    struct taker takers[4];
    pthread_t threads[4];
    struct fg_budget budget;

    (void)state;
    fg_budget_init(&budget, LIMIT_BYTES);
    for (size_t i = 0; i < 4; i++) {
        takers[i] = (struct taker){&budget, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &takers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(takers[i].above, 0);
    assert_int_equal(fg_budget_used(&budget), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_succeeds_up_to_the_limit),
        cmocka_unit_test(huge_requests_do_not_wrap),
        cmocka_unit_test(force_exceeds_the_limit),
        cmocka_unit_test(an_empty_budget_takes_anything_once),
        cmocka_unit_test(use_and_refusals_are_reported),
        cmocka_unit_test(never_above_the_limit_with_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
