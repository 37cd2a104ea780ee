/* A request of a caller that waits, also when descriptors or threads have run out. */
#include "common/net/client_run.h"
#include "tests/lib/fake_server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

/* More than the loop of a request, libcurl and the connection take together. */
enum { DESCRIPTORS_MAX = 24 };

static _Atomic bool out_of_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

/* The linker gives our own code this one. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    return atomic_load(&out_of_threads) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

static void answer(struct fake_connection *connection, void *arg)
{
    char request[4096];

    (void)arg;
    while (fake_read(connection, request, sizeof request))
        (void)fake_respond(connection, 200, "", FG_LIT("hello"));
}

static struct fg_client_request request_to(const char *url)
{
    return (struct fg_client_request){.url = url,
                                      .connect_timeout_ns = 20 * FG_SECOND_NS,
                                      .timeout_ns = 20 * FG_SECOND_NS,
                                      .body_max_bytes = 4096};
}

static void waits_for_the_response(void **state)
{
    struct fake_server *server = fake_server_start(NULL, false, answer, NULL);
    struct fg_client_request request;
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/", fake_server_port(server));
    request = request_to(url);
    fg_client_run(&request);
    assert_int_equal(request.code, FG_OK);
    assert_int_equal(request.status, 200);
    assert_true(fg_slice_is(fg_buf_slice(&request.answer), "hello"));
    fg_client_clear(&request);
    fake_server_stop(server);
}

/* Returns how many descriptors the process could open if their number were not limited. */
static rlim_t lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    (void)close(fd);
    return (rlim_t)fd;
}

static void a_process_without_descriptors_gets_an_error(void **state)
{
    struct fg_client_request request = request_to("http://127.0.0.1:1/"); /* nobody listens */
    unsigned exhausted = 0;
    struct rlimit before, limit;

    (void)state;
    fg_client_run(&request); /* what is opened once for the process is open from now on */
    assert_int_equal(request.code, FG_E_UNAVAILABLE);
    fg_client_clear(&request);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t more = 0; more < DESCRIPTORS_MAX; more++) {
        limit = before;
        limit.rlim_cur = lowest_free() + more;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        fg_client_run(&request);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(request.code, FG_E_UNAVAILABLE);
        exhausted += strstr(request.err.msg, "Too many open files") != NULL;
        fg_client_clear(&request);
    }
    assert_in_range(exhausted, 1, DESCRIPTORS_MAX - 1);
}

static void a_process_without_threads_gets_an_error(void **state)
{
    struct fg_client_request request = request_to("http://127.0.0.1:1/");

    (void)state;
    atomic_store(&out_of_threads, true);
    fg_client_run(&request);
    atomic_store(&out_of_threads, false);
    assert_int_equal(request.code, FG_E_UNAVAILABLE);
    fg_client_clear(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_the_response),
        cmocka_unit_test(a_process_without_descriptors_gets_an_error),
        cmocka_unit_test(a_process_without_threads_gets_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
