#include "common/self_profile/stack_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STACKS = 512 };

static uint32_t find(struct fg_stack_counts *counts, uint32_t tag, uintptr_t pc)
{
    return fg_stack_counts_find(counts, tag, (uintptr_t[]){pc, 7}, 2);
}

/* The sum of value 0 and the number of stacks, of a whole take. */
static uint32_t take_all(struct fg_stack_counts *counts, unsigned reset, int64_t *ret_sum)
{
    struct fg_stack_batch *batch = fg_new(struct fg_stack_batch);
    uint32_t from = 0, n = 0;
    bool more = true;

    *ret_sum = 0;
    while (more) {
        more = fg_stack_counts_take(counts, reset, &from, batch);
        for (uint32_t i = 0; i < batch->count; i++, n++)
            *ret_sum += batch->entries[i].values[0];
    }
    free(batch);
    return n;
}

static void equal_stacks_are_one(void **state)
{
    struct fg_stack_counts *counts = fg_stack_counts_create(STACKS);
    uint32_t first = find(counts, 0, 1);

    (void)state;
    assert_int_equal(find(counts, 0, 1), first);
    assert_int_not_equal(find(counts, 1, 1), first);
    assert_int_not_equal(find(counts, 0, 2), first);
    assert_int_not_equal(fg_stack_counts_find(counts, 0, (uintptr_t[]){1}, 1), first);
    assert_int_equal(fg_stack_counts_used(counts), 4);
    fg_stack_counts_destroy(counts);
}

static void a_full_table_says_so_and_has_room_after_a_take(void **state)
{
    struct fg_stack_counts *counts = fg_stack_counts_create(STACKS);
    int64_t sum;

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < STACKS; i++)
            fg_stack_counts_at(counts, find(counts, 0, 1 + i))->values[0] += i;
        assert_int_equal(find(counts, 0, STACKS + 1), FG_STACK_NONE);
        assert_int_not_equal(find(counts, 0, 5), FG_STACK_NONE); /* it is there */
        /* One has the value 0. */
        assert_int_equal(take_all(counts, FG_STACK_ALL_VALUES, &sum), STACKS - 1);
        assert_int_equal(sum, STACKS * (STACKS - 1) / 2);
        assert_int_equal(fg_stack_counts_used(counts), 0);
    }
    fg_stack_counts_destroy(counts);
}

static void values_that_are_not_reset_keep_their_stacks(void **state)
{
    struct fg_stack_counts *counts = fg_stack_counts_create(STACKS);
    uint32_t both = find(counts, 0, 1), one = find(counts, 0, 2);
    int64_t sum;

    (void)state;
    fg_stack_counts_at(counts, both)->values[0] = 10;
    fg_stack_counts_at(counts, both)->values[2] = 5;
    fg_stack_counts_at(counts, one)->values[0] = 1;
    assert_int_equal(take_all(counts, 1 << 0, &sum), 2);
    assert_int_equal(sum, 11);
    assert_int_equal(fg_stack_counts_used(counts), 1);
    assert_int_equal(find(counts, 0, 1), both); /* its number is the same */
    assert_int_equal(fg_stack_counts_at(counts, both)->values[0], 0);
    assert_int_equal(fg_stack_counts_at(counts, both)->values[2], 5);
    fg_stack_counts_destroy(counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stacks_are_one),
        cmocka_unit_test(a_full_table_says_so_and_has_room_after_a_take),
        cmocka_unit_test(values_that_are_not_reset_keep_their_stacks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
