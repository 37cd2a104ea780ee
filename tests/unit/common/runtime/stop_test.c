#include "common/base/time.h"
#include "common/runtime/stop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { STOPPED_IN_ORDER = 3, WRONG = 4 };

/* A program in small: writes a byte when it waits and one when it has been told to stop. */
static void program(int out, int wanted)
{
    fg_stop_init();
    (void)!write(out, "w", 1);
    if (fg_stop_wait() != wanted)
        _exit(WRONG);
    (void)!write(out, "s", 1);
    (void)usleep(30 * 1000 * 1000); /* the orderly stop, unless there is a second signal */
    _exit(STOPPED_IN_ORDER);
}

static void read_one(int from, char wanted)
{
    char got = 0;

    assert_int_equal(read(from, &got, 1), 1);
    assert_int_equal(got, wanted);
}

static void first_asks_second_ends(int signal, int second, int exit_code)
{
    int ends[2], status = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        program(ends[1], signal);
    read_one(ends[0], 'w');
    assert_int_equal(kill(child, signal), 0);
    read_one(ends[0], 's');
    assert_int_equal(kill(child, second), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), exit_code);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

static void the_second_signal_ends_at_once(void **state)
{
    (void)state;
    first_asks_second_ends(SIGTERM, SIGTERM, 143);
    first_asks_second_ends(SIGINT, SIGINT, 130);
    first_asks_second_ends(SIGTERM, SIGINT, 130);
}

/* A child, since the signals stay blocked in whoever asked. */
static void waiting_times_out(void **state)
{
    int status = 0;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        fg_stop_init();
        if (fg_stop_wait_for(FG_MS_NS) != 0)
            _exit(WRONG);
        if (kill(getpid(), SIGTERM) != 0 || fg_stop_wait_for(INT64_MAX) != SIGTERM)
            _exit(WRONG);
        _exit(STOPPED_IN_ORDER);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STOPPED_IN_ORDER);
}

static void a_stop_that_nobody_asked_for_ends_at_once(void **state)
{
    int status = 0;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        fg_stop_init();
        if (fg_stop_wait_for(FG_MS_NS) != 0 || kill(getpid(), SIGINT) != 0)
            _exit(WRONG);
        fg_stop_at_next(); /* also for a signal that came before */
        _exit(STOPPED_IN_ORDER);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
}

static void a_write_to_a_broken_pipe_is_an_error(void **state)
{
    int ends[2];

    (void)state;
    fg_ignore_sigpipe();
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(write(ends[1], "x", 1), -1); /* and we are still here */
    assert_int_equal(close(ends[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_signal_ends_at_once),
        cmocka_unit_test(waiting_times_out),
        cmocka_unit_test(a_stop_that_nobody_asked_for_ends_at_once),
        cmocka_unit_test(a_write_to_a_broken_pipe_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
