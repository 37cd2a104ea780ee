#include "common/runtime/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

/* A started loop for a test; ends it too. */
static struct fg_loop *start(void)
{
    struct fg_loop *loop = fg_loop_create("test");
    struct fg_err err;

    assert_int_equal(fg_loop_start(loop, &err), FG_OK);
    return loop;
}

static void end(struct fg_loop *loop)
{
    fg_loop_stop(loop);
    fg_loop_destroy(loop);
}

enum { SENDERS = 4, EACH = 5000 };

struct note {
    struct fg_msg msg;
    unsigned sender, number;
};

/* Touched by the loop's thread only, so no lock: the thread sanitizer watches that it is true. */
static struct {
    struct fg_loop *loop;
    unsigned next[SENDERS]; /* number expected from each */
    unsigned out_of_order, elsewhere;
} arrived;

static void on_note(struct fg_msg *msg)
{
    struct note *note = fg_container(msg, struct note, msg);

    arrived.out_of_order += note->number != arrived.next[note->sender];
    arrived.next[note->sender] = note->number + 1;
    arrived.elsewhere += !fg_loop_is_current(arrived.loop);
    free(note); /* allowed from run() on */
}

static void *send_notes(void *arg)
{
    for (unsigned i = 0; i < EACH; i++) {
        struct note *note = fg_new(struct note);

        note->msg.run = on_note;
        note->sender = (unsigned)(uintptr_t)arg;
        note->number = i;
        fg_loop_post(arrived.loop, &note->msg);
    }
    return NULL;
}

static void messages_arrive_once_and_in_order(void **state)
{
    struct fg_loop *loop = start();
    pthread_t threads[SENDERS];

    (void)state;
    memset(&arrived, 0, sizeof arrived);
    arrived.loop = loop;
    for (uintptr_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_notes, (void *)i), 0);
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    end(loop); /* runs what is still in the inbox */
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(arrived.next[i], EACH);
    assert_int_equal(arrived.out_of_order, 0);
    assert_int_equal(arrived.elsewhere, 0);
}

static void messages_posted_before_the_start_are_run(void **state)
{
    struct fg_loop *loop = fg_loop_create("test");
    struct fg_err err;

    (void)state;
    memset(&arrived, 0, sizeof arrived);
    arrived.loop = loop;
    (void)send_notes((void *)0);
    assert_int_equal(arrived.next[0], 0);
    assert_int_equal(fg_loop_start(loop, &err), FG_OK);
    end(loop);
    assert_int_equal(arrived.next[0], EACH);
    assert_int_equal(arrived.out_of_order, 0);
}

/* A message that posts itself, also while the loop is being stopped. */
struct hop {
    struct fg_msg msg;
    struct fg_loop *loop;
    unsigned left, runs;
};

static void on_hop(struct fg_msg *msg)
{
    struct hop *hop = fg_container(msg, struct hop, msg);

    hop->runs++;
    if (hop->left-- > 0)
        fg_loop_post(hop->loop, &hop->msg);
}

static void stop_runs_what_messages_post(void **state)
{
    struct fg_loop *loop = start();
    struct hop hop = {.msg = {.run = on_hop}, .loop = loop, .left = 1000};

    (void)state;
    fg_loop_post(loop, &hop.msg);
    end(loop);
    assert_int_equal(hop.runs, 1001);
}

struct seen {
    struct fg_loop *loop;
    bool current;
    char name[16];
};

static void look(void *arg)
{
    struct seen *seen = arg;

    seen->current = fg_loop_is_current(seen->loop);
    assert_int_equal(pthread_getname_np(pthread_self(), seen->name, sizeof seen->name), 0);
}

static void call_runs_on_the_loop_and_waits(void **state)
{
    struct fg_loop *loop = fg_loop_create("a-name-that-is-far-too-long");
    struct seen seen = {.loop = loop};
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_loop_start(loop, &err), FG_OK);
    assert_false(fg_loop_is_current(loop));
    fg_loop_call(loop, look, &seen);
    assert_true(seen.current);
    assert_string_equal(seen.name, "a-name-that-is-");
    end(loop);
}

/* A timer that is opened and closed on the loop, as real users do. */
struct ticks {
    struct fg_loop *loop;
    uv_timer_t timer;
    _Atomic unsigned count;
    bool closed;
};

static void on_tick(uv_timer_t *timer)
{
    atomic_fetch_add(&((struct ticks *)timer->data)->count, 1);
}

static void open_timer(void *arg)
{
    struct ticks *ticks = arg;

    assert_int_equal(uv_timer_init(fg_loop_uv(ticks->loop), &ticks->timer), 0);
    ticks->timer.data = ticks;
    assert_int_equal(uv_timer_start(&ticks->timer, on_tick, 1, 1), 0);
}

static void on_closed(uv_handle_t *handle)
{
    ((struct ticks *)handle->data)->closed = true;
}

static void close_timer(void *arg)
{
    uv_close((uv_handle_t *)&((struct ticks *)arg)->timer, on_closed);
}

static void stop_waits_for_closing_handles(void **state)
{
    struct ticks ticks = {.loop = start()};

    (void)state;
    fg_loop_call(ticks.loop, open_timer, &ticks);
    while (atomic_load(&ticks.count) < 3)
        (void)sched_yield();
    fg_loop_call(ticks.loop, close_timer, &ticks);
    end(ticks.loop);
    assert_true(ticks.closed);
}

static void sleep_20_ms(void *arg)
{
    struct timespec pause = {0, 20 * FG_MS_NS};

    (void)arg;
    (void)nanosleep(&pause, NULL);
}

struct sleeper {
    struct fg_msg msg;
};

static void on_sleeper(struct fg_msg *msg)
{
    (void)msg;
    sleep_20_ms(NULL);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

static void lag_is_the_longest_wait_of_a_message(void **state)
{
    struct fg_loop *loop = start();
    struct sleeper sleeper = {.msg = {.run = on_sleeper}};

    (void)state;
    (void)fg_loop_take_lag_ns(loop);
    fg_loop_post(loop, &sleeper.msg);
    fg_loop_call(loop, do_nothing, NULL); /* waits behind the sleeper */
    assert_true(fg_loop_take_lag_ns(loop) >= 15 * FG_MS_NS);
    assert_int_equal(fg_loop_take_lag_ns(loop), 0); /* taken */
    end(loop);
}

static void a_loop_that_never_started_can_be_destroyed(void **state)
{
    (void)state;
    fg_loop_destroy(fg_loop_create("unused"));
    fg_loop_destroy(NULL);
}

/* Returns the number of the next file descriptor that is opened. */
static int next_descriptor(void)
{
    int next = dup(STDERR_FILENO);

    assert_true(next >= 0);
    (void)close(next);
    return next;
}

/* Each descriptor that a loop needs may be the one that the process has not got any more. */
static void a_loop_without_descriptors_is_an_error(void **state)
{
    struct fg_loop *loop = NULL;
    struct rlimit usual, few;
    enum fg_code code;
    rlim_t more = 0;
    struct fg_err err;
    int next;

    (void)state;
    end(start()); /* what libuv opens once for all loops is open */
    next = next_descriptor();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    do {
        few = (struct rlimit){(rlim_t)next + more++, usual.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        code = fg_loop_try_create("test", &loop, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
        if (code != FG_OK) {
            assert_int_equal(code, FG_E_UNAVAILABLE);
            assert_non_null(strstr(err.msg, "loop test: "));
            assert_null(loop);
            assert_int_equal(next_descriptor(), next); /* it has closed those that it had */
        }
    } while (code != FG_OK);
    assert_true(more > 2); /* not in one place only */
    fg_loop_destroy(loop);
    assert_int_equal(next_descriptor(), next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_once_and_in_order),
        cmocka_unit_test(messages_posted_before_the_start_are_run),
        cmocka_unit_test(stop_runs_what_messages_post),
        cmocka_unit_test(call_runs_on_the_loop_and_waits),
        cmocka_unit_test(stop_waits_for_closing_handles),
        cmocka_unit_test(lag_is_the_longest_wait_of_a_message),
        cmocka_unit_test(a_loop_that_never_started_can_be_destroyed),
        cmocka_unit_test(a_loop_without_descriptors_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
