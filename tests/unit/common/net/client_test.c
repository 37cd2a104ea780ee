/*
 * The client on a loop of its own, against a server that answers as the path says. The test's
 * thread sends by way of the loop and waits for done().
 */
#include "common/net/client.h"
#include "common/runtime/stop.h"
#include "tests/lib/fake_server.h"

#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { BIG_BYTES = 100000, BUDGET_BYTES = 150000, RUNNING_MAX = 2, WAITING_MAX = 2 };

struct fixture {
    struct fg_loop *loop;
    struct fg_client *client;
    struct fg_budget budget;
    struct fake_identity identity;
    struct fake_server *server, *tls, *strict;
    _Atomic unsigned connections, held, silent; /* silent: requests that came for /silent */
    _Atomic bool let_go;
    unsigned connection_max_s; /* of the client */
};

/* A request and the test's wait for it. */
struct ask {
    struct fg_client_request request;
    struct fixture *f;
    char url[300];
    struct fg_buf streamed;
    size_t stream_max;
    sem_t done;
};

static _Atomic unsigned looking_up;
static _Atomic bool names_known;

/* Look-ups of names, which take as long as the test says. The linker gives libcurl this one too. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    (void)node, (void)service, (void)hints, (void)result;
    (void)atomic_fetch_add(&looking_up, 1);
    while (!atomic_load(&names_known))
        (void)usleep(1000);
    (void)atomic_fetch_sub(&looking_up, 1);
    return EAI_AGAIN;
}

/* ---- the server ---- */

static void answer_stream(struct fake_connection *connection)
{
    (void)fake_write(connection, FG_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    (void)fake_write_chunk(connection, FG_LIT("one\ntw"));
    (void)fake_write_chunk(connection, FG_LIT("o\nthree\n"));
    (void)fake_write_chunk(connection, FG_LIT(""));
}

static void answer_big(struct fake_connection *connection, bool chunked)
{
    char *bytes = fg_malloc(BIG_BYTES);

    memset(bytes, 'x', BIG_BYTES);
    if (chunked) {
        (void)fake_write(connection,
                         FG_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
        (void)fake_write_chunk(connection, fg_bytes(bytes, BIG_BYTES));
        (void)fake_write_chunk(connection, FG_LIT(""));
    } else {
        (void)fake_respond(connection, 200, "", fg_bytes(bytes, BIG_BYTES));
    }
    free(bytes);
}

static void answer(struct fake_connection *connection, const char *request, struct fixture *f)
{
    struct fg_slice text = fg_cstr(request);

    if (fg_slice_search(text, " /stream") != SIZE_MAX)
        answer_stream(connection);
    else if (fg_slice_search(text, " /big") != SIZE_MAX)
        answer_big(connection, fg_slice_search(text, " /big-chunked") != SIZE_MAX);
    else if (fg_slice_search(text, " /404") != SIZE_MAX)
        (void)fake_respond(connection, 404, "", FG_LIT("no such thing"));
    else if (fg_slice_search(text, " /redirect") != SIZE_MAX)
        (void)fake_respond(connection, 302, "Location: /echo\r\n", FG_LIT(""));
    else if (fg_slice_search(text, "HEAD") == 0)
        (void)fake_write(connection, FG_LIT("HTTP/1.1 200 OK\r\nContent-Length: 77\r\n"
                                            "ETag: \"abc\"\r\n\r\n"));
    else if (fg_slice_search(text, " /hold") != SIZE_MAX) {
        (void)atomic_fetch_add(&f->held, 1);
        while (!atomic_load(&f->let_go))
            (void)usleep(1000);
        (void)fake_respond(connection, 200, "", FG_LIT("held"));
    } else if (fg_slice_search(text, " /silent") != SIZE_MAX) {
        (void)atomic_fetch_add(&f->silent, 1);
        (void)atomic_fetch_add(&f->held, 1);
        fake_wait_gone(connection);
        (void)atomic_fetch_sub(&f->held, 1);
    } else {
        (void)fake_respond(connection, 200, "X-Kind:  echo \r\n", text);
    }
}

static void handle(struct fake_connection *connection, void *arg)
{
    struct fixture *f = arg;
    char request[8192];

    (void)atomic_fetch_add(&f->connections, 1);
    while (fake_read(connection, request, sizeof request))
        answer(connection, request, f);
}

/* ---- fixture ---- */

static void create_client(void *arg)
{
    struct fixture *f = arg;

    f->client = fg_client_create(&(struct fg_client_config){
        .loop = f->loop,
        .running_max = RUNNING_MAX,
        .waiting_max = WAITING_MAX,
        .budget = &f->budget,
        .connection_max_s = f->connection_max_s,
    });
}

static void close_client(void *arg)
{
    struct fixture *f = arg;

    fg_client_close(f->client);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    fg_ignore_sigpipe();
    fake_identity_create(&f->identity);
    f->server = fake_server_start(NULL, false, handle, f);
    f->tls = fake_server_start(&f->identity, false, handle, f);
    f->strict = fake_server_start(&f->identity, true, handle, f);
    fg_budget_init(&f->budget, BUDGET_BYTES);
    f->loop = fg_loop_create("test");
    assert_int_equal(fg_loop_start(f->loop, &err), FG_OK);
    fg_loop_call(f->loop, create_client, f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fg_budget_used(&f->budget), 0);
    fg_loop_call(f->loop, close_client, f);
    fg_loop_stop(f->loop);
    fg_client_destroy(f->client);
    fg_loop_destroy(f->loop);
    fake_server_stop(f->server);
    fake_server_stop(f->tls);
    fake_server_stop(f->strict);
    fake_identity_destroy(&f->identity);
    free(f);
    return 0;
}

/* ---- requests ---- */

static void on_done(struct fg_client_request *request)
{
    (void)sem_post(&fg_container(request, struct ask, request)->done);
}

static struct ask *ask_create(struct fixture *f, struct fake_server *server, const char *path)
{
    struct ask *ask = fg_new(struct ask);

    ask->f = f;
    (void)snprintf(ask->url, sizeof ask->url, "%s://127.0.0.1:%u%s",
                   server == f->server ? "http" : "https", fake_server_port(server), path);
    fg_buf_init(&ask->streamed, 1 << 20);
    ask->request.url = ask->url;
    ask->request.timeout_ns = 20 * FG_SECOND_NS;
    ask->request.body_max_bytes = 1 << 20;
    ask->request.done = on_done;
    assert_int_equal(sem_init(&ask->done, 0, 0), 0);
    return ask;
}

static void send_on_loop(void *arg)
{
    struct ask *ask = arg;

    fg_client_send(ask->f->client, &ask->request);
}

static void cancel_on_loop(void *arg)
{
    fg_client_cancel(&((struct ask *)arg)->request);
}

static void clear_on_loop(void *arg)
{
    fg_client_clear(&((struct ask *)arg)->request);
}

static void ask_send(struct ask *ask)
{
    fg_loop_call(ask->f->loop, send_on_loop, ask);
}

static void ask_wait(struct ask *ask)
{
    while (sem_wait(&ask->done) != 0)
        continue;
}

static enum fg_code ask_now(struct ask *ask)
{
    ask_send(ask);
    ask_wait(ask);
    return ask->request.code;
}

static void ask_destroy(struct ask *ask)
{
    fg_loop_call(ask->f->loop, clear_on_loop, ask);
    fg_buf_done(&ask->streamed);
    (void)sem_destroy(&ask->done);
    free(ask);
}

static struct fg_slice answer_of(const struct ask *ask)
{
    return fg_buf_slice(&ask->request.answer);
}

static void assert_has(struct fg_slice text, const char *part)
{
    if (fg_slice_search(text, part) == SIZE_MAX)
        fail_msg("no \"%s\" in: %.*s", part, FG_S(text));
}

static void assert_says(const struct ask *ask, enum fg_code code, const char *part)
{
    assert_string_equal(fg_code_name(ask->request.code), fg_code_name(code));
    assert_has(fg_cstr(ask->request.err.msg), part);
    assert_has(fg_cstr(ask->request.err.msg), "127.0.0.1:");
}

static void wait_for(const _Atomic unsigned *value, unsigned want)
{
    while (atomic_load(value) != want)
        (void)usleep(1000);
}

/* ---- tests ---- */

static void a_get_brings_status_headers_and_body(void **state)
{
    static const char *const headers[] = {"X-Of-Mine: 7", NULL};
    struct ask *ask = ask_create(*state, ((struct fixture *)*state)->server, "/echo?seconds=5");

    ask->request.headers = headers;
    assert_int_equal(ask_now(ask), FG_OK);
    assert_int_equal(ask->request.status, 200);
    assert_has(answer_of(ask), "GET /echo?seconds=5 HTTP/1.1\r\n");
    assert_has(answer_of(ask), "X-Of-Mine: 7\r\n");
    assert_has(answer_of(ask), "User-Agent: flamegrid");
    assert_true(fg_slice_is(fg_client_header(&ask->request, "x-kind"), "echo"));
    assert_null(fg_client_header(&ask->request, "kind").ptr);
    ask_destroy(ask);
}

static void any_method_may_have_a_body(void **state)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE"};
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(methods); i++) {
        struct ask *ask = ask_create(f, f->server, "/echo");
        char line[32];

        ask->request.method = methods[i];
        ask->request.body = FG_LIT("a \0 body");
        assert_int_equal(ask_now(ask), FG_OK);
        (void)snprintf(line, sizeof line, "%s /echo", methods[i]);
        assert_has(answer_of(ask), line);
        assert_has(answer_of(ask), "Content-Length: 8\r\n");
        assert_int_equal(fg_slice_search(answer_of(ask), "Content-Type"), SIZE_MAX);
        assert_int_equal(fg_slice_search(answer_of(ask), "Expect"), SIZE_MAX);
        ask_destroy(ask);
    }
}

static void a_head_request_gets_headers_only(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/object");

    ask->request.method = "HEAD";
    assert_int_equal(ask_now(ask), FG_OK);
    assert_true(fg_slice_is(fg_client_header(&ask->request, "etag"), "\"abc\""));
    assert_true(fg_slice_is(fg_client_header(&ask->request, "Content-Length"), "77"));
    assert_int_equal(answer_of(ask).len, 0);
    ask_destroy(ask);
}

/* Its Content-Length is another's: nothing of that length comes. */
static void a_head_request_may_announce_more_than_the_limit(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/object");

    ask->request.method = "HEAD";
    ask->request.body_max_bytes = 10;
    assert_int_equal(ask_now(ask), FG_OK);
    assert_true(fg_slice_is(fg_client_header(&ask->request, "Content-Length"), "77"));
    ask_destroy(ask);
}

static void once_requests_use_a_new_connection(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 4; i++) {
        struct ask *ask = ask_create(f, f->server, "/echo");

        ask->request.once = i >= 2;
        assert_int_equal(ask_now(ask), FG_OK);
        assert_true(ask->request.sent);
        assert_int_equal(atomic_load(&f->connections), i < 2 ? 1 : i);
        ask_destroy(ask);
    }
}

/* The server would keep it for ever. */
static void old_connections_take_no_further_request(void **state)
{
    struct fixture *f = *state;

    fg_loop_call(f->loop, close_client, f);
    fg_client_destroy(f->client);
    f->connection_max_s = 1;
    fg_loop_call(f->loop, create_client, f);
    for (unsigned i = 1; i <= 2; i++) {
        struct ask *ask = ask_create(f, f->server, "/echo");

        assert_int_equal(ask_now(ask), FG_OK);
        assert_int_equal(atomic_load(&f->connections), i);
        ask_destroy(ask);
        if (i == 1)
            (void)usleep(2200 * 1000); /* libcurl counts in seconds */
    }
}

static void says_whether_a_request_has_left(void **state)
{
    struct fixture *f = *state;
    struct ask *ask;
    bool sent = false;

    /* Where the machine is busy the deadline may come before the request has left. */
    for (int64_t timeout_ns = FG_SECOND_NS / 20; !sent; timeout_ns *= 2) {
        assert_true(timeout_ns < FG_MINUTE_NS);
        ask = ask_create(f, f->server, "/silent");
        ask->request.timeout_ns = timeout_ns;
        assert_int_equal(ask_now(ask), FG_E_DEADLINE);
        sent = ask->request.sent;
        ask_destroy(ask);
    }
    wait_for(&f->silent, 1);
    ask = ask_create(f, f->server, "/silent");
    ask_send(ask);
    wait_for(&f->silent, 2);
    fg_loop_call(f->loop, cancel_on_loop, ask);
    assert_true(ask->request.sent);
    ask_destroy(ask);
    ask = ask_create(f, f->server, "/echo");
    ask->request.url = "http://127.0.0.1:1/";
    assert_int_equal(ask_now(ask), FG_E_UNAVAILABLE);
    assert_false(ask->request.sent);
    ask_destroy(ask);
}

static void any_status_counts_as_an_answer(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/404");

    assert_int_equal(ask_now(ask), FG_OK);
    assert_int_equal(ask->request.status, 404);
    assert_true(fg_slice_is(answer_of(ask), "no such thing"));
    ask_destroy(ask);
}

static void redirects_are_not_followed(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/redirect");

    assert_int_equal(ask_now(ask), FG_OK);
    assert_int_equal(ask->request.status, 302);
    assert_true(fg_slice_is(fg_client_header(&ask->request, "Location"), "/echo"));
    ask_destroy(ask);
}

static void connections_are_used_again(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 5; i++) {
        struct ask *ask = ask_create(f, f->server, "/echo");

        assert_int_equal(ask_now(ask), FG_OK);
        ask_destroy(ask);
    }
    assert_int_equal(atomic_load(&f->connections), 1);
}

static void failures_name_the_url_and_no_password(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/");

    (void)snprintf(ask->url, sizeof ask->url, "http://user:secret@127.0.0.1:1/path?q=1");
    (void)ask_now(ask);
    assert_says(ask, FG_E_UNAVAILABLE, "http://127.0.0.1:1/path?q=1: ");
    assert_int_equal(fg_slice_search(fg_cstr(ask->request.err.msg), "secret"), SIZE_MAX);
    ask_destroy(ask);

    ask = ask_create(f, f->server, "/");
    (void)snprintf(ask->url, sizeof ask->url, "file:///etc/passwd?127.0.0.1:");
    (void)ask_now(ask);
    assert_says(ask, FG_E_INVALID, "file");
    ask_destroy(ask);
}

static void late_ingesters_are_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/silent");

    ask->request.timeout_ns = 100 * FG_MS_NS;
    (void)ask_now(ask);
    assert_says(ask, FG_E_DEADLINE, "imed out");
    wait_for(&f->held, 0);
    ask_destroy(ask);
}

static void input_that_is_too_large_is_refused(void **state)
{
    static const char *const paths[] = {"/big", "/big-chunked"};
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(paths); i++) {
        struct ask *ask = ask_create(f, f->server, paths[i]);

        ask->request.body_max_bytes = BIG_BYTES - 1;
        (void)ask_now(ask);
        assert_says(ask, FG_E_TOO_LARGE, "");
        ask_destroy(ask);

        ask = ask_create(f, f->server, paths[i]);
        ask->request.body_max_bytes = BIG_BYTES;
        assert_int_equal(ask_now(ask), FG_OK);
        assert_int_equal(answer_of(ask).len, BIG_BYTES);
        ask_destroy(ask);
    }
}

static void answers_share_a_budget(void **state)
{
    struct fixture *f = *state;
    struct ask *first = ask_create(f, f->server, "/big");
    struct ask *second = ask_create(f, f->server, "/big");

    assert_int_equal(ask_now(first), FG_OK);
    assert_int_equal(fg_budget_used(&f->budget), BIG_BYTES);
    (void)ask_now(second);
    assert_says(second, FG_E_LIMIT, "memory");
    ask_destroy(first);
    assert_int_equal(ask_now(second), FG_OK); /* once more, with the same request */
    ask_destroy(second);
}

static bool on_chunk(struct fg_client_request *request, struct fg_slice chunk)
{
    struct ask *ask = fg_container(request, struct ask, request);

    fg_buf_put(&ask->streamed, chunk);
    return ask->streamed.len < ask->stream_max;
}

static void streams_come_piece_by_piece(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/stream");

    ask->request.on_chunk = on_chunk;
    ask->request.body_max_bytes = 4; /* is not for streams */
    ask->stream_max = 1000;
    assert_int_equal(ask_now(ask), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&ask->streamed), "one\ntwo\nthree\n"));
    assert_int_equal(answer_of(ask).len, 0);
    ask_destroy(ask);
}

static void a_stream_ends_when_its_receiver_has_enough(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/stream");

    ask->request.on_chunk = on_chunk;
    ask->stream_max = 3;
    (void)ask_now(ask);
    assert_says(ask, FG_E_CANCELED, "ended");
    ask_destroy(ask);
}

static void a_refused_stream_returns_its_body(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/404");

    ask->request.on_chunk = on_chunk;
    assert_int_equal(ask_now(ask), FG_OK);
    assert_int_equal(ask->request.status, 404);
    assert_true(fg_slice_is(answer_of(ask), "no such thing"));
    assert_int_equal(ask->streamed.len, 0);
    ask_destroy(ask);
}

static void certificates_are_checked(void **state)
{
    struct fixture *f = *state;
    struct fg_client_tls tls = {0};
    struct ask *ask = ask_create(f, f->tls, "/echo");

    (void)ask_now(ask); /* nobody we know has signed it */
    assert_says(ask, FG_E_UNAVAILABLE, "certificate");
    ask->request.tls = &tls;
    tls.insecure = true;
    assert_int_equal(ask_now(ask), FG_OK);
    tls = (struct fg_client_tls){.ca_file = f->identity.cert};
    assert_int_equal(ask_now(ask), FG_OK);
    tls.ca_file = "/nowhere/ca.pem";
    (void)ask_now(ask);
    assert_says(ask, FG_E_INVALID, "/nowhere/ca.pem");
    ask_destroy(ask);
}

static void a_client_certificate_is_sent_if_the_server_asks(void **state)
{
    struct fixture *f = *state;
    struct fg_client_tls tls = {.ca_file = f->identity.cert};
    struct ask *ask = ask_create(f, f->strict, "/echo");

    ask->request.tls = &tls;
    assert_int_equal(ask_now(ask), FG_E_UNAVAILABLE);
    tls.cert_file = f->identity.cert;
    tls.key_file = f->identity.key;
    assert_int_equal(ask_now(ask), FG_OK);
    ask_destroy(ask);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void the_token_is_read_each_time(void **state)
{
    struct fixture *f = *state;
    struct ask *ask = ask_create(f, f->server, "/echo");
    char path[128];

    (void)snprintf(path, sizeof path, "%s/token", f->identity.folder);
    ask->request.token_file = path;
    (void)ask_now(ask);
    assert_says(ask, FG_E_INVALID, "/token: No such file");
    write_file(path, "first\n");
    assert_int_equal(ask_now(ask), FG_OK);
    assert_has(answer_of(ask), "Authorization: Bearer first\r\n");
    write_file(path, "second");
    assert_int_equal(ask_now(ask), FG_OK);
    assert_has(answer_of(ask), "Authorization: Bearer second\r\n");
    write_file(path, "two\nlines: x");
    (void)ask_now(ask);
    assert_says(ask, FG_E_INVALID, "no token");
    (void)unlink(path);
    ask_destroy(ask);
}

static void running_and_waiting_requests_are_limited(void **state)
{
    struct fixture *f = *state;
    struct ask *asks[RUNNING_MAX + WAITING_MAX + 1];

    for (size_t i = 0; i < FG_COUNT(asks); i++) {
        asks[i] = ask_create(f, f->server, "/hold");
        ask_send(asks[i]);
    }
    ask_wait(asks[FG_COUNT(asks) - 1]);
    assert_says(asks[FG_COUNT(asks) - 1], FG_E_LIMIT, "too many");
    wait_for(&f->held, RUNNING_MAX);
    atomic_store(&f->let_go, true);
    for (size_t i = 0; i < FG_COUNT(asks) - 1; i++) {
        ask_wait(asks[i]);
        assert_int_equal(asks[i]->request.code, FG_OK);
    }
    assert_int_equal(atomic_load(&f->held), RUNNING_MAX + WAITING_MAX);
    for (size_t i = 0; i < FG_COUNT(asks); i++)
        ask_destroy(asks[i]);
}

static void a_canceled_request_does_not_call_done(void **state)
{
    struct fixture *f = *state;
    struct ask *asks[RUNNING_MAX + 2];

    for (size_t i = 0; i < FG_COUNT(asks); i++) {
        asks[i] = ask_create(f, f->server, i < RUNNING_MAX ? "/silent" : "/echo");
        ask_send(asks[i]);
    }
    wait_for(&f->held, RUNNING_MAX);
    fg_loop_call(f->loop, cancel_on_loop, asks[RUNNING_MAX]); /* one that waits */
    fg_loop_call(f->loop, cancel_on_loop, asks[0]);           /* one that runs */
    ask_wait(asks[RUNNING_MAX + 1]);                          /* gets its place */
    assert_int_equal(asks[RUNNING_MAX + 1]->request.code, FG_OK);
    wait_for(&f->held, RUNNING_MAX - 1); /* the server has seen it */
    for (size_t i = 0; i < FG_COUNT(asks); i++) {
        fg_loop_call(f->loop, cancel_on_loop, asks[i]);
        assert_int_equal(sem_trywait(&asks[i]->done), -1);
        ask_destroy(asks[i]);
    }
}

/* One that times out and one that is cancelled; were a look-up waited for, this would not end. */
static void slow_name_lookups_do_not_block_others(void **state)
{
    struct fixture *f = *state;
    struct ask *slow = ask_create(f, f->server, "/");
    struct ask *left = ask_create(f, f->server, "/");

    (void)snprintf(slow->url, sizeof slow->url, "http://slow.example/?127.0.0.1:");
    (void)snprintf(left->url, sizeof left->url, "http://slower.example/?127.0.0.1:");
    slow->request.connect_timeout_ns = 50 * FG_MS_NS;
    ask_send(left);
    (void)ask_now(slow);
    assert_says(slow, FG_E_DEADLINE, "");
    wait_for(&looking_up, 2);
    fg_loop_call(f->loop, cancel_on_loop, left);
    assert_int_equal(atomic_load(&looking_up), 2);
    atomic_store(&names_known, true);
    wait_for(&looking_up, 0);
    ask_destroy(slow);
    ask_destroy(left);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_get_brings_status_headers_and_body),
        TEST(any_method_may_have_a_body),
        TEST(a_head_request_gets_headers_only),
        TEST(a_head_request_may_announce_more_than_the_limit),
        TEST(once_requests_use_a_new_connection),
        TEST(old_connections_take_no_further_request),
        TEST(says_whether_a_request_has_left),
        TEST(any_status_counts_as_an_answer),
        TEST(redirects_are_not_followed),
        TEST(connections_are_used_again),
        TEST(failures_name_the_url_and_no_password),
        TEST(late_ingesters_are_not_waited_for),
        TEST(input_that_is_too_large_is_refused),
        TEST(answers_share_a_budget),
        TEST(streams_come_piece_by_piece),
        TEST(a_stream_ends_when_its_receiver_has_enough),
        TEST(a_refused_stream_returns_its_body),
        TEST(certificates_are_checked),
        TEST(a_client_certificate_is_sent_if_the_server_asks),
        TEST(the_token_is_read_each_time),
        TEST(running_and_waiting_requests_are_limited),
        TEST(a_canceled_request_does_not_call_done),
        TEST(slow_name_lookups_do_not_block_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
