/* A program's watchdog, whose service manager is this test: a loop or a lane that is stuck ends the
 * pings. */
#include "common/program/liveness.h"
#include "common/program/watchdog.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_S = 60, WATCHDOG_MS = 8, STUCK_TICKS = 50 };

static struct {
    int manager;
    struct fg_notify notify;
    struct fg_loop *loop;
    struct fg_work *work;
    struct fg_watchdog *watchdog;
    atomic_uint asked; /* for the status: once a tick */
    sem_t held, release;
    struct fg_msg msg;
} test;

static void put_status(void *arg, struct fg_buf *out)
{
    (void)arg;
    (void)atomic_fetch_add(&test.asked, 1);
    fg_buf_puts(out, "fine\nso far\n");
}

static int set_up(void **state)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = 1, .queue_max = 4}};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    struct fg_err err;
    int length;

    (void)state;
    test.notify = (struct fg_notify){.watchdog_ns = WATCHDOG_MS * FG_MS_NS};
    test.notify.address.sun_family = AF_UNIX;
    /* The first byte is 0: an abstract name. */
    length = snprintf(test.notify.address.sun_path + 1, 64, "flamegrid-watchdog-%d", (int)getpid());
    test.notify.address_bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    test.manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(test.manager, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience),
                     0);
    assert_int_equal(
        bind(test.manager, (struct sockaddr *)&test.notify.address, test.notify.address_bytes), 0);
    assert_int_equal(sem_init(&test.held, 0, 0), 0);
    assert_int_equal(sem_init(&test.release, 0, 0), 0);
    test.loop = fg_loop_create("test");
    assert_int_equal(fg_loop_start(test.loop, &err), FG_OK);
    assert_int_equal(fg_work_create("test", lanes, &test.work, &err), FG_OK);
    assert_int_equal(fg_watchdog_create(&(struct fg_watchdog_config){.notify = &test.notify,
                                                                     .loops = &test.loop,
                                                                     .n_loops = 1,
                                                                     .work = test.work,
                                                                     .put_status = put_status},
                                        &test.watchdog, &err),
                     FG_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)close(test.manager); /* first: a ping would wait for room in it */
    fg_watchdog_hush(test.watchdog);
    fg_watchdog_destroy(test.watchdog);
    fg_work_destroy(test.work);
    fg_loop_stop(test.loop);
    fg_loop_destroy(test.loop);
    return 0;
}

/* The next datagram; NULL: there is none now. */
static const char *take(int flags)
{
    static char text[1000];
    ssize_t len = recv(test.manager, text, sizeof text - 1, flags);

    if (len < 0)
        return NULL;
    text[len] = '\0';
    return text;
}

static void await_ping(void)
{
    const char *text;

    do {
        text = take(0);
        assert_non_null(text);
    } while (strncmp(text, "WATCHDOG=1\n", strlen("WATCHDOG=1\n")) != 0);
}

struct taken {
    unsigned pings, statuses;
};

/* Takes what comes during some ticks. The socket holds ten datagrams, and a full one holds the
 * ticker up. */
static struct taken let_ticks_pass(void)
{
    unsigned until = atomic_load(&test.asked) + STUCK_TICKS;
    struct taken taken = {0};

    while (atomic_load(&test.asked) < until) {
        const char *text = take(MSG_DONTWAIT);

        if (text == NULL) {
            (void)usleep(1000);
            continue;
        }
        taken.pings += strstr(text, "WATCHDOG=1\n") != NULL;
        taken.statuses += strstr(text, "STATUS=fine; so far") != NULL;
    }
    return taken;
}

/* While something holds a part, no ping comes after the one that was on its way. */
static void assert_silence(void)
{
    (void)let_ticks_pass();
    assert_int_equal(let_ticks_pass().pings, 0);
}

static void a_program_that_moves_pings(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        await_ping();
}

static void the_status_is_told_once(void **state)
{
    (void)state;
    assert_int_equal(let_ticks_pass().statuses, 1);
    assert_int_equal(let_ticks_pass().statuses, 0);
}

static void hold(void)
{
    assert_int_equal(sem_post(&test.held), 0);
    while (sem_wait(&test.release) != 0)
        continue;
}

static void hold_loop(struct fg_msg *msg)
{
    (void)msg;
    hold();
}

static void a_loop_that_is_stuck_ends_the_pings(void **state)
{
    (void)state;
    await_ping();
    test.msg.run = hold_loop;
    fg_loop_post(test.loop, &test.msg);
    while (sem_wait(&test.held) != 0)
        continue;
    assert_silence();
    assert_int_equal(sem_post(&test.release), 0);
    await_ping();
}

static enum fg_code hold_worker(struct fg_job *job, struct fg_err *err)
{
    (void)job;
    (void)err;
    hold();
    return FG_OK;
}

static void done(struct fg_job *job)
{
    (void)job;
}

static void workers_that_are_stuck_end_the_pings(void **state)
{
    struct fg_job jobs[2] = {{.run = hold_worker, .done = done},
                             {.run = hold_worker, .done = done}};

    (void)state;
    /* One job that takes its time is no fault... */
    assert_true(fg_work_submit(test.work, FG_LANE_INGEST, &jobs[0]));
    while (sem_wait(&test.held) != 0)
        continue;
    for (unsigned i = 0; i < 3; i++)
        await_ping();
    /* ...unless others wait for it. */
    assert_true(fg_work_submit(test.work, FG_LANE_INGEST, &jobs[1]));
    assert_silence();
    assert_int_equal(sem_post(&test.release), 0);
    await_ping();
    assert_int_equal(sem_post(&test.release), 0);
    fg_watchdog_hush(test.watchdog); /* before the workers, which use jobs of this function */
    fg_work_destroy(test.work);
    test.work = NULL;
}

static void a_program_that_has_ended_its_workers_pings(void **state)
{
    (void)state;
    await_ping();
    fg_watchdog_hush(test.watchdog);
    fg_work_destroy(test.work); /* as services do when they stop, which may take long */
    test.work = NULL;
    for (unsigned i = 0; i < 10; i++)
        await_ping();
}

static void parts_may_move_at_different_times(void **state)
{
    struct fg_liveness parts[2] = {{0}};
    struct fg_liveness_sight sights[2] = {{.ended = 0, .waits = true}, {.ended = 1, .waits = true}};

    (void)state;
    assert_int_equal(fg_liveness_stuck(parts, sights, 2), 0);
    /* The second one has moved since the last time all had, though not since the last look. */
    sights[0].ended = 1;
    assert_int_equal(fg_liveness_stuck(parts, sights, 2), 2);
    assert_int_equal(fg_liveness_stuck(parts, sights, 2), 0);
    sights[0].waits = false;
    assert_int_equal(fg_liveness_stuck(parts, sights, 2), 1);
    sights[1].waits = false;
    assert_int_equal(fg_liveness_stuck(parts, sights, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_may_move_at_different_times),
        cmocka_unit_test_setup_teardown(a_program_that_moves_pings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_status_is_told_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_loop_that_is_stuck_ends_the_pings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(workers_that_are_stuck_end_the_pings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_program_that_has_ended_its_workers_pings, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
