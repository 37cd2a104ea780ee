#include "common/self_profile/lock_waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct sums {
    int64_t count, delay_ns;
    uint32_t stacks;
};

static void add_up(void *arg, const struct fg_stack_entry *entry)
{
    struct sums *sums = arg;

    sums->count += entry->values[FG_LOCK_CONTENTIONS];
    sums->delay_ns += entry->values[FG_LOCK_DELAY_NS];
    sums->stacks++;
}

static struct sums sweep(struct fg_lock_waits *waits)
{
    struct sums sums = {.stacks = 0};

    fg_lock_waits_sweep(waits, add_up, &sums);
    return sums;
}

static void waits_are_summed_by_stack_until_a_sweep(void **state)
{
    struct fg_lock_waits *waits = fg_lock_waits_create();
    struct sums sums;

    (void)state;
    fg_lock_waits_add(waits, 1, 500, (uintptr_t[]){1, 2}, 2);
    fg_lock_waits_add(waits, 10, 100, (uintptr_t[]){1, 2}, 2);
    fg_lock_waits_add(waits, 1, 7, (uintptr_t[]){1, 3}, 2);
    sums = sweep(waits);
    assert_int_equal(sums.stacks, 2);
    assert_int_equal(sums.count, 12);
    assert_int_equal(sums.delay_ns, 607);
    assert_int_equal(sweep(waits).stacks, 0);
    fg_lock_waits_destroy(waits);
}

static void waits_without_room_are_counted_as_dropped(void **state)
{
    enum { MANY = 3000 };
    struct fg_lock_waits *waits = fg_lock_waits_create();

    (void)state;
    for (uintptr_t i = 0; i < MANY; i++)
        fg_lock_waits_add(waits, 1, 1, (uintptr_t[]){1 + i}, 1);
    fg_lock_waits_add(waits, 1, 1, (uintptr_t[]){1}, 0); /* a stack that could not be walked */
    assert_true(fg_lock_waits_dropped(waits) > 1);
    assert_int_equal((uint64_t)sweep(waits).count + fg_lock_waits_dropped(waits), MANY + 1);
    fg_lock_waits_destroy(waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_summed_by_stack_until_a_sweep),
        cmocka_unit_test(waits_without_room_are_counted_as_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
