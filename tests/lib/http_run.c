#include "tests/lib/http_run.h"

#include "common/base/str.h"
#include "common/runtime/stop.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* --- handlers --- */

static void respond_text(struct fg_http_request *req, unsigned status, const char *text)
{
    struct fg_buf body;

    fg_buf_init(&body, 1 << 20);
    fg_buf_puts(&body, text);
    fg_http_respond(req, status, "text/plain", &body);
}

void run_echo(struct fg_http_request *req, void *arg)
{
    struct fg_buf body;

    (void)arg;
    fg_buf_init(&body, 2 * RUN_BODY_MAX);
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
    struct fg_slice a = fg_http_param(req, "a"), both[2] = {{0}}, second;
    struct fg_buf body;

    (void)arg;
    second = fg_http_params(req, "a", both, FG_COUNT(both)) > 1 ? both[1] : fg_bytes(NULL, 0);
    fg_buf_init(&body, 65536);
    fg_buf_printf(&body, "%s%.*s,%s%.*s", a.ptr == NULL ? "none" : "", FG_S(a),
                  second.ptr == NULL ? "none" : "", FG_S(second));
    fg_http_add_header(req, "X-Agent", "line\r\nInjected: yes");
    fg_http_respond(req, 200, "text/plain", &body);
}

static void on_header(struct fg_http_request *req, void *arg)
{
    struct fg_slice name = fg_http_param(req, "a"), value;
    char text[256];

    (void)arg;
    (void)snprintf(text, sizeof text, "%.*s", FG_S(name));
    value = fg_http_header(req, text);
    (void)snprintf(text, sizeof text, "%.*s", FG_S(value));
    respond_text(req, 200, value.ptr == NULL ? "none" : text);
}

static void on_cookie(struct fg_http_request *req, void *arg)
{
    struct fg_slice name = fg_http_param(req, "a"), value;
    char text[256];

    (void)arg;
    (void)snprintf(text, sizeof text, "%.*s", FG_S(name));
    value = fg_http_cookie(req, text);
    (void)snprintf(text, sizeof text, "%.*s", FG_S(value));
    respond_text(req, 200, value.ptr == NULL ? "none" : text);
}

static void on_big(struct fg_http_request *req, void *arg)
{
    uint64_t len = RUN_BIG_BYTES;
    struct fg_buf body;

    (void)arg;
    if (fg_http_param(req, "n").len > 0)
        fg_assert(fg_parse_u64(fg_http_param(req, "n"), &len));
    fg_buf_init(&body, len);
    while (body.len < len)
        fg_buf_putc(&body, (uint8_t)('a' + body.len % 7));
    /* As a handler's job does it. */
    if (fg_http_param(req, "encoded").len > 0)
        (void)fg_http_encode(req, &body);
    fg_http_respond(req, 200, "text/plain", &body);
}

static void on_trailers(struct fg_http_request *req, void *arg)
{
    struct fg_buf body;

    (void)arg;
    fg_buf_init(&body, RUN_BODY_MAX);
    fg_buf_put(&body, fg_http_body(req));
    fg_http_add_trailer(req, "Grpc-Status", "0");
    fg_http_add_trailer(req, "Grpc-Message", "line\r\nInjected: yes");
    fg_http_respond(req, 200, "application/grpc", &body);
}

static void on_hold(struct fg_http_request *req, void *arg)
{
    struct http_run *run = arg;
    unsigned n = atomic_load(&run->n_held);

    fg_assert(n < RUN_HELD_MAX);
    run->held[n] = req;
    atomic_store(&run->n_held, n + 1);
}

static void on_done(struct fg_http_request *req, void *arg)
{
    (void)arg;
    respond_text(req, 200, "done");
}

static void on_busy(struct fg_http_request *req, void *arg)
{
    struct fg_err err;

    (void)arg;
    (void)fg_fail(&err, FG_E_UNAVAILABLE, "the \"head\" is full");
    fg_http_respond_error(req, &err);
}

/* --- fixture --- */

static void add_routes(struct http_run *run)
{
    struct fg_http_route routes[] = {
        {FG_HTTP_GET | FG_HTTP_POST, "/echo", false, RUN_BODY_MAX, run_echo, NULL, NULL,
         FG_HTTP_READS, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET, "/assets/", true, 0, run_echo, NULL, NULL, FG_HTTP_READS, FG_SCOPE_READ,
         NULL},
        {FG_HTTP_POST, "/length", false, RUN_BODY_MAX, on_length, NULL, NULL, FG_HTTP_READS,
         FG_SCOPE_READ, NULL},
        {FG_HTTP_POST, "/upload", false, RUN_BODY_MAX, on_length, NULL, NULL, FG_HTTP_READS,
         FG_SCOPE_READ, &run->uploads},
        {FG_HTTP_GET, "/param", false, 0, on_param, NULL, NULL, FG_HTTP_READS, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET, "/header", false, 0, on_header, NULL, NULL, FG_HTTP_READS, FG_SCOPE_READ,
         NULL},
        {FG_HTTP_GET, "/cookie", false, 0, on_cookie, NULL, NULL, FG_HTTP_READS, FG_SCOPE_READ,
         NULL},
        {FG_HTTP_GET, "/big", false, 0, on_big, NULL, NULL, FG_HTTP_READS, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET | FG_HTTP_POST, "/trailers", false, RUN_BODY_MAX, on_trailers, NULL, NULL,
         FG_HTTP_READS, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET | FG_HTTP_POST, "/hold", false, RUN_BUDGET * 2, on_hold, run, NULL,
         FG_HTTP_READS, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET, "/busy", false, 0, on_busy, NULL, NULL, FG_HTTP_READS, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET, "/probe", false, 0, on_done, NULL, NULL, FG_HTTP_PROBE, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET | FG_HTTP_POST, "/change", false, 0, on_done, NULL, NULL, FG_HTTP_CHANGES,
         FG_SCOPE_READ, NULL},
        {FG_HTTP_GET | FG_HTTP_POST | FG_HTTP_DELETE, "/operate", false, 0, on_done, NULL, NULL,
         FG_HTTP_OPERATES, FG_SCOPE_READ, NULL},
    };

    for (size_t i = 0; i < FG_COUNT(routes); i++)
        fg_http_server_route(run->server, &routes[i]);
}

static int set_up(void **state, const struct fg_http_config *config, const char *listen,
                  const struct fg_http_guard *guard)
{
    static const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 1, .queue_max = 16}};
    struct http_run *run = fg_new(struct http_run);
    struct fg_err err;

    fg_ignore_sigpipe(); /* as every program of ours */
    run->config = *config;
    /* It listens on a loopback address, and tests call it by short names. */
    if (config->allowed_hosts == NULL)
        run->config.allowed_hosts = "a, a.test";
    fg_budget_init(&run->budget, RUN_BUDGET);
    fg_budget_init(&run->uploads, RUN_UPLOADS);
    fg_budget_init(&run->heads, RUN_HEADS);
    fg_budget_init(&run->answers, RUN_ANSWERS);
    run->registry = fg_registry_create();
    fg_assert(fg_work_create("test", lanes, &run->work, &err) == FG_OK);
    /* One loop, so that tests with several connections know where they are. */
    run->loop = fg_loop_create("http-0");
    fg_assert(fg_loop_start(run->loop, &err) == FG_OK);
    run->server =
        fg_http_server_create(&run->config, &(struct fg_http_lent){.heads = &run->heads,
                                                                   .bodies = &run->budget,
                                                                   .answers = &run->answers,
                                                                   .work = run->work,
                                                                   .registry = run->registry,
                                                                   .guard = guard});
    add_routes(run);
    fg_assert(fg_http_server_start(run->server, listen, &run->loop, 1, &err) == FG_OK);
    *state = run;
    return 0;
}

int run_setup_on(void **state, const struct fg_http_config *config, const char *listen)
{
    return set_up(state, config, listen, NULL);
}

int run_setup_guarded(void **state, const struct fg_http_guard *guard)
{
    return set_up(state, &(struct fg_http_config)FG_HTTP_CONFIG_DEFAULT, "127.0.0.1:0", guard);
}

int run_setup_with(void **state, const struct fg_http_config *config)
{
    return run_setup_on(state, config, "127.0.0.1:0");
}

int run_setup(void **state)
{
    return run_setup_with(state, &(struct fg_http_config)FG_HTTP_CONFIG_DEFAULT);
}

int run_setup_hasty(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.head_timeout_ns = config.body_timeout_ns = 150 * FG_MS_NS;
    config.idle_timeout_ns = 300 * FG_MS_NS;
    config.write_timeout_ns = 200 * FG_MS_NS;
    config.drain_ns = 200 * FG_MS_NS;
    return run_setup_with(state, &config);
}

int run_setup_narrow(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.pipeline_max = config.streams_max = 2;
    config.connections_max = config.connections_per_address_max = 2;
    config.head_max_bytes = 1024;
    return run_setup_with(state, &config);
}

int run_teardown(void **state)
{
    struct http_run *run = *state;

    fg_http_server_stop(run->server);
    fg_http_server_destroy(run->server);
    fg_work_destroy(run->work);
    fg_loop_stop(run->loop);
    fg_loop_destroy(run->loop);
    assert_int_equal(fg_budget_used(&run->budget), 0);
    assert_int_equal(fg_budget_used(&run->uploads), 0);
    assert_int_equal(fg_budget_used(&run->heads), 0);
    assert_int_equal(fg_budget_used(&run->answers), 0);
    fg_registry_destroy(run->registry);
    free(run);
    return 0;
}

/* --- clients --- */

int run_client(const struct http_run *run)
{
    return run_client_of(fg_http_server_port(run->server));
}

int run_client_of(unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 20};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    /* Else small pieces wait for each other, 40 ms each time. */
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    return fd;
}

void run_say_bytes(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        assert_true(n > 0);
        at += n;
        len -= (size_t)n;
    }
}

void run_say(int fd, const char *text)
{
    run_say_bytes(fd, text, strlen(text));
}

void run_expect_closed(int fd)
{
    char byte;

    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

void run_expect_silence(int fd, unsigned ms)
{
    char byte;

    (void)usleep(ms * 1000);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
}

/* --- answers of HTTP/1.1 --- */

bool run_hear(int fd, struct run_answer *ret_answer)
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

void run_expect(int fd, unsigned status, const char *body)
{
    struct run_answer answer;

    assert_true(run_hear(fd, &answer));
    assert_int_equal(answer.status, status);
    if (body != NULL)
        assert_string_equal((char *)answer.body, body);
    free(answer.body);
}

void run_expect_head(int fd, unsigned status, const char *text)
{
    struct run_answer answer;

    assert_true(run_hear(fd, &answer));
    assert_int_equal(answer.status, status);
    if (strstr(answer.head, text) == NULL)
        fail_msg("no \"%s\" in:\n%s", text, answer.head);
    free(answer.body);
}

/* --- held requests --- */

void run_wait_held(struct http_run *run, unsigned n)
{
    for (int i = 0; i < 5000 && atomic_load(&run->n_held) < n; i++)
        (void)usleep(1000);
    assert_int_equal(atomic_load(&run->n_held), n);
}

struct let_go {
    struct http_run *run;
    unsigned i;
    const char *text;
};

static void let_go_on_loop(void *arg)
{
    struct let_go *let = arg;

    respond_text(let->run->held[let->i], 200, let->text);
}

void run_let_go(struct http_run *run, unsigned i, const char *text)
{
    fg_loop_call(run->loop, let_go_on_loop, &(struct let_go){run, i, text});
}

void run_wait_gone(struct http_run *run, unsigned i)
{
    for (int n = 0; n < 20000 && !fg_http_gone(run->held[i]); n++)
        (void)usleep(1000);
    assert_true(fg_http_gone(run->held[i]));
}

/* --- metrics --- */

bool run_metric_is(struct http_run *run, const char *line)
{
    struct fg_buf text;
    bool found;

    fg_buf_init(&text, 1 << 20);
    fg_registry_write(run->registry, &text);
    fg_buf_putc(&text, '\0');
    found = strstr((char *)text.ptr, line) != NULL;
    fg_buf_done(&text);
    return found;
}

bool run_metric_becomes(struct http_run *run, const char *line)
{
    for (int i = 0; i < 2000 && !run_metric_is(run, line); i++)
        (void)usleep(10000);
    return run_metric_is(run, line);
}
