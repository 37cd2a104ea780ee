/*
 * HTTP/1.1 that is refused: malformed, too large, too slow, too much. The server with real sockets,
 * as in http_test.c.
 */
#include "tests/lib/http_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GET(path)        "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: a\r\n" more

/* Each gets the status and then a closed connection, without the second request being seen. */
static void test_refused_for_good(void **state)
{
    static const struct {
        const char *name, *text;
        unsigned status;
    } cases[] = {
        {"length and coding",
         POST("/echo", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
        {"coding and length",
         POST("/echo", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 400},
        {"two lengths", POST("/echo", "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), 400},
        {"list of lengths", POST("/echo", "Content-Length: 5, 5\r\n\r\nhello"), 400},
        {"signed length", POST("/echo", "Content-Length: +5\r\n\r\nhello"), 400},
        {"huge length", POST("/echo", "Content-Length: 99999999999999999999\r\n\r\n"), 400},
        {"two codings",
         POST("/echo", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
         400},
        {"chunked twice", POST("/echo", "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
         400},
        {"gzip, chunked", POST("/echo", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501},
        {"not chunked", POST("/echo", "Transfer-Encoding: identity\r\n\r\n"), 501},
        {"chunked in HTTP/1.0",
         "POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"blank before colon", POST("/echo", "Content-Length : 5\r\n\r\nhello"), 400},
        {"folded header", POST("/echo", "X: a\r\n b\r\nContent-Length: 0\r\n\r\n"), 400},
        {"bare LF", "GET /echo HTTP/1.1\nHost: a\n\n", 400},
        {"bare CR", "GET /echo HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400},
        {"NUL in a header", NULL, 400},
        {"chunk size with blank",
         POST("/echo", "Transfer-Encoding: chunked\r\n\r\n 1\r\nx\r\n0\r\n\r\n"), 400},
        {"chunk size not hex", POST("/echo", "Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n"),
         400},
        {"huge chunk", POST("/echo", "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
         400},
        {"chunk longer than said",
         POST("/echo", "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n"), 400},
        {"no host", "GET /echo HTTP/1.1\r\n\r\n", 400},
        {"two hosts", "GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"no path", "GET echo HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"bad escape", GET("/echo%zz"), 400},
        {"NUL in the path", GET("/echo%00"), 400},
        {"nearly HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", 400},
        {"HTTP/2.0", "GET /echo HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"TLS", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03", 400},
        {"body too large", POST("/length", "Content-Length: 1048577\r\n\r\n"), 413},
        {"expectation", POST("/echo", "Expect: x\r\nContent-Length: 5\r\n\r\nhello"), 417},
    };

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        int fd = run_client(*state);

        print_message("  %s\n", cases[i].name);
        if (cases[i].text == NULL)
            run_say_bytes(fd, "GET /echo HTTP/1.1\r\nHost: a\0b\r\n\r\n", 34);
        else
            run_say(fd, cases[i].text);
        (void)send(fd, GET("/echo"), strlen(GET("/echo")), MSG_NOSIGNAL);
        run_expect_head(fd, cases[i].status, "Connection: close\r\n");
        run_expect_closed(fd);
    }
}

static void test_chunked_too_large(void **state)
{
    int fd = run_client(*state);
    uint8_t *bytes = fg_calloc(1, RUN_BODY_MAX);

    run_say(fd, POST("/length", "Transfer-Encoding: chunked\r\n\r\n100000\r\n"));
    run_say_bytes(fd, bytes, RUN_BODY_MAX);
    run_say(fd, "\r\n1\r\nx\r\n0\r\n\r\n");
    run_expect_head(fd, 413, "Connection: close\r\n");
    run_expect_closed(fd);
    free(bytes);
}

/* Chunk extensions are bytes that no limit on bodies counts. */
static void test_chunk_extensions(void **state)
{
    int fd = run_client(*state);
    char text[1024];
    bool cut_off = false;

    memset(text, 'x', sizeof text);
    run_say(fd, POST("/length", "Transfer-Encoding: chunked\r\n\r\n1;"));
    for (int i = 0; i < 200 && !cut_off; i++)
        cut_off = send(fd, text, sizeof text, MSG_NOSIGNAL) < 0;
    run_expect(fd, 400, NULL);
    (void)close(fd);
}

static void test_head_too_large(void **state)
{
    char text[3000];
    int fd = run_client(*state);

    memset(text, 'x', sizeof text);
    memcpy(text, "GET /", 5);
    run_say_bytes(fd, text, sizeof text);
    run_expect_head(fd, 431, "Connection: close\r\n");
    run_expect_closed(fd);
    fd = run_client(*state);
    for (int i = 0; i < 600; i++)
        (void)send(fd, "\r\n", 2, MSG_NOSIGNAL);
    run_expect(fd, 431, NULL);
    (void)close(fd);
}

static void test_too_many_headers(void **state)
{
    int fd = run_client(*state);

    run_say(fd, "GET /echo HTTP/1.1\r\n");
    for (int i = 0; i < 101; i++)
        run_say(fd, "X: y\r\n");
    run_expect(fd, 431, NULL);
    run_expect_closed(fd);
}

static void test_too_many_connections(void **state)
{
    struct http_run *run = *state;
    int fds[2] = {run_client(run), run_client(run)}, third;

    for (int i = 0; i < 2; i++) {
        run_say(fds[i], GET("/echo"));
        run_expect(fds[i], 200, NULL);
    }
    third = run_client(run);
    run_expect_head(third, 503, "Retry-After: 1\r\n");
    run_expect_closed(third);
    run_say(fds[0], GET("/echo"));
    run_expect(fds[0], 200, NULL);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void test_timeouts(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, "GET /echo HTT");
    run_expect(fd, 408, NULL);
    run_expect_closed(fd);
    fd = run_client(run);
    run_say(fd, POST("/echo", "Content-Length: 9\r\n\r\nhel"));
    run_expect(fd, 408, NULL);
    run_expect_closed(fd);
    fd = run_client(run);
    run_say(fd, GET("/echo"));
    run_expect(fd, 200, NULL);
    run_expect_closed(fd); /* idle */
    fd = run_client(run);
    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    run_expect_silence(fd, 400); /* no timeout of ours while a handler works */
    run_let_go(run, 0, "late");
    run_expect(fd, 200, "late");
    (void)close(fd);
}

/* Who asks and never reads is cut off, and the answers' memory with it. */
static void test_write_timeout(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run), small = 4096;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 300; i++)
        if (send(fd, GET("/big"), strlen(GET("/big")), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    (void)usleep(50000);
    assert_true(run_metric_is(run, "pyroscope_tcp_connections 1\n"));
    for (int i = 0; i < 300 && !run_metric_is(run, "pyroscope_tcp_connections 0\n"); i++)
        (void)usleep(10000);
    assert_true(run_metric_is(run, "pyroscope_tcp_connections 0\n"));
    (void)close(fd);
}

static void test_budget(void **state)
{
    struct http_run *run = *state;
    int first = run_client(run), second = run_client(run), third = run_client(run);
    uint8_t *bytes = fg_calloc(1, RUN_BUDGET);

    run_say(first, POST("/hold", "Content-Length: 4000000\r\n\r\n"));
    run_say_bytes(first, bytes, 4000000);
    run_wait_held(run, 1);
    /* A short body is skipped and the connection stays, a long one closes it. */
    run_say(second, POST("/length", "Content-Length: 200000\r\n\r\n"));
    run_say_bytes(second, bytes, 200000);
    run_expect_head(second, 429, "Retry-After: 1\r\n");
    run_say(third, POST("/length", "Content-Length: 500000\r\n\r\n"));
    run_expect_head(third, 429, "Connection: close\r\n");
    run_expect_closed(third);
    third = run_client(run);
    run_say(third, POST("/length", "Transfer-Encoding: chunked\r\n\r\n80000\r\n"));
    (void)send(third, bytes, 0x80000, MSG_NOSIGNAL);
    run_expect_head(third, 429, "Connection: close\r\n");
    (void)close(third);

    run_let_go(run, 0, "done");
    run_expect(first, 200, "done");
    run_say(second, POST("/length", "Content-Length: 200000\r\n\r\n"));
    run_say_bytes(second, bytes, 200000);
    run_expect(second, 200, "200000");
    (void)close(first);
    (void)close(second);
    free(bytes);
}

#define TEST(name)        cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
#define TEST_HASTY(name)  cmocka_unit_test_setup_teardown(name, run_setup_hasty, run_teardown)
#define TEST_NARROW(name) cmocka_unit_test_setup_teardown(name, run_setup_narrow, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refused_for_good), TEST(test_chunked_too_large),
        TEST(test_chunk_extensions), TEST_NARROW(test_head_too_large),
        TEST(test_too_many_headers), TEST_NARROW(test_too_many_connections),
        TEST_HASTY(test_timeouts),   TEST_HASTY(test_write_timeout),
        TEST(test_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
