#include "common/base/time.h"
#include "common/self_profile/self_profile.h"
#include "proto/push.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 60 * 1000 };

/* Takes pushes, and ends them when the test says so. */
struct sink {
    bool holds; /* only hurry() ends a push */
    enum fg_code code;
    atomic_uint pushes, bad;
    struct fg_self_profile_push *_Atomic held;
};

static bool is_push(const struct fg_buf *body)
{
    struct fg_arena *arena = fg_arena_create(1024 * 1024);
    struct fg_push push;
    struct fg_err err;
    bool is = fg_push_read(fg_buf_slice(body), arena, &push, &err) == FG_OK && push.n_series == 1 &&
              push.n_profiles == 1;

    for (size_t i = 0; is && i < push.series[0].labels.count; i++) {
        const struct fg_label *label = &push.series[0].labels.items[i];

        if (fg_slice_is(label->name, "service_name"))
            is = fg_slice_is(label->value, "tested");
        if (fg_slice_is(label->name, "__name__"))
            is = fg_slice_is(label->value, "process_cpu");
    }
    fg_arena_destroy(arena);
    return is;
}

static void take_push(void *arg, struct fg_self_profile_push *push)
{
    struct sink *sink = arg;

    (void)atomic_fetch_add(&sink->bad, !is_push(&push->body));
    if (sink->holds)
        atomic_store(&sink->held, push);
    (void)atomic_fetch_add(&sink->pushes, 1);
    if (!sink->holds)
        push->done(push, sink->code, "as the test says");
}

static void end_held(void *arg)
{
    struct sink *sink = arg;
    struct fg_self_profile_push *push = atomic_exchange(&sink->held, NULL);

    if (push != NULL)
        push->done(push, FG_E_CANCELED, "hurry");
}

struct running {
    struct fg_self_profile_settings settings;
    struct fg_registry *registry;
    struct fg_self_profile *profile;
};

static void start(struct running *running, struct sink *sink)
{
    struct fg_err err;

    *running = (struct running){.settings = {.cpu_rate = 200, .interval_ns = FG_MS_NS},
                                .registry = fg_registry_create()};
    assert_int_equal(fg_self_profile_start(
                         &(struct fg_self_profile_config){
                             .settings = &running->settings,
                             .service = "tested",
                             .instance = "here_1",
                             .version = "1",
                             .sink = {take_push, end_held, sink},
                             .registry = running->registry,
                             .clock = fg_clock_real(),
                         },
                         &running->profile, &err),
                     FG_OK);
}

static void stop(struct running *running)
{
    fg_self_profile_stop(running->profile);
    fg_registry_destroy(running->registry);
}

static bool shows(const struct running *running, const char *line)
{
    struct fg_buf text;
    bool found;

    fg_buf_init(&text, 100000);
    fg_registry_write(running->registry, &text);
    found = fg_slice_search(fg_buf_slice(&text), line) != SIZE_MAX;
    fg_buf_done(&text);
    return found;
}

/* Uses the processor until the sink has so many pushes. */
static void work_for(const struct sink *sink, unsigned pushes)
{
    int64_t end_ns = fg_mono_ns(fg_clock_real()) + PATIENCE_MS * FG_MS_NS;

    while (atomic_load(&sink->pushes) < pushes && fg_mono_ns(fg_clock_real()) < end_ns)
        continue;
    assert_true(atomic_load(&sink->pushes) >= pushes);
}

static void a_process_that_works_pushes_its_profiles(void **state)
{
    struct sink sink = {.code = FG_OK};
    struct running running;

    (void)state;
    start(&running, &sink);
    work_for(&sink, 3);
    assert_true(shows(&running, "flamegrid_self_profiling_running 1\n"));
    stop(&running);
    assert_int_equal(sink.bad, 0);
}

static void a_push_that_fails_is_counted_and_the_next_one_comes(void **state)
{
    struct sink sink = {.code = FG_E_UNAVAILABLE};
    struct running running;

    (void)state;
    start(&running, &sink);
    work_for(&sink, 2);
    assert_false(shows(&running, "pushes_total{result=\"failed\"} 0\n"));
    assert_true(shows(&running, "pushes_total{result=\"ok\"} 0\n"));
    stop(&running);
}

static void there_is_one_push_at_a_time_and_stop_ends_it(void **state)
{
    struct sink sink = {.holds = true};
    struct running running;
    int64_t end_ns;

    (void)state;
    start(&running, &sink);
    work_for(&sink, 1);
    end_ns = fg_mono_ns(fg_clock_real()) + 3 * FG_SECOND_NS / 2; /* three collections */
    while (fg_mono_ns(fg_clock_real()) < end_ns)
        continue;
    assert_int_equal(sink.pushes, 1);
    stop(&running);
    assert_null(sink.held);
}

static void a_profile_that_was_stopped_leaves_no_timer(void **state)
{
    struct sink sink = {.code = FG_OK};
    struct sigaction action;
    struct running running;

    (void)state;
    start(&running, &sink);
    assert_int_equal(sigaction(SIGPROF, NULL, &action), 0);
    assert_true((action.sa_flags & SA_RESTART) != 0); /* system calls go on */
    stop(&running);
    assert_int_equal(sigaction(SIGPROF, NULL, &action), 0);
    assert_ptr_equal(action.sa_handler, SIG_IGN);
    start(&running, &sink); /* again */
    work_for(&sink, sink.pushes + 1);
    stop(&running);
    assert_int_equal(sink.bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_works_pushes_its_profiles),
        cmocka_unit_test(a_push_that_fails_is_counted_and_the_next_one_comes),
        cmocka_unit_test(there_is_one_push_at_a_time_and_stop_ends_it),
        cmocka_unit_test(a_profile_that_was_stopped_leaves_no_timer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
