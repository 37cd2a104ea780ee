/* Streamed answers, with real sockets: pieces leave at once, and a peer that does not read costs no
 * memory. */
#include "tests/lib/http2_client.h"
#include "tests/lib/http_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    LAST_BYTES = 200000,
    PIECE_BYTES = 1000,
    UNREAD_MAX_BYTES = 64 << 20, /* far above what the system's buffers hold */
    WINDOW_BYTES = 65535,        /* of HTTP/2, unless a client says otherwise (RFC 9113, 6.9.2) */
    HELD_BY_US_BYTES = 8 << 10,
};

/* ---- on the loop ---- */

struct call {
    struct http_run *run;
    unsigned i;
    struct fg_slice piece;
    struct fg_buf *last;
    bool done;
};

static void do_begin(void *arg)
{
    struct call *call = arg;

    fg_http_add_header(call->run->held[call->i], "X-Early", "yes");
    call->done = fg_http_stream_begin(call->run->held[call->i], "text/event-stream");
}

static void do_put(void *arg)
{
    struct call *call = arg;

    call->done = fg_http_stream_put(call->run->held[call->i], call->piece);
}

static void do_end(void *arg)
{
    struct call *call = arg;

    call->done = fg_http_stream_end(call->run->held[call->i], call->last);
}

static bool stream_begin(struct http_run *run, unsigned i)
{
    struct call call = {.run = run, .i = i};

    fg_loop_call(run->loop, do_begin, &call);
    return call.done;
}

static bool stream_put(struct http_run *run, unsigned i, struct fg_slice piece)
{
    struct call call = {.run = run, .i = i, .piece = piece};

    fg_loop_call(run->loop, do_put, &call);
    return call.done;
}

static bool stream_end(struct http_run *run, unsigned i, size_t len, char byte)
{
    struct fg_buf last;
    struct call call = {.run = run, .i = i, .last = &last};

    fg_buf_init(&last, len);
    for (size_t k = 0; k < len; k++)
        fg_buf_putc(&last, (uint8_t)byte);
    fg_loop_call(run->loop, do_end, &call);
    fg_buf_done(&last);
    return call.done;
}

/* ---- HTTP/1.1 ---- */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static void read_line(int fd, char line[256])
{
    size_t len = 0;

    while (len < 2 || memcmp(line + len - 2, "\r\n", 2) != 0) {
        assert_true(len < 255);
        assert_int_equal(recv(fd, line + len++, 1, 0), 1);
    }
    line[len - 2] = '\0';
}

static void read_bytes(int fd, uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = recv(fd, bytes, len, 0);

        assert_true(n > 0);
        bytes += n;
        len -= (size_t)n;
    }
}

static void expect_head(int fd)
{
    char line[256];
    bool chunked = false, early = false, typed = false;

    read_line(fd, line);
    assert_string_equal(line, "HTTP/1.1 200 OK");
    do {
        read_line(fd, line);
        chunked = chunked || strcmp(line, "Transfer-Encoding: chunked") == 0;
        early = early || strcmp(line, "X-Early: yes") == 0;
        typed = typed || strcmp(line, "Content-Type: text/event-stream") == 0;
        assert_null(strstr(line, "Content-Length"));
    } while (line[0] != '\0');
    assert_true(chunked && early && typed);
}

/* Reads a chunk; returns its length, 0 at the end. The bytes are the caller's to free. */
static size_t read_chunk(int fd, uint8_t **ret_bytes)
{
    char line[256];
    size_t len;

    read_line(fd, line);
    len = strtoul(line, NULL, 16);
    *ret_bytes = fg_calloc(1, len + 1);
    read_bytes(fd, *ret_bytes, len);
    read_line(fd, line);
    assert_string_equal(line, "");
    return len;
}

static void expect_chunk(int fd, const char *want)
{
    uint8_t *bytes;

    (void)read_chunk(fd, &bytes);
    assert_string_equal((char *)bytes, want);
    free(bytes);
}

static void expect_last(int fd, size_t want, char byte)
{
    uint8_t *bytes;

    assert_int_equal(read_chunk(fd, &bytes), want);
    for (size_t i = 0; i < want; i++)
        assert_int_equal(bytes[i], byte);
    free(bytes);
    expect_chunk(fd, "");
}

static void pieces_leave_at_once(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold") GET("/echo"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    expect_head(fd); /* before anything else is known */
    assert_true(stream_put(run, 0, FG_LIT("one")));
    expect_chunk(fd, "one");
    assert_true(stream_put(run, 0, FG_LIT("two")));
    assert_true(stream_put(run, 0, FG_LIT("three")));
    expect_chunk(fd, "two");
    expect_chunk(fd, "three");
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
    expect_last(fd, LAST_BYTES, 'x');
    run_expect(fd, 200, "1 /echo "); /* the connection goes on */
    (void)close(fd);
}

static void pieces_wait_for_answers_before_them(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold") GET("/hold"));
    run_wait_held(run, 2);
    assert_true(stream_begin(run, 1));
    assert_true(stream_put(run, 1, FG_LIT("early")));
    run_expect_silence(fd, 50);
    run_let_go(run, 0, "first");
    run_expect(fd, 200, "first");
    expect_head(fd);
    expect_chunk(fd, "early");
    /* An empty end, too, is one. */
    assert_true(stream_end(run, 1, 0, 'x'));
    expect_chunk(fd, "");
    (void)close(fd);
}

static void slow_readers_cost_nothing(void **state)
{
    struct http_run *run = *state;
    char piece[PIECE_BYTES];
    int fd = run_client(run);
    unsigned n = 0, more = 0;

    memset(piece, 'p', sizeof piece);
    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, fg_bytes(piece, sizeof piece)))
        assert_true(++n * PIECE_BYTES < UNREAD_MAX_BYTES);
    assert_int_equal(fg_budget_used(&run->answers), 0);
    assert_false(stream_put(run, 0, fg_bytes(piece, sizeof piece)));
    /* Accepted pieces arrive whole and in order. Once they are read, there is room again. */
    expect_head(fd);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *bytes;

        assert_int_equal(read_chunk(fd, &bytes), PIECE_BYTES);
        free(bytes);
    }
    for (; more < 1000 && !stream_put(run, 0, FG_LIT("again")); more++)
        (void)usleep(1000);
    expect_chunk(fd, "again");
    assert_true(stream_end(run, 0, 3, 'e'));
    expect_last(fd, 3, 'e');
    (void)close(fd);
}

static void peers_that_leave_are_noticed(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    assert_true(stream_put(run, 0, FG_LIT("one")));
    (void)close(fd);
    run_wait_gone(run, 0);
    assert_false(stream_put(run, 0, FG_LIT("two")));
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
}

static void what_cannot_be_streamed_is_said(void **state)
{
    struct http_run *run = *state;
    int old = run_client(run), head = run_client(run), gone = run_client(run);

    run_say(old, "GET /hold HTTP/1.0\r\n\r\n");
    run_wait_held(run, 1);
    assert_false(stream_begin(run, 0));
    run_let_go(run, 0, "whole");
    run_expect(old, 200, "whole");
    (void)close(old);
    run_say(head, "HEAD /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    run_wait_held(run, 2);
    assert_false(stream_begin(run, 1));
    run_let_go(run, 1, "whole");
    (void)close(head);
    run_say(gone, GET("/hold"));
    run_wait_held(run, 3);
    (void)close(gone);
    run_wait_gone(run, 2);
    assert_false(stream_begin(run, 2));
    run_let_go(run, 2, "nobody hears it");
}

static void a_last_piece_needs_memory(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    fg_budget_force(&run->answers, RUN_ANSWERS);
    assert_false(stream_end(run, 0, LAST_BYTES, 'x'));
    assert_true(stream_put(run, 0, FG_LIT("still there")));
    assert_true(stream_end(run, 0, 4000, 's'));
    expect_head(fd);
    expect_chunk(fd, "still there");
    expect_last(fd, 4000, 's');
    fg_budget_give(&run->answers, RUN_ANSWERS);
    (void)close(fd);
}

/* ---- HTTP/2 ---- */

static void frames_leave_at_once(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    assert_true(stream_put(run, 0, FG_LIT("one ")));
    while (h2_of(&client, 1)->body.len < 4)
        assert_true(h2_hear(&client));
    assert_int_equal(h2_of(&client, 1)->status, 200);
    assert_non_null(strstr(h2_of(&client, 1)->fields, "\nx-early: yes\n"));
    assert_null(strstr(h2_of(&client, 1)->fields, "content-length"));
    /* Others are not kept waiting meanwhile. */
    h2_get(&client, 3, "/echo");
    h2_expect(&client, 3, 200, "1 /echo ");
    assert_true(stream_put(run, 0, FG_LIT("two ")));
    assert_true(stream_end(run, 0, 3, 'x'));
    h2_expect(&client, 1, 200, "one two xxx");
    h2_close(&client);
}

static void windows_bound_what_is_unread(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;
    char piece[PIECE_BYTES];
    unsigned n = 0;

    memset(piece, 'p', sizeof piece);
    h2_open(&client, run_client(run));
    client.stingy = true;
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, fg_bytes(piece, sizeof piece)))
        n++;
    assert_in_range(n * PIECE_BYTES, WINDOW_BYTES - PIECE_BYTES, WINDOW_BYTES + HELD_BY_US_BYTES);
    assert_int_equal(fg_budget_used(&run->answers), 0);
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
    h2_window(&client, 0, 1 << 20);
    h2_window(&client, 1, 1 << 20);
    h2_expect(&client, 1, 200, NULL);
    struct fg_buf *body = &h2_of(&client, 1)->body;
    assert_int_equal(body->len, n * PIECE_BYTES + LAST_BYTES);
    for (size_t i = 0; i < body->len; i++)
        assert_int_equal(body->ptr[i], i < n * PIECE_BYTES ? 'p' : 'x');
    h2_close(&client);
}

static void streams_may_be_reset(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    /* With something unread, and without. */
    for (unsigned i = 0; i < 2; i++) {
        int32_t stream = (int32_t)(2 * i + 1);

        client.stingy = i == 0;
        h2_get(&client, stream, "/hold");
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        while (stream_put(run, i, FG_LIT("piece of a long answer, ")) && i == 0)
            continue;
        h2_reset(&client, stream, NGHTTP2_CANCEL);
        run_wait_gone(run, i);
        assert_false(stream_put(run, i, FG_LIT("two")));
        assert_true(stream_end(run, i, LAST_BYTES, 'x'));
        h2_window(&client, 0, 1 << 20);
    }
    h2_get(&client, 5, "/echo");
    h2_expect(&client, 5, 200, "1 /echo ");
    h2_close(&client);
}

static void connections_may_end(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    client.stingy = true;
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, FG_LIT("piece of a long answer, ")))
        continue;
    h2_close(&client);
    run_wait_gone(run, 0);
    assert_false(stream_put(run, 0, FG_LIT("two")));
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
}

/* A peer that keeps its window shut is cut off in time, and its handler learns it. */
static void shut_windows_are_cut_off(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    client.stingy = true;
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, FG_LIT("piece of a long answer, ")))
        continue;
    run_wait_gone(run, 0);
    assert_true(stream_end(run, 0, 3, 'x'));
    h2_close(&client);
}

#define TEST(name)       cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
#define TEST_HASTY(name) cmocka_unit_test_setup_teardown(name, run_setup_hasty, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pieces_leave_at_once),
        TEST(pieces_wait_for_answers_before_them),
        TEST(slow_readers_cost_nothing),
        TEST(peers_that_leave_are_noticed),
        TEST(what_cannot_be_streamed_is_said),
        TEST(a_last_piece_needs_memory),
        TEST(frames_leave_at_once),
        TEST(windows_bound_what_is_unread),
        TEST(streams_may_be_reset),
        TEST(connections_may_end),
        TEST_HASTY(shut_windows_are_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
