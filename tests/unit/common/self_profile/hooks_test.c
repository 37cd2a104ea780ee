/*
 * The hooks of malloc() and locks in a program that has them. It is compiled without sanitizers,
 * which have hooks of their own, and with copies of what it needs.
 */
#include "common/self_profile/heap_samples.h"
#include "common/self_profile/hooks.h"
#include "common/self_profile/lock_waits.h"
#include "common/self_profile/process_symbols.h"
#include "common/self_profile/unwind_map.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEAN = 8 * 1024, THREADS = 4, BLOCKS = 20000 };

static struct fg_heap_samples *heap;
static struct fg_lock_waits *waits;
static struct fg_process_symbols *symbols;

/* The sum of the values of all stacks with a function. */
struct looked_for {
    const char *function;
    int64_t values[FG_STACK_VALUES];
};

static void look_at(void *arg, const struct fg_stack_entry *entry)
{
    struct looked_for *look = arg;
    struct fg_buf name;
    bool found = false;

    fg_buf_init(&name, 1000);
    for (uint32_t i = 0; i < entry->depth && !found; i++) {
        uint64_t id;

        fg_buf_clear(&name);
        if (!fg_process_symbols_find(symbols, entry->pcs[i] - 1, &id))
            break;
        fg_process_symbols_name(symbols, id, &name);
        found = fg_slice_is(fg_buf_slice(&name), look->function);
    }
    fg_buf_done(&name);
    for (unsigned i = 0; found && i < FG_STACK_VALUES; i++)
        look->values[i] += entry->values[i];
}

static struct looked_for look_for(const char *function)
{
    struct looked_for look = {.function = function};

    fg_heap_samples_sweep(heap, look_at, &look);
    return look;
}

/* Within a fifth, which is nine standard errors: of 16 MiB 2,000 samples are taken. */
static void assert_about(int64_t value, int64_t want)
{
    if (value < want * 4 / 5 || value > want * 6 / 5)
        print_error("%lld, want about %lld\n", (long long)value, (long long)want);
    assert_in_range(value, want * 4 / 5, want * 6 / 5);
}

enum { HELD_BYTES = 16 * 1024 * 1024, HELD_SIZE = 1000, HELD = HELD_BYTES / HELD_SIZE };

static __attribute__((noinline)) void allocate_held(void **held, unsigned way)
{
    for (unsigned i = 0; i < HELD; i++) {
        if (way == 0)
            held[i] = malloc(HELD_SIZE);
        else if (way == 1)
            held[i] = calloc(10, HELD_SIZE / 10);
        else if (way == 2)
            held[i] = realloc(i % 2 == 0 ? NULL : malloc(10), HELD_SIZE);
        else if (way == 3)
            assert_int_equal(posix_memalign(&held[i], 64, HELD_SIZE), 0);
        else
            held[i] = aligned_alloc(4096, 4096);
        assert_non_null(held[i]);
    }
}

static void each_way_to_allocate_is_sampled(void **state)
{
    void **held = fg_calloc(HELD, sizeof *held);

    (void)state;
    for (unsigned way = 0; way < 5; way++) {
        int64_t size = way == 4 ? 4096 : HELD_SIZE;
        struct looked_for look;

        print_message("  way %u\n", way);
        allocate_held(held, way);
        look = look_for("allocate_held");
        assert_about(look.values[FG_HEAP_INUSE_BYTES], HELD * size);
        assert_about(look.values[FG_HEAP_INUSE_OBJECTS] / 1024, HELD);
        for (unsigned i = 0; i < HELD; i++)
            free(held[i]);
        look = look_for("allocate_held");
        assert_int_equal(look.values[FG_HEAP_INUSE_BYTES], 0);
        assert_int_equal(look.values[FG_HEAP_INUSE_OBJECTS], 0);
    }
    free(held);
}

static void blocks_are_what_was_asked_for(void **state)
{
    volatile size_t huge = SIZE_MAX / 2; /* the compiler refuses what it sees */
    void *ptr = NULL;

    (void)state;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 1 + i * 37 % 5000;
        uint8_t *block = calloc(1, size), *grown;

        assert_non_null(block);
        assert_true(malloc_usable_size(block) >= size);
        for (size_t k = 0; k < size; k++) {
            assert_int_equal(block[k], 0);
            block[k] = (uint8_t)(i + k);
        }
        grown = realloc(block, 2 * size + 1);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(grown[k], (uint8_t)(i + k));
        free(grown);
        assert_int_equal(posix_memalign(&ptr, 256, size), 0);
        assert_int_equal((uintptr_t)ptr % 256, 0);
        free(ptr);
    }
    assert_int_equal(posix_memalign(&ptr, 3, 10), EINVAL);
    assert_null(malloc(huge));
    assert_null(calloc(huge, 4));
    free(NULL);
}

static void *allocate_and_free(void *arg)
{
    void *held[64] = {NULL};
    uint64_t random = (uintptr_t)arg;

    for (unsigned i = 0; i < 10 * BLOCKS; i++) {
        unsigned at;

        random = random * 6364136223846793005U + 1442695040888963407U;
        at = (unsigned)(random >> 40) % FG_COUNT(held);
        free(held[at]);
        held[at] = malloc((random >> 20) % 20000);
        if (held[at] != NULL)
            memset(held[at], 1, 1);
    }
    for (unsigned i = 0; i < FG_COUNT(held); i++)
        free(held[i]);
    return NULL;
}

static void threads_that_free_everything_leave_nothing(void **state)
{
    pthread_t threads[THREADS];
    struct looked_for look;

    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free,
                                        (void *)i), /* NOLINT(performance-no-int-to-ptr) */
                         0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    look = look_for("allocate_and_free");
    assert_true(look.values[FG_HEAP_ALLOC_BYTES] > 0);
    assert_int_equal(look.values[FG_HEAP_INUSE_BYTES], 0);
}

/* ---- locks ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic unsigned n_waiting;

static __attribute__((noinline)) void wait_for_locks(void)
{
    (void)atomic_fetch_add(&n_waiting, 1);
    assert_int_equal(pthread_mutex_lock(&mutex), 0);
    assert_int_equal(pthread_mutex_unlock(&mutex), 0);
    (void)atomic_fetch_add(&n_waiting, 1);
    assert_int_equal(pthread_rwlock_rdlock(&rwlock), 0);
    assert_int_equal(pthread_rwlock_unlock(&rwlock), 0);
    (void)atomic_fetch_add(&n_waiting, 1);
    assert_int_equal(pthread_rwlock_wrlock(&rwlock), 0);
    assert_int_equal(pthread_rwlock_unlock(&rwlock), 0);
}

static void *waiter(void *arg)
{
    wait_for_locks();
    return arg;
}

/* Until the waiter is about to wait, and a while for it to do so: shorter waits are drawn. */
static void let_wait(unsigned nth)
{
    while (atomic_load(&n_waiting) < nth)
        (void)usleep(100);
    (void)usleep(20000);
}

static void waits_for_locks_are_recorded_where_they_wait(void **state)
{
    struct looked_for look = {.function = "wait_for_locks"};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_rwlock_wrlock(&rwlock), 0);
    assert_int_equal(pthread_mutex_lock(&mutex), 0);
    assert_int_equal(pthread_create(&thread, NULL, waiter, NULL), 0);
    let_wait(1);
    assert_int_equal(pthread_mutex_unlock(&mutex), 0);
    let_wait(2);
    assert_int_equal(pthread_rwlock_unlock(&rwlock), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fg_lock_waits_sweep(waits, look_at, &look);
    /* The third lock may have been free. */
    assert_in_range(look.values[FG_LOCK_CONTENTIONS], 2, 3);
    assert_true(look.values[FG_LOCK_DELAY_NS] > 2 * 1000 * 1000);
}

static void a_lock_that_is_free_is_no_wait(void **state)
{
    struct looked_for look = {.function = "a_lock_that_is_free_is_no_wait"};

    (void)state;
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_equal(pthread_mutex_lock(&mutex), 0);
        assert_int_equal(pthread_mutex_unlock(&mutex), 0);
    }
    fg_lock_waits_sweep(waits, look_at, &look);
    assert_int_equal(look.values[FG_LOCK_CONTENTIONS], 0);
}

static void mutexes_of_other_kinds_keep_their_rules(void **state)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t other;

    (void)state;
    assert_int_equal(pthread_mutexattr_init(&attributes), 0);
    assert_int_equal(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK), 0);
    assert_int_equal(pthread_mutex_init(&other, &attributes), 0);
    assert_int_equal(pthread_mutex_lock(&other), 0);
    assert_int_equal(pthread_mutex_lock(&other), EDEADLK);
    assert_int_equal(pthread_mutex_unlock(&other), 0);
    assert_int_equal(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE), 0);
    assert_int_equal(pthread_mutex_init(&other, &attributes), 0);
    assert_int_equal(pthread_mutex_lock(&other), 0);
    assert_int_equal(pthread_mutex_lock(&other), 0);
    assert_int_equal(pthread_mutex_unlock(&other), 0);
    assert_int_equal(pthread_mutex_unlock(&other), 0);
    (void)pthread_mutexattr_destroy(&attributes);
}

static int start(void **state)
{
    (void)state;
    assert_non_null(&fg_hooks_are_linked);
    fg_unwind_map_make();
    symbols = fg_process_symbols_create();
    heap = fg_heap_samples_create(MEAN);
    waits = fg_lock_waits_create();
    atomic_store(&fg_lock_waits_sampled, waits);
    atomic_store(&fg_heap_sampled, heap);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_to_allocate_is_sampled),
        cmocka_unit_test(blocks_are_what_was_asked_for),
        cmocka_unit_test(threads_that_free_everything_leave_nothing),
        cmocka_unit_test(waits_for_locks_are_recorded_where_they_wait),
        cmocka_unit_test(a_lock_that_is_free_is_no_wait),
        cmocka_unit_test(mutexes_of_other_kinds_keep_their_rules),
    };

    return cmocka_run_group_tests(tests, start, NULL);
}
