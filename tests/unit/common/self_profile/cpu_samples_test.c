#include "common/base/time.h"
#include "common/self_profile/cpu_samples.h"
#include "common/self_profile/process_symbols.h"
#include "common/self_profile/unwind_map.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE = 3000, PERIOD_MS = 5 };

static atomic_bool is_over;
static atomic_uint n_named; /* threads that have their names */

static __attribute__((noinline)) void burn(void)
{
    for (volatile unsigned i = 0; i < 1000; i++)
        continue;
}

static void *burner(void *arg)
{
    (void)pthread_setname_np(pthread_self(), arg);
    (void)atomic_fetch_add(&n_named, 1);
    while (!atomic_load(&is_over))
        burn();
    return NULL;
}

/* The samples that a test searches a profile for. */
struct looked_for {
    struct fg_cpu_samples *cpu;
    struct fg_process_symbols *symbols;
    int64_t ticks[2]; /* of burn(), in threads "first" and "second" */
    bool has_caller;
};

static bool is_at(const struct looked_for *look, uintptr_t pc, const char *function)
{
    struct fg_buf name;
    uint64_t id;
    bool is;

    if (!fg_process_symbols_find(look->symbols, pc, &id))
        return false;
    fg_buf_init(&name, 1000);
    fg_process_symbols_name(look->symbols, id, &name);
    is = fg_slice_is(fg_buf_slice(&name), function);
    fg_buf_done(&name);
    return is;
}

static void look_at(void *arg, const struct fg_stack_entry *entry)
{
    struct looked_for *look = arg;
    const char *thread = fg_cpu_samples_thread(look->cpu, entry->tag);

    if (!is_at(look, entry->pcs[0], "burn"))
        return;
    look->ticks[strcmp(thread, "second") == 0] += entry->values[FG_CPU_TICKS];
    look->has_caller |= entry->depth > 1 && is_at(look, entry->pcs[1] - 1, "burner");
}

static void each_thread_that_works_is_sampled(void **state)
{
    static char names[2][16] = {"first-12", "second"};
    struct looked_for look = {.symbols = fg_process_symbols_create()};
    pthread_t threads[2];
    struct fg_err err;
    unsigned patience = 0;

    (void)state;
    fg_unwind_map_make();
    atomic_store(&is_over, false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, burner, names[i]), 0);
    while (atomic_load(&n_named) < 2)
        (void)usleep(1000);
    assert_int_equal(fg_cpu_samples_start(PERIOD_MS * FG_MS_NS, &look.cpu, &err), FG_OK);
    for (; patience < PATIENCE && (look.ticks[0] < 5 || look.ticks[1] < 5 || !look.has_caller);
         patience++) {
        fg_cpu_samples_collect(look.cpu);
        fg_cpu_samples_find_threads(look.cpu);
        (void)usleep(10000);
        fg_cpu_samples_sweep(look.cpu, look_at, &look);
    }
    assert_true(patience < PATIENCE);
    assert_int_equal(fg_cpu_samples_dropped(look.cpu), 0);
    fg_cpu_samples_stop(look.cpu);
    /* No signal is handled any more, and none that comes late ends the process. */
    assert_int_equal(raise(SIGPROF), 0);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    fg_process_symbols_destroy(look.symbols);
}

static void a_signal_of_others_is_no_sample(void **state)
{
    struct looked_for look = {.symbols = NULL};
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_cpu_samples_start(FG_SECOND_NS, &look.cpu, &err), FG_OK);
    assert_int_equal(raise(SIGPROF), 0);
    fg_cpu_samples_collect(look.cpu);
    assert_int_equal(fg_cpu_samples_dropped(look.cpu), 0);
    fg_cpu_samples_stop(look.cpu);
}

/* Threads come and go while they are looked for: under the thread sanitizer, too. */
static void threads_that_end_lose_their_timers(void **state)
{
    static char name[] = "short";
    struct fg_cpu_samples *cpu;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_cpu_samples_start(PERIOD_MS * FG_MS_NS, &cpu, &err), FG_OK);
    for (unsigned round = 0; round < 30; round++) {
        pthread_t threads[4];

        atomic_store(&is_over, false);
        for (unsigned i = 0; i < FG_COUNT(threads); i++)
            assert_int_equal(pthread_create(&threads[i], NULL, burner, name), 0);
        fg_cpu_samples_find_threads(cpu);
        fg_cpu_samples_collect(cpu);
        atomic_store(&is_over, true);
        for (unsigned i = 0; i < FG_COUNT(threads); i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        fg_cpu_samples_find_threads(cpu);
    }
    fg_cpu_samples_stop(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_that_works_is_sampled),
        cmocka_unit_test(a_signal_of_others_is_no_sample),
        cmocka_unit_test(threads_that_end_lose_their_timers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
