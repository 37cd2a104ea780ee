#include "common/self_profile/heap_samples.h"
#include "common/self_profile/sampling.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MEAN = 1024, THREADS = 4, ROUNDS = 20000, HELD = 64 };

/* Sums of all stacks. */
struct sums {
    int64_t values[FG_STACK_VALUES];
    uint32_t stacks;
};

static void add_up(void *arg, const struct fg_stack_entry *entry)
{
    struct sums *sums = arg;

    for (unsigned i = 0; i < FG_STACK_VALUES; i++)
        sums->values[i] += entry->values[i];
    sums->stacks++;
}

static struct sums sweep(struct fg_heap_samples *heap)
{
    struct sums sums = {.stacks = 0};

    fg_heap_samples_sweep(heap, add_up, &sums);
    return sums;
}

static void *block(uintptr_t number)
{
    return (void *)(number * FG_HEAP_MARK_BYTES); /* NOLINT(performance-no-int-to-ptr) */
}

static void add(struct fg_heap_samples *heap, uintptr_t number, size_t size, uintptr_t pc)
{
    fg_heap_samples_add(heap, block(number), size, &pc, 1);
}

static void a_block_counts_until_it_is_freed(void **state)
{
    struct fg_heap_samples *heap = fg_heap_samples_create(MEAN);
    const int64_t large = 100 * MEAN; /* sampled for certain, so it stands for itself */
    struct sums sums;

    (void)state;
    add(heap, 1, (size_t)large, 7);
    add(heap, 2, (size_t)large, 7);
    add(heap, 3, (size_t)large, 8);
    sums = sweep(heap);
    assert_int_equal(sums.stacks, 2);
    assert_int_equal(sums.values[FG_HEAP_ALLOC_OBJECTS], 3 * 1024);
    assert_int_equal(sums.values[FG_HEAP_ALLOC_BYTES], 3 * large);
    assert_int_equal(sums.values[FG_HEAP_INUSE_BYTES], 3 * large);
    fg_heap_samples_remove(heap, block(2));
    fg_heap_samples_remove(heap, block(9)); /* was not sampled */
    sums = sweep(heap);
    assert_int_equal(sums.values[FG_HEAP_ALLOC_BYTES], 0); /* nothing since the last sweep */
    assert_int_equal(sums.values[FG_HEAP_INUSE_OBJECTS], 2 * 1024);
    assert_int_equal(sums.values[FG_HEAP_INUSE_BYTES], 2 * large);
    fg_heap_samples_remove(heap, block(1));
    fg_heap_samples_remove(heap, block(3));
    assert_int_equal(sweep(heap).stacks, 0);
    fg_heap_samples_destroy(heap);
}

static void a_small_block_stands_for_many(void **state)
{
    struct fg_heap_samples *heap = fg_heap_samples_create(MEAN);
    struct sums sums;

    (void)state;
    add(heap, 1, 8, 7);
    sums = sweep(heap);
    assert_int_equal(sums.values[FG_HEAP_INUSE_OBJECTS], fg_sampling_weight_1024(8, MEAN));
    assert_in_range(sums.values[FG_HEAP_INUSE_BYTES], MEAN - 8, MEAN + 8);
    fg_heap_samples_remove(heap, block(1));
    assert_int_equal(sweep(heap).stacks, 0); /* the same weight was taken off */
    fg_heap_samples_destroy(heap);
}

static void blocks_beyond_the_table_are_counted_as_dropped(void **state)
{
    enum { MANY = 50000 };
    struct fg_heap_samples *heap = fg_heap_samples_create(MEAN);
    struct sums sums;

    (void)state;
    for (uintptr_t i = 1; i <= MANY; i++)
        add(heap, i, 100 * MEAN, 7);
    sums = sweep(heap);
    assert_true(fg_heap_samples_dropped(heap) > 0);
    assert_int_equal(
        (uint64_t)sums.values[FG_HEAP_INUSE_OBJECTS] / 1024 + fg_heap_samples_dropped(heap), MANY);
    for (uintptr_t i = 1; i <= MANY; i++)
        fg_heap_samples_remove(heap, block(i));
    assert_int_equal(sweep(heap).stacks, 0);
    add(heap, 1, 100 * MEAN, 7); /* there is room again */
    assert_int_equal(sweep(heap).stacks, 1);
    fg_heap_samples_destroy(heap);
}

struct user {
    struct fg_heap_samples *heap;
    pthread_t thread;
    uintptr_t number;
};

/* Allocates and frees blocks of its own, of which HELD stay at the end. */
static void *use(void *arg)
{
    const struct user *user = arg;
    bool held[4 * HELD] = {false};
    unsigned n_held = 0;
    uint64_t random = user->number;

    for (unsigned i = 0; i < ROUNDS || n_held != HELD; i++) {
        uintptr_t at = (uintptr_t)fg_sampling_next(&random, 1000) % FG_COUNT(held);
        uintptr_t number = user->number * 100000 + at;

        if (held[at])
            fg_heap_samples_remove(user->heap, block(number));
        else if (n_held < HELD)
            add(user->heap, number, 100 * MEAN, user->number);
        else
            continue;
        n_held += held[at] ? -1U : 1U;
        held[at] = !held[at];
    }
    return NULL;
}

static void threads_that_allocate_and_free_leave_what_they_hold(void **state)
{
    struct fg_heap_samples *heap = fg_heap_samples_create(MEAN);
    struct user users[THREADS];
    struct sums sums;

    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++) {
        users[i] = (struct user){.heap = heap, .number = 1 + i};
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (unsigned i = 0; i < 20; i++)
        (void)sweep(heap);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
    sums = sweep(heap);
    assert_int_equal(sums.values[FG_HEAP_INUSE_OBJECTS], 1024 * THREADS * HELD);
    assert_int_equal(sums.stacks, THREADS);
    assert_int_equal(fg_heap_samples_dropped(heap), 0);
    fg_heap_samples_destroy(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_counts_until_it_is_freed),
        cmocka_unit_test(a_small_block_stands_for_many),
        cmocka_unit_test(blocks_beyond_the_table_are_counted_as_dropped),
        cmocka_unit_test(threads_that_allocate_and_free_leave_what_they_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
