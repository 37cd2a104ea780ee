/*
 * HTTP/2 as a client sees it that keeps the rules: the server with real sockets, as in http_test.c.
 * Those who break them are in http2_hostile_test.c.
 */
#include "tests/lib/http2_client.h"
#include "tests/lib/http_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static struct http_run *open_client(void **state, struct h2_client *client)
{
    h2_open(client, run_client(*state));
    return *state;
}

static void expect_field(struct h2_client *client, int32_t stream, const char *line)
{
    struct h2_answer *answer = h2_answer(client, stream);

    if (strstr(answer->fields, line) == NULL)
        fail_msg("no \"%s\" in:\n%s", line, answer->fields);
}

static void expect_no_field(struct h2_client *client, int32_t stream, const char *name)
{
    struct h2_answer *answer = h2_answer(client, stream);

    if (strstr(answer->fields, name) != NULL)
        fail_msg("\"%s\" in:\n%s", name, answer->fields);
}

static const char *const no_fields[] = {NULL};

/* --- requests and answers --- */

static void test_requests(void **state)
{
    struct h2_client client;

    (void)open_client(state, &client);
    h2_get(&client, 1, "/echo");
    h2_expect(&client, 1, 200, "1 /echo ");
    expect_field(&client, 1, "\ndate: ");
    expect_field(&client, 1, "\ncontent-type: text/plain\n");
    expect_field(&client, 1, "\ncontent-length: 8\n");
    expect_no_field(&client, 1, "connection");
    h2_request(&client, 3, "POST", "/echo", no_fields, false);
    h2_data(&client, 3, "hel", 3, false);
    h2_data(&client, 3, "lo", 2, true);
    h2_expect(&client, 3, 200, "4 /echo hello");
    h2_request(&client, 5, "HEAD", "/echo", no_fields, true);
    h2_expect(&client, 5, 200, "");
    expect_field(&client, 5, "\ncontent-length: 8\n");
    h2_request(&client, 7, "POST", "/echo", no_fields, true); /* no body at all */
    h2_expect(&client, 7, 200, "4 /echo ");
    h2_get(&client, 9, "/param?a=x%2By+z&a=2");
    h2_expect(&client, 9, 200, "x+y z,2");
    expect_field(&client, 9, "\nx-agent: line  Injected: yes\n");
    h2_get(&client, 11, "/assets/x%20y/z?q");
    h2_expect(&client, 11, 200, "1 /assets/x y/z ");
    h2_close(&client);
}

/* What a handler asks for has the same names as in HTTP/1.1. */
static void test_fields(void **state)
{
    static const char *const more[] = {"te", "trailers", "x-agent", "spy", "host", "A.test", NULL};
    struct h2_client client;

    (void)open_client(state, &client);
    h2_request(&client, 1, "GET", "/header?a=TE", more, true);
    h2_expect(&client, 1, 200, "trailers");
    h2_request(&client, 3, "GET", "/header?a=X-Agent", more, true);
    h2_expect(&client, 3, 200, "spy");
    h2_request(&client, 5, "GET", "/header?a=Host", more, true);
    h2_expect(&client, 5, 200, "a.test"); /* RFC 9113, 8.3.1: that of :authority */
    h2_request(&client, 7, "GET", "/header?a=:path", more, true);
    h2_expect(&client, 7, 200, "none");
    h2_close(&client);
}

/* Browsers send each cookie in a header of its own (RFC 9113, 8.2.3). */
static void test_cookies(void **state)
{
    static const char *const more[] = {"cookie", "a=1; b=two=2",   "cookie", "c=3",
                                       "cookie", "ab=4;d=;e; a=5", NULL};
    static const struct {
        const char *path, *value;
    } cases[] = {{"/cookie?a=a", "1"}, {"/cookie?a=b", "two=2"}, {"/cookie?a=c", "3"},
                 {"/cookie?a=d", ""},  {"/cookie?a=e", "none"},  {"/cookie?a=A", "none"},
                 {"/cookie?a=ab", "4"}};
    struct h2_client client;

    (void)open_client(state, &client);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        h2_request(&client, (int32_t)(2 * i + 1), "GET", cases[i].path, more, true);
        h2_expect(&client, (int32_t)(2 * i + 1), 200, cases[i].value);
    }
    h2_close(&client);
}

static void test_refusals(void **state)
{
    static const char *const too_long[] = {"content-length", "1048577", NULL};
    static const char *const miracle[] = {"expect", "a miracle", NULL};
    struct http_run *run;
    struct h2_client client;

    run = open_client(state, &client);
    h2_get(&client, 1, "/nothing");
    h2_expect(&client, 1, 404, "404 page not found\n");
    h2_request(&client, 3, "POST", "/param", no_fields, true);
    h2_expect(&client, 3, 405, "");
    expect_field(&client, 3, "\nallow: GET, HEAD\n");
    h2_request(&client, 5, "PROPFIND", "/echo", no_fields, true);
    h2_expect(&client, 5, 405, "");
    h2_get(&client, 7, "/echo%zz");
    h2_expect(&client, 7, 400, NULL);
    h2_get(&client, 9, "/busy");
    h2_expect(&client, 9, 503, NULL);
    expect_field(&client, 9, "\nretry-after: 1\n");
    h2_request(&client, 11, "POST", "/echo", miracle, true);
    h2_expect(&client, 11, 417, NULL);
    /* Answered without waiting for the body; what comes of it is thrown away. */
    h2_request(&client, 13, "POST", "/length", too_long, false);
    h2_expect(&client, 13, 413, NULL);
    h2_data(&client, 13, "late", 4, false);
    h2_get(&client, 15, "/echo");
    h2_expect(&client, 15, 200, "1 /echo ");
    /* Who does not end it is told that it is not wanted (RFC 9113, 8.1). */
    while (h2_of(&client, 13)->reset == H2_STILL_OPEN)
        assert_true(h2_hear(&client));
    assert_int_equal(h2_of(&client, 13)->reset, NGHTTP2_NO_ERROR);
    h2_data(&client, 13, "later", 5, false);
    h2_get(&client, 17, "/echo");
    h2_expect(&client, 17, 200, "1 /echo ");
    assert_true(run_metric_is(run, "flamegrid_http_refused_total{reason=\"body_too_large\"} 1\n"));
    h2_close(&client);
}

static void test_head_too_large(void **state)
{
    char value[1024];
    const char *more[] = {"x", value, NULL};
    struct h2_client client;
    struct fg_buf block;

    (void)open_client(state, &client);
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    h2_request(&client, 1, "GET", "/echo", more, true);
    h2_expect(&client, 1, 431, NULL);
    fg_buf_init(&block, 1 << 16);
    h2_put_request(&block, "GET", "/echo", NULL);
    for (int i = 0; i < 101; i++)
        h2_put_field(&block, "x", "");
    h2_frame(&client, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 3,
             block.ptr, block.len);
    h2_expect(&client, 3, 431, NULL);
    h2_get(&client, 5, "/echo");
    h2_expect(&client, 5, 200, "1 /echo ");
    fg_buf_done(&block);
    h2_close(&client);
}

static void test_answers_in_any_order(void **state)
{
    struct h2_client client;
    struct http_run *run = open_client(state, &client);

    h2_get(&client, 1, "/hold");
    h2_get(&client, 3, "/hold");
    h2_get(&client, 5, "/echo");
    h2_expect(&client, 5, 200, "1 /echo ");
    run_wait_held(run, 2);
    run_let_go(run, 1, "second");
    h2_expect(&client, 3, 200, "second");
    run_let_go(run, 0, "first");
    h2_expect(&client, 1, 200, "first");
    h2_close(&client);
}

static void test_trailers(void **state)
{
    struct h2_client client;
    struct h2_answer *answer;

    (void)open_client(state, &client);
    h2_request(&client, 1, "POST", "/trailers", no_fields, false);
    h2_data(&client, 1, "abc", 3, true);
    h2_expect(&client, 1, 200, "abc");
    expect_no_field(&client, 1, "content-length");
    answer = h2_of(&client, 1);
    assert_string_equal(answer->trailers, "grpc-status: 0\ngrpc-message: line  Injected: yes\n");
    /* Without a body nothing stands between the two, not even an empty DATA. */
    h2_get(&client, 3, "/trailers");
    h2_expect(&client, 3, 200, "");
    assert_int_equal(h2_of(&client, 3)->n_frames, 0);
    assert_non_null(strstr(h2_of(&client, 3)->trailers, "grpc-status: 0\n"));
    h2_request(&client, 5, "HEAD", "/trailers", no_fields, true);
    h2_expect(&client, 5, 200, "");
    assert_string_equal(h2_of(&client, 5)->trailers, "");
    h2_close(&client);
}

/* Trailers of a request are read and dropped, as in HTTP/1.1. */
static void test_request_trailers(void **state)
{
    struct h2_client client;
    struct fg_buf block;

    (void)open_client(state, &client);
    fg_buf_init(&block, 1024);
    h2_put_field(&block, "x-checksum", "1");
    h2_request(&client, 1, "POST", "/echo", no_fields, false);
    h2_data(&client, 1, "hello", 5, false);
    h2_frame(&client, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
             block.ptr, block.len);
    h2_expect(&client, 1, 200, "4 /echo hello");
    fg_buf_done(&block);
    h2_close(&client);
}

static void test_continue(void **state)
{
    static const char *const more[] = {"expect", "100-continue", NULL};
    struct h2_client client;

    (void)open_client(state, &client);
    h2_request(&client, 1, "POST", "/echo", more, false);
    while (h2_of(&client, 1)->n_100 == 0)
        assert_true(h2_hear(&client));
    h2_data(&client, 1, "hi", 2, true);
    h2_expect(&client, 1, 200, "4 /echo hi");
    h2_close(&client);
}

static void test_compressed(void **state)
{
    static const char *const more[] = {"accept-encoding", "gzip", NULL};
    static uint8_t plain[RUN_BIG_BYTES + 1];
    struct h2_client client;
    struct h2_answer *answer;
    z_stream z = {0};

    (void)open_client(state, &client);
    h2_request(&client, 1, "GET", "/big", more, true);
    expect_field(&client, 1, "\ncontent-encoding: gzip\n");
    expect_field(&client, 1, "\nvary: Accept-Encoding\n");
    answer = h2_answer(&client, 1);
    assert_int_equal(inflateInit2(&z, 31), Z_OK);
    z.next_in = answer->body.ptr;
    z.avail_in = (uInt)answer->body.len;
    z.next_out = plain;
    z.avail_out = sizeof plain;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, RUN_BIG_BYTES);
    inflateEnd(&z);
    h2_close(&client);
}

/* --- bodies, windows --- */

static void test_large_bodies(void **state)
{
    static const size_t sizes[] = {1, 16384, 16385, 65535, 65536, 262144, 300000, RUN_BODY_MAX};
    uint8_t *bytes = fg_calloc(1, RUN_BODY_MAX);
    struct h2_client client;
    int32_t stream = 1;

    (void)open_client(state, &client);
    for (size_t i = 0; i < FG_COUNT(sizes); i++) {
        char length[32];
        const char *more[] = {"content-length", length, NULL};

        print_message("  %zu\n", sizes[i]);
        (void)snprintf(length, sizeof length, "%zu", sizes[i]);
        for (int known = 0; known < 2; known++, stream += 2) {
            h2_request(&client, stream, "POST", "/length", known ? more : no_fields, false);
            h2_upload(&client, stream, bytes, sizes[i], true);
            h2_expect(&client, stream, 200, length);
        }
    }
    free(bytes);
    h2_close(&client);
}

/* A body of known length is admitted as a whole: its window is open before the first byte. */
static void test_window_of_known_length(void **state)
{
    static const char *const more[] = {"content-length", "1000000", NULL};
    struct h2_client client;

    (void)open_client(state, &client);
    h2_request(&client, 1, "POST", "/length", more, false);
    while (client.first_window + h2_of(&client, 1)->opened < 1000000)
        assert_true(h2_hear(&client));
    h2_request(&client, 3, "POST", "/length", no_fields, false);
    h2_ping(&client);
    assert_int_equal(h2_of(&client, 3)->opened, 0);
    h2_close(&client);
}

static void test_chunk_too_large(void **state)
{
    uint8_t *bytes = fg_calloc(1, RUN_BODY_MAX + 1);
    struct h2_client client;

    (void)open_client(state, &client);
    h2_request(&client, 1, "POST", "/length", no_fields, false);
    h2_upload(&client, 1, bytes, RUN_BODY_MAX + 1, false);
    h2_expect(&client, 1, 413, NULL);
    h2_get(&client, 3, "/echo");
    h2_expect(&client, 3, 200, NULL);
    free(bytes);
    h2_close(&client);
}

/* The refused stream is answered; the connection, and what else is on it, goes on. */
static void test_budget(void **state)
{
    static const char *const all[] = {"content-length", "4000000", NULL};
    static const char *const some[] = {"content-length", "200000", NULL};
    struct h2_client client;
    struct http_run *run = open_client(state, &client);
    uint8_t *bytes = fg_calloc(1, RUN_BUDGET);

    h2_request(&client, 1, "POST", "/hold", all, false);
    h2_upload(&client, 1, bytes, 4000000, true);
    run_wait_held(run, 1);
    h2_request(&client, 3, "POST", "/length", some, false);
    h2_expect(&client, 3, 429, NULL);
    expect_field(&client, 3, "\nretry-after: 1\n");
    /* Without a length it shows on the way. */
    h2_request(&client, 5, "POST", "/length", no_fields, false);
    h2_upload(&client, 5, bytes, 500000, true);
    h2_expect(&client, 5, 429, NULL);
    run_let_go(run, 0, "done");
    h2_expect(&client, 1, 200, "done");
    h2_request(&client, 7, "POST", "/length", some, false);
    h2_upload(&client, 7, bytes, 200000, true);
    h2_expect(&client, 7, 200, "200000");
    assert_true(run_metric_is(run, "flamegrid_http_refused_total{reason=\"no_budget\"} 2\n"));
    free(bytes);
    h2_close(&client);
}

/* An answer waits for the peer's windows, that of the stream and that of the connection. */
static void test_peer_windows(void **state)
{
    struct h2_client client;

    h2_init(&client, run_client(*state));
    client.stingy = true;
    h2_preface(&client);
    h2_setting(&client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10);
    h2_get(&client, 1, "/big");
    h2_ping(&client);
    h2_ping(&client); /* control frames go first: an answer may be behind one, not behind two */
    assert_int_equal(h2_of(&client, 1)->body.len, 10);
    h2_window(&client, 1, 100);
    while (h2_of(&client, 1)->body.len < 110)
        assert_true(h2_hear(&client));
    h2_window(&client, 1, RUN_BIG_BYTES);
    while (h2_of(&client, 1)->body.len < 65535)
        assert_true(h2_hear(&client));
    h2_ping(&client);
    h2_ping(&client);
    assert_int_equal(h2_of(&client, 1)->body.len, 65535);
    h2_window(&client, 0, RUN_BIG_BYTES);
    assert_int_equal(h2_answer(&client, 1)->body.len, RUN_BIG_BYTES);
    h2_close(&client);
}

/* A large answer and those after it take turns. */
static void test_fairness(void **state)
{
    enum { LARGE = 8 << 20 };
    struct h2_client client;
    struct h2_answer *large;

    h2_init(&client, run_client(*state));
    client.stingy = true;
    h2_preface(&client);
    h2_setting(&client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2 * LARGE);
    h2_window(&client, 0, 4 * LARGE);
    h2_get(&client, 1, "/big?n=8388608");
    h2_get(&client, 3, "/big?n=200000");
    h2_get(&client, 5, "/echo");
    h2_expect(&client, 5, 200, "1 /echo ");
    assert_int_equal(h2_answer(&client, 3)->body.len, 200000);
    large = h2_of(&client, 1);
    assert_true(large->body.len > 0);
    assert_true(large->body.len < LARGE);
    assert_int_equal(h2_answer(&client, 1)->body.len, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        if (large->body.ptr[i] != 'a' + i % 7)
            fail_msg("byte %zu", i);
    h2_close(&client);
}

/* --- the end --- */

static void test_gone(void **state)
{
    struct h2_client client;
    struct http_run *run = open_client(state, &client);

    h2_get(&client, 1, "/hold");
    h2_get(&client, 3, "/hold");
    run_wait_held(run, 2);
    h2_reset(&client, 1, NGHTTP2_CANCEL);
    run_wait_gone(run, 0);
    assert_false(fg_http_gone(run->held[1]));
    run_let_go(run, 0, "nobody listens");
    run_let_go(run, 1, "somebody does");
    h2_expect(&client, 3, 200, "somebody does");
    assert_int_equal(h2_of(&client, 1)->status, 0);
    /* Reset while the body comes, and while the answer leaves. */
    h2_request(&client, 5, "POST", "/echo", no_fields, false);
    h2_data(&client, 5, "hello", 5, false);
    h2_reset(&client, 5, NGHTTP2_CANCEL);
    client.stingy = true;
    h2_get(&client, 7, "/big");
    while (h2_of(&client, 7)->n_frames == 0)
        assert_true(h2_hear(&client));
    h2_reset(&client, 7, NGHTTP2_CANCEL);
    h2_get(&client, 9, "/hold");
    run_wait_held(run, 3);
    h2_close(&client);
    run_wait_gone(run, 2);
    run_let_go(run, 2, "nobody listens");
}

/* Who ends only its sending side still gets what it asked for. */
static void test_half_closed(void **state)
{
    struct h2_client client;
    struct http_run *run = open_client(state, &client);

    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    run_wait_gone(run, 0);
    run_let_go(run, 0, "answer");
    h2_expect(&client, 1, 200, "answer");
    assert_false(h2_hear(&client));
    h2_close(&client);
}

/* Of Go's gRPC clients: their own last stream where ours should be. Wrong, but nothing failed. */
static void test_farewell_with_own_stream(void **state)
{
    static const uint8_t last_stream_and_code[] = {0, 0, 0, 1, 0, 0, 0, 0};
    struct h2_client client;
    struct http_run *run = open_client(state, &client);

    h2_get(&client, 1, "/echo");
    h2_expect(&client, 1, 200, "1 /echo ");
    h2_frame(&client, NGHTTP2_GOAWAY, 0, 0, last_stream_and_code, sizeof last_stream_and_code);
    h2_expect_goaway(&client, NGHTTP2_PROTOCOL_ERROR);
    h2_close(&client);
    assert_true(run_metric_becomes(run, "pyroscope_tcp_connections 0\n"));
    assert_true(run_metric_is(run, "flamegrid_http2_closed_total{reason=\"protocol_error\"} 0\n"));
}

static void test_timeouts(void **state)
{
    struct h2_client client;
    struct http_run *run;
    struct fg_buf block;

    /* The body. */
    run = open_client(state, &client);
    h2_request(&client, 1, "POST", "/echo", no_fields, false);
    h2_data(&client, 1, "hel", 3, false);
    h2_expect(&client, 1, 408, NULL);
    h2_get(&client, 3, "/hold");
    run_wait_held(run, 1);
    (void)usleep(500000);
    run_let_go(run, 0, "late"); /* no timeout of ours while a handler works */
    h2_expect(&client, 3, 200, "late");
    h2_expect_goaway(&client, NGHTTP2_NO_ERROR); /* idle */
    h2_close(&client);
    /* The head, after which anything could come. */
    run = open_client(state, &client);
    h2_ping(&client);
    fg_buf_init(&block, 1024);
    h2_put_request(&block, "GET", "/echo", NULL);
    h2_frame(&client, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, block.ptr, block.len);
    h2_expect_goaway(&client, NGHTTP2_ENHANCE_YOUR_CALM);
    fg_buf_done(&block);
    h2_close(&client);
    assert_true(run_metric_is(run, "flamegrid_http_refused_total{reason=\"too_slow\"} 2\n"));
}

/* A window that is never opened: the answer's memory is not kept for ever. */
static void test_window_never_opened(void **state)
{
    struct h2_client client;

    h2_init(&client, run_client(*state));
    client.stingy = true;
    h2_preface(&client);
    h2_setting(&client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    h2_get(&client, 1, "/big");
    h2_expect_reset(&client, 1, NGHTTP2_CANCEL);
    h2_get(&client, 3, "/nothing"); /* alive, but this has a body too */
    h2_expect_reset(&client, 3, NGHTTP2_CANCEL);
    h2_close(&client);
}

/* Nothing is read from the socket any more, whatever the windows say. */
static void test_write_timeout(void **state)
{
    struct h2_client client;
    struct http_run *run = *state;
    int small = 4096;

    h2_init(&client, run_client(run));
    (void)setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    h2_preface(&client);
    h2_setting(&client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX);
    h2_window(&client, 0, INT32_MAX - 65535);
    h2_get(&client, 1, "/big?n=20000000");
    assert_true(run_metric_becomes(run, "pyroscope_tcp_connections 1\n"));
    assert_true(run_metric_becomes(run, "pyroscope_tcp_connections 0\n"));
    h2_close(&client);
}

static void *stop_server(void *arg)
{
    struct http_run *run = arg;

    fg_http_server_stop(run->server);
    return NULL;
}

static void test_drain(void **state)
{
    struct h2_client busy, idle;
    struct http_run *run = open_client(state, &busy);
    pthread_t thread;

    h2_open(&idle, run_client(run));
    h2_get(&idle, 1, "/echo");
    h2_expect(&idle, 1, 200, NULL);
    h2_get(&busy, 1, "/hold");
    h2_request(&busy, 3, "POST", "/echo", no_fields, false);
    run_wait_held(run, 1);
    assert_int_equal(pthread_create(&thread, NULL, stop_server, run), 0);
    while (busy.goaway == H2_STILL_OPEN)
        assert_true(h2_hear(&busy));
    assert_int_equal(busy.goaway_last, INT32_MAX);
    h2_get(&busy, 5, "/echo"); /* it was on its way */
    while (busy.goaway_last == INT32_MAX)
        assert_true(h2_hear(&busy));
    assert_int_equal(busy.goaway, NGHTTP2_NO_ERROR);
    assert_int_equal(busy.goaway_last, 5);
    h2_expect(&busy, 5, 200, "1 /echo ");
    h2_data(&busy, 3, "x", 1, true);
    h2_expect(&busy, 3, 200, "4 /echo x");
    run_let_go(run, 0, "first");
    h2_expect(&busy, 1, 200, "first");
    assert_false(h2_hear(&busy));
    h2_expect_goaway(&idle, NGHTTP2_NO_ERROR);
    h2_close(&busy);
    h2_close(&idle);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* --- from HTTP/1.1 --- */

#define UPGRADE                                                                                    \
    "Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"                           \
    "HTTP2-Settings: AAQAAAAK\r\n" /* INITIAL_WINDOW_SIZE 10 */

static void expect_101(int fd)
{
    static const char want[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                               "Upgrade: h2c\r\n\r\n";
    char heard[sizeof want] = "";

    for (size_t got = 0; got < sizeof want - 1;) {
        ssize_t n = recv(fd, heard + got, sizeof want - 1 - got, 0);

        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_string_equal(heard, want);
}

static void upgrade(void **state, struct h2_client *client, const char *request)
{
    h2_init(client, run_client(*state));
    run_say(client->fd, request);
    expect_101(client->fd);
}

static void begin_http2(struct h2_client *client)
{
    h2_preface(client);
    h2_setting(client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100000);
}

static void test_upgrade(void **state)
{
    struct h2_client client;

    /* The settings in the request hold at once: ten bytes of an answer. */
    upgrade(state, &client, "GET /big HTTP/1.1\r\n" UPGRADE "\r\n");
    client.silent = true;
    while (h2_of(&client, 1)->body.len < 10)
        assert_true(h2_hear(&client));
    assert_int_equal(h2_of(&client, 1)->body.len, 10);
    begin_http2(&client);
    h2_window(&client, 0, 1000000);
    assert_int_equal(h2_answer(&client, 1)->body.len, RUN_BIG_BYTES);
    h2_get(&client, 3, "/echo");
    h2_expect(&client, 3, 200, "1 /echo ");
    h2_close(&client);
    /* With a body, and the preface without waiting for 101. */
    h2_init(&client, run_client(*state));
    run_say(client.fd, "POST /echo HTTP/1.1\r\n" UPGRADE "Content-Length: 5\r\n\r\nhello");
    begin_http2(&client);
    expect_101(client.fd);
    h2_expect(&client, 1, 200, "4 /echo hello");
    h2_close(&client);
    upgrade(state, &client, "HEAD /big HTTP/1.1\r\n" UPGRADE "\r\n");
    client.silent = true;
    h2_expect(&client, 1, 200, "");
    begin_http2(&client);
    h2_get(&client, 3, "/echo");
    h2_expect(&client, 3, 200, NULL);
    h2_close(&client);
}

static void test_upgrade_later(void **state)
{
    struct h2_client client;
    struct http_run *run = *state;

    /* Not the first request, but all before it were answered. */
    h2_init(&client, run_client(run));
    run_say(client.fd, "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    for (char last[4] = ""; memcmp(last, "nd\n", 3) != 0;) { /* "404 page not found\n" */
        memmove(last, last + 1, 2);
        assert_int_equal(recv(client.fd, last + 2, 1, 0), 1);
    }
    run_say(client.fd, "GET /hold HTTP/1.1\r\n" UPGRADE "\r\n");
    expect_101(client.fd);
    begin_http2(&client);
    run_wait_held(run, 1);
    h2_reset(&client, 1, NGHTTP2_CANCEL);
    run_wait_gone(run, 0);
    run_let_go(run, 0, "x");
    h2_get(&client, 3, "/echo");
    h2_expect(&client, 3, 200, "1 /echo ");
    h2_close(&client);
}

/* After 101 HTTP/1.1 is over. */
/* By default the wish is passed over: an old protocol that nobody needs any more. */
static void test_upgrade_is_off(void **state)
{
    int fd = run_client(*state);

    run_say(fd, "GET /echo HTTP/1.1\r\n" UPGRADE "\r\n");
    run_expect(fd, 200, "1 /echo ");
    run_say(fd, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    run_expect(fd, 200, "1 /echo ");
    (void)close(fd);
}

static void test_upgrade_without_preface(void **state)
{
    struct h2_client client;

    upgrade(state, &client, "GET /echo HTTP/1.1\r\n" UPGRADE "\r\n");
    run_say(client.fd, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    h2_expect_goaway(&client, NGHTTP2_PROTOCOL_ERROR);
    h2_close(&client);
}

/* Settings that nobody may have are as bad here as in a frame. */
static void test_upgrade_bad_settings(void **state)
{
    struct h2_client client;

    upgrade(state, &client,
            "GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n"
            "Connection: Upgrade, HTTP2-Settings\r\n"
            "HTTP2-Settings: AAT_____\r\n\r\n");
    while (h2_hear(&client))
        continue;
    assert_true(client.goaway > 0);
    h2_close(&client);
}

static void test_metrics(void **state)
{
    struct h2_client client;
    struct http_run *run = open_client(state, &client);

    h2_request(&client, 1, "POST", "/length", no_fields, true);
    h2_expect(&client, 1, 200, "0");
    h2_get(&client, 3, "/nothing");
    h2_expect(&client, 3, 404, NULL);
    assert_true(run_metric_is(run, "pyroscope_request_duration_seconds_count{method=\"POST\",route="
                                   "\"length\",status_code=\"200\",ws=\"false\"} 1\n"));
    assert_true(run_metric_is(run, "flamegrid_http_answers_total{version=\"2\"} 2\n"));
    assert_true(run_metric_is(run, "flamegrid_http_answers_total{version=\"1.1\"} 0\n"));
    assert_true(run_metric_is(run, "pyroscope_inflight_requests 0\n"));
    h2_close(&client);
}

static int setup_upgrade(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.h2c_upgrade = true;
    return run_setup_with(state, &config);
}

#define TEST_UPGRADE(name) cmocka_unit_test_setup_teardown(name, setup_upgrade, run_teardown)
#define TEST(name)         cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
#define TEST_HASTY(name)   cmocka_unit_test_setup_teardown(name, run_setup_hasty, run_teardown)
#define TEST_NARROW(name)  cmocka_unit_test_setup_teardown(name, run_setup_narrow, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_requests),
        TEST(test_fields),
        TEST(test_cookies),
        TEST(test_refusals),
        TEST_NARROW(test_head_too_large),
        TEST(test_answers_in_any_order),
        TEST(test_trailers),
        TEST(test_request_trailers),
        TEST(test_continue),
        TEST(test_compressed),
        TEST(test_large_bodies),
        TEST(test_window_of_known_length),
        TEST(test_chunk_too_large),
        TEST(test_budget),
        TEST(test_peer_windows),
        TEST(test_fairness),
        TEST(test_gone),
        TEST(test_half_closed),
        TEST(test_farewell_with_own_stream),
        TEST_HASTY(test_timeouts),
        TEST_HASTY(test_window_never_opened),
        TEST_HASTY(test_write_timeout),
        TEST(test_drain),
        TEST_UPGRADE(test_upgrade),
        TEST_UPGRADE(test_upgrade_later),
        TEST_UPGRADE(test_upgrade_without_preface),
        TEST_UPGRADE(test_upgrade_bad_settings),
        TEST(test_upgrade_is_off),
        TEST(test_metrics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
