/* Tests the proxy behind a server, with queriers that answer as the test says, or not at all. */
#include "distributor/query_proxy.h"
#include "tests/lib/fake_server.h"
#include "tests/lib/served.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { QUERIERS = 2, REQUEST_MAX_BYTES = 8192, ANSWER_MAX_BYTES = 65536, HOLE_CLIENTS = 4 };
enum { EVENT_BYTES = 12 * 1024 * 1024 };

/* One querier: its next answer and the last request that it got. */
struct querier {
    struct fake_server *server;
    _Atomic unsigned status; /* 0: it does not answer */
    _Atomic unsigned asked;
    _Atomic unsigned left; /* clients that were not answered and have gone */
    char request[REQUEST_MAX_BYTES];
};

struct fixture {
    struct served served;
    struct dist_query_proxy_settings settings;
    struct dist_query_proxy *proxy;
    struct querier queriers[QUERIERS];
    int hole[1 + HOLE_CLIENTS]; /* sockets of black_hole(); -1: none */
};

/* Answers with an event of progress, and one of EVENT_BYTES. */
static bool answer_events(struct fake_connection *connection)
{
    static const char headers[] = "Content-Type: text/event-stream\r\n";
    struct fg_buf body;
    bool sent;

    fg_buf_init(&body, SIZE_MAX);
    fg_buf_puts(&body, "event: progress\ndata: 1\n\nevent: answer\ndata: ");
    fg_assert(fg_buf_reserve(&body, EVENT_BYTES));
    memset(body.ptr + body.len, 'x', EVENT_BYTES);
    body.len += EVENT_BYTES;
    fg_buf_puts(&body, "\n\n");
    sent = fake_respond(connection, 200, headers, fg_buf_slice(&body));
    fg_buf_done(&body);
    return sent;
}

static void answer(struct fake_connection *connection, void *arg)
{
    static const char headers[] =
        "Content-Type: application/x-flame\r\nX-Flamegrid-Complete: yes\r\n"
        "ETag: \"7\"\r\nKeep-Alive: timeout=5\r\n";
    static char large[2 * ANSWER_MAX_BYTES];
    struct querier *querier = arg;

    while (fake_read(connection, querier->request, sizeof querier->request)) {
        (void)atomic_fetch_add(&querier->asked, 1);
        if (atomic_load(&querier->status) == 0) {
            fake_wait_gone(connection);
            (void)atomic_fetch_add(&querier->left, 1);
            return;
        }
        if (strstr(querier->request, "progress=true") != NULL) {
            if (!answer_events(connection))
                return;
            continue;
        }
        if (!fake_respond(connection, atomic_load(&querier->status), headers,
                          strstr(querier->request, "large") != NULL ? fg_bytes(large, sizeof large)
                                                                    : fg_cstr("flames")))
            return;
    }
}

static void load(struct dist_query_proxy_settings *settings, char *const *env)
{
    struct fg_conf_section section = {"query_proxy", dist_query_proxy_fields,
                                      dist_query_proxy_n_fields, settings};
    struct fg_err err;

    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, env,
                           NULL, 0, &err) == FG_OK);
}

static void unload(struct dist_query_proxy_settings *settings)
{
    struct fg_conf_section section = {"query_proxy", dist_query_proxy_fields,
                                      dist_query_proxy_n_fields, settings};

    fg_conf_done(&(struct fg_conf){.sections = &section, .n_sections = 1});
}

/* Returns a port that drops connection attempts, as an unreachable machine does: the queue of its
 * listener is full, and nobody accepts. */
static unsigned black_hole(int fds[1 + HOLE_CLIENTS])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fg_assert(bind(fds[0], (struct sockaddr *)&address, len) == 0 && listen(fds[0], 0) == 0 &&
              getsockname(fds[0], (struct sockaddr *)&address, &len) == 0);
    for (unsigned i = 1; i <= HOLE_CLIENTS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&address, len);
    }
    return ntohs(address.sin_port);
}

static int setup_with(void **state, bool hole)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 1, .queue_max = 16}};
    struct fixture *f = fg_new(struct fixture);
    char urls[200], *env[] = {urls, NULL};
    unsigned first_port;
    struct fg_err err;

    for (unsigned i = 0; i <= HOLE_CLIENTS; i++)
        f->hole[i] = -1;
    for (unsigned i = 0; i < QUERIERS; i++) {
        atomic_store(&f->queriers[i].status, 200);
        f->queriers[i].server = fake_server_start(NULL, false, answer, &f->queriers[i]);
    }
    first_port = hole ? black_hole(f->hole) : fake_server_port(f->queriers[0].server);
    (void)snprintf(urls, sizeof urls,
                   "FG_QUERY_PROXY_URLS=http://127.0.0.1:%u/, http://127.0.0.1:%u", first_port,
                   fake_server_port(f->queriers[1].server));
    load(&f->settings, env);
    f->settings.answer_max_bytes = ANSWER_MAX_BYTES;
    served_open(&f->served, lanes);
    fg_assert(dist_query_proxy_create(
                  &(struct dist_query_proxy_config){.settings = &f->settings,
                                                    .memory_max_bytes = UINT64_C(1) << 30,
                                                    .registry = f->served.registry},
                  &f->proxy, &err) == FG_OK);
    dist_query_proxy_routes(f->proxy, f->served.server);
    fg_assert(dist_query_proxy_start(f->proxy, &err) == FG_OK);
    served_start(&f->served);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, false);
}

static int setup_with_hole(void **state)
{
    return setup_with(state, true);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    dist_query_proxy_stop(f->proxy);
    served_stop(&f->served);
    dist_query_proxy_destroy(f->proxy);
    served_close(&f->served);
    for (unsigned i = 0; i < QUERIERS; i++)
        if (f->queriers[i].server != NULL)
            fake_server_stop(f->queriers[i].server);
    for (unsigned i = 0; i <= HOLE_CLIENTS; i++)
        if (f->hole[i] >= 0)
            (void)close(f->hole[i]);
    unload(&f->settings);
    free(f);
    return 0;
}

static unsigned ask(struct fixture *f, const char *request, const char *body)
{
    return served_ask(&f->served, request, body);
}

static unsigned asked(const struct fixture *f)
{
    return atomic_load(&f->queriers[0].asked) + atomic_load(&f->queriers[1].asked);
}

static void expect_count(struct fixture *f, const char *line)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(f->served.registry, &text);
    fg_buf_putc(&text, '\0');
    if (strstr((const char *)text.ptr, line) == NULL)
        fail_msg("no %s in\n%s", line, (const char *)text.ptr);
    fg_buf_done(&text);
}

/* ---- tests ---- */

static void a_query_and_its_answer_pass_unchanged(void **state)
{
    struct fixture *f = *state;
    const char *request = f->queriers[0].request;

    assert_int_equal(ask(f,
                         "GET /pyroscope/render?query=a%7Bb%3D%22c%22%7D&from=now-1h HTTP/1.1\r\n"
                         "X-Scope-OrgID: acme\r\nAccept: text/x\r\nCookie: secret=1",
                         NULL),
                     200);
    assert_non_null(strstr(request, "GET /pyroscope/render?query=a%7Bb%3D%22c%22%7D&from=now-1h "));
    assert_non_null(strstr(request, "X-Scope-OrgID: acme\r\n"));
    assert_non_null(strstr(request, "Accept: text/x\r\n"));
    assert_non_null(strstr(request, "Cookie: secret=1\r\n")); /* who asks, the querier decides */
    assert_string_equal(http_ask_body(&f->served.answer), "flames");
    assert_true(http_ask_head_has(&f->served.answer, "Content-Type: application/x-flame\r\n"));
    assert_true(http_ask_head_has(&f->served.answer, "X-Flamegrid-Complete: yes\r\n"));
    assert_true(http_ask_head_has(&f->served.answer, "ETag: \"7\"\r\n"));
    assert_false(http_ask_head_has(&f->served.answer, "Keep-Alive"));
    expect_count(f, "flamegrid_query_proxy_requests_total{result=\"answered\"} 1");
}

static void the_body_of_a_call_reaches_the_querier(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ask(f,
                         "POST /querier.v1.QuerierService/LabelNames HTTP/1.1\r\n"
                         "Content-Type: application/json\r\nConnect-Protocol-Version: 1",
                         "{\"start\":1}"),
                     200);
    assert_non_null(strstr(f->queriers[0].request, "POST /querier.v1.QuerierService/LabelNames "));
    assert_non_null(strstr(f->queriers[0].request, "Connect-Protocol-Version: 1\r\n"));
    assert_non_null(strstr(f->queriers[0].request, "\r\n\r\n{\"start\":1}"));
    assert_int_equal(ask(f, "POST /querier.v1.QuerierService/Series HTTP/1.1", ""), 200);
}

static void a_refusal_of_a_querier_is_the_answer(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->queriers[0].status, 429);
    assert_int_equal(ask(f, "GET /pyroscope/render HTTP/1.1", NULL), 429);
    /* The querier has not said that asking again may help. */
    assert_false(http_ask_head_has(&f->served.answer, "Retry-After"));
    assert_int_equal(asked(f), 1);
}

static void queriers_take_turns(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(ask(f, "GET / HTTP/1.1", NULL), 200);
    assert_int_equal(atomic_load(&f->queriers[0].asked), 3);
    assert_int_equal(atomic_load(&f->queriers[1].asked), 3);
}

static void the_next_querier_is_asked_if_one_is_down_or_not_ready(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->queriers[0].status, 503);
    assert_int_equal(ask(f, "GET /assets/index.js HTTP/1.1", NULL), 200);
    expect_count(f, "flamegrid_query_proxy_retries_total 1");
    /* From now on this querier is asked last. */
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ask(f, "GET / HTTP/1.1", NULL), 200);
    assert_int_equal(atomic_load(&f->queriers[0].asked), 1);
    expect_count(f, "flamegrid_query_proxy_retries_total 1");
    /* It is asked if it is the only one. */
    atomic_store(&f->queriers[0].status, 200);
    fake_server_stop(fg_take(f->queriers[1].server));
    assert_int_equal(ask(f, "GET / HTTP/1.1", NULL), 200);
    assert_int_equal(atomic_load(&f->queriers[0].asked), 2);
}

static void without_a_querier_the_client_gets_503_with_retry_after(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < QUERIERS; i++)
        fake_server_stop(fg_take(f->queriers[i].server));
    assert_int_equal(ask(f, "GET /pyroscope/render HTTP/1.1", NULL), 503);
    assert_true(http_ask_head_has(&f->served.answer, "Retry-After: 1\r\n"));
    assert_string_equal(
        http_ask_body(&f->served.answer),
        "{\"code\":\"unavailable\",\"message\":\"no querier answered, try again\"}");
    expect_count(f, "flamegrid_query_proxy_requests_total{result=\"unavailable\"} 1");
    expect_count(f, "flamegrid_query_proxy_running 0");
}

static void a_hanging_querier_costs_at_most_the_timeout(void **state)
{
    struct fixture *f = *state;

    f->settings.timeout_ns = FG_SECOND_NS; /* in which a busy machine has asked it as well */
    atomic_store(&f->queriers[0].status, 0);
    assert_int_equal(ask(f, "GET /pyroscope/render HTTP/1.1", NULL), 503);
    assert_true(http_ask_head_has(&f->served.answer, "Retry-After: 1\r\n"));
    assert_int_equal(asked(f), 1);
}

static void a_querier_whose_machine_is_gone_costs_no_more_than_the_connect_timeout(void **state)
{
    struct fixture *f = *state;

    f->settings.connect_timeout_ns = 100 * FG_MS_NS;
    assert_int_equal(ask(f, "GET /pyroscope/render HTTP/1.1", NULL), 200);
    expect_count(f, "flamegrid_query_proxy_retries_total 1");
}

static void a_response_beyond_the_limit_is_an_error_of_the_server(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ask(f, "GET /pyroscope/render?large HTTP/1.1", NULL), 500);
    assert_non_null(strstr(http_ask_body(&f->served.answer), "query_proxy.answer_max_bytes"));
    expect_count(f, "flamegrid_query_proxy_response_bytes 0");
    assert_int_equal(ask(f, "GET /pyroscope/render HTTP/1.1", NULL), 200);
}

static void a_large_event_passes(void **state)
{
    struct fixture *f = *state;
    const char *body;

    f->settings.answer_max_bytes = 2 * (uint64_t)EVENT_BYTES;
    assert_int_equal(ask(f, "GET /pyroscope/render?progress=true HTTP/1.1", NULL), 200);
    body = http_ask_body(&f->served.answer);
    assert_non_null(strstr(body, "event: progress\ndata: 1\n\n"));
    assert_non_null(strstr(body, "event: answer\ndata: x"));
    assert_true(f->served.answer.len > EVENT_BYTES);
}

static void grpc_is_refused_with_the_reason(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ask(f,
                         "POST /querier.v1.QuerierService/Series HTTP/1.1\r\n"
                         "Content-Type: application/grpc+proto",
                         "x"),
                     415);
    assert_non_null(strstr(http_ask_body(&f->served.answer), "use Connect or gRPC-web"));
    assert_int_equal(ask(f, "GET /metrics HTTP/1.1", NULL), 404);
    assert_int_equal(asked(f), 0);
    expect_count(f, "flamegrid_query_proxy_requests_total{result=\"refused\"} 1");
}

/* A path can name anything, such as a label, and must not become another part of the URL. */
static void paths_keep_their_escapes(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ask(f, "GET /api/labels/a%20b%3Fc%23d%25%C3%A9?limit=1 HTTP/1.1", NULL), 200);
    assert_non_null(
        strstr(f->queriers[0].request, "GET /api/labels/a%20b%3Fc%23d%25%C3%A9?limit=1 HTTP"));
}

static void requests_that_change_something_pass_with_their_method_and_header(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ask(f, "DELETE /api/adhoc/7 HTTP/1.1\r\nX-Flamegrid-Action: x", NULL), 200);
    assert_non_null(strstr(f->queriers[0].request, "DELETE /api/adhoc/7 HTTP"));
    assert_non_null(strstr(f->queriers[0].request, "X-Flamegrid-Action: x\r\n"));
    assert_int_equal(ask(f, "PUT /api/adhoc/8 HTTP/1.1\r\nX-Flamegrid-Partial: true", "flames"),
                     200);
    assert_non_null(strstr(f->queriers[1].request, "PUT /api/adhoc/8 HTTP"));
    assert_non_null(strstr(f->queriers[1].request, "X-Flamegrid-Partial: true\r\n"));
    assert_non_null(strstr(f->queriers[1].request, "\r\n\r\nflames"));
    /* The querier takes every request of ours for one that no browser has sent. */
    assert_int_equal(ask(f, "DELETE /api/adhoc/9 HTTP/1.1\r\nOrigin: https://other.example", NULL),
                     403);
    assert_int_equal(asked(f), 2);
}

static void a_client_that_disconnects_ends_its_query(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port =
                                      htons((uint16_t)fg_http_server_port(f->served.server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char request[] = "GET /pyroscope/render HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    atomic_store(&f->queriers[0].status, 0); /* it answers when its own client has gone: never */
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(write(client, request, sizeof request - 1), sizeof request - 1);
    while (asked(f) == 0)
        (void)sched_yield();
    (void)close(client);
    while (atomic_load(&f->queriers[0].left) == 0) /* for ever, if nobody ends it */
        (void)sched_yield();
    dist_query_proxy_stop(f->proxy); /* what is under way would count as answered by 503 */
    expect_count(f, "flamegrid_query_proxy_requests_total{result=\"canceled\"} 1");
    expect_count(f, "flamegrid_query_proxy_running 0");
}

static void *ask_in_the_background(void *arg)
{
    struct fixture *f = arg;

    return (void *)(uintptr_t)ask(f, "GET /pyroscope/render HTTP/1.1", NULL);
}

static void stop_answers_requests_in_progress(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    void *status;

    atomic_store(&f->queriers[0].status, 0);
    fg_assert(pthread_create(&thread, NULL, ask_in_the_background, f) == 0);
    while (asked(f) == 0)
        (void)sched_yield();
    dist_query_proxy_stop(f->proxy);
    (void)pthread_join(thread, &status);
    assert_int_equal((uintptr_t)status, 503);
}

static void wrong_urls_are_refused_with_the_setting(void **state)
{
    static const char *const wrong[] = {"querier-1:4040", "http://a, ftp://b", "http://a?b",
                                        "http://a b"};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        struct dist_query_proxy_settings settings = {0};
        struct fg_registry *registry = fg_registry_create();
        char urls[200], *env[] = {urls, NULL};
        struct dist_query_proxy *proxy;
        struct fg_err err;

        (void)snprintf(urls, sizeof urls, "FG_QUERY_PROXY_URLS=%s", wrong[i]);
        load(&settings, env);
        assert_int_equal(
            dist_query_proxy_create(&(struct dist_query_proxy_config){.settings = &settings,
                                                                      .memory_max_bytes = 1 << 20,
                                                                      .registry = registry},
                                    &proxy, &err),
            FG_E_INVALID);
        assert_non_null(strstr(err.msg, "setting query_proxy.urls: \""));
        unload(&settings);
        fg_registry_destroy(registry);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_query_and_its_answer_pass_unchanged, setup, teardown),
        cmocka_unit_test_setup_teardown(the_body_of_a_call_reaches_the_querier, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_of_a_querier_is_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(queriers_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(the_next_querier_is_asked_if_one_is_down_or_not_ready,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_querier_the_client_gets_503_with_retry_after,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_hanging_querier_costs_at_most_the_timeout, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_querier_whose_machine_is_gone_costs_no_more_than_the_connect_timeout, setup_with_hole,
            teardown),
        cmocka_unit_test_setup_teardown(a_response_beyond_the_limit_is_an_error_of_the_server,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_event_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(grpc_is_refused_with_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(paths_keep_their_escapes, setup, teardown),
        cmocka_unit_test_setup_teardown(
            requests_that_change_something_pass_with_their_method_and_header, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_disconnects_ends_its_query, setup, teardown),
        cmocka_unit_test_setup_teardown(stop_answers_requests_in_progress, setup, teardown),
        cmocka_unit_test(wrong_urls_are_refused_with_the_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
