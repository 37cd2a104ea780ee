/*
 * The server with real sockets on a free port of the loopback device. A client here is a blocking
 * socket: send bytes, read until what is expected is there or the peer has closed.
 */
#include "common/net/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

enum {
    BODY_MAX = 1 << 20,
    BUDGET = 4 << 20,
    HELD_MAX = 16,
    BIG_BYTES = 100000,
};

struct fixture {
    struct fg_http_config config;
    struct fg_budget budget;
    struct fg_registry *registry;
    struct fg_work *work;
    struct fg_loop *loops[2];
    struct fg_http_server *server;
    struct fg_http_request *held[HELD_MAX]; /* by /hold, on the loop only */
    _Atomic unsigned n_held;
    _Atomic unsigned n_gone;
};

/* --- handlers --- */

static void respond_text(struct fg_http_request *req, unsigned status, const char *text)
{
    struct fg_buf body;

    fg_buf_init(&body, 1 << 20);
    fg_buf_puts(&body, text);
    fg_http_respond(req, status, "text/plain", &body);
}

/* "METHOD-BITS PATH body" */
static void on_echo(struct fg_http_request *req, void *arg)
{
    struct fg_buf body;

    (void)arg;
    fg_buf_init(&body, 2 * BODY_MAX);
    fg_buf_printf(&body, "%d %.*s ", (int)fg_http_method(req), FG_S(fg_http_path(req)));
    fg_buf_put(&body, fg_http_body(req));
    fg_http_respond(req, 200, "text/plain", &body);
}

static void on_length(struct fg_http_request *req, void *arg)
{
    char text[32];

    (void)arg;
    (void)snprintf(text, sizeof text, "%zu", fg_http_body(req).len);
    respond_text(req, 200, text);
}

static void on_param(struct fg_http_request *req, void *arg)
{
    struct fg_slice a = fg_http_param(req, "a"), second = fg_http_param_at(req, "a", 1);
    struct fg_buf body;

    (void)arg;
    fg_buf_init(&body, 65536);
    fg_buf_printf(&body, "%s%.*s,%s%.*s", a.ptr == NULL ? "none" : "", FG_S(a),
                  second.ptr == NULL ? "none" : "", FG_S(second));
    fg_http_add_header(req, "X-Agent", "line\r\nInjected: yes");
    fg_http_respond(req, 200, "text/plain", &body);
}

static void on_big(struct fg_http_request *req, void *arg)
{
    struct fg_buf body;

    (void)arg;
    fg_buf_init(&body, BIG_BYTES);
    while (body.len < BIG_BYTES)
        fg_buf_putc(&body, (uint8_t)('a' + body.len % 7));
    fg_http_respond(req, 200, "text/plain", &body);
}

static void on_hold(struct fg_http_request *req, void *arg)
{
    struct fixture *f = arg;
    unsigned n = atomic_load(&f->n_held);

    fg_assert(n < HELD_MAX);
    f->held[n] = req;
    atomic_store(&f->n_held, n + 1);
}

static void on_busy(struct fg_http_request *req, void *arg)
{
    struct fg_err err;

    (void)arg;
    (void)fg_fail(&err, FG_E_UNAVAILABLE, "the \"head\" is full");
    fg_http_respond_error(req, &err);
}

/* --- fixture --- */

static void add_routes(struct fixture *f)
{
    const struct fg_http_route routes[] = {
        {FG_HTTP_GET | FG_HTTP_POST, "/echo", false, BODY_MAX, on_echo, NULL, NULL},
        {FG_HTTP_GET, "/assets/", true, 0, on_echo, NULL, NULL},
        {FG_HTTP_POST, "/length", false, BODY_MAX, on_length, NULL, NULL},
        {FG_HTTP_GET, "/param", false, 0, on_param, NULL, NULL},
        {FG_HTTP_GET, "/big", false, 0, on_big, NULL, NULL},
        {FG_HTTP_GET | FG_HTTP_POST, "/hold", false, BUDGET * 2, on_hold, f, NULL},
        {FG_HTTP_GET, "/busy", false, 0, on_busy, NULL, NULL},
    };

    for (size_t i = 0; i < FG_COUNT(routes); i++)
        fg_http_server_route(f->server, &routes[i]);
}

static int setup_with(void **state, const struct fg_http_config *config)
{
    static const struct fg_lane_config lanes[FG_LANES] = {[FG_LANE_QUERY] = {1, 16}};
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    f->config = *config;
    fg_budget_init(&f->budget, BUDGET);
    f->registry = fg_registry_create();
    fg_assert(fg_work_create("test", lanes, &f->work, &err) == FG_OK);
    /* One loop, so that tests with several connections know where they are. */
    f->loops[0] = fg_loop_create("http-0");
    fg_assert(fg_loop_start(f->loops[0], &err) == FG_OK);
    f->server = fg_http_server_create(config, &f->budget, f->work, f->registry);
    add_routes(f);
    fg_assert(fg_http_server_start(f->server, "127.0.0.1:0", f->loops, 1, &err) == FG_OK);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, &(struct fg_http_config)FG_HTTP_CONFIG_DEFAULT);
}

static int setup_hasty(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.head_timeout_ns = config.body_timeout_ns = 150 * FG_MS_NS;
    config.idle_timeout_ns = 300 * FG_MS_NS;
    config.write_timeout_ns = 200 * FG_MS_NS;
    config.drain_ns = 200 * FG_MS_NS;
    return setup_with(state, &config);
}

static int setup_narrow(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.pipeline_max = 2;
    config.connections_max = 2;
    config.head_max_bytes = 1024;
    return setup_with(state, &config);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fg_http_server_stop(f->server);
    fg_http_server_destroy(f->server);
    fg_work_destroy(f->work);
    fg_loop_stop(f->loops[0]);
    fg_loop_destroy(f->loops[0]);
    assert_int_equal(fg_budget_used(&f->budget), 0);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

/* --- clients --- */

static int client(struct fixture *f)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)fg_http_server_port(f->server)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

static void say_bytes(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        assert_true(n > 0);
        at += n;
        len -= (size_t)n;
    }
}

static void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

/* Says it in pieces of one byte, each a packet of its own as far as we can make it. */
static void say_slowly(int fd, const char *text)
{
    for (; *text != '\0'; text++)
        say_bytes(fd, text, 1);
}

/* One complete answer (head and as many body bytes as Content-Length says). */
struct answer {
    char head[4096];
    unsigned status;
    uint8_t *body;
    size_t len;
};

/* false: closed before anything came. */
static bool hear(int fd, struct answer *ret_answer)
{
    size_t len = 0, got = 0;
    const char *length;

    memset(ret_answer, 0, sizeof *ret_answer);
    while (strstr(ret_answer->head, "\r\n\r\n") == NULL) {
        assert_true(len < sizeof ret_answer->head - 1);
        if (recv(fd, ret_answer->head + len, 1, 0) <= 0) {
            assert_int_equal(len, 0);
            return false;
        }
        ret_answer->head[++len] = '\0';
    }
    assert_int_equal(strncmp(ret_answer->head, "HTTP/1.1 ", 9), 0);
    ret_answer->status = (unsigned)strtoul(ret_answer->head + 9, NULL, 10);
    length = strstr(ret_answer->head, "Content-Length: ");
    ret_answer->len = length == NULL ? 0 : strtoul(length + 16, NULL, 10);
    ret_answer->body = fg_calloc(1, ret_answer->len + 1);
    while (got < ret_answer->len) {
        ssize_t n = recv(fd, ret_answer->body + got, ret_answer->len - got, 0);

        assert_true(n > 0);
        got += (size_t)n;
    }
    return true;
}

static void expect(int fd, unsigned status, const char *body)
{
    struct answer answer;

    assert_true(hear(fd, &answer));
    assert_int_equal(answer.status, status);
    if (body != NULL)
        assert_string_equal((char *)answer.body, body);
    free(answer.body);
}

/* The answer's head has to contain the text. */
static void expect_head(int fd, unsigned status, const char *text)
{
    struct answer answer;

    assert_true(hear(fd, &answer));
    assert_int_equal(answer.status, status);
    if (strstr(answer.head, text) == NULL)
        fail_msg("no \"%s\" in:\n%s", text, answer.head);
    free(answer.body);
}

static void expect_closed(int fd)
{
    char byte;

    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

static void expect_silence(int fd, unsigned ms)
{
    char byte;

    (void)usleep(ms * 1000);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
}

#define GET(path)        "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: a\r\n" more

/* --- held requests --- */

static void wait_held(struct fixture *f, unsigned n)
{
    for (int i = 0; i < 5000 && atomic_load(&f->n_held) < n; i++)
        (void)usleep(1000);
    assert_int_equal(atomic_load(&f->n_held), n);
}

struct let_go {
    struct fixture *f;
    unsigned i;
    const char *text;
};

static void let_go_on_loop(void *arg)
{
    struct let_go *let = arg;

    respond_text(let->f->held[let->i], 200, let->text);
}

static void let_go(struct fixture *f, unsigned i, const char *text)
{
    fg_loop_call(f->loops[0], let_go_on_loop, &(struct let_go){f, i, text});
}

/* --- tests --- */

static void test_keep_alive(void **state)
{
    int fd = client(*state);

    for (int i = 0; i < 3; i++) {
        say(fd, GET("/echo"));
        expect(fd, 200, "1 /echo ");
        say(fd, POST("/echo", "Content-Length: 5\r\n\r\nhello"));
        expect(fd, 200, "4 /echo hello");
    }
    say(fd, "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect_head(fd, 200, "Connection: close\r\n");
    expect_closed(fd);
}

static void test_head_of_answer(void **state)
{
    int fd = client(*state);

    say(fd, GET("/echo"));
    expect_head(fd, 200, "\r\nDate: ");
    say(fd, GET("/echo"));
    expect_head(fd, 200, "\r\nContent-Type: text/plain\r\n");
    say(fd, GET("/param"));
    expect_head(fd, 200, "\r\nX-Agent: line  Injected: yes\r\n");
    say(fd, "HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    say(fd, GET("/echo")); /* were there a body, this answer would not be read */
    {
        char head[1024];
        struct answer answer;
        size_t len = 0;

        while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0)
            assert_int_equal(recv(fd, head + len++, 1, 0), 1);
        head[len] = '\0';
        assert_non_null(strstr(head, "Content-Length: 8\r\n"));
        assert_true(hear(fd, &answer));
        assert_string_equal((char *)answer.body, "1 /echo ");
        free(answer.body);
    }
    (void)close(fd);
}

static void test_http10(void **state)
{
    int fd = client(*state);

    say(fd, "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect_head(fd, 200, "Connection: keep-alive\r\n");
    say(fd, "GET /echo HTTP/1.0\r\n\r\n");
    expect_head(fd, 200, "Connection: close\r\n");
    expect_closed(fd);
}

static void test_errors(void **state)
{
    int fd = client(*state);

    say(fd, GET("/nothing"));
    expect_head(fd, 404, "X-Content-Type-Options: nosniff\r\n");
    say(fd, GET("/nothing"));
    expect(fd, 404, "404 page not found\n");
    say(fd, POST("/param", "Content-Length: 3\r\n\r\nabc"));
    expect_head(fd, 405, "Allow: GET, HEAD\r\n");
    say(fd, "OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(fd, 405, "");
    say(fd, GET("/busy"));
    expect_head(fd, 503, "Retry-After: 1\r\n");
    say(fd, GET("/busy"));
    expect(fd, 503, "{\"code\":\"unavailable\",\"message\":\"the \\\"head\\\" is full\"}");
    say(fd, GET("/assets/x%20y/z?q"));
    expect(fd, 200, "1 /assets/x y/z ");
    say(fd, GET("http://elsewhere/echo"));
    expect(fd, 200, "1 /echo ");
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
    int fd = client(*state);

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char text[256];

        print_message("  %s\n", cases[i].query);
        (void)snprintf(text, sizeof text, "GET /param%s HTTP/1.1\r\nHost: a\r\n\r\n",
                       cases[i].query);
        say(fd, text);
        expect(fd, 200, cases[i].want);
    }
    (void)close(fd);
}

static void test_pipelining(void **state)
{
    int fd = client(*state);

    say(fd, POST("/echo", "Content-Length: 1\r\n\r\n1") GET("/nothing") POST(
                "/echo", "Transfer-Encoding: chunked\r\n\r\n1\r\n2\r\n0\r\n\r\n") GET("/echo"));
    expect(fd, 200, "4 /echo 1");
    expect(fd, 404, NULL);
    expect(fd, 200, "4 /echo 2");
    expect(fd, 200, "1 /echo ");
    (void)close(fd);
}

static void test_answers_in_order(void **state)
{
    struct fixture *f = *state;
    int fd = client(f);

    say(fd, GET("/hold") GET("/hold") GET("/echo") GET("/hold"));
    wait_held(f, 3);
    let_go(f, 2, "third");
    let_go(f, 1, "second");
    expect_silence(fd, 30);
    let_go(f, 0, "first");
    expect(fd, 200, "first");
    expect(fd, 200, "second");
    expect(fd, 200, "1 /echo ");
    expect(fd, 200, "third");
    (void)close(fd);
}

/* Not more than pipeline_max at a time; what waits is answered in the end. */
static void test_back_pressure(void **state)
{
    struct fixture *f = *state;
    int fd = client(f);

    for (int i = 0; i < 6; i++)
        say(fd, GET("/hold"));
    wait_held(f, 2);
    (void)usleep(30000);
    wait_held(f, 2);
    for (unsigned i = 0; i < 6; i++) {
        wait_held(f, i < 5 ? i + 2 : 6);
        let_go(f, i, "x");
        expect(fd, 200, "x");
    }
    (void)close(fd);
}

static void test_chunked(void **state)
{
    int fd = client(*state);

    say(fd, POST("/echo", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n"
                          "0\r\nTrailer: x\r\n\r\n"));
    expect(fd, 200, "4 /echo hello world");
    say_slowly(fd, POST("/echo", "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
    expect(fd, 200, "4 /echo abc");
    (void)close(fd);
}

static void test_byte_by_byte(void **state)
{
    int fd = client(*state);

    say_slowly(fd, "\r\n" POST("/echo", "X-Empty:\r\nX:   y  \r\nContent-Length: 5\r\n\r\nhello")
                       GET("/echo"));
    expect(fd, 200, "4 /echo hello");
    expect(fd, 200, "1 /echo ");
    (void)close(fd);
}

static void test_large_bodies(void **state)
{
    static const size_t sizes[] = {1, 2047, 4096, 65535, 65536, 65537, 300000, BODY_MAX};
    int fd = client(*state);
    uint8_t *bytes = fg_calloc(1, BODY_MAX);

    for (size_t i = 0; i < FG_COUNT(sizes); i++) {
        char text[128];

        (void)snprintf(text, sizeof text, POST("/length", "Content-Length: %zu\r\n\r\n"), sizes[i]);
        say(fd, text);
        say_bytes(fd, bytes, sizes[i]);
        (void)snprintf(text, sizeof text, "%zu", sizes[i]);
        expect(fd, 200, text);
        /* The same in two chunks. */
        (void)snprintf(text, sizeof text,
                       POST("/length", "Transfer-Encoding: chunked\r\n\r\n%zx\r\n"), sizes[i]);
        say(fd, text);
        say_bytes(fd, bytes, sizes[i]);
        say(fd, sizes[i] < BODY_MAX ? "\r\n1\r\nx\r\n0\r\n\r\n" : "\r\n0\r\n\r\n");
        (void)snprintf(text, sizeof text, "%zu", sizes[i] + (sizes[i] < BODY_MAX));
        expect(fd, 200, text);
    }
    free(bytes);
    (void)close(fd);
}

static void test_continue(void **state)
{
    struct fixture *f = *state;
    int fd = client(f);

    say(fd, POST("/echo", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    expect_head(fd, 100, "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "hi");
    expect(fd, 200, "4 /echo hi");
    /* After the answers before it, not among them. */
    say(fd, GET("/hold") POST("/echo", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    wait_held(f, 1);
    expect_silence(fd, 20);
    let_go(f, 0, "first");
    expect(fd, 200, "first");
    expect(fd, 100, NULL);
    say(fd, "ho");
    expect(fd, 200, "4 /echo ho");
    /* Refused: told so instead. */
    say(fd, POST("/echo", "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"));
    expect(fd, 413, NULL);
    expect_closed(fd);
    fd = client(f);
    say(fd, POST("/echo", "Expect: a miracle\r\nContent-Length: 1\r\n\r\n"));
    expect(fd, 417, NULL);
    expect_closed(fd);
}

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
        {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        {"HTTP/2.0", "GET /echo HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"TLS", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03", 400},
        {"body too large", POST("/length", "Content-Length: 1048577\r\n\r\n"), 413},
        {"expectation", POST("/echo", "Expect: x\r\nContent-Length: 5\r\n\r\nhello"), 417},
    };

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        int fd = client(*state);

        print_message("  %s\n", cases[i].name);
        if (cases[i].text == NULL)
            say_bytes(fd, "GET /echo HTTP/1.1\r\nHost: a\0b\r\n\r\n", 34);
        else
            say(fd, cases[i].text);
        (void)send(fd, GET("/echo"), strlen(GET("/echo")), MSG_NOSIGNAL);
        expect_head(fd, cases[i].status, "Connection: close\r\n");
        expect_closed(fd);
    }
}

static void test_chunked_too_large(void **state)
{
    int fd = client(*state);
    uint8_t *bytes = fg_calloc(1, BODY_MAX);

    say(fd, POST("/length", "Transfer-Encoding: chunked\r\n\r\n100000\r\n"));
    say_bytes(fd, bytes, BODY_MAX);
    say(fd, "\r\n1\r\nx\r\n0\r\n\r\n");
    expect_head(fd, 413, "Connection: close\r\n");
    expect_closed(fd);
    free(bytes);
}

/* Chunk extensions are bytes that no limit on bodies counts. */
static void test_chunk_extensions(void **state)
{
    int fd = client(*state);
    char text[1024];
    bool cut_off = false;

    memset(text, 'x', sizeof text);
    say(fd, POST("/length", "Transfer-Encoding: chunked\r\n\r\n1;"));
    for (int i = 0; i < 200 && !cut_off; i++)
        cut_off = send(fd, text, sizeof text, MSG_NOSIGNAL) < 0;
    expect(fd, 400, NULL);
    (void)close(fd);
}

static void test_head_too_large(void **state)
{
    char text[3000];
    int fd = client(*state);

    memset(text, 'x', sizeof text);
    memcpy(text, "GET /", 5);
    say_bytes(fd, text, sizeof text);
    expect_head(fd, 431, "Connection: close\r\n");
    expect_closed(fd);
    fd = client(*state);
    for (int i = 0; i < 600; i++)
        (void)send(fd, "\r\n", 2, MSG_NOSIGNAL);
    expect(fd, 431, NULL);
    (void)close(fd);
}

static void test_too_many_headers(void **state)
{
    int fd = client(*state);

    say(fd, "GET /echo HTTP/1.1\r\n");
    for (int i = 0; i < 101; i++)
        say(fd, "X: y\r\n");
    expect(fd, 431, NULL);
    expect_closed(fd);
}

static void test_too_many_connections(void **state)
{
    struct fixture *f = *state;
    int fds[2] = {client(f), client(f)}, third;

    for (int i = 0; i < 2; i++) {
        say(fds[i], GET("/echo"));
        expect(fds[i], 200, NULL);
    }
    third = client(f);
    expect_head(third, 503, "Retry-After: 1\r\n");
    expect_closed(third);
    say(fds[0], GET("/echo"));
    expect(fds[0], 200, NULL);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void test_timeouts(void **state)
{
    struct fixture *f = *state;
    int fd = client(f);

    say(fd, "GET /echo HTT");
    expect(fd, 408, NULL);
    expect_closed(fd);
    fd = client(f);
    say(fd, POST("/echo", "Content-Length: 9\r\n\r\nhel"));
    expect(fd, 408, NULL);
    expect_closed(fd);
    fd = client(f);
    say(fd, GET("/echo"));
    expect(fd, 200, NULL);
    expect_closed(fd); /* idle */
    fd = client(f);
    say(fd, GET("/hold"));
    wait_held(f, 1);
    expect_silence(fd, 400); /* no timeout of ours while a handler works */
    let_go(f, 0, "late");
    expect(fd, 200, "late");
    (void)close(fd);
}

static bool metric_is(struct fixture *f, const char *line)
{
    struct fg_buf text;
    bool found;

    fg_buf_init(&text, 1 << 20);
    fg_registry_write(f->registry, &text);
    fg_buf_putc(&text, '\0');
    found = strstr((char *)text.ptr, line) != NULL;
    fg_buf_done(&text);
    return found;
}

/* Who asks and never reads is cut off, and the answers' memory with it. */
static void test_write_timeout(void **state)
{
    struct fixture *f = *state;
    int fd = client(f), small = 4096;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 300; i++)
        if (send(fd, GET("/big"), strlen(GET("/big")), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    (void)usleep(50000);
    assert_true(metric_is(f, "pyroscope_tcp_connections 1\n"));
    for (int i = 0; i < 300 && !metric_is(f, "pyroscope_tcp_connections 0\n"); i++)
        (void)usleep(10000);
    assert_true(metric_is(f, "pyroscope_tcp_connections 0\n"));
    (void)close(fd);
}

static void test_compressed(void **state)
{
    static uint8_t plain[BIG_BYTES + 1];
    int fd = client(*state);
    struct answer answer;
    z_stream z = {0};

    say(fd, "GET /big HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, deflate\r\n\r\n");
    assert_true(hear(fd, &answer));
    assert_non_null(strstr(answer.head, "Content-Encoding: gzip\r\n"));
    assert_non_null(strstr(answer.head, "Vary: Accept-Encoding\r\n"));
    assert_int_equal(inflateInit2(&z, 31), Z_OK);
    z.next_in = answer.body;
    z.avail_in = (uInt)answer.len;
    z.next_out = plain;
    z.avail_out = sizeof plain;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, BIG_BYTES);
    inflateEnd(&z);
    free(answer.body);

    say(fd, "GET /big HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=0.5, zstd\r\n\r\n");
    assert_true(hear(fd, &answer));
    assert_non_null(strstr(answer.head, "Content-Encoding: zstd\r\n"));
    assert_int_equal(ZSTD_decompress(plain, sizeof plain, answer.body, answer.len), BIG_BYTES);
    assert_int_equal(plain[BIG_BYTES - 1], 'a' + (BIG_BYTES - 1) % 7);
    free(answer.body);

    say(fd, "GET /big HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=0, br\r\n\r\n" GET("/big"));
    for (int i = 0; i < 2; i++) {
        assert_true(hear(fd, &answer));
        assert_null(strstr(answer.head, "Content-Encoding"));
        assert_int_equal(answer.len, BIG_BYTES);
        free(answer.body);
    }
    (void)close(fd);
}

static void test_budget(void **state)
{
    struct fixture *f = *state;
    int first = client(f), second = client(f), third = client(f);
    uint8_t *bytes = fg_calloc(1, BUDGET);

    say(first, POST("/hold", "Content-Length: 4000000\r\n\r\n"));
    say_bytes(first, bytes, 4000000);
    wait_held(f, 1);
    /* A short body is skipped and the connection stays, a long one closes it. */
    say(second, POST("/length", "Content-Length: 200000\r\n\r\n"));
    say_bytes(second, bytes, 200000);
    expect_head(second, 429, "Retry-After: 1\r\n");
    say(third, POST("/length", "Content-Length: 500000\r\n\r\n"));
    expect_head(third, 429, "Connection: close\r\n");
    expect_closed(third);
    third = client(f);
    say(third, POST("/length", "Transfer-Encoding: chunked\r\n\r\n80000\r\n"));
    (void)send(third, bytes, 0x80000, MSG_NOSIGNAL);
    expect_head(third, 429, "Connection: close\r\n");
    (void)close(third);

    let_go(f, 0, "done");
    expect(first, 200, "done");
    say(second, POST("/length", "Content-Length: 200000\r\n\r\n"));
    say_bytes(second, bytes, 200000);
    expect(second, 200, "200000");
    (void)close(first);
    (void)close(second);
    free(bytes);
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
    struct fixture *f = *state;
    int fd = client(f), half = client(f);
    struct ask_gone ask = {0};

    say(fd, POST("/hold", "Content-Length: 5\r\n\r\nhello"));
    wait_held(f, 1);
    ask.req = f->held[0];
    fg_loop_call(f->loops[0], ask_gone, &ask);
    assert_false(ask.gone);
    (void)close(fd);
    for (int i = 0; i < 2000 && !fg_http_gone(f->held[0]); i++)
        (void)usleep(1000);
    assert_true(fg_http_gone(f->held[0]));
    let_go(f, 0, "nobody listens");

    /* Who closed only its sending side still gets the answer. */
    say(half, GET("/hold"));
    wait_held(f, 2);
    assert_int_equal(shutdown(half, SHUT_WR), 0);
    for (int i = 0; i < 2000 && !fg_http_gone(f->held[1]); i++)
        (void)usleep(1000);
    let_go(f, 1, "answer");
    expect(half, 200, "answer");
    expect_closed(half);
}

/* Reset in the middle of everything: handlers answer later, and nothing is left. */
static void test_reset(void **state)
{
    struct fixture *f = *state;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int fd = client(f);

    say(fd, GET("/hold") GET("/hold") POST("/echo", "Content-Length: 100\r\n\r\nx"));
    wait_held(f, 2);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
    for (int i = 0; i < 2000 && !fg_http_gone(f->held[1]); i++)
        (void)usleep(1000);
    let_go(f, 1, "x");
    let_go(f, 0, "y");
}

static void *stop_server(void *arg)
{
    struct fixture *f = arg;

    fg_http_server_stop(f->server);
    return NULL;
}

static void test_drain(void **state)
{
    struct fixture *f = *state;
    int idle = client(f), busy = client(f), partial = client(f);
    pthread_t thread;

    say(idle, GET("/echo"));
    expect(idle, 200, NULL);
    say(busy, GET("/hold") GET("/hold"));
    say(partial, POST("/echo", "Content-Length: 5\r\n\r\nhe"));
    wait_held(f, 2);
    assert_int_equal(pthread_create(&thread, NULL, stop_server, f), 0);
    expect_closed(idle);
    say(partial, "llo");
    expect_head(partial, 200, "Connection: close\r\n");
    expect_closed(partial);
    let_go(f, 1, "second");
    let_go(f, 0, "first");
    expect(busy, 200, "first");
    expect_head(busy, 200, "Connection: close\r\n");
    expect_closed(busy);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A handler that never answers in time: stop returns all the same, and the late answer is harmless.
 */
static void test_drain_gives_up(void **state)
{
    struct fixture *f = *state;
    int fd = client(f);

    say(fd, GET("/hold"));
    wait_held(f, 1);
    fg_http_server_stop(f->server);
    expect_closed(fd);
    assert_true(fg_http_gone(f->held[0]));
    let_go(f, 0, "too late");
}

static void test_metrics(void **state)
{
    struct fixture *f = *state;
    int fd = client(f);

    say(fd, POST("/length", "Content-Length: 1\r\n\r\nx") GET("/nothing"));
    expect(fd, 200, "1");
    expect(fd, 404, NULL);
    assert_true(metric_is(f, "pyroscope_request_duration_seconds_count{method=\"POST\",route="
                             "\"length\",status_code=\"200\",ws=\"false\"} 1\n"));
    assert_true(metric_is(f, "pyroscope_request_duration_seconds_count{method=\"GET\",route="
                             "\"other\",status_code=\"404\",ws=\"false\"} 1\n"));
    assert_true(metric_is(f, "pyroscope_tcp_connections 1\n"));
    assert_true(metric_is(f, "pyroscope_inflight_requests 0\n"));
    assert_true(metric_is(f, "flamegrid_http_refused_total{reason=\"not_found\"} 1\n"));
    (void)close(fd);
}

static void test_listen_errors(void **state)
{
    struct fixture *f = *state;
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct fg_http_server *second = fg_http_server_create(&config, NULL, NULL, NULL);
    struct fg_err err;
    char taken[32];

    (void)snprintf(taken, sizeof taken, "127.0.0.1:%u", fg_http_server_port(f->server));
    assert_int_equal(fg_http_server_start(second, taken, f->loops, 1, &err), FG_E_UNAVAILABLE);
    assert_int_equal(fg_http_server_start(second, "nonsense", f->loops, 1, &err), FG_E_INVALID);
    assert_int_equal(fg_http_server_start(second, "[::1]:99999", f->loops, 1, &err), FG_E_INVALID);
    assert_int_equal(fg_http_server_start(second, ":0", f->loops, 1, &err), FG_OK);
    assert_true(fg_http_server_port(second) > 0);
    fg_http_server_stop(second);
    fg_http_server_destroy(second);
}

/* Two loops: both accept, and stop waits for both. */
static void test_two_loops(void **state)
{
    struct fixture *f = *state;
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct fg_http_server *server = fg_http_server_create(&config, NULL, NULL, NULL);
    struct fixture two = {.server = server};
    struct fg_loop *loops[2] = {f->loops[0], fg_loop_create("http-1")};
    struct fg_err err;
    int fds[16];

    assert_int_equal(fg_loop_start(loops[1], &err), FG_OK);
    fg_http_server_route(server, &(struct fg_http_route){
                                     .methods = FG_HTTP_GET, .path = "/echo", .handler = on_echo});
    assert_int_equal(fg_http_server_start(server, "127.0.0.1:0", loops, 2, &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(fds); i++) {
        fds[i] = client(&two);
        say(fds[i], GET("/echo"));
        expect(fds[i], 200, "1 /echo ");
    }
    fg_http_server_stop(server);
    fg_http_server_destroy(server);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        expect_closed(fds[i]);
    fg_loop_stop(loops[1]);
    fg_loop_destroy(loops[1]);
}

#define TEST(name)        cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_HASTY(name)  cmocka_unit_test_setup_teardown(name, setup_hasty, teardown)
#define TEST_NARROW(name) cmocka_unit_test_setup_teardown(name, setup_narrow, teardown)

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
        TEST(test_refused_for_good),
        TEST(test_chunked_too_large),
        TEST(test_chunk_extensions),
        TEST_NARROW(test_head_too_large),
        TEST(test_too_many_headers),
        TEST_NARROW(test_too_many_connections),
        TEST_HASTY(test_timeouts),
        TEST_HASTY(test_write_timeout),
        TEST(test_compressed),
        TEST(test_budget),
        TEST(test_client_gone),
        TEST(test_reset),
        TEST(test_drain),
        TEST_HASTY(test_drain_gives_up),
        TEST(test_metrics),
        TEST(test_listen_errors),
        TEST(test_two_loops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
