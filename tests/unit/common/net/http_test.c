/*
 * The server with real sockets on a free port of the loopback device. A client here is a blocking
 * socket: send bytes, read until what is expected is there or the peer has closed.
 */
#include "tests/lib/http_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

/* Says it in pieces of one byte, each if possible a packet of its own. */
static void say_slowly(int fd, const char *text)
{
    for (; *text != '\0'; text++)
        run_say_bytes(fd, text, 1);
}

#define GET(path)        "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: a\r\n" more

/* --- tests --- */

static void test_keep_alive(void **state)
{
    int fd = run_client(*state);

    for (int i = 0; i < 3; i++) {
        run_say(fd, GET("/echo"));
        run_expect(fd, 200, "1 /echo ");
        run_say(fd, POST("/echo", "Content-Length: 5\r\n\r\nhello"));
        run_expect(fd, 200, "4 /echo hello");
    }
    run_say(fd, "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    run_expect_head(fd, 200, "Connection: close\r\n");
    run_expect_closed(fd);
}

static void test_head_of_answer(void **state)
{
    int fd = run_client(*state);

    run_say(fd, GET("/echo"));
    run_expect_head(fd, 200, "\r\nDate: ");
    run_say(fd, GET("/echo"));
    run_expect_head(fd, 200, "\r\nContent-Type: text/plain\r\n");
    run_say(fd, GET("/param"));
    run_expect_head(fd, 200, "\r\nX-Agent: line  Injected: yes\r\n");
    run_say(fd, "HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    run_say(fd, GET("/echo")); /* were there a body, this answer would not be read */
    {
        char head[1024];
        struct run_answer answer;
        size_t len = 0;

        while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0)
            assert_int_equal(recv(fd, head + len++, 1, 0), 1);
        head[len] = '\0';
        assert_non_null(strstr(head, "Content-Length: 8\r\n"));
        assert_true(run_hear(fd, &answer));
        assert_string_equal((char *)answer.body, "1 /echo ");
        free(answer.body);
    }
    (void)close(fd);
}

static void test_http10(void **state)
{
    int fd = run_client(*state);

    run_say(fd, "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    run_expect_head(fd, 200, "Connection: keep-alive\r\n");
    run_say(fd, "GET /echo HTTP/1.0\r\n\r\n");
    run_expect_head(fd, 200, "Connection: close\r\n");
    run_expect_closed(fd);
}

static void test_errors(void **state)
{
    int fd = run_client(*state);

    run_say(fd, GET("/nothing"));
    run_expect_head(fd, 404, "X-Content-Type-Options: nosniff\r\n");
    run_say(fd, GET("/nothing"));
    run_expect(fd, 404, "404 page not found\n");
    run_say(fd, POST("/param", "Content-Length: 3\r\n\r\nabc"));
    run_expect_head(fd, 405, "Allow: GET, HEAD\r\n");
    run_say(fd, "OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    run_expect(fd, 405, "");
    run_say(fd, GET("/busy"));
    run_expect_head(fd, 503, "Retry-After: 1\r\n");
    run_say(fd, GET("/busy"));
    run_expect(fd, 503, "{\"code\":\"unavailable\",\"message\":\"the \\\"head\\\" is full\"}");
    run_say(fd, GET("/assets/x%20y/z?q"));
    run_expect(fd, 200, "1 /assets/x y/z ");
    run_say(fd, GET("http://a.test/echo"));
    run_expect(fd, 200, "1 /echo ");
    (void)close(fd);
}

static void test_params(void **state)
{
    static const struct {
        const char *query, *want;
    } cases[] = {
        {"", "none,none"},
        {"?a=1", "1,none"},
        {"?a=1&a=2", "1,2"},
        {"?b=1&a", ",none"},
        {"?%61=x%2By+z", "x+y z,none"},
        {"?a=%zz&a=2", "2,none"},
        {"?a=%4&aa=2", "none,none"},
        {"?a=1;b=2&a=3", "3,none"},
        {"?&&a=&=&", ",none"},
    };
    int fd = run_client(*state);

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char text[256];

        print_message("  %s\n", cases[i].query);
        (void)snprintf(text, sizeof text, "GET /param%s HTTP/1.1\r\nHost: a\r\n\r\n",
                       cases[i].query);
        run_say(fd, text);
        run_expect(fd, 200, cases[i].want);
    }
    (void)close(fd);
}

static void test_pipelining(void **state)
{
    int fd = run_client(*state);

    run_say(fd, POST("/echo", "Content-Length: 1\r\n\r\n1") GET("/nothing") POST(
                    "/echo", "Transfer-Encoding: chunked\r\n\r\n1\r\n2\r\n0\r\n\r\n") GET("/echo"));
    run_expect(fd, 200, "4 /echo 1");
    run_expect(fd, 404, NULL);
    run_expect(fd, 200, "4 /echo 2");
    run_expect(fd, 200, "1 /echo ");
    (void)close(fd);
}

static void test_answers_in_order(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold") GET("/hold") GET("/echo") GET("/hold"));
    run_wait_held(run, 3);
    run_let_go(run, 2, "third");
    run_let_go(run, 1, "second");
    run_expect_silence(fd, 30);
    run_let_go(run, 0, "first");
    run_expect(fd, 200, "first");
    run_expect(fd, 200, "second");
    run_expect(fd, 200, "1 /echo ");
    run_expect(fd, 200, "third");
    (void)close(fd);
}

/* Not more than pipeline_max at a time; what waits is answered in the end. */
static void test_back_pressure(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    for (int i = 0; i < 6; i++)
        run_say(fd, GET("/hold"));
    run_wait_held(run, 2);
    (void)usleep(30000);
    run_wait_held(run, 2);
    for (unsigned i = 0; i < 6; i++) {
        run_wait_held(run, i < 5 ? i + 2 : 6);
        run_let_go(run, i, "x");
        run_expect(fd, 200, "x");
    }
    (void)close(fd);
}

static void test_chunked(void **state)
{
    int fd = run_client(*state);

    run_say(fd, POST("/echo", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n"
                              "0\r\nTrailer: x\r\n\r\n"));
    run_expect(fd, 200, "4 /echo hello world");
    say_slowly(fd, POST("/echo", "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
    run_expect(fd, 200, "4 /echo abc");
    (void)close(fd);
}

static void test_byte_by_byte(void **state)
{
    int fd = run_client(*state);

    say_slowly(fd, "\r\n" POST("/echo", "X-Empty:\r\nX:   y  \r\nContent-Length: 5\r\n\r\nhello")
                       GET("/echo"));
    run_expect(fd, 200, "4 /echo hello");
    run_expect(fd, 200, "1 /echo ");
    (void)close(fd);
}

static void test_large_bodies(void **state)
{
    static const size_t sizes[] = {1, 2047, 4096, 65535, 65536, 65537, 300000, RUN_BODY_MAX};
    int fd = run_client(*state);
    uint8_t *bytes = fg_calloc(1, RUN_BODY_MAX);

    for (size_t i = 0; i < FG_COUNT(sizes); i++) {
        char text[128];

        (void)snprintf(text, sizeof text, POST("/length", "Content-Length: %zu\r\n\r\n"), sizes[i]);
        run_say(fd, text);
        run_say_bytes(fd, bytes, sizes[i]);
        (void)snprintf(text, sizeof text, "%zu", sizes[i]);
        run_expect(fd, 200, text);
        /* The same in two chunks. */
        (void)snprintf(text, sizeof text,
                       POST("/length", "Transfer-Encoding: chunked\r\n\r\n%zx\r\n"), sizes[i]);
        run_say(fd, text);
        run_say_bytes(fd, bytes, sizes[i]);
        run_say(fd, sizes[i] < RUN_BODY_MAX ? "\r\n1\r\nx\r\n0\r\n\r\n" : "\r\n0\r\n\r\n");
        (void)snprintf(text, sizeof text, "%zu", sizes[i] + (sizes[i] < RUN_BODY_MAX));
        run_expect(fd, 200, text);
    }
    free(bytes);
    (void)close(fd);
}

static void test_continue(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, POST("/echo", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    run_expect_head(fd, 100, "HTTP/1.1 100 Continue\r\n\r\n");
    run_say(fd, "hi");
    run_expect(fd, 200, "4 /echo hi");
    /* After the answers before it, not among them. */
    run_say(fd, GET("/hold") POST("/echo", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    run_wait_held(run, 1);
    run_expect_silence(fd, 20);
    run_let_go(run, 0, "first");
    run_expect(fd, 200, "first");
    run_expect(fd, 100, NULL);
    run_say(fd, "ho");
    run_expect(fd, 200, "4 /echo ho");
    /* Refused: told so instead. */
    run_say(fd, POST("/echo", "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"));
    run_expect(fd, 413, NULL);
    run_expect_closed(fd);
    fd = run_client(run);
    run_say(fd, POST("/echo", "Expect: a miracle\r\nContent-Length: 1\r\n\r\n"));
    run_expect(fd, 417, NULL);
    run_expect_closed(fd);
}

static void expect_text(int fd, const char *text)
{
    char heard[512];
    size_t len = strlen(text), got = 0;

    assert_true(len < sizeof heard);
    while (got < len) {
        ssize_t n = recv(fd, heard + got, len - got, 0);

        assert_true(n > 0);
        got += (size_t)n;
    }
    heard[got] = '\0';
    assert_string_equal(heard, text);
}

/* Who asks for trailers gets them behind a chunk; others get the answer as ever. */
static void test_trailers(void **state)
{
    static const char tail[] = "0\r\nGrpc-Status: 0\r\nGrpc-Message: line  Injected: yes\r\n\r\n";
    int fd = run_client(*state);

    for (int i = 0; i < 2; i++) {
        run_say(fd,
                POST("/trailers", "TE: trailers, deflate;q=0.5\r\nContent-Length: 3\r\n\r\nabc"));
        run_expect_head(fd, 200, "Transfer-Encoding: chunked\r\n");
        expect_text(fd, "3\r\nabc\r\n");
        expect_text(fd, tail);
        run_say(fd, "GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
        run_expect_head(fd, 200, "Transfer-Encoding: chunked\r\n");
        expect_text(fd, tail);
        run_say(fd, POST("/trailers", "TE: deflate\r\nContent-Length: 3\r\n\r\nabc"));
        run_expect(fd, 200, "abc");
        run_say(fd, "HEAD /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
        run_expect_head(fd, 200, "Content-Length: 0\r\n");
    }
    run_say(fd, "GET /trailers HTTP/1.0\r\nTE: trailers\r\n\r\n");
    run_expect_head(fd, 200, "Content-Length: 0\r\n");
    run_expect_closed(fd);
}

/* A wish for HTTP/2 that is not quite right is passed over (that it is granted: http2_test.c). */
static void test_no_upgrade(void **state)
{
    static const char *const wishes[] = {
        "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        "Connection: HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA+/AABk\r\n\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    };
    int fd = run_client(*state);

    for (size_t i = 0; i < FG_COUNT(wishes); i++) {
        print_message("  %s\n", wishes[i]);
        run_say(fd, "GET /echo HTTP/1.1\r\nHost: a\r\n");
        run_say(fd, wishes[i]);
        run_expect(fd, 200, "1 /echo ");
    }
    (void)close(fd);
}

/* Asks for a path with these codings. */
static void say_coded(int fd, const char *path, const char *codings)
{
    char text[256];

    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\nAccept-Encoding: %s\r\n\r\n",
                   path, codings);
    run_say(fd, text);
}

static void check_compressed(int fd, const char *path)
{
    static uint8_t plain[RUN_BIG_BYTES + 1];
    struct run_answer answer;
    z_stream z = {0};

    say_coded(fd, path, "gzip, deflate");
    assert_true(run_hear(fd, &answer));
    assert_non_null(strstr(answer.head, "Content-Encoding: gzip\r\n"));
    assert_non_null(strstr(answer.head, "Vary: Accept-Encoding\r\n"));
    assert_int_equal(inflateInit2(&z, 31), Z_OK);
    z.next_in = answer.body;
    z.avail_in = (uInt)answer.len;
    z.next_out = plain;
    z.avail_out = sizeof plain;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, RUN_BIG_BYTES);
    inflateEnd(&z);
    free(answer.body);

    say_coded(fd, path, "gzip;q=0.5, zstd");
    assert_true(run_hear(fd, &answer));
    assert_non_null(strstr(answer.head, "Vary: Accept-Encoding\r\n"));
    assert_non_null(strstr(answer.head, "Content-Encoding: zstd\r\n"));
    assert_int_equal(ZSTD_decompress(plain, sizeof plain, answer.body, answer.len), RUN_BIG_BYTES);
    assert_int_equal(plain[RUN_BIG_BYTES - 1], 'a' + (RUN_BIG_BYTES - 1) % 7);
    free(answer.body);

    say_coded(fd, path, "gzip;q=0, br");
    run_say(fd, GET("/big"));
    for (int i = 0; i < 2; i++) {
        assert_true(run_hear(fd, &answer));
        assert_null(strstr(answer.head, "Content-Encoding"));
        assert_int_equal(answer.len, RUN_BIG_BYTES);
        free(answer.body);
    }
}

static void test_compressed(void **state)
{
    int fd = run_client(*state);

    check_compressed(fd, "/big");
    check_compressed(fd, "/big?encoded=1"); /* by the handler */
    (void)close(fd);
}

struct ask_gone {
    struct fg_http_request *req;
    bool gone;
};

static void ask_gone(void *arg)
{
    struct ask_gone *ask = arg;

    ask->gone = fg_http_gone(ask->req);
}

static void test_client_gone(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run), half = run_client(run);
    struct ask_gone ask = {0};

    run_say(fd, POST("/hold", "Content-Length: 5\r\n\r\nhello"));
    run_wait_held(run, 1);
    ask.req = run->held[0];
    fg_loop_call(run->loop, ask_gone, &ask);
    assert_false(ask.gone);
    (void)close(fd);
    run_wait_gone(run, 0);
    run_let_go(run, 0, "nobody listens");

    /* Who closed only its sending side still gets the answer. */
    run_say(half, GET("/hold"));
    run_wait_held(run, 2);
    assert_int_equal(shutdown(half, SHUT_WR), 0);
    run_wait_gone(run, 1);
    run_let_go(run, 1, "answer");
    run_expect(half, 200, "answer");
    run_expect_closed(half);
}

/* Reset in the middle of everything: handlers answer later, and nothing is left. */
static void test_reset(void **state)
{
    struct http_run *run = *state;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int fd = run_client(run);

    run_say(fd, GET("/hold") GET("/hold") POST("/echo", "Content-Length: 100\r\n\r\nx"));
    run_wait_held(run, 2);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
    run_wait_gone(run, 1);
    run_let_go(run, 1, "x");
    run_let_go(run, 0, "y");
}

static void *stop_server(void *arg)
{
    struct http_run *run = arg;

    fg_http_server_stop(run->server);
    return NULL;
}

static void test_drain(void **state)
{
    struct http_run *run = *state;
    int idle = run_client(run), busy = run_client(run), partial = run_client(run);
    pthread_t thread;

    run_say(idle, GET("/echo"));
    run_expect(idle, 200, NULL);
    run_say(busy, GET("/hold") GET("/hold"));
    run_say(partial, POST("/echo", "Content-Length: 5\r\n\r\nhe"));
    run_wait_held(run, 2);
    assert_int_equal(pthread_create(&thread, NULL, stop_server, run), 0);
    run_expect_closed(idle);
    run_say(partial, "llo");
    run_expect_head(partial, 200, "Connection: close\r\n");
    run_expect_closed(partial);
    run_let_go(run, 1, "second");
    run_let_go(run, 0, "first");
    run_expect(busy, 200, "first");
    run_expect_head(busy, 200, "Connection: close\r\n");
    run_expect_closed(busy);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

struct held_loop {
    struct fg_msg msg;
    struct http_run *run;
    sem_t busy; /* posted when the loop is in hold_loop() */
    sem_t gate;
    _Atomic pid_t stopping; /* the thread that asks for the stop; 0 before */
};

static void hold_loop(struct fg_msg *msg)
{
    struct held_loop *held = fg_container(msg, struct held_loop, msg);

    assert_int_equal(sem_post(&held->busy), 0);
    assert_int_equal(sem_wait(&held->gate), 0);
}

static void *stop_held(void *arg)
{
    struct held_loop *held = arg;

    atomic_store(&held->stopping, gettid());
    fg_http_server_stop(held->run->server);
    return NULL;
}

/* Waits until the stop is in the inbox of the busy loop: its thread sleeps only when it has posted
 * it. */
static void wait_for_stop(struct held_loop *held)
{
    char path[64];
    char state = 0;

    while (atomic_load(&held->stopping) == 0)
        (void)sched_yield();
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
                   (int)atomic_load(&held->stopping));
    while (state != 'S') {
        FILE *stat = fopen(path, "re");

        assert_non_null(stat);
        assert_int_equal(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
        assert_int_equal(fclose(stat), 0);
        (void)sched_yield();
    }
}

/* A busy loop has not accepted a connection that is there already when the stop is asked for. Its
 * request is answered, and the connection is not reset. */
static void test_drain_accepts_what_waits(void **state)
{
    struct http_run *run = *state;
    struct held_loop held = {.msg = {.run = hold_loop}, .run = run};
    pthread_t thread;
    int fd;

    assert_int_equal(sem_init(&held.busy, 0, 0), 0);
    assert_int_equal(sem_init(&held.gate, 0, 0), 0);
    fg_loop_post(run->loop, &held.msg);
    assert_int_equal(sem_wait(&held.busy), 0);
    fd = run_client(run);
    run_say(fd, GET("/echo"));
    assert_int_equal(pthread_create(&thread, NULL, stop_held, &held), 0);
    wait_for_stop(&held);
    assert_int_equal(sem_post(&held.gate), 0);
    run_expect_head(fd, 200, "Connection: close\r\n");
    run_expect_closed(fd);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sem_destroy(&held.gate), 0);
    assert_int_equal(sem_destroy(&held.busy), 0);
}

/* A handler that never answers in time: stop returns all the same, and the late answer is harmless.
 */
static void test_drain_gives_up(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    fg_http_server_stop(run->server);
    run_expect_closed(fd);
    assert_true(fg_http_gone(run->held[0]));
    run_let_go(run, 0, "too late");
}

static void test_metrics(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, POST("/length", "Content-Length: 1\r\n\r\nx") GET("/nothing"));
    run_expect(fd, 200, "1");
    run_expect(fd, 404, NULL);
    assert_true(run_metric_is(run, "pyroscope_request_duration_seconds_count{method=\"POST\",route="
                                   "\"length\",status_code=\"200\",ws=\"false\"} 1\n"));
    assert_true(run_metric_is(run, "pyroscope_request_duration_seconds_count{method=\"GET\",route="
                                   "\"other\",status_code=\"404\",ws=\"false\"} 1\n"));
    assert_true(run_metric_is(run, "pyroscope_tcp_connections 1\n"));
    assert_true(run_metric_is(run, "pyroscope_inflight_requests 0\n"));
    assert_true(run_metric_is(run, "flamegrid_http_refused_total{reason=\"not_found\"} 1\n"));
    (void)close(fd);
}

static void test_listen_errors(void **state)
{
    struct http_run *run = *state;
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct fg_http_server *second = fg_http_server_create(&config, &(struct fg_http_lent){0});
    struct fg_err err;
    char taken[32];

    (void)snprintf(taken, sizeof taken, "127.0.0.1:%u", fg_http_server_port(run->server));
    assert_int_equal(fg_http_server_start(second, taken, &run->loop, 1, &err), FG_E_UNAVAILABLE);
    assert_int_equal(fg_http_server_start(second, "nonsense", &run->loop, 1, &err), FG_E_INVALID);
    assert_int_equal(fg_http_server_start(second, "[::1]:99999", &run->loop, 1, &err),
                     FG_E_INVALID);
    assert_int_equal(fg_http_server_start(second, ":0", &run->loop, 1, &err), FG_OK);
    assert_true(fg_http_server_port(second) > 0);
    fg_http_server_stop(second);
    fg_http_server_destroy(second);
}

/* Two loops: both accept, and stop waits for both. */
static void test_two_loops(void **state)
{
    struct http_run *run = *state;
    struct fg_http_server *server = fg_http_server_create(&run->config, &(struct fg_http_lent){0});
    struct http_run two = {.server = server};
    struct fg_loop *loops[2] = {run->loop, fg_loop_create("http-1")};
    struct fg_err err;
    int fds[16];

    assert_int_equal(fg_loop_start(loops[1], &err), FG_OK);
    fg_http_server_route(server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                         .path = "/echo",
                                                         .handler = run_echo,
                                                         .kind = FG_HTTP_READS,
                                                         .scopes = FG_SCOPE_READ});
    assert_int_equal(fg_http_server_start(server, "127.0.0.1:0", loops, 2, &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(fds); i++) {
        fds[i] = run_client(&two);
        run_say(fds[i], GET("/echo"));
        run_expect(fds[i], 200, "1 /echo ");
    }
    fg_http_server_stop(server);
    fg_http_server_destroy(server);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        run_expect_closed(fds[i]);
    fg_loop_stop(loops[1]);
    fg_loop_destroy(loops[1]);
}

#define TEST(name)        cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
#define TEST_HASTY(name)  cmocka_unit_test_setup_teardown(name, run_setup_hasty, run_teardown)
#define TEST_NARROW(name) cmocka_unit_test_setup_teardown(name, run_setup_narrow, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keep_alive),
        TEST(test_head_of_answer),
        TEST(test_http10),
        TEST(test_errors),
        TEST(test_params),
        TEST(test_pipelining),
        TEST(test_answers_in_order),
        TEST_NARROW(test_back_pressure),
        TEST(test_chunked),
        TEST(test_byte_by_byte),
        TEST(test_large_bodies),
        TEST(test_continue),
        TEST(test_trailers),
        TEST(test_no_upgrade),
        TEST(test_compressed),
        TEST(test_client_gone),
        TEST(test_reset),
        TEST(test_drain),
        TEST(test_drain_accepts_what_waits),
        TEST_HASTY(test_drain_gives_up),
        TEST(test_metrics),
        TEST(test_listen_errors),
        TEST(test_two_loops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
