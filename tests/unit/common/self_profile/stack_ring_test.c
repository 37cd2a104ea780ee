#include "common/self_profile/stack_ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { THREADS = 4, PUTS = 20000 };

static struct fg_stack_ring *make_ring(void)
{
    struct fg_stack_ring *ring = fg_new(struct fg_stack_ring);

    fg_stack_ring_init(ring);
    return ring;
}

static bool put(struct fg_stack_ring *ring, uint32_t tag, uint32_t count)
{
    return fg_stack_ring_put(ring, tag, count, NULL, &(struct fg_stack_registers){.pc = tag + 1});
}

static void stacks_come_out_in_their_order(void **state)
{
    struct fg_stack_ring *ring = make_ring();

    (void)state;
    assert_null(fg_stack_ring_take(ring));
    for (uint32_t i = 0; i < 3 * FG_STACK_RING_SLOTS; i++) {
        const struct fg_stack_slot *slot;

        assert_true(put(ring, i, i + 2));
        slot = fg_stack_ring_take(ring);
        assert_non_null(slot);
        assert_int_equal(slot->tag, i);
        assert_int_equal(slot->count, i + 2);
        assert_int_equal(slot->depth, 1);
        assert_int_equal(slot->pcs[0], i + 1);
        fg_stack_ring_release(ring);
        assert_null(fg_stack_ring_take(ring));
    }
    free(ring);
}

static void a_full_ring_counts_what_it_drops(void **state)
{
    struct fg_stack_ring *ring = make_ring();

    (void)state;
    for (uint32_t i = 0; i < FG_STACK_RING_SLOTS; i++)
        assert_true(put(ring, i, 1));
    assert_false(put(ring, 0, 3));
    assert_int_equal(ring->dropped, 3);
    assert_int_equal(fg_stack_ring_take(ring)->tag, 0);
    fg_stack_ring_release(ring);
    assert_true(put(ring, 77, 1)); /* there is room again */
    assert_false(put(ring, 78, 1));
    free(ring);
}

struct putter {
    struct fg_stack_ring *ring;
    pthread_t thread;
    uint32_t tag;
};

static void *put_many(void *arg)
{
    const struct putter *putter = arg;

    for (uint32_t i = 0; i < PUTS; i++)
        (void)put(putter->ring, putter->tag, 1);
    return NULL;
}

static void stacks_of_many_threads_are_taken_or_counted(void **state)
{
    struct fg_stack_ring *ring = make_ring();
    struct putter putters[THREADS];
    uint64_t taken = 0;

    (void)state;
    for (uint32_t i = 0; i < THREADS; i++) {
        putters[i] = (struct putter){.ring = ring, .tag = 100 + i};
        assert_int_equal(pthread_create(&putters[i].thread, NULL, put_many, &putters[i]), 0);
    }
    while (taken + ring->dropped < THREADS * PUTS) {
        const struct fg_stack_slot *slot = fg_stack_ring_take(ring);

        if (slot == NULL)
            continue;
        assert_int_equal(slot->pcs[0], slot->tag + 1); /* not half of one and half of another */
        assert_in_range(slot->tag, 100, 100 + THREADS - 1);
        fg_stack_ring_release(ring);
        taken++;
    }
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(putters[i].thread, NULL), 0);
    assert_null(fg_stack_ring_take(ring));
    assert_true(taken > 0);
    free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_come_out_in_their_order),
        cmocka_unit_test(a_full_ring_counts_what_it_drops),
        cmocka_unit_test(stacks_of_many_threads_are_taken_or_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
