/*
 * The life of a program, run here on the test's own thread: what its HTTP port says while the
 * service gets ready, once it is, and that SIGTERM ends it in order.
 */
#include "common/program/program.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* What the program under test saw of itself. */
struct seen {
    unsigned ready_early, work_early; /* statuses while getting ready */
    unsigned unready_calls;
    char unready[64];              /* what /ready said while the service had a reason */
    unsigned ready, work, healthz; /* and once it was */
    unsigned stopped;
    bool fail;
};

static struct seen seen;

static int connect_to(unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

/* The status of a GET. */
static unsigned get_text(unsigned port, const char *path, char body[64])
{
    char text[1024];
    size_t len = (size_t)snprintf(
        text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    int fd = connect_to(port);
    ssize_t got;

    assert_int_equal(write(fd, text, len), len);
    len = 0;
    while (len < sizeof text - 1 && (got = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    (void)close(fd);
    assert_true(len > strlen("HTTP/1.1 200"));
    if (body != NULL && strstr(text, "\r\n\r\n") != NULL)
        (void)snprintf(body, 64, "%s", strstr(text, "\r\n\r\n") + 4);
    return (unsigned)strtoul(text + strlen("HTTP/1.1 "), NULL, 10);
}

static unsigned get(unsigned port, const char *path)
{
    return get_text(port, path, NULL);
}

static void do_work(struct fg_http_request *req, void *arg)
{
    (void)arg;
    fg_http_respond(req, 204, NULL, NULL);
}

/* Looks at the program from outside, waits for it to be ready, and ends it. */
static void *watch(void *arg)
{
    struct fg_program *program = arg;
    unsigned port = fg_http_server_port(program->http);

    for (;;) {
        char body[64];

        seen.ready = get_text(port, "/ready", body);
        if (seen.ready != 503)
            break;
        if (seen.unready_calls > 0)
            memcpy(seen.unready, body, sizeof body);
        (void)usleep(1000);
    }
    seen.work = get(port, "/work");
    seen.healthz = get(port, "/healthz");
    (void)kill(getpid(), SIGTERM);
    return NULL;
}

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    (void)err;
    program->service = fg_new(pthread_t);
    fg_http_server_route(program->http, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                                .path = "/work",
                                                                .handler = do_work,
                                                                .kind = FG_HTTP_READS,
                                                                .scopes = FG_SCOPE_READ});
    return FG_OK;
}

static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    unsigned port = fg_http_server_port(program->http);

    seen.ready_early = get(port, "/ready");
    seen.work_early = get(port, "/work");
    if (seen.fail)
        return fg_fail(err, FG_E_UNAVAILABLE, "the disk is gone");
    assert_int_equal(pthread_create(program->service, NULL, watch, program), 0);
    return FG_OK;
}

static void stop(struct fg_program *program)
{
    seen.stopped++;
    if (!seen.fail)
        assert_int_equal(pthread_join(*(pthread_t *)program->service, NULL), 0);
    free(program->service);
}

/* Twice there is something to say. */
static bool unready(struct fg_program *program, struct fg_buf *why)
{
    (void)program;
    if (++seen.unready_calls > 2)
        return false;
    fg_buf_printf(why, "no room, %d bytes free", 12);
    return true;
}

static int run(void)
{
    const struct fg_program_def def = {.name = "test",
                                       .what = "a test",
                                       .start = start,
                                       .ready = ready,
                                       .unready = unready,
                                       .stop = stop};
    char listen[] = "--listen=127.0.0.1:0", quiet[] = "--log_level=error";
    char *argv[] = {listen, quiet, NULL};

    return fg_program_run(&def, 2, argv);
}

static void requests_come_in_while_the_service_gets_ready(void **state)
{
    (void)state;
    seen = (struct seen){0};
    assert_int_equal(run(), 0);
    assert_int_equal(seen.ready_early, 503);
    assert_int_equal(seen.work_early, 204);
    assert_string_equal(seen.unready, "not ready: no room, 12 bytes free\n");
    assert_int_equal(seen.ready, 200);
    assert_int_equal(seen.work, 204);
    assert_int_equal(seen.healthz, 200);
    assert_int_equal(seen.stopped, 1);
}

static void a_service_that_cannot_get_ready_ends_the_program(void **state)
{
    (void)state;
    seen = (struct seen){.fail = true};
    assert_int_equal(run(), 1);
    assert_int_equal(seen.ready_early, 503);
    assert_int_equal(seen.stopped, 1);
}

/* A program may have other defaults than the tables; the tables stay as they are for others. */
static void a_program_has_defaults_of_its_own(void **state)
{
    static const struct fg_program_default defaults[] = {
        {"", "memory_max_bytes", "128MiB"}, {"", "workers", "2"}, {"access", "poll", "3s"}};
    const struct fg_program_def usual = {.name = "usual"};
    const struct fg_program_def small = {
        .name = "small", .defaults = defaults, .n_defaults = FG_COUNT(defaults)};
    char workers[] = "--workers=5";
    char *argv[] = {workers, NULL};
    struct fg_program program;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_program_configure(&small, 1, argv, &program, &err), FG_OK);
    assert_int_equal(program.settings.memory_max_bytes, 128 << 20);
    assert_int_equal(program.settings.workers, 5);
    assert_int_equal(program.settings.connections_max, 4096);
    assert_int_equal(program.access_settings.poll_ns, 3 * FG_SECOND_NS);
    fg_program_forget(&program);
    assert_int_equal(fg_program_configure(&usual, 0, argv, &program, &err), FG_OK);
    assert_int_equal(program.settings.memory_max_bytes, 1 << 30);
    assert_int_equal(program.settings.workers, 0);
    assert_int_equal(program.access_settings.poll_ns, 10 * FG_SECOND_NS);
    fg_program_forget(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_has_defaults_of_its_own),
        /* First: once a signal has come a second one would end the test. */
        cmocka_unit_test(a_service_that_cannot_get_ready_ends_the_program),
        cmocka_unit_test(requests_come_in_while_the_service_gets_ready),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
