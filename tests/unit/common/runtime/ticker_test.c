#include "common/base/time.h"
#include "common/runtime/ticker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_MS = 600 * 1000, PATIENCE_MS = 20 * 1000 };

struct counted {
    atomic_uint begun, ended;
    atomic_bool hold;
};

static void tick(void *arg)
{
    struct counted *counted = arg;

    (void)atomic_fetch_add(&counted->begun, 1);
    while (atomic_load(&counted->hold))
        (void)usleep(1000);
    (void)atomic_fetch_add(&counted->ended, 1);
}

static struct fg_ticker *start(struct counted *counted, int64_t period_ms)
{
    struct fg_ticker *ticker;
    struct fg_err err;

    assert_int_equal(
        fg_ticker_create(&(struct fg_ticker_config){"test", period_ms * FG_MS_NS, tick, counted},
                         &ticker, &err),
        FG_OK);
    return ticker;
}

static void wait_for(atomic_uint *number, unsigned least)
{
    for (unsigned i = 0; i < PATIENCE_MS && atomic_load(number) < least; i++)
        (void)usleep(1000);
    assert_true(atomic_load(number) >= least);
}

static void tick_is_called_periodically(void **state)
{
    struct counted counted = {0};
    struct fg_ticker *ticker = start(&counted, 1);

    (void)state;
    wait_for(&counted.ended, 5);
    fg_ticker_destroy(ticker);
    assert_int_equal(counted.begun, counted.ended);
}

static void tick_is_not_called_early(void **state)
{
    struct counted counted = {0};
    struct fg_ticker *ticker = start(&counted, LONG_MS);

    (void)state;
    (void)usleep(20 * 1000);
    assert_int_equal(atomic_load(&counted.begun), 0);
    fg_ticker_destroy(ticker);
    assert_int_equal(atomic_load(&counted.begun), 0);
}

static void wake_calls_tick_at_once(void **state)
{
    struct counted counted = {0};
    struct fg_ticker *ticker = start(&counted, LONG_MS);

    (void)state;
    fg_ticker_wake(ticker);
    wait_for(&counted.ended, 1);
    fg_ticker_wake(ticker);
    wait_for(&counted.ended, 2);
    fg_ticker_destroy(ticker);
}

/* What was asked for while a call was under way is another call. */
static void a_wake_during_a_call_is_not_lost(void **state)
{
    struct counted counted = {.hold = true};
    struct fg_ticker *ticker = start(&counted, LONG_MS);

    (void)state;
    fg_ticker_wake(ticker);
    wait_for(&counted.begun, 1);
    fg_ticker_wake(ticker);
    atomic_store(&counted.hold, false);
    wait_for(&counted.ended, 2);
    fg_ticker_destroy(ticker);
    fg_ticker_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tick_is_called_periodically),
        cmocka_unit_test(tick_is_not_called_early),
        cmocka_unit_test(wake_calls_tick_at_once),
        cmocka_unit_test(a_wake_during_a_call_is_not_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
