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
        {"two blanks before the path", "GET  /echo HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"two blanks after the path", "GET /echo  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"two blanks after an empty line", "\r\nGET /echo  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"two blanks in the second request",
         "GET /probe HTTP/1.1\r\nHost: a\r\n\r\nGET  / HTTP/1.1\r\nHost: a\r\n\r\n", 0},
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
        if (cases[i].status == 0)
            run_expect(fd, 200, "done");
        (void)send(fd, GET("/echo"), strlen(GET("/echo")), MSG_NOSIGNAL);
        run_expect_head(fd, cases[i].status == 0 ? 400 : cases[i].status, "Connection: close\r\n");
        run_expect_closed(fd);
    }
}

/* However it comes, and only in the request line. */
static void test_blanks_in_pieces(void **state)
{
    static const char good[] =
        "\r\n\r\nGET /echo HTTP/1.1\r\nHost: a\r\nX:   many   blanks  \r\n\r\n";
    static const char bad[] = "GET /echo  HTTP/1.1\r\nHost: a\r\n\r\n";
    int fd = run_client(*state);

    for (int twice = 0; twice < 2; twice++) {
        for (size_t i = 0; i < sizeof good - 1; i++) {
            run_say_bytes(fd, good + i, 1);
            (void)usleep(500);
        }
        run_expect(fd, 200, "1 /echo ");
    }
    for (size_t i = 0; i < sizeof bad - 1; i++) {
        (void)send(fd, bad + i, 1, MSG_NOSIGNAL);
        (void)usleep(500);
    }
    run_expect(fd, 400, NULL);
    (void)close(fd);
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

/* --- connections --- */

/* Two at a time: while both are busy a third one is refused. */
static void test_too_many_connections(void **state)
{
    struct http_run *run = *state;
    int fds[2] = {run_client(run), run_client(run)}, third;

    for (unsigned i = 0; i < 2; i++) {
        run_say(fds[i], GET("/hold"));
        run_wait_held(run, i + 1);
    }
    third = run_client(run);
    run_expect_head(third, 503, "Retry-After: 1\r\n");
    run_expect_closed(third);
    for (unsigned i = 0; i < 2; i++) {
        run_let_go(run, i, "done");
        run_expect(fds[i], 200, "done");
        (void)close(fds[i]);
    }
}

/* The one that was idle for longest goes, whether it has asked something or never has. */
static void test_idle_connections_make_room(void **state)
{
    struct http_run *run = *state;
    int first = run_client(run), second = run_client(run), third;

    run_say(first, GET("/echo"));
    run_expect(first, 200, NULL);
    run_say(second, GET("/echo"));
    run_expect(second, 200, NULL);
    run_say(first, GET("/echo"));
    run_expect(first, 200, NULL);
    third = run_client(run);
    run_say(third, GET("/echo"));
    run_expect(third, 200, NULL);
    run_expect_closed(second);
    run_say(first, GET("/echo"));
    run_expect(first, 200, NULL);
    second = run_client(run);
    run_say(second, GET("/echo"));
    run_expect(second, 200, NULL);
    run_expect_closed(third);
    assert_true(run_metric_is(run, "flamegrid_http_idle_closed_total{reason=\"room\"} 2\n"));
    (void)close(first);
    (void)close(second);
}

/* One address may have three of ten connections, and idle ones of its own make room. */
static void test_connections_of_an_address(void **state)
{
    struct http_run *run = *state;
    int fds[3], last;

    for (unsigned i = 0; i < 3; i++) {
        fds[i] = run_client(run);
        run_say(fds[i], GET("/hold"));
        run_wait_held(run, i + 1);
    }
    last = run_client(run);
    run_expect(last, 503,
               "{\"code\":\"unavailable\",\"message\":\"too many connections from this "
               "address (setting connections_per_address_max)\"}");
    run_expect_closed(last);
    run_let_go(run, 1, "done");
    run_expect(fds[1], 200, "done");
    last = run_client(run);
    run_say(last, GET("/echo"));
    run_expect(last, 200, NULL);
    run_expect_closed(fds[1]);
    assert_true(
        run_metric_is(run, "flamegrid_http_refused_total{reason=\"too_many_of_address\"} 1\n"));
    run_let_go(run, 0, "done");
    run_let_go(run, 2, "done");
    run_expect(fds[0], 200, "done");
    run_expect(fds[2], 200, "done");
    (void)close(fds[0]);
    (void)close(fds[2]);
    (void)close(last);
}

/* Who connects has head_timeout for the first head, however it comes. */
static void test_first_head_timeout(void **state)
{
    static const char head[] = "GET /echo HTTP/1.1\r\nHost: a\r\n";
    struct http_run *run = *state;
    bool cut = false;
    int slow;

    run_expect_closed(run_client(run));
    assert_true(run_metric_is(run, "flamegrid_http_idle_closed_total{reason=\"no_request\"} 1\n"));
    /* The head begins late: that wins no time. It never ends. */
    slow = run_client(run);
    (void)usleep(100000);
    for (size_t i = 0; !cut && i < 1000; i++) {
        char byte;

        (void)send(slow, i < strlen(head) ? head + i : "x", 1, MSG_NOSIGNAL);
        (void)usleep(10000);
        cut = recv(slow, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
        assert_true(i < 50 || cut);
    }
    run_expect(slow, 408, NULL);
    (void)close(slow);
}

/* --- memory of requests --- */

static void wait_heads(struct http_run *run, uint64_t least, uint64_t most)
{
    uint64_t used = fg_budget_used(&run->heads);

    for (int i = 0; i < 20000 && (used < least || used > most); i++) {
        (void)usleep(1000);
        used = fg_budget_used(&run->heads);
    }
    assert_in_range(used, least, most);
}

/* What waits behind a request that is being worked on is counted; without memory it is refused. */
static void test_pipelined_without_memory(void **state)
{
    enum { MORE = 10000, LEFT = 12000 }; /* less than another request needs */
    struct http_run *run = *state;
    int fd = run_client(run);
    uint64_t used, forced;
    char text[MORE];

    memset(text, '\n', sizeof text);
    for (unsigned round = 0; round < 2; round++) {
        run_say(fd, GET("/hold"));
        run_wait_held(run, round + 1);
        used = fg_budget_used(&run->heads);
        assert_true(used > 0);
        forced = RUN_HEADS - used - (round == 0 ? LEFT : 0);
        fg_budget_force(&run->heads, forced);
        run_say_bytes(fd, text, MORE);
        if (round == 0)
            wait_heads(run, used + forced + 1, RUN_HEADS);
        run_expect_silence(fd, 50);
        run_let_go(run, round, "done");
        run_expect(fd, 200, "done");
        fg_budget_give(&run->heads, forced);
        wait_heads(run, 0, round == 0 ? 0 : RUN_HEADS);
    }
    run_expect_head(fd, 429, "Connection: close\r\n");
    (void)close(fd);
}

/* A head counts as it grows, and is refused when there is no memory for it. */
static void test_heads_are_counted(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);
    char text[20000];

    memset(text, 'x', sizeof text);
    memcpy(text, "GET /", 5);
    run_say_bytes(fd, text, sizeof text);
    wait_heads(run, sizeof text, 4 * sizeof text);
    (void)close(fd);
    wait_heads(run, 0, 0);
    fg_budget_force(&run->heads, RUN_HEADS);
    fd = run_client(run);
    run_say(fd, GET("/echo")); /* a small one is taken all the same */
    run_expect(fd, 200, "1 /echo ");
    run_say_bytes(fd, text, sizeof text);
    run_expect_head(fd, 429, "Retry-After: 1\r\n");
    run_expect_closed(fd);
    fg_budget_give(&run->heads, RUN_HEADS);
}

/* --- memory of answers --- */

static void ask_big(int fd, size_t n)
{
    char text[128];

    (void)snprintf(text, sizeof text, "GET /big?n=%zu HTTP/1.1\r\nHost: a\r\n\r\n", n);
    run_say(fd, text);
}

static void expect_big(int fd, size_t n)
{
    struct run_answer answer;

    assert_true(run_hear(fd, &answer));
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.len, n);
    for (size_t i = 0; i < n; i++)
        if (answer.body[i] != 'a' + i % 7)
            fail_msg("byte %zu of %zu", i, n);
    free(answer.body);
}

/* Few bytes are kept by the system on their way, so that most of an answer is ours to keep. */
static int client_of_little(const struct http_run *run)
{
    int fd = run_client(run), small = 64 * 1024;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    return fd;
}

static void wait_answers(struct http_run *run, uint64_t least_bytes)
{
    for (int i = 0; i < 20000 && fg_budget_used(&run->answers) < least_bytes; i++)
        (void)usleep(1000);
    assert_true(fg_budget_used(&run->answers) >= least_bytes);
}

/* Sixteen are asked for at once and one is made: the others wait until it is read. */
static void test_unread_answers_hold_up_the_next(void **state)
{
    enum { BIG = 1000000 };
    struct http_run *run = *state;
    int fd = client_of_little(run);

    for (int i = 0; i < 16; i++)
        ask_big(fd, BIG);
    wait_answers(run, BIG);
    (void)usleep(100000);
    assert_in_range(fg_budget_used(&run->answers), BIG, 2 * BIG - 1);
    for (int i = 0; i < 16; i++)
        expect_big(fd, BIG);
    run_say(fd, GET("/echo"));
    run_expect(fd, 200, "1 /echo ");
    assert_int_equal(fg_budget_used(&run->answers), 0);
    (void)close(fd);
}

/* An answer that does not fit becomes a 503; a small one always fits; and one larger than all there
 * is fits when it is alone. */
static void test_answers_beyond_the_budget(void **state)
{
    enum { BIG = 7000000 };
    struct http_run *run = *state;
    int fds[2], third = run_client(run);

    for (size_t i = 0; i < 2; i++) {
        fds[i] = client_of_little(run);
        ask_big(fds[i], BIG);
        wait_answers(run, (i + 1) * BIG);
    }
    ask_big(third, BIG);
    run_expect_head(third, 503, "Retry-After: 1\r\n");
    run_say(third, GET("/echo"));
    run_expect(third, 200, "1 /echo ");
    assert_true(run_metric_is(run, "flamegrid_http_answers_refused_total 1\n"));
    assert_true(fg_budget_used(&run->answers) <= RUN_ANSWERS);
    for (size_t i = 0; i < 2; i++) {
        expect_big(fds[i], BIG);
        (void)close(fds[i]);
    }
    ask_big(third, BIG);
    expect_big(third, BIG);
    ask_big(third, RUN_ANSWERS + 1);
    expect_big(third, RUN_ANSWERS + 1);
    (void)close(third);
}

/* While memory is refused to others, whoever has not read for a second gives up what he holds. */
static void test_stalled_readers_give_way(void **state)
{
    enum { BIG = 7000000 };
    struct http_run *run = *state;
    int fds[2], third = run_client(run);
    unsigned status = 503, asked = 0;

    for (size_t i = 0; i < 2; i++) {
        fds[i] = client_of_little(run);
        ask_big(fds[i], BIG);
        wait_answers(run, (i + 1) * BIG);
    }
    for (; status == 503 && asked < 100; asked++) { /* write_timeout is 30 s */
        struct run_answer answer;

        (void)usleep(asked == 0 ? 0 : 100000);
        ask_big(third, BIG);
        assert_true(run_hear(third, &answer));
        status = answer.status;
        free(answer.body);
    }
    assert_int_equal(status, 200);
    assert_true(asked > 1);
    assert_true(run_metric_is(run, "flamegrid_http_slow_readers_total{reason=\"slow\"} 0\n"));
    assert_false(run_metric_is(run, "flamegrid_http_slow_readers_total{reason=\"stalled\"} 0\n"));
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(third);
}

/* Reads at most a megabyte a second, for ms. Returns whether it was cut off. */
static bool sip(int fd, unsigned ms)
{
    char some[1000];

    for (unsigned i = 0; i < ms; i++) {
        if (recv(fd, some, sizeof some, 0) <= 0)
            return true;
        (void)usleep(1000);
    }
    return false;
}

static void test_slow_reader_is_cut_off(void **state)
{
    struct http_run *run = *state;
    int fd = client_of_little(run);

    ask_big(fd, 15000000);
    wait_answers(run, 15000000);
    while (!sip(fd, 100)) /* the system still has some for a client that is cut off */
        continue;
    assert_true(run_metric_becomes(run, "pyroscope_tcp_connections 0\n"));
    assert_true(run_metric_is(run, "flamegrid_http_slow_readers_total{reason=\"slow\"} 1\n"));
    (void)close(fd);
}

/* Two and a half times write_timeout without being done, but never without progress. */
static void test_steady_reader_is_not_cut_off(void **state)
{
    struct http_run *run = *state;
    int fd = client_of_little(run);

    ask_big(fd, 15000000);
    wait_answers(run, 15000000);
    assert_false(sip(fd, 5000));
    assert_true(run_metric_is(run, "flamegrid_http_slow_readers_total{reason=\"slow\"} 0\n"));
    (void)close(fd);
}

static int setup_slow(void **state, int64_t write_timeout_ns, uint64_t min_per_s)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.write_timeout_ns = write_timeout_ns;
    config.answer_min_per_s = min_per_s;
    return run_setup_with(state, &config);
}

static int setup_hard(void **state)
{
    return setup_slow(state, 300 * FG_MS_NS, 100000000);
}

static int setup_patient(void **state)
{
    return setup_slow(state, 2 * FG_SECOND_NS, 0);
}

static int setup_few_of_an_address(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.connections_max = 10;
    config.connections_per_address_max = 3;
    return run_setup_with(state, &config);
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

/* Bodies of one budget do not use up the room of the other. */
static void test_budget_of_a_route(void **state)
{
    struct http_run *run = *state;
    int held = run_client(run), second = run_client(run);
    uint8_t *bytes = fg_calloc(1, RUN_BUDGET);

    run_say(held, POST("/hold", "Content-Length: 4194304\r\n\r\n"));
    run_say_bytes(held, bytes, RUN_BUDGET);
    run_wait_held(run, 1);
    run_say(second, POST("/length", "Content-Length: 200000\r\n\r\n"));
    run_say_bytes(second, bytes, 200000);
    run_expect(second, 429, NULL);
    run_say(second, POST("/upload", "Content-Length: 1048576\r\n\r\n"));
    run_say_bytes(second, bytes, RUN_UPLOADS);
    run_expect(second, 200, "1048576");
    run_let_go(run, 0, "done");
    run_expect(held, 200, "done");

    fg_budget_force(&run->uploads, RUN_UPLOADS);
    run_say(second, POST("/upload", "Content-Length: 200000\r\n\r\n"));
    run_say_bytes(second, bytes, 200000);
    run_expect_head(second, 429, "Retry-After: 1\r\n");
    run_say(second, POST("/length", "Content-Length: 200000\r\n\r\n"));
    run_say_bytes(second, bytes, 200000);
    run_expect(second, 200, "200000");
    fg_budget_give(&run->uploads, RUN_UPLOADS);
    (void)close(held);
    (void)close(second);
    free(bytes);
}

#define TEST(name)        cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
#define TEST_HASTY(name)  cmocka_unit_test_setup_teardown(name, run_setup_hasty, run_teardown)
#define TEST_NARROW(name) cmocka_unit_test_setup_teardown(name, run_setup_narrow, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refused_for_good),
        TEST(test_blanks_in_pieces),
        TEST(test_chunked_too_large),
        TEST(test_chunk_extensions),
        TEST_NARROW(test_head_too_large),
        TEST(test_too_many_headers),
        TEST_NARROW(test_too_many_connections),
        TEST_NARROW(test_idle_connections_make_room),
        cmocka_unit_test_setup_teardown(test_connections_of_an_address, setup_few_of_an_address,
                                        run_teardown),
        TEST_HASTY(test_first_head_timeout),
        TEST_HASTY(test_timeouts),
        TEST_HASTY(test_write_timeout),
        TEST(test_budget),
        TEST(test_budget_of_a_route),
        TEST(test_pipelined_without_memory),
        TEST(test_heads_are_counted),
        TEST(test_unread_answers_hold_up_the_next),
        TEST(test_answers_beyond_the_budget),
        TEST(test_stalled_readers_give_way),
        cmocka_unit_test_setup_teardown(test_slow_reader_is_cut_off, setup_hard, run_teardown),
        cmocka_unit_test_setup_teardown(test_steady_reader_is_not_cut_off, setup_patient,
                                        run_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
